//! Files that refuse a stale holder.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::world::{Done, Running, World, bare};

const LOW: &str = "7-00000000000000aa";
const HIGH: &str = "8-00000000000000bb";

/// `leasehold fence` as if a run with this fence were around it.
fn fenced(world: &World, fence: &str, arguments: &[&str]) -> Command {
    let mut command = world.leasehold(["fence"].iter().chain(arguments));
    command.env("LEASEHOLD_FENCE", fence);
    command
}

fn fence(world: &World, fence: &str, arguments: &[&str]) -> Done {
    Done::of(&mut fenced(world, fence, arguments))
}

fn content(world: &World, file: &str) -> String {
    fs::read_to_string(world.path(file)).unwrap()
}

/// A holder that is stopped past its ttl, wakes up after the next one is done,
/// and then runs `write`.
fn stopped_holder(world: &World, write: &str) -> Done {
    let program = env!("CARGO_BIN_EXE_leasehold");
    let script = format!(
        "leasehold() {{ '{program}' \"$@\"; }}; echo $$ > pid
         until [ -e go ]; do sleep 0.01; done
         {write}; echo $? > code"
    );
    let command = ["--on-lost", "ignore", "x", "sh", "-c", &script];
    let first = world.start(&[&["run", "--ttl", "500ms"][..], &command].concat());
    world.pid("pid");
    first.signal(Signal::SIGSTOP);
    let next = ["run", "x", program, "fence", "ledger", "echo", "fresh"];
    let next = world.run(&next);
    assert_eq!(next.code, 0, "{next:?}");
    assert_eq!(content(world, "ledger"), "fresh\n");
    fs::write(world.path("go"), "").unwrap();
    world.line("code");
    first.signal(Signal::SIGCONT);
    first.done()
}

#[testbed::test]
fn a_holder_that_was_stopped_past_its_ttl_is_refused() {
    let world = World::new();
    let done = stopped_holder(&world, "leasehold fence ledger echo stale");
    assert_eq!(world.line("code"), "76");
    assert!(done.stderr.contains("is stale"), "{done:?}");
    assert_eq!(content(&world, "ledger"), "fresh\n");
}

#[testbed::test]
fn without_the_fence_it_writes_over_the_next_one() {
    let world = World::new();
    stopped_holder(&world, "echo stale > ledger");
    assert_eq!(world.line("code"), "0");
    assert_eq!(content(&world, "ledger"), "stale\n");
}

#[testbed::test]
fn a_holder_that_claimed_before_is_refused_when_its_command_ends() {
    let world = World::new();
    let script = "echo > claimed; until [ -e go ]; do sleep 0.01; done; echo stale";
    let mut slow = fenced(&world, LOW, &["ledger", "sh", "-c", script]);
    let slow = Running::of(&mut slow);
    world.line("claimed");
    assert_eq!(fence(&world, HIGH, &["ledger", "echo", "fresh"]).code, 0);
    fs::write(world.path("go"), "").unwrap();
    let slow = slow.done();
    assert_eq!(slow.code, 76, "{slow:?}");
    assert!(slow.complaint().contains(LOW), "{slow:?}");
    assert!(slow.complaint().contains(HIGH), "{slow:?}");
    assert_eq!(content(&world, "ledger"), "fresh\n");
}

#[testbed::test]
fn the_command_reads_what_it_replaces_and_a_failing_one_changes_nothing() {
    let world = World::new();
    let add = ["ledger", "sh", "-c", "cat; echo more"];
    assert_eq!(fence(&world, LOW, &add).code, 0);
    assert_eq!(fence(&world, LOW, &add).code, 0);
    assert_eq!(content(&world, "ledger"), "more\nmore\n");
    let failing = fence(&world, LOW, &["ledger", "sh", "-c", "echo half; exit 3"]);
    assert_eq!(failing.code, 3, "{failing:?}");
    let killed = fence(&world, LOW, &["ledger", "sh", "-c", "echo half; kill $$"]);
    assert_eq!(killed.code, 143, "{killed:?}");
    assert_eq!(content(&world, "ledger"), "more\nmore\n");
    assert_eq!(fence(&world, LOW, &["-a", "ledger", "echo", "end"]).code, 0);
    assert_eq!(content(&world, "ledger"), "more\nmore\nend\n");
}

#[testbed::test]
fn a_check_lets_the_newest_holder_pass_and_nobody_older() {
    let world = World::new();
    for (shown, code) in [(LOW, 0), (LOW, 0), (HIGH, 0), (HIGH, 0), (LOW, 76)] {
        let done = fence(&world, shown, &["check", "printer"]);
        assert_eq!(done.code, code, "{shown}: {done:?}");
    }
    let equal = fence(&world, "8-00000000000000cc", &["check", "printer"]);
    assert_eq!(equal.code, 76, "{equal:?}");
    let exact = fence(&world, LOW, &["check", "--exact", "printer"]);
    assert_eq!(exact.code, 0, "{exact:?}");
}

#[testbed::test]
fn two_names_of_a_file_have_one_mark() {
    let world = World::new();
    fs::write(world.path("ledger"), "").unwrap();
    std::os::unix::fs::symlink("ledger", world.path("link")).unwrap();
    assert_eq!(fence(&world, HIGH, &["link", "echo", "fresh"]).code, 0);
    assert_eq!(fence(&world, LOW, &["ledger", "echo", "stale"]).code, 76);
    assert!(world.path("link").is_symlink());
    assert_eq!(content(&world, "ledger"), "fresh\n");
}

#[testbed::test]
fn what_lies_beside_the_file_is_left_alone() {
    let world = World::new();
    for name in ["ledger.new", "ledger.fence.new"] {
        fs::write(world.path(name), "mine").unwrap();
    }
    assert_eq!(fence(&world, LOW, &["ledger", "echo", "new"]).code, 0);
    assert_eq!(
        fence(&world, LOW, &["-a", "ledger", "echo", "more"]).code,
        0
    );
    for name in ["ledger.new", "ledger.fence.new"] {
        assert_eq!(content(&world, name), "mine");
    }
    let names = fs::read_dir(world.path("")).unwrap().count();
    assert_eq!(names, 4, "nothing else is left behind");
}

#[testbed::test]
fn whoever_may_write_the_file_may_raise_its_mark() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let world = World::new();
    fs::write(world.path("ledger"), "").unwrap();
    fs::set_permissions(world.path("ledger"), fs::Permissions::from_mode(0o660)).unwrap();
    // Only root can try what happens to another's file.
    let is_root = std::os::unix::fs::chown(world.path("ledger"), Some(65534), Some(65534)).is_ok();
    for arguments in [
        &["ledger", "echo", "new"][..],
        &["-a", "ledger", "echo", "more"],
    ] {
        assert_eq!(fence(&world, LOW, arguments).code, 0);
        for name in ["ledger", "ledger.fence"] {
            let metadata = fs::metadata(world.path(name)).unwrap();
            assert_eq!(metadata.mode() & 0o777, 0o660, "{name}");
            assert!(!is_root || metadata.uid() == 65534, "{name}");
        }
    }
}

#[testbed::test]
fn many_processes_count_exactly() {
    let world = World::new();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let script = format!(
        "for i in 1 2 3 4 5; do
           '{program}' run x '{program}' fence counter sh -c 'read n; echo $((n + 1))' || exit
         done"
    );
    let start = |_| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command.env("LEASEHOLD_URL", world.url());
        command.current_dir(world.path(""));
        Running::of(&mut command)
    };
    let all: Vec<_> = (0..6).map(start).collect();
    for one in all {
        let done = one.done();
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_eq!(content(&world, "counter"), "30\n");
}

#[testbed::test]
fn bad_input_is_one_line_and_changes_nothing() {
    let world = World::new();
    fs::write(world.path("ledger"), "old\n").unwrap();
    fs::create_dir(world.path("folder")).unwrap();
    fs::write(world.path("torn.fence"), "leasehold-fence 1\nmark 7").unwrap();
    fs::write(world.path("empty.fence"), "").unwrap();
    fs::write(world.path("newer.fence"), "leasehold-fence 2\n").unwrap();
    std::os::unix::fs::symlink("nothing", world.path("dangling")).unwrap();
    for (shown, arguments, code, says) in [
        (LOW, &["ledger"][..], 64, "COMMAND"),
        (LOW, &["ledger", "no-such-command"], 127, "no such command"),
        ("", &["ledger", "true"], 64, "LEASEHOLD_FENCE: not a fence"),
        (
            "-7",
            &["ledger", "true"],
            64,
            "LEASEHOLD_FENCE: not a fence",
        ),
        (
            "0-00000000000000aa",
            &["ledger", "true"],
            64,
            "no ordered token",
        ),
        (
            "18446744073709551616-00000000000000aa",
            &["ledger", "true"],
            64,
            "not a fence",
        ),
        (LOW, &["folder", "true"], 78, "directory"),
        (LOW, &["check", "/"], 78, "directory"),
        (LOW, &["absent/ledger", "true"], 78, "No such file"),
        (
            LOW,
            &["dangling", "true"],
            78,
            "a link that points to nothing",
        ),
        (LOW, &["torn", "true"], 78, "damaged"),
        (LOW, &["empty", "true"], 78, "damaged"),
        (LOW, &["newer", "true"], 78, "a newer leasehold wrote it"),
    ] {
        let done = fence(&world, shown, arguments);
        assert_eq!(done.code, code, "{arguments:?}: {done:?}");
        assert!(done.complaint().contains(says), "{arguments:?}: {done:?}");
    }
    let without = bare(["fence", "ledger", "true"]);
    let without = Done::of({ without }.current_dir(world.path("")));
    assert_eq!(without.code, 64);
    assert!(without.complaint().contains("leasehold run"), "{without:?}");
    assert_eq!(content(&world, "ledger"), "old\n");
    assert_eq!(content(&world, "empty.fence"), "");
}

/// Everything that changes a file or its name, or waits for the disk.
const STEPS: &[&str] = &[
    "openat",
    "flock",
    "write",
    "fsync",
    "rename",
    "link",
    "unlink",
    "fchown",
    "fchmod",
    "ftruncate",
    "lseek",
];

/// Runs it under strace, which kills it as it makes the `number`th call of this
/// kind; `false` if it does not come to that.
fn killed_at(world: &World, call: &str, number: u32, arguments: &[&str]) -> bool {
    let mut command = Command::new("strace");
    command.args(["-o", "/dev/null", "-e"]);
    command.arg(format!("inject={call}:signal=KILL:when={number}"));
    command.arg(env!("CARGO_BIN_EXE_leasehold"));
    command.arg("fence").args(arguments);
    command.env("LEASEHOLD_FENCE", HIGH);
    command.current_dir(world.path(""));
    let output = command.output().unwrap();
    match (output.status.code(), output.status.signal()) {
        (Some(0), _) => false,
        (Some(137), _) | (_, Some(9)) => true,
        _ => panic!("{call} {number}: {output:?}"),
    }
}

fn need_strace() {
    let is_there = Command::new("strace").arg("-V").output().is_ok();
    testbed::need((!is_there).then_some("strace"));
}

/// Kills it at each of its steps in turn, on a file that a lower holder wrote.
fn killed_everywhere(arguments: &[&str], may_be: &[&str]) {
    need_strace();
    let mut kills = 0;
    for call in STEPS {
        for number in 1.. {
            let world = World::new();
            assert_eq!(fence(&world, LOW, &["-a", "ledger", "echo", "old"]).code, 0);
            let was_killed = killed_at(&world, call, number, arguments);
            let left = content(&world, "ledger");
            let low = fence(&world, LOW, &["-a", "ledger", "echo", "stale"]);
            // Whoever came later cleans up, and nothing is half there.
            let next = fence(&world, "9-00000000000000cc", &["ledger", "cat"]);
            assert_eq!(next.code, 0, "{call} {number}: {next:?}");
            let names = fs::read_dir(world.path("")).unwrap().count();
            assert_eq!(names, 2, "{call} {number}: something is left behind");
            let after = content(&world, "ledger");
            let context = format!("{call} {number}: first {left:?}, then {after:?}");
            if low.code == 0 {
                // It was killed before its claim: the older holder may go on.
                assert_eq!(after, "old\nstale\n", "{context}");
            } else {
                assert_eq!(low.code, 76, "{context}: {low:?}");
                assert!(may_be.contains(&&*after), "{context}");
                assert!(was_killed || after == may_be[1], "{context}");
            }
            if !was_killed {
                break;
            }
            kills += 1;
        }
    }
    assert!(kills > 20, "only {kills} steps");
}

/// What goes to the disk, in order: files by the names that they are given.
fn order_of_writes(world: &World, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("strace");
    command.args(["-y", "-o", "trace", "-e", "trace=fsync,rename"]);
    command.arg(env!("CARGO_BIN_EXE_leasehold"));
    command.arg("fence").args(arguments);
    command.env("LEASEHOLD_FENCE", HIGH);
    command.current_dir(world.path(""));
    assert!(command.output().unwrap().status.success());
    let folder = world.path("").canonicalize().unwrap();
    let trace = content(world, "trace");
    let steps = trace.lines().filter_map(|line| {
        let (call, rest) = line.split_once('(')?;
        let name = rest.rsplit_once('/').map_or(rest, |(_, name)| name);
        let file = match name {
            _ if rest.contains(&format!("{}>", folder.display())) => "folder",
            name if name.starts_with("ledger.fence") => "mark",
            name if name.starts_with("ledger") => "data",
            _ => return None,
        };
        Some(format!("{call} {file}"))
    });
    steps.collect()
}

#[testbed::test]
fn what_is_named_is_on_the_disk_before_and_the_mark_before_the_data() {
    need_strace();
    let world = World::new();
    assert_eq!(fence(&world, LOW, &["ledger", "echo", "old"]).code, 0);
    let mark = ["fsync mark", "rename mark", "fsync folder"];
    let data = ["fsync data", "rename data", "fsync folder"];
    let replacing = order_of_writes(&world, &["ledger", "echo", "new"]);
    assert_eq!(replacing, [mark, data].concat());
    // Announced, added, and taken back.
    let appending = order_of_writes(&world, &["-a", "ledger", "echo", "more"]);
    assert_eq!(appending, [&mark[..], &["fsync data"], &mark].concat());
}

#[testbed::test]
fn a_replacement_killed_at_any_step_is_done_or_not_and_the_mark_holds() {
    killed_everywhere(&["ledger", "echo", "new"], &["old\n", "new\n"]);
}

#[testbed::test]
fn an_append_killed_at_any_step_is_done_or_not_and_the_mark_holds() {
    killed_everywhere(&["-a", "ledger", "echo", "new"], &["old\n", "old\nnew\n"]);
}

#[testbed::test]
fn a_holder_that_is_stopped_after_its_claim_does_not_keep_the_next_one_out() {
    let world = World::new();
    let mut slow = fenced(&world, LOW, &["ledger", "sh", "-c", "echo > on; sleep 60"]);
    let slow = Running::of(&mut slow);
    world.line("on");
    slow.signal(Signal::SIGSTOP);
    let next = fence(&world, HIGH, &["ledger", "echo", "fresh"]);
    assert_eq!(next.code, 0, "{next:?}");
    assert_eq!(content(&world, "ledger"), "fresh\n");
}
