//! Every request that a session sends is lost once, and so is every reply:
//! afterwards the store has the claims it should have, and the lock is usable.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Promises, Reach};
use libtest_mimic::Trial;
use testbed::proxy::Fault;
use testbed::redis::lacks_redis;
use testbed::{block_on, need};

use crate::losing::lose_each;
use crate::operations::{OPERATIONS, Operation};
use crate::scene::Scene;

/// How the locks lie in the server, as the URL says it.
const LAYOUTS: &[&str] = &["queue", "plain", "redisson"];

const FAULTS: &[(&str, Fault)] = &[
    ("request_lost", Fault::RequestLost),
    ("reply_lost", Fault::ReplyLost),
    ("silence", Fault::Silence),
    ("delay", Fault::Delay(Duration::from_millis(700))),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for &layout in LAYOUTS {
        for operation in OPERATIONS {
            for &(name, fault) in FAULTS {
                let name = format!("{layout}::{}::{name}", operation.name);
                // The layouts that are shared with others have mutexes only.
                let is_mutex = (operation.needs)(&Promises::least(Reach::Network));
                trials.push(match layout == "queue" || is_mutex {
                    true => trial(name, layout, operation, fault),
                    false => testbed::left_out(name, "not promised: other locks than mutexes"),
                });
            }
        }
    }
    trials
}

fn trial(name: String, layout: &'static str, operation: &'static Operation, fault: Fault) -> Trial {
    testbed::trial(name, move || {
        need(lacks_redis());
        let make = move || Box::pin(Scene::with_layout(layout)) as _;
        block_on(lose_each(operation, fault, Arc::new(make))).unwrap();
    })
}
