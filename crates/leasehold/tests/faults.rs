//! The session under single faults, chosen by hand: what the simulation or a
//! careful reader once found.

#[path = "simulation/faulty.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod faulty;
#[path = "simulation/rng.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod rng;

use std::sync::Arc;
use std::time::Duration;

use faulty::{End, Fate, Faulty};
use leasehold::engine::{Cause, ClaimRef, Engine};
use leasehold::{Lost, Memory, Name, Session};
use rng::Rng;

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
        let claim = ClaimRef { name: name.clone(), id };
        let cause = Cause::Evicted { by: "ann", reason: "stuck" };
        store.withdraw(&claim, cause).await.unwrap();
    }
}

/// Renewals that nobody answers, for a ttl.
fn cut_renewals(network: &Faulty) {
    for _ in 0..5 {
        network.next("renew", Fate { deliveries: 0, end: End::Silence, ..Fate::SWIFT });
    }
}

/// After a pause the watchdog may be the last to hear that the deadline has
/// passed; whoever asks for a lock in that moment has to let it, and not ask
/// the store again and again under a lease that is over. In real time, because
/// only a blocked thread gets us there.
#[tokio::test]
async fn asking_past_the_deadline_waits_for_the_next_lease() {
    let (_, network, session) = on_a_network().await;
    network.skip_network();
    cut_renewals(&network);
    let guard = session.mutex("x").lock().await.unwrap();
    std::thread::sleep(guard.valid_for() + ms(5));
    let again = session.mutex("y").lock().await.unwrap();
    again.check().unwrap();
    assert_eq!(network.count("enqueue"), 2);
}

/// The news of a broken lock is there while the renewal that will tell us whose
/// it was is still on its way.
#[tokio::test(start_paused = true)]
async fn news_during_a_slow_renewal_does_not_make_the_watchdog_spin() {
    let (store, network, session) = on_a_network().await;
    let guard = session.mutex("x").lock().await.unwrap();
    network.next("renew", Fate { before: ms(50), after: ms(50), ..Fate::SWIFT });
    break_lock(&store, "x").await;
    assert_eq!(guard.lost().await, Lost::Evicted);
}

/// The reply that told us is lost; the store says it again.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_does_not_hide_that_the_lock_was_broken() {
    let (store, network, session) = on_a_network().await;
    let guard = session.mutex("x").lock().await.unwrap();
    network.next("renew", Fate { end: End::Broken, ..Fate::SWIFT });
    break_lock(&store, "x").await;
    assert_eq!(guard.lost().await, Lost::Evicted);
}

/// The renewal that says so overtakes the reply that grants the lock.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_broken_on_its_way_to_us_is_lost() {
    let (store, network, session) = on_a_network().await;
    network.next("enqueue", Fate { after: ms(200), ..Fate::SWIFT });
    let locking = tokio::spawn(async move { session.mutex("x").lock().await });
    tokio::time::sleep(ms(50)).await;
    break_lock(&store, "x").await;
    let guard = locking.await.unwrap().unwrap();
    assert_eq!(guard.lost().await, Lost::Evicted);
    assert!(guard.held() < ms(50), "{:?}", guard.held());
}
