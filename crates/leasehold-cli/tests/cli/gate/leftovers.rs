//! Bytes of a request that are still on their way when its time is over.

use std::io::Write as _;
use std::thread;

use super::{Gate, Upstream, answer, head};
use crate::world::{World, until};

/// More than the service's buffers take and less than the gate's do.
const BODY: usize = 300_000;

/// A request whose head the service has read, and of whose body the rest is in
/// the kernel: the gate has nothing left to do.
fn in_the_kernel(gate: &Gate, upstream: &Upstream, path: &str) -> std::net::TcpStream {
    let mut stream = gate.connect();
    let begun = head(path, 7, &format!("Content-Length: {BODY}\r\n"));
    stream.write_all(begun.as_bytes()).unwrap();
    stream.write_all(&vec![b'x'; BODY]).unwrap();
    until("the whole request in the kernel", || {
        (upstream.on_its_way() == BODY).then_some(())
    });
    stream
}

#[testbed::test]
fn what_the_kernel_has_of_a_request_does_not_outlive_a_gate_that_is_killed() {
    let (world, upstream) = (World::new(), Upstream::with_small_buffers());
    let mut gate = Gate::start(&world, &upstream, &["--drain-max", "1h"]);
    let _older = in_the_kernel(&gate, &upstream, "/r/1/stall");
    gate.running.child().kill().unwrap();
    gate.running.child().wait().unwrap();
    let options = ["--drain-max", "1s", "--patience", "30s"];
    let gate = Gate::start(&world, &upstream, &options);
    assert_eq!(gate.ask("/r/1", 8).status, 200);
    upstream.read_on();
    until("the end of the older one", || {
        (upstream.broken() == 1 || upstream.tokens().len() > 1).then_some(())
    });
    assert_eq!(upstream.tokens(), [8]);
}

#[testbed::test]
fn what_the_kernel_has_of_a_request_does_not_outlive_its_time() {
    let (world, upstream) = (World::new(), Upstream::with_small_buffers());
    let options = ["--drain-max", "2s", "--patience", "30s"];
    let gate = Gate::start(&world, &upstream, &options);
    let mut older = in_the_kernel(&gate, &upstream, "/r/1/stall");
    assert_eq!(answer(&mut older).unwrap().status, 504);
    assert_eq!(gate.ask("/r/1", 8).status, 200);
    upstream.read_on();
    until("the end of the older one", || {
        (upstream.broken() == 1 || upstream.tokens().len() > 1).then_some(())
    });
    assert_eq!(upstream.tokens(), [8]);
}

/// The answer has come, so no time limit is left; hyper's buffer is full, so it
/// does not ask for more of the body and cannot notice that it was cut off.
#[testbed::test]
fn a_connection_to_a_service_that_answers_and_does_not_read_is_cut() {
    let (world, upstream) = (World::new(), Upstream::with_small_buffers());
    let options = ["--drain-max", "2s", "--patience", "30s"];
    let gate = Gate::start(&world, &upstream, &options);
    let mut older = gate.connect();
    let begun = head("/r/1/early/stall", 7, "Content-Length: 20000000\r\n");
    older.write_all(begun.as_bytes()).unwrap();
    let mut writer = older.try_clone().unwrap();
    // It is stuck until the connection ends.
    let writer = thread::spawn(move || writer.write_all(&vec![b'x'; 20_000_000]));
    assert_eq!(answer(&mut older).unwrap().status, 200);
    assert_eq!(gate.ask("/r/1", 8).status, 200);
    assert_eq!(upstream.reset(), 1, "it was open when the next one passed");
    upstream.read_on();
    until("the end of the upload", || {
        (upstream.broken() == 1).then_some(())
    });
    assert_eq!(upstream.tokens(), [8]);
    assert!(writer.join().unwrap().is_err());
}

#[testbed::test]
fn a_service_that_answers_early_and_closes_gets_the_whole_request() {
    let (world, upstream) = (World::new(), Upstream::with_small_buffers());
    let gate = Gate::start(&world, &upstream, &[]);
    let mut client = in_the_kernel(&gate, &upstream, "/r/1/early/close/stall");
    upstream.release();
    assert_eq!(answer(&mut client).unwrap().status, 200);
    until("the gate to close", || {
        (!upstream.is_connected()).then_some(())
    });
    // It has answered, so nobody waits for it: that it works on is its fault.
    assert_eq!(gate.ask("/r/1", 8).status, 200);
    upstream.read_on();
    until("the whole request", || {
        assert_eq!(upstream.broken(), 0);
        (upstream.tokens() == [8, 7]).then_some(())
    });
}
