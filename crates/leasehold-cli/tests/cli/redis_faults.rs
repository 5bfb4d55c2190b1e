//! A Redis server that is not there, dies, or comes back empty; and a leasehold
//! that dies.

use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::redis_server::Server;
use crate::world::{Done, Running, bare, until, until_dead};

#[testbed::test]
fn a_server_that_is_down_is_one_line_and_its_own_code() {
    let mut server = Server::start();
    server.kill();
    let url = server.url();
    for arguments in [
        &["run", "x", "true"][..],
        &["hold", "x"],
        &["ls"],
        &["show", "x"],
        &["watch"],
        &["break", "x", "--yes", "--reason", "why"],
        &["doctor"],
        &["bench", "--url", &url],
    ] {
        let done = Done::of(bare(arguments).env("LEASEHOLD_URL", &url));
        assert_eq!(done.code, 69, "{arguments:?}: {done:?}");
        assert!(
            done.complaint().contains("refused"),
            "{arguments:?}: {done:?}"
        );
        assert!(done.stdout.is_empty(), "{arguments:?}: {done:?}");
    }
}

#[testbed::test]
fn a_killed_leasehold_takes_its_command_along_and_the_next_gets_in_after_the_ttl() {
    let server = Server::start();
    let world = server.world();
    let stuck = "echo $$ > pid; exec sleep 100";
    let run = world.start(&["run", "--ttl", "1s", "x", "-c", stuck]);
    let command = world.pid("pid");
    run.signal(Signal::SIGKILL);
    until_dead(command);
    assert_eq!(world.run(&["run", "-w", "120s", "x", "true"]).code, 0);
}

#[testbed::test]
fn a_server_that_dies_under_a_held_lock_is_a_loss() {
    let mut server = Server::start();
    let world = server.world();
    let stuck = "echo $$ > pid; exec sleep 100";
    let run = world.start(&["run", "--ttl", "20s", "x", "-c", stuck]);
    let mut hold = world.leasehold(["hold", "--ttl", "20s", "y"]);
    let hold = Running::of(hold.stdin(Stdio::piped()));
    let command = world.pid("pid");
    world.until_held("y");
    server.kill();
    until_dead(command);
    let done = run.done();
    assert_eq!(done.code, 76, "{done:?}");
    assert!(done.stderr.contains("cannot be renewed"), "{done:?}");
    let done = hold.done();
    assert_eq!(done.code, 76, "{done:?}");
    assert!(done.stdout.contains("\"lost\""), "{done:?}");
}

#[testbed::test]
fn a_server_that_comes_back_empty_no_longer_has_the_lock() {
    let mut server = Server::start();
    let world = server.world();
    let stuck = "echo $$ > pid; exec sleep 100";
    let run = world.start(&["run", "--ttl", "5s", "x", "-c", stuck]);
    let command = world.pid("pid");
    server.kill();
    server.start_again();
    until_dead(command);
    let done = run.done();
    assert_eq!(done.code, 76, "{done:?}");
}

#[testbed::test]
fn a_server_that_hangs_is_unavailable_until_it_goes_on() {
    let server = Server::start();
    let world = server.world();
    server.stop();
    let done = world.run(&["ls"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.complaint().contains("does not answer"), "{done:?}");
    server.resume();
    assert_eq!(world.run(&["ls"]).code, 0);
}

#[testbed::test]
fn a_wait_outlives_a_restart_of_the_server() {
    let mut server = Server::start();
    let world = server.world();
    let mut hold = world.leasehold(["hold", "x"]);
    let _hold = Running::of(hold.stdin(Stdio::piped()));
    world.until_held("x");
    let wait = world.start(&["run", "-w", "120s", "x", "echo", "mine"]);
    world.until_claims("x", 1, 1);
    server.kill();
    server.start_again();
    let done = until_done(wait);
    assert_eq!((done.code, done.stdout.trim()), (0, "mine"), "{done:?}");
}

fn until_done(mut running: Running) -> Done {
    until("the wait to end", || running.child().try_wait().unwrap());
    running.done()
}
