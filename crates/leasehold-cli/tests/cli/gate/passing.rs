//! Who passes, who waits and who is refused.

use std::io::Write as _;

use super::{Gate, Upstream, answer, fence, head};
use crate::world::{World, until};

/// Nobody waits for so long in a test: what is in doubt stays so.
const FOR_EVER: &[&str] = &["--drain-max", "1h", "--patience", "300ms"];

/// Waits until the gate knows of this holder; a stale one asks.
fn until_marked(gate: &Gate, token: u64) {
    until("the mark", || {
        let stale = gate.ask("/r/1", 1);
        assert_eq!(stale.status, 409, "{stale:?}");
        (stale.json()["mark"] == fence(token).to_string()).then_some(())
    });
}

#[testbed::test]
fn the_newest_holder_passes_and_an_older_one_is_told_the_mark() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &[]);
    assert_eq!(gate.ask("/r/1", 7).status, 200);
    assert_eq!(gate.ask("/r/1/below", 7).status, 200);
    assert_eq!(gate.ask("/r/1", 9).status, 200);
    let stale = gate.ask("/r/1", 8);
    assert_eq!(stale.status, 409, "{stale:?}");
    assert!(stale.headers.contains("application/problem+json"));
    assert_eq!(stale.json()["mark"], "9-0000000000000009");
    assert_eq!(stale.json()["shown"], "8-0000000000000008");
    assert_eq!(stale.json()["resource"], "r/1");
    // Another resource has a mark of its own.
    assert_eq!(gate.ask("/r/2", 8).status, 200);
    assert_eq!(gate.ask("/r/2", u64::MAX).status, 200);
    assert_eq!(upstream.tokens(), [7, 7, 9, 8, u64::MAX]);
}

#[testbed::test]
fn a_newer_holder_waits_until_the_older_is_answered_and_shuts_it_out_at_once() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &["--drain-max", "1h"]);
    let older = gate.asking("/r/1/hold", 7);
    until("the older request", || (upstream.seen() == 1).then_some(()));
    let newer = gate.asking("/r/1", 8);
    // It is let in by its first request only after the other is answered, but
    // from its arrival on the older holder is refused.
    until_marked(&gate, 8);
    assert_eq!(gate.ask("/r/1", 7).status, 409);
    assert_eq!(upstream.seen(), 1);
    assert!(!newer.is_finished());
    upstream.release();
    assert_eq!(older.join().unwrap().status, 200);
    assert_eq!(newer.join().unwrap().status, 200);
    assert_eq!(upstream.tokens(), [7, 8]);
}

#[testbed::test]
fn a_client_that_goes_away_leaves_its_request_under_way() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, FOR_EVER);
    let mut older = gate.connect();
    older
        .write_all(head("/r/1/hold", 7, "").as_bytes())
        .unwrap();
    until("the older request", || (upstream.seen() == 1).then_some(()));
    drop(older);
    let refused = gate.ask("/r/1", 8);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.headers.contains("retry-after"), "{refused:?}");
    upstream.release();
    // The gate has waited for the answer in the client's place.
    until("the newer request", || {
        (gate.ask("/r/1", 8).status == 200).then_some(())
    });
    assert_eq!(upstream.tokens(), [7, 8]);
}

#[testbed::test]
fn a_request_whose_end_nobody_saw_is_waited_for() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, FOR_EVER);
    assert_eq!(gate.ask("/r/1/die", 7).status, 502);
    // The holder itself may go on; the next one has to wait.
    assert_eq!(gate.ask("/r/1", 7).status, 200);
    assert_eq!(gate.ask("/r/1", 8).status, 503);
    assert_eq!(gate.ask("/r/2", 8).status, 200);
}

#[testbed::test]
fn a_service_that_is_not_there_is_not_waited_for() {
    let (world, mut gone) = (World::new(), Upstream::start());
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    gone.address = nobody.local_addr().unwrap();
    drop(nobody);
    let gate = Gate::start(&world, &gone, FOR_EVER);
    for token in [7, 8, 9] {
        let answer = gate.ask("/r/1", token);
        assert_eq!(answer.status, 502, "{answer:?}");
    }
}

#[testbed::test]
fn a_service_that_takes_no_connection_is_not_waited_for() {
    let (world, mut deaf) = (World::new(), Upstream::start());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let runtime = runtime.unwrap();
    let _inside = runtime.enter();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    deaf.address = listener.local_addr().unwrap();
    // Nobody accepts: when the queue is full, who comes hears nothing.
    let mut queue = Vec::new();
    let patience = std::time::Duration::from_millis(300);
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&deaf.address, patience) {
        queue.push(stream);
        assert!(queue.len() < 100, "the queue is never full");
    }
    let options = ["--drain-max", "2s", "--patience", "30s"];
    let gate = Gate::start(&world, &deaf, &options);
    for token in [7, 8] {
        let answer = gate.ask("/r/1", token);
        assert_eq!(answer.status, 502, "{answer:?}");
    }
}

#[testbed::test]
fn a_slow_upload_is_under_way_from_its_first_byte() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &["--drain-max", "1h"]);
    let mut slow = gate.connect();
    let begun = head("/r/1", 7, "Content-Length: 10\r\n");
    slow.write_all(begun.as_bytes()).unwrap();
    slow.write_all(b"half").unwrap();
    until("the upload", || (upstream.seen() == 1).then_some(()));
    let newer = gate.asking("/r/1", 8);
    until_marked(&gate, 8);
    assert!(upstream.tokens().is_empty());
    slow.write_all(b"-full-").unwrap();
    assert_eq!(answer(&mut slow).unwrap().status, 200);
    assert_eq!(newer.join().unwrap().status, 200);
    assert_eq!(upstream.tokens(), [7, 8]);
}

#[testbed::test]
fn an_upload_that_breaks_off_is_waited_for() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, FOR_EVER);
    let mut slow = gate.connect();
    let begun = head("/r/1", 7, "Content-Length: 10\r\n");
    slow.write_all(begun.as_bytes()).unwrap();
    slow.write_all(b"half").unwrap();
    until("the upload", || (upstream.seen() == 1).then_some(()));
    drop(slow);
    assert_eq!(gate.ask("/r/1", 8).status, 503);
}

#[testbed::test]
fn one_connection_serves_many_requests_and_long_answers_come_whole() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &[]);
    let mut stream = gate.connect();
    for token in 1..=20 {
        let path = ["/r/1", "/r/1/large"][usize::from(token % 5 == 0)];
        stream.write_all(head(path, token, "").as_bytes()).unwrap();
        let answer = answer(&mut stream).unwrap();
        assert_eq!(answer.status, 200);
        let size = if token % 5 == 0 { 300_000 } else { 2 };
        assert_eq!(answer.body.len(), size);
    }
    assert_eq!(upstream.tokens(), (1..=20).collect::<Vec<_>>());
}

#[testbed::test]
fn a_long_answer_is_under_way_until_its_end() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, FOR_EVER);
    let mut reader = gate.connect();
    let large = head("/r/1/large/half", 7, "");
    reader.write_all(large.as_bytes()).unwrap();
    until("the answer", || (upstream.tokens() == [7]).then_some(()));
    assert_eq!(gate.ask("/r/1", 8).status, 503);
    // The client goes away; the gate reads on in its place.
    drop(reader);
    upstream.release();
    until("the end of the answer", || {
        (gate.ask("/r/1", 8).status == 200).then_some(())
    });
}

#[testbed::test]
fn a_client_that_does_not_read_keeps_others_waiting_for_a_while_only() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(
        &world,
        &upstream,
        &["--drain-max", "3s", "--patience", "30s"],
    );
    let mut stopped = gate.connect();
    // More than all buffers between us hold.
    let endless = head("/r/1/endless", 7, "");
    stopped.write_all(endless.as_bytes()).unwrap();
    until("the answer", || (upstream.tokens() == [7]).then_some(()));
    assert_eq!(gate.ask("/r/1", 8).status, 200);
    drop(stopped);
}

#[testbed::test]
fn a_client_that_does_not_read_is_let_go() {
    let (world, upstream) = (World::new(), Upstream::start());
    let options = ["--drain-max", "3s", "--max-connections", "1"];
    let gate = Gate::start(&world, &upstream, &options);
    let mut stopped = gate.connect();
    let endless = head("/r/1/endless", 7, "");
    stopped.write_all(endless.as_bytes()).unwrap();
    until("the answer", || (upstream.tokens() == [7]).then_some(()));
    let next = gate.asking("/r/2", 8);
    until("its place", || next.is_finished().then_some(()));
    assert_eq!(next.join().unwrap().status, 200);
}

#[testbed::test]
fn a_service_that_answers_before_it_has_read_all_is_waited_for() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, FOR_EVER);
    let mut slow = gate.connect();
    let begun = head("/r/1/early", 7, "Content-Length: 10\r\n");
    slow.write_all(begun.as_bytes()).unwrap();
    slow.write_all(b"half").unwrap();
    assert_eq!(answer(&mut slow).unwrap().status, 200);
    assert_eq!(gate.ask("/r/1", 8).status, 503);
}

/// The holder is stopped in the middle of its body; the service has answered, or
/// in part, or not. When the next one has acted, the rest must not come any more.
fn the_rest_does_not_come(path: &str, status: Option<u16>) {
    let (world, upstream) = (World::new(), Upstream::start());
    let options = ["--drain-max", "3s", "--patience", "30s"];
    let gate = Gate::start(&world, &upstream, &options);
    let mut stopped = gate.connect();
    let begun = head(path, 7, "Content-Length: 10\r\n");
    stopped.write_all(begun.as_bytes()).unwrap();
    stopped.write_all(b"half").unwrap();
    match status {
        Some(status) => assert_eq!(answer(&mut stopped).unwrap().status, status),
        None => until("the request", || (upstream.seen() == 1).then_some(())),
    }
    assert_eq!(gate.ask("/r/1", 8).status, 200);
    // It wakes up. The connection may be gone.
    _ = stopped.write_all(b"-full-");
    until("the end of the upload", || {
        (upstream.broken() == 1).then_some(())
    });
    assert_eq!(upstream.tokens(), [8]);
}

#[testbed::test]
fn an_upload_does_not_go_on_after_the_next_holder_has_passed() {
    the_rest_does_not_come("/r/1", Some(504));
}

#[testbed::test]
fn an_upload_does_not_go_on_after_its_answer_either() {
    the_rest_does_not_come("/r/1/early", Some(200));
}

#[testbed::test]
fn an_upload_does_not_go_on_beside_an_answer_that_does_not_end() {
    the_rest_does_not_come("/r/1/early/large", None);
}

#[testbed::test]
fn an_answer_of_a_proxy_that_gave_up_is_no_end() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, FOR_EVER);
    for status in [502, 503, 504, 520, 524, 530] {
        let resource = format!("/r/{status}");
        let gave_up = gate.ask(&format!("{resource}/gave-up/{status}"), 7);
        assert_eq!(gave_up.status, status);
        let next = gate.ask(&resource, 8);
        assert_eq!(next.status, 503, "after {status}: {next:?}");
    }
    // These are the service's own words.
    for status in [204, 404, 500, 501] {
        let resource = format!("/r/{status}");
        let answered = gate.ask(&format!("{resource}/gave-up/{status}"), 7);
        assert_eq!(answered.status, status);
        assert_eq!(gate.ask(&resource, 8).status, 200, "after {status}");
    }
}

#[testbed::test]
fn clients_that_hang_up_keep_their_places_while_the_service_works_for_them() {
    const CLIENTS: u64 = 30;
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &["--max-connections", "2"]);
    std::thread::scope(|scope| {
        for number in 1..=CLIENTS {
            let (gate, upstream) = (&gate, &upstream);
            scope.spawn(move || {
                let path = format!("/r/{number}/slow");
                let mut stream = gate.connect();
                stream.write_all(head(&path, 7, "").as_bytes()).unwrap();
                let path = format!("{path} ");
                until("the request", || upstream.has_seen(&path).then_some(()));
            });
        }
    });
    let most = upstream.most_at_once();
    assert!(most <= 2, "{most} at once");
}

#[testbed::test]
fn more_connections_than_allowed_wait_until_one_ends() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &["--max-connections", "2"]);
    let mut open = [gate.connect(), gate.connect()];
    for stream in &mut open {
        stream.write_all(head("/r/1", 7, "").as_bytes()).unwrap();
        assert_eq!(answer(stream).unwrap().status, 200);
    }
    let third = gate.asking("/r/2", 8);
    for _ in 0..50 {
        for stream in &mut open {
            stream.write_all(head("/r/1", 7, "").as_bytes()).unwrap();
            assert_eq!(answer(stream).unwrap().status, 200);
        }
    }
    assert!(upstream.tokens().iter().all(|&token| token == 7));
    drop(open);
    assert_eq!(third.join().unwrap().status, 200);
}
