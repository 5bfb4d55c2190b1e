//! Members of recipes that die: nobody waits for one for longer than its ttl. In
//! paused time, so that the bound is exact.

use std::sync::Arc;
use std::time::Duration;

use leasehold::conformance::{Call, Fault, Wire};
use leasehold::once::{Begun, Schedule};
use leasehold::{Memory, Session};
use tokio::time::Instant;

use super::ms;

/// Of the one that dies.
const TTL: Duration = Duration::from_secs(4);
/// Of all others, and longer than anything here may take.
const LONG: Duration = Duration::from_secs(600);
/// How often somebody with such a ttl looks at least.
const LOOK: Duration = Duration::from_secs(1);
/// Moments between two renewals at which it dies.
const MOMENTS: [u64; 6] = [0, 1, 700, 1300, 1400, 3999];

/// A session that can die: nothing more reaches the store, which is told nothing.
struct Mortal {
    session: Session,
    wire: Arc<Wire>,
}

impl Mortal {
    async fn on(store: &Arc<Memory>) -> Self {
        let wire = Wire::new(store.clone());
        let session = Session::with_engine(wire.clone(), TTL).await.unwrap();
        Self { session, wire }
    }

    /// Dies so long from now; the moment.
    async fn die_after(&self, millis: u64) -> Instant {
        tokio::time::sleep(ms(millis)).await;
        self.wire.cut(Call::ALL, Fault::Hangs);
        Instant::now()
    }
}

async fn other(store: &Arc<Memory>) -> Session {
    Session::with_engine(store.clone(), LONG).await.unwrap()
}

/// It was waited for, and not for longer than this.
fn waited(death: Instant, longest: Duration) {
    let waited = death.elapsed();
    assert!(waited >= TTL / 2, "it was not in the way: {waited:?}");
    assert!(waited <= longest, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn who_dies_while_it_counts_is_in_the_way_of_a_latch_for_its_ttl_at_most() {
    for moment in MOMENTS {
        let store = Memory::new();
        let (mortal, other) = (Mortal::on(&store).await, other(&store).await);
        // As far as one gets who counts: it has the lock and has written nothing.
        let _counting = mortal.session.mutex("x").lock().await.unwrap();
        let death = mortal.die_after(moment).await;
        assert_eq!(other.latch("x", 1).count_down().await.unwrap(), 0);
        waited(death, TTL);
    }
}

#[tokio::test(start_paused = true)]
async fn who_dies_inside_a_barrier_is_waited_for_for_its_ttl_at_most() {
    for moment in MOMENTS {
        let store = Memory::new();
        let (mortal, other) = (Mortal::on(&store).await, other(&store).await);
        let (theirs, ours) = (mortal.session.barrier("x", 2), other.barrier("x", 2));
        let (_inside, entered) = tokio::try_join!(theirs.enter(), ours.enter()).unwrap();
        let death = mortal.die_after(moment).await;
        entered.leave().await.unwrap();
        waited(death, TTL + LOOK);
    }
}

#[tokio::test(start_paused = true)]
async fn who_dies_while_it_opens_a_barrier_is_waited_for_for_its_ttl_at_most() {
    for moment in MOMENTS {
        let store = Memory::new();
        let (mortal, other) = (Mortal::on(&store).await, other(&store).await);
        let _opening = mortal.session.mutex("x.gate").lock().await.unwrap();
        let death = mortal.die_after(moment).await;
        let (one, two) = (other.barrier("x", 2), other.barrier("x", 2));
        let (one, two) = tokio::try_join!(one.enter(), two.enter()).unwrap();
        waited(death, TTL + LOOK);
        tokio::try_join!(one.leave(), two.leave()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_dies_before_all_are_at_a_barrier_counts_for_its_ttl_at_most() {
    for moment in MOMENTS {
        let store = Memory::new();
        let (mortal, other) = (Mortal::on(&store).await, other(&store).await);
        let theirs = mortal.session.barrier("x", 2);
        let coming = tokio::spawn(async move { theirs.enter().await.map(drop) });
        while other
            .inspector()
            .queue("x")
            .await
            .unwrap()
            .claims
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
        let death = mortal.die_after(moment).await;
        while !other
            .inspector()
            .queue("x")
            .await
            .unwrap()
            .claims
            .is_empty()
        {
            tokio::time::sleep(ms(10)).await;
        }
        waited(death, TTL + ms(10));
        coming.abort();
        // Two others go in together.
        let (one, two) = (other.barrier("x", 2), other.barrier("x", 2));
        let (one, two) = tokio::try_join!(one.enter(), two.enter()).unwrap();
        tokio::try_join!(one.leave(), two.leave()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_dies_spoils_stamps_for_its_ttl_at_most() {
    for moment in MOMENTS {
        let store = Memory::new();
        let (mortal, other) = (Mortal::on(&store).await, other(&store).await);
        let _writing = mortal.session.rwlock("x").write().await.unwrap();
        let death = mortal.die_after(moment).await;
        let lock = other.rwlock("x");
        assert!(!lock.stamp().await.unwrap().may_be_good());
        lock.read().await.unwrap().release().await.unwrap();
        waited(death, TTL);
        let stamp = lock.stamp().await.unwrap();
        assert!(lock.validate(&stamp).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn who_went_in_is_forgotten_when_all_have_left_and_not_before() {
    let store = Memory::new();
    let (one, other) = (other(&store).await, other(&store).await);
    let barrier = |session: &Session| session.barrier("x", 2).keep(ms(10_000));
    let (first, second) = (barrier(&one), barrier(&other));
    let (first, second) = tokio::try_join!(first.enter(), second.enter()).unwrap();
    // Inside for longer than it is kept.
    tokio::time::sleep(ms(30_000)).await;
    let leaving = tokio::spawn(first.leave());
    // Who comes now is not in with the one who has not left.
    let third = barrier(&one);
    assert!(third.enter_within(ms(5_000)).await.is_err());
    assert!(!leaving.is_finished());
    second.leave().await.unwrap();
    leaving.await.unwrap().unwrap();
    let is_kept = || async { one.memo("x.gate").await.unwrap().memo.is_some() };
    assert!(is_kept().await);
    tokio::time::sleep(ms(30_000)).await;
    assert!(!is_kept().await);
}

/// Whoever asks for the next slot while the last one is being given back is not sent
/// away; one that is kept for longer is told.
#[tokio::test(start_paused = true)]
async fn a_slot_that_is_done_is_in_the_way_of_the_next_for_a_moment_only() {
    let store = Memory::new();
    let (one, two) = (other(&store).await, other(&store).await);
    let [one, two] = [one, two].map(|session| session.once("job", Schedule::numbers()));
    let Begun::Started(mut run) = one.begin_slot(7).await.unwrap() else {
        panic!("nobody else is there");
    };
    run.mark_done().await.unwrap();
    let kept = two.begin_slot(8).await.unwrap();
    let is_told = matches!(&kept, Begun::Busy { running, .. } if *running == Some(7));
    assert!(is_told, "{kept:?}");
    let leaving = async {
        tokio::time::sleep(ms(300)).await;
        run.complete().await.unwrap();
    };
    let (next, ()) = tokio::join!(two.begin_slot(8), leaving);
    assert!(matches!(next, Ok(Begun::Started(_))), "{next:?}");
}
