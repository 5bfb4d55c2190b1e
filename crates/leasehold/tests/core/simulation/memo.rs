//! A number in a memo, raised by whoever holds, over a bad network: no two are
//! told that they wrote the same one, whatever comes late, twice or not at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::engine::Engine;
use leasehold::{Memory, Session};
use tokio::task::JoinSet;

use super::faulty::{Faulty, Weather};
use super::rng::Rng;
use super::world::Make;

const NAME: &str = "counter";

/// What was told to be written: the number, and by which token.
type Written = Arc<Mutex<Vec<(u64, u64)>>>;

/// What went wrong with this seed, and how many writes were told.
pub(crate) fn count(seed: u64, broken: Option<Make>) -> (Vec<String>, usize) {
    leasehold::conformance::seed_this_thread(Some(seed));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let outcome = runtime.block_on(run(Rng::new(seed), broken));
    drop(runtime);
    leasehold::conformance::seed_this_thread(None);
    outcome
}

async fn run(mut rng: Rng, broken: Option<Make>) -> (Vec<String>, usize) {
    let store = Memory::new();
    let engine: Arc<dyn Engine> = match broken {
        Some(broken) => broken(store.clone()),
        None => store.clone(),
    };
    let shortest = Duration::from_millis(300);
    let (mut sessions, mut networks) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let network = Faulty::new(engine.clone(), rng.fork());
        let ttl = rng.millis(300..1500);
        let session = Session::with_engine(network.clone(), ttl).await;
        sessions.push(session.unwrap());
        networks.push(network);
    }
    let weather = Weather::bad(&mut rng, shortest);
    networks.iter().for_each(|network| network.set(weather));
    let written = Written::default();
    let mut tasks = JoinSet::new();
    for number in 0..6 {
        let session = sessions[number % sessions.len()].clone();
        tasks.spawn(raise(session, written.clone(), rng.fork()));
    }
    let trouble = async {
        for _ in 0..6 {
            tokio::time::sleep(rng.millis(100..1500)).await;
            if rng.chance(30) {
                store.forget_leases();
            }
        }
    };
    let _ = tokio::join!(
        trouble,
        tokio::time::timeout(Duration::from_secs(60), async {
            while tasks.join_next().await.is_some() {}
        })
    );
    let name = leasehold::Name::new(NAME).unwrap();
    let last = store.read_memo(&name).await.unwrap().memo;
    let written = written.lock().unwrap();
    let mut faults = Vec::new();
    let mut by_number = BTreeMap::new();
    for (number, token) in written.iter() {
        if let Some(before) = by_number.insert(number, token) {
            faults.push(format!("{number} was written by {before} and by {token}"));
        }
    }
    let last = last.map_or(0, |memo| memo.text().parse().unwrap());
    if by_number
        .keys()
        .last()
        .is_some_and(|greatest| **greatest > last)
    {
        faults.push(format!(
            "the memo has {last}, which is less than was written"
        ));
    }
    (faults, written.len())
}

/// Raises the number some times. After a write whose effect is unknown it reads
/// anew, under another hold.
async fn raise(session: Session, written: Written, mut rng: Rng) {
    for _ in 0..8 {
        tokio::time::sleep(rng.millis(0..100)).await;
        let patience = Duration::from_secs(3);
        let Ok(guard) = session.mutex(NAME).lock_within(patience).await else {
            continue;
        };
        let reading = tokio::time::timeout(patience, session.memo(NAME)).await;
        let Ok(Ok(reading)) = reading else {
            continue;
        };
        let number = reading.memo.map_or(0, |memo| memo.text().parse().unwrap()) + 1;
        if rng.chance(20) {
            // Gives up in the middle; the request may still arrive.
            let writing = guard.write_memo(number.to_string());
            let _ = tokio::time::timeout(rng.millis(0..50), writing).await;
            continue;
        }
        // After an error nothing is known of it, or nothing was written.
        if guard.write_memo(number.to_string()).await.is_ok() {
            let token = guard.token().get();
            written.lock().unwrap().push((number, token));
        }
        if rng.chance(50) {
            let _ = guard.release().await;
        }
    }
}
