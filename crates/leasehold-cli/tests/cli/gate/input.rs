//! Requests and arguments that make no sense, and fences that are made up.

use std::fs;
use std::io::Write as _;

use super::{Gate, Upstream, answer, fence, head};
use crate::world::{Running, World, bare};

#[testbed::test]
fn a_request_that_shows_no_true_fence_never_reaches_the_service() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &[]);
    let good = head("/r/1", 7, "");
    let fence = fence(7).to_string();
    for (request, status, says) in [
        (
            "GET /r/1 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
            428,
            "leasehold-fence",
        ),
        (good.replace(&fence, "7"), 400, "not a fence"),
        (good.replace(&fence, "seven"), 400, "not a fence"),
        (
            good.replace(&fence, "-7-0000000000000007"),
            400,
            "not a fence",
        ),
        (
            good.replace(&fence, "0-0000000000000007"),
            400,
            "at least 1",
        ),
        (
            good.replace(&fence, "18446744073709551616-0000000000000007"),
            400,
            "not a fence",
        ),
        (good.replace(&fence, "8-0000000000000007"), 403, "not of 8"),
        (
            good.replace(&fence, "18446744073709551615-0000000000000007"),
            403,
            "not of",
        ),
        (good.replace("/r/1", "/r/2"), 403, "for r/2"),
        (good.replace("/r/1", "/r/1/../2"), 400, "names no resource"),
        (good.replace("/r/1", "/elsewhere"), 400, "names no resource"),
        (
            head("/r/1", 7, "Upgrade: websocket\r\nConnection: upgrade\r\n"),
            501,
            "handed over",
        ),
        (
            head("/r/1", 7, "Leasehold-Fence: 9-0000000000000009\r\n"),
            400,
            "only one",
        ),
    ] {
        let mut stream = gate.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let refused = answer(&mut stream).unwrap();
        assert_eq!(refused.status, status, "{request}: {refused:?}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(says), "{request}: {detail}");
    }
    // A name in a header does not open a path that is not understood.
    for path in ["/r/1/../2", "/r//1", "/r/1;x", "/elsewhere", "/r/2"] {
        let named = head("/r/1", 7, "Leasehold-Resource: r/1\r\n")
            .replace("/r/1 HTTP", &format!("{path} HTTP"));
        let mut stream = gate.connect();
        stream.write_all(named.as_bytes()).unwrap();
        assert_eq!(answer(&mut stream).unwrap().status, 400, "{path}");
    }
    assert_eq!(upstream.seen(), 0);
    // None of them has raised the mark.
    assert_eq!(gate.ask("/r/1", 1).status, 200);
}

#[testbed::test]
fn whoever_knows_the_mark_but_has_no_key_does_not_pass() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &[]);
    assert_eq!(gate.ask("/r/1", 7).status, 200);
    let unsigned = |token| {
        let mut stream = gate.connect();
        let request = format!(
            "GET /r/1 HTTP/1.1\r\nHost: x\r\nLeasehold-Fence: {}\r\n\r\n",
            fence(token)
        );
        stream.write_all(request.as_bytes()).unwrap();
        answer(&mut stream).unwrap()
    };
    for token in [6, 7, 8] {
        let refused = unsigned(token);
        assert_eq!(refused.status, 403, "{token}: {refused:?}");
        assert!(!refused.body.contains("7-0000"), "{refused:?}");
    }
    assert_eq!(upstream.seen(), 1);
}

/// The gate speaks no TLS: a network that others can read is no place for it.
#[testbed::test]
fn whoever_has_read_a_signed_request_can_repeat_it_until_a_newer_holder_comes() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &[]);
    let read = head("/r/1", 7, "");
    let repeat = || {
        let mut stream = gate.connect();
        stream.write_all(read.as_bytes()).unwrap();
        answer(&mut stream).unwrap().status
    };
    assert_eq!(repeat(), 200);
    assert_eq!(repeat(), 200);
    assert_eq!(gate.ask("/r/1", 8).status, 200);
    assert_eq!(repeat(), 409);
    assert_eq!(upstream.tokens(), [7, 7, 8]);
}

#[testbed::test]
fn a_fence_is_confirmed_by_the_store_at_its_first_sight() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &["--confirm"]);
    let program = env!("CARGO_BIN_EXE_leasehold");
    let script = format!("'{program}' fence headers r/1 > headers; echo done >> headers; sleep 60");
    let holder = world.start(&["run", "r/1", "sh", "-c", &script]);
    let headers = crate::world::until("the headers", || {
        let text = fs::read_to_string(world.path("headers")).ok()?;
        text.strip_suffix("done\n")
            .map(|text| text.replace('\n', "\r\n"))
    });
    let ask = |headers: &str| {
        let mut stream = gate.connect();
        let request = format!("GET /r/1 HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        answer(&mut stream).unwrap()
    };
    let made_up = ask("Leasehold-Fence: 18446744073709551615-0000000000000007\r\n");
    assert_eq!(made_up.status, 403, "{made_up:?}");
    assert!(made_up.body.contains("not held under"), "{made_up:?}");
    assert_eq!(ask(&headers).status, 200);
    // Whoever knows it could show it again, so it does not go on.
    assert!(upstream.has_seen("leasehold-token: "));
    assert!(!upstream.has_seen("leasehold-fence"));
    // A stranger is not told the part of the mark that nobody can guess.
    let stranger = ask("Leasehold-Fence: 1-0000000000000007\r\n");
    assert_eq!(stranger.status, 409, "{stranger:?}");
    assert!(!stranger.json()["mark"].as_str().unwrap().contains('-'));
    drop(holder);
    // It was true when it was seen first, and nobody newer has come.
    assert_eq!(ask(&headers).status, 200);
    assert_eq!(upstream.seen(), 2);
}

#[testbed::test]
fn a_gate_that_cannot_start_says_why_in_one_line() {
    let world = World::new();
    fs::write(world.path("key"), super::KEY).unwrap();
    fs::write(world.path("short"), "hunter2\n").unwrap();
    fs::write(
        world.path("torn"),
        "SQLite format 3\0 and then nothing of it",
    )
    .unwrap();
    fs::write(
        world.path("text"),
        "not a state at all, but some text\n".repeat(50),
    )
    .unwrap();
    let sqlite = |file: &str, sql: &str| {
        let connection = rusqlite::Connection::open(world.path(file)).unwrap();
        connection.execute_batch(sql).unwrap();
    };
    sqlite("foreign", "create table users (name text)");
    sqlite(
        "newer",
        "create table marks (x); pragma application_id = 1818781549; pragma user_version = 2",
    );
    sqlite(
        "columns",
        "create table marks (resource, token, holder);
         insert into marks values ('r', 'seven', 'seven');
         pragma application_id = 1818781549; pragma user_version = 1",
    );
    let busy = Upstream::start();
    let gate = Gate::start(&world, &busy, &["--drain-max", "1s"]);
    let taken = gate.address.clone();
    let before = fs::read(world.path("torn")).unwrap();
    fs::write(world.path("empty"), "").unwrap();
    leasehold::http::Doors::create(&world.path("made")).unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    let upstream = ["--upstream", "http://127.0.0.1:9"];
    let key = ["--key", "key"];
    let new = ["--state", "new"];
    for (arguments, code, says) in [
        (
            [listen, upstream, new, ["--key", "absent"]],
            78,
            "No such file",
        ),
        (
            [listen, upstream, new, ["--key", "short"]],
            78,
            "at least 16",
        ),
        ([listen, upstream, ["--state", "torn"], key], 78, "damaged"),
        ([listen, upstream, ["--state", "empty"], key], 78, "damaged"),
        ([listen, upstream, new, key], 78, "--new-state"),
        ([listen, upstream, ["--state", "text"], key], 78, "damaged"),
        (
            [listen, upstream, ["--state", "foreign"], key],
            78,
            "somebody else",
        ),
        (
            [listen, upstream, ["--state", "newer"], key],
            78,
            "newer leasehold",
        ),
        (
            [listen, upstream, ["--state", "columns"], key],
            78,
            "damaged",
        ),
        (
            [listen, upstream, ["--state", "state"], key],
            69,
            "another process",
        ),
        (
            [listen, upstream, ["--state", "absent/state"], key],
            78,
            "--new-state",
        ),
        (
            [["--listen", &taken], upstream, ["--state", "made"], key],
            69,
            "listen on",
        ),
        (
            [["--listen", "nowhere"], upstream, new, key],
            64,
            "--listen",
        ),
        (
            [listen, ["--upstream", "https://x"], new, key],
            64,
            "https is not supported",
        ),
        (
            [listen, ["--upstream", "http://x/path"], new, key],
            64,
            "path",
        ),
        (
            [listen, ["--upstream", "x"], new, key],
            64,
            "expected a URL",
        ),
    ] {
        let mut command = bare(["gate"].iter().chain(arguments.as_flattened()));
        command.current_dir(world.path(""));
        let done = Running::of(&mut command).done();
        assert_eq!(done.code, code, "{arguments:?}: {done:?}");
        assert!(done.complaint().contains(says), "{arguments:?}: {done:?}");
    }
    let twice = [
        &["gate", "--new-state", "--state", "made"][..],
        &listen,
        &upstream,
        &key,
    ]
    .concat();
    let twice = world.run(&twice);
    assert_eq!(twice.code, 78, "{twice:?}");
    assert!(
        twice.complaint().contains("there is one already"),
        "{twice:?}"
    );
    let untrusting = world.run(&[&["gate"], listen.as_slice(), &upstream, &new].concat());
    assert_eq!(untrusting.code, 64, "{untrusting:?}");
    assert!(
        untrusting.complaint().contains("--confirm"),
        "{untrusting:?}"
    );
    assert_eq!(fs::read(world.path("torn")).unwrap(), before);
}
