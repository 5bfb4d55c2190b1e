//! The session under single faults, chosen by hand: what the simulation or a
//! careful reader once found.

mod closing;
mod late;
mod loss;
mod recipes;
mod silence;

use std::sync::Arc;
use std::time::Duration;

use leasehold::engine::{Cause, ClaimRef, Engine};
use leasehold::{Memory, Name, Session};

use super::simulation::faulty::{End, Fate, Faulty};
use super::simulation::rng::Rng;

const TTL: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn on_a_network() -> (Arc<Memory>, Arc<Faulty>, Session) {
    let store = Memory::new();
    let network = Faulty::new(store.clone(), Rng::new(1));
    let session = Session::with_engine(network.clone(), TTL).await.unwrap();
    (store, network, session)
}

async fn break_lock(store: &Memory, name: &str) {
    let name = Name::new(name).unwrap();
    for id in store.holders_of(&name) {
        let claim = ClaimRef {
            name: name.clone(),
            id,
        };
        let cause = Cause::Evicted {
            by: "ann",
            reason: "stuck",
        };
        store.withdraw(&claim, cause).await.unwrap();
    }
}

/// Renewals that nobody answers, for a ttl.
fn cut_renewals(network: &Faulty) {
    for _ in 0..5 {
        network.next(
            "renew",
            Fate {
                deliveries: 0,
                end: End::Silence,
                ..Fate::SWIFT
            },
        );
    }
}
