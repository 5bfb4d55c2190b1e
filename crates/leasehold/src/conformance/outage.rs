//! A store that is deaf, hangs or refuses for a while.

use std::time::{Duration, Instant};

use super::bench::{Bench, soon, until};
use super::wire::{Call, Fault, Wire};
use super::{Case, fair, nothing};
use crate::error::ErrorKind;
use crate::session::Session;

/// Longer than a case may take: nothing here waits for a lease to run out.
const LONG: Duration = Duration::from_secs(60);
/// Long enough for an outage and for a loaded machine.
const TTL: Duration = Duration::from_secs(12);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[12], nothing, a_lost_wake_up_does_not_cost_a_ttl),
        Case::new(
            &[14],
            nothing,
            a_hold_survives_a_store_that_refuses_for_a_while,
        ),
        Case::new(
            &[14],
            fair,
            a_waiter_keeps_its_place_while_the_store_refuses,
        ),
        Case::new(
            &[14],
            nothing,
            a_session_takes_locks_again_after_it_lost_its_lease,
        ),
        Case::new(&[15], nothing, a_wait_ends_at_its_deadline),
        Case::new(
            &[15],
            nothing,
            a_wait_ends_at_its_deadline_while_the_store_hangs,
        ),
        Case::new(
            &[13, 15],
            nothing,
            closing_comes_to_an_end_while_the_store_hangs,
        ),
    ]
}

/// So much later than its deadline a wait may end.
const LATE: Duration = Duration::from_millis(100);

/// The session never hears what the store tells it.
async fn a_lost_wake_up_does_not_cost_a_ttl(bench: Bench) {
    let wire = Wire::new(bench.engine().await);
    wire.cut([Call::Listen], Fault::Hangs);
    let deaf = Session::with_engine(wire, LONG).await.unwrap();
    let session = bench.session(LONG).await;
    let mut tries = Tries::within(Duration::from_secs(1));
    loop {
        tries.begin(&session).await;
        let name = bench.name();
        let guard = session.mutex(&name).lock().await.unwrap();
        let mutex = deaf.mutex(&name);
        let waiting = tokio::spawn(async move { mutex.lock().await.map(|_| Instant::now()) });
        bench.queue_of(&name, 2).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let granted = soon("it looks by itself", waiting).await.unwrap();
        if tries.was_in_time(granted.unwrap().duration_since(released)) {
            return;
        }
    }
}

/// What takes at most as long as the contract says, and a few round trips. A busy machine
/// has five tries.
struct Tries {
    within: Duration,
    bound: Duration,
    late: Vec<(Duration, Duration)>,
}

impl Tries {
    fn within(within: Duration) -> Self {
        Self {
            within,
            bound: within,
            late: Vec::new(),
        }
    }

    async fn begin(&mut self, session: &Session) {
        let mutex = session.mutex(format!("tries/{}", self.late.len()));
        let asked = Instant::now();
        mutex.lock().await.unwrap().release().await.unwrap();
        self.bound = self.within + 2 * asked.elapsed();
    }

    fn was_in_time(&mut self, took: Duration) -> bool {
        let is_late = took > self.bound;
        if is_late {
            self.late.push((took, self.bound));
            assert!(self.late.len() < 5, "each took too long: {:?}", self.late);
        }
        !is_late
    }
}

async fn a_hold_survives_a_store_that_refuses_for_a_while(bench: Bench) {
    let (wire, session) = bench.wired(TTL).await;
    let guard = session.mutex(bench.name()).lock().await.unwrap();
    wire.cut(Call::ALL, Fault::Refused);
    let before = wire.sent(Call::Renew);
    until("it goes on asking", || async {
        wire.sent(Call::Renew) > before + 1
    })
    .await;
    // It grows by a renewal only.
    let left = guard.valid_for();
    wire.mend();
    until("the store answers again", || async {
        guard.check().unwrap();
        guard.valid_for() > left
    })
    .await;
    guard.check().unwrap();
    guard.release().await.unwrap();
}

async fn a_waiter_keeps_its_place_while_the_store_refuses(bench: Bench) {
    let (wire, session) = bench.wired(LONG).await;
    let (holder, behind, name) = (
        bench.session(LONG).await,
        bench.session(LONG).await,
        bench.name(),
    );
    let guard = holder.mutex(&name).lock().await.unwrap();
    let mutex = session.mutex(&name);
    let first = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    let mutex = behind.mutex(&name);
    let second = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 3).await;
    wire.cut([Call::Enqueue, Call::Wait], Fault::Refused);
    guard.release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    wire.mend();
    let first = soon("its turn comes first", first).await.unwrap().unwrap();
    let token = first.token();
    first.release().await.unwrap();
    let second = soon("then the other's", second).await.unwrap().unwrap();
    assert!(second.token() > token);
}

async fn a_session_takes_locks_again_after_it_lost_its_lease(bench: Bench) {
    let (wire, session) = bench.wired(Duration::from_millis(500)).await;
    let name = bench.name();
    let guard = session.mutex(&name).lock().await.unwrap();
    wire.cut([Call::Renew], Fault::Refused);
    soon("the lease runs out", guard.lost()).await;
    wire.mend();
    let again = soon("there is a new lease", session.mutex(&name).lock())
        .await
        .unwrap();
    again.release().await.unwrap();
}

async fn a_wait_ends_at_its_deadline(bench: Bench) {
    let (a, b, name) = (
        bench.session(LONG).await,
        bench.session(LONG).await,
        bench.name(),
    );
    let _guard = a.mutex(&name).lock().await.unwrap();
    for mutex in [a.mutex(&name), b.mutex(&name)] {
        let mut tries = Tries::within(LATE);
        loop {
            tries.begin(&b).await;
            let longest = super::ENOUGH;
            let asked = Instant::now();
            let error = mutex.lock_within(longest).await.unwrap_err();
            let took = asked.elapsed();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            assert!(took >= longest);
            if tries.was_in_time(took.saturating_sub(longest)) {
                break;
            }
        }
    }
}

async fn a_wait_ends_at_its_deadline_while_the_store_hangs(bench: Bench) {
    let (wire, session) = bench.wired(LONG).await;
    let other = bench.session(LONG).await;
    wire.cut(Call::ALL, Fault::Hangs);
    let longest = Duration::from_millis(200);
    let mutex = session.mutex(bench.name());
    let all = session.lock_all([bench.name(), bench.name()]);
    let mut tries = Tries::within(2 * LATE);
    loop {
        tries.begin(&other).await;
        let asked = Instant::now();
        mutex.lock_within(longest).await.unwrap_err();
        all.lock_within(longest).await.unwrap_err();
        if tries.was_in_time(asked.elapsed().saturating_sub(2 * longest)) {
            return;
        }
    }
}

async fn closing_comes_to_an_end_while_the_store_hangs(bench: Bench) {
    let (wire, session) = bench.wired(Duration::from_secs(1)).await;
    let guard = session.mutex(bench.name()).lock().await.unwrap();
    wire.cut(Call::ALL, Fault::Hangs);
    soon("the ttl passes", session.close()).await;
    guard.check().unwrap_err();
}
