//! Real holders that send through the gate, and many in any order.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nix::sys::signal::{Signal, kill};

use super::{Gate, KEY, Upstream};
use crate::world::{World, until_dead};

/// Sends a request under its lock when it is told to, and keeps the answer.
/// `curl` would do the same, but is not everywhere.
const SEND: &str = r#"
    trap '' TERM
    echo $$ > "$1.pid"
    until [ -e "$1.go" ]; do sleep 0.01; done
    exec 3<>"/dev/tcp/$2"
    {
        printf 'POST /r/1 HTTP/1.1\r\nhost: gate\r\nconnection: close\r\n'
        "$3" fence headers r/1 --key key | sed 's/$/\r/'
        printf '\r\n'
    } >&3
    head -n 1 <&3 > "$1.new" && mv "$1.new" "$1.answer"
"#;

#[testbed::test]
fn a_holder_that_was_stopped_past_its_lease_is_refused() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &["--confirm"]);
    let through = |gate: &Gate| gate.address.replace(':', "/");
    fs::write(world.path("key"), KEY).unwrap();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let start = |name: &str, to: &str| {
        let run = ["run", "--ttl", "500ms", "r/1", "--", "bash", "-c", SEND];
        world.start(&[&run[..], &["bash", name, to, program]].concat())
    };
    let first = start("first", &through(&gate));
    let command = world.pid("first.pid");
    first.signal(Signal::SIGSTOP);
    kill(command, Signal::SIGSTOP).unwrap();
    let next = start("next", &through(&gate));
    world.pid("next.pid");
    fs::write(world.path("next.go"), "").unwrap();
    assert!(world.line("next.answer").contains(" 200 "));
    assert_eq!(next.done().code, 0);
    // Only the command wakes up, as if it had been looking at the clock just
    // before: whoever watches over it is not there to stop it.
    fs::write(world.path("first.go"), "").unwrap();
    kill(command, Signal::SIGCONT).unwrap();
    let refused = world.line("first.answer");
    assert!(refused.contains(" 409 "), "{refused}");
    first.signal(Signal::SIGCONT);
    assert_eq!(first.done().code, 76);
    until_dead(command);
    assert_eq!(upstream.tokens().len(), 1);
}

/// Requests of many holders at the same time, newer ones and older ones, slow
/// ones and long ones, on a few resources: each resource sees growing tokens.
#[testbed::test]
fn in_any_order_of_requests_a_resource_sees_growing_tokens() {
    const CLIENTS: u64 = 8;
    const REQUESTS: u64 = 80;
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &["--drain-max", "1h"]);
    let newest = [const { AtomicU64::new(10) }; 3];
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (gate, newest, refused) = (&gate, &newest, &refused);
            scope.spawn(move || {
                let mut random = (client + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for _ in 0..REQUESTS {
                    // A generator of the xorshift kind.
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let resource = usize::try_from(random % 3).unwrap();
                    let newest = &newest[resource];
                    let token = match random >> 8 & 3 {
                        0 => newest.fetch_add(1, Ordering::Relaxed) + 1,
                        lag => newest.load(Ordering::Relaxed) - lag + 1,
                    };
                    let kind =
                        ["", "/slow", "/large", ""][usize::try_from(random >> 16 & 3).unwrap()];
                    let answer = gate.ask(&format!("/r/{resource}{kind}"), token);
                    match answer.status {
                        200 => {}
                        409 => _ = refused.fetch_add(1, Ordering::Relaxed),
                        _ => panic!("{answer:?}"),
                    }
                }
            });
        }
    });
    let mut passed = 0;
    for resource in 0..3 {
        let tokens = upstream.tokens_of(&format!("/r/{resource}"));
        assert!(tokens.is_sorted(), "{resource}: {tokens:?}");
        assert!(tokens.len() > 20, "{resource}: {tokens:?}");
        passed += tokens.len() as u64;
    }
    let refused = refused.into_inner();
    assert_eq!(passed + refused, CLIENTS * REQUESTS);
    assert!(refused > 20, "only {refused} were stale");
}

/// The same one after the other: each is answered as the rule says.
#[testbed::test]
fn each_request_is_answered_as_the_rule_says() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &[]);
    let mut marks = [0; 4];
    let mut random = 7_u64;
    for _ in 0..400 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let resource = usize::try_from(random % 4).unwrap();
        let token = (random >> 8) % 50 + 1;
        let mark = &mut marks[resource];
        let answer = gate.ask(&format!("/r/{resource}"), token);
        let expected = if token >= *mark { 200 } else { 409 };
        assert_eq!(answer.status, expected, "{token} at {mark}: {answer:?}");
        *mark = token.max(*mark);
    }
}
