//! Every request that a session sends to one node, or to a majority of them, is
//! lost once, and so is every reply: one holds, tokens grow, nothing is left.

use std::sync::Arc;

use leasehold::redlock::admit;
use leasehold::{ErrorKind, Promises, Reach, Session};
use libtest_mimic::Trial;
use testbed::proxy::Fault;
use testbed::redis::lacks_redis;
use testbed::{block_on, need};

use crate::losing::lose_each;
use crate::operations::{OPERATIONS, Operation};
use crate::scene::Scene;
use crate::steps::{NAME, afterwards, give_back, held, within};

const READMIT: Operation = Operation {
    name: "readmit",
    needs: |_| true,
    run: |scene| Box::pin(readmit(scene)),
};

/// What is lost, and at how many of three nodes.
const FAULTS: &[(&str, Fault, usize)] = &[
    ("request_lost_at_one", Fault::RequestLost, 1),
    ("reply_lost_at_one", Fault::ReplyLost, 1),
    ("silence_at_one", Fault::Silence, 1),
    ("request_lost_at_two", Fault::RequestLost, 2),
    ("reply_lost_at_two", Fault::ReplyLost, 2),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mutexes = |operation: &&Operation| (operation.needs)(&Promises::least(Reach::Network));
    for operation in OPERATIONS.iter().filter(mutexes).chain([&READMIT]) {
        for &(name, fault, nodes) in FAULTS {
            trials.push(trial(operation, name, fault, nodes));
        }
    }
    trials
}

fn trial(operation: &'static Operation, name: &str, fault: Fault, nodes: usize) -> Trial {
    let name = format!("redlock::{}::{name}", operation.name);
    testbed::trial(name, move || {
        need(lacks_redis());
        let make = move || Box::pin(Scene::of_nodes(nodes)) as _;
        block_on(lose_each(operation, fault, Arc::new(make))).unwrap();
    })
}

/// A node forgets, and its operator lets it in again.
async fn readmit(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let guard = held(subject.mutex(NAME).lock()).await;
    let before = guard.token();
    give_back(guard).await;
    scene.forget(0);
    let url = scene.url();
    let admitted = async {
        loop {
            match admit(url, &[]).await {
                Ok(admitted) => return admitted,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    };
    // Empty if the node was admitted and the answer was lost.
    let admitted = within("admit", admitted).await;
    let guard = held(subject.mutex(NAME).lock()).await;
    assert!(guard.token() > before);
    for floor in admitted.iter().filter_map(|admission| admission.floor) {
        assert!(guard.token().get() > floor);
    }
    give_back(guard).await;
    afterwards(witness, subject).await
}
