//! A guard is lost before the store can grant its claim to another, and says
//! so.

use std::time::{Duration, Instant};

use super::bench::{Bench, soon, try_lock, until};
use super::wire::{Call, Fault};
use super::{Case, fair, nothing};
use crate::error::ErrorKind;
use crate::guard::Lost;

const TTL: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(600);
/// A waiter's, which must last until others have come behind it.
const WAITS: Duration = Duration::from_secs(4);
/// A busy machine renews it in time.
const KEPT: Duration = Duration::from_secs(20);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            &[3],
            nothing,
            a_guard_is_lost_before_another_is_granted_while_renewals_hang,
        ),
        Case::new(
            &[3],
            nothing,
            a_guard_is_lost_in_time_while_the_replies_of_renewals_are_lost,
        ),
        Case::new(&[3], nothing, a_normal_release_is_no_loss),
        Case::new(
            &[4],
            nothing,
            checking_asks_nobody_and_never_says_held_past_the_deadline,
        ),
        Case::new(&[4], nothing, asking_after_the_loss_answers_at_once),
        Case::new(
            &[5],
            nothing,
            a_release_after_the_loss_does_not_touch_the_next_holder,
        ),
        Case::new(
            &[5],
            nothing,
            a_release_after_the_loss_does_not_touch_the_same_sessions_next_hold,
        ),
        Case::new(
            &[6],
            fair,
            a_waiter_whose_lease_ended_goes_to_the_end_of_the_queue,
        ),
        Case::new(&[3], nothing, a_hold_is_kept_for_longer_than_its_ttl),
    ]
}

async fn a_guard_is_lost_before_another_is_granted_while_renewals_hang(bench: Bench) {
    lost_before_granted(bench, Fault::Hangs).await;
}

/// The store renews the lease and we do not know it: the other one waits a
/// little longer, and we stop all the same.
async fn a_guard_is_lost_in_time_while_the_replies_of_renewals_are_lost(bench: Bench) {
    lost_before_granted(bench, Fault::LosesReply).await;
}

async fn lost_before_granted(bench: Bench, fault: Fault) {
    // Two threads read the two times, so that a busy machine delays either; the best of some
    // counts.
    for _ in 0..5 {
        let late = wakes_so_late(&bench, fault).await;
        assert!(late < Duration::from_secs(5), "{late:?}");
        if late < Duration::from_millis(200) {
            return;
        }
    }
    panic!("the holder never wakes before the next one holds");
}

/// How long after the next grant the holder wakes. The holder's own check never comes late.
async fn wakes_so_late(bench: &Bench, fault: Fault) -> Duration {
    let (wire, session) = bench.wired(SHORT).await;
    let (other, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    wire.cut([Call::Renew], fault);
    let watching = async {
        assert_eq!(guard.lost().await, Lost::Deadline);
        Instant::now()
    };
    let mutex = other.mutex(&name);
    let waiting = async {
        let next = mutex.lock().await.unwrap();
        (next, guard.check(), Instant::now())
    };
    let both = async { tokio::join!(watching, waiting) };
    let (lost, (_next, checked, granted)) = soon("the lease runs out", both).await;
    checked.unwrap_err();
    lost.saturating_duration_since(granted)
}

async fn a_normal_release_is_no_loss(bench: Bench) {
    let session = bench.session(TTL).await;
    let guard = session.mutex(bench.name()).lock().await.unwrap();
    guard.check().unwrap();
    assert!(guard.valid_for() > Duration::ZERO && guard.valid_for() <= TTL);
    guard.release().await.unwrap();
}

async fn checking_asks_nobody_and_never_says_held_past_the_deadline(bench: Bench) {
    let (wire, session) = bench.wired(SHORT).await;
    let guard = session.mutex(bench.name()).lock().await.unwrap();
    wire.cut(Call::ALL, Fault::Hangs);
    let until_then = Instant::now() + guard.valid_for();
    let sent = wire.sent(Call::Withdraw) + wire.sent(Call::Enqueue);
    let mut is_held = true;
    while is_held {
        let (before, checked) = (Instant::now(), guard.check());
        is_held = checked.is_ok();
        // A renewal that was on its way when the wire was cut gives it one more
        // ttl, and never more.
        assert!(!is_held || before < until_then + SHORT);
        std::hint::spin_loop();
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.valid_for(), Duration::ZERO);
    let after = wire.sent(Call::Withdraw) + wire.sent(Call::Enqueue);
    assert!(after <= sent + 1, "only the loss itself is cleaned up");
}

async fn asking_after_the_loss_answers_at_once(bench: Bench) {
    let (wire, session) = bench.wired(SHORT).await;
    let guard = session.mutex(bench.name()).lock().await.unwrap();
    wire.cut(Call::ALL, Fault::Hangs);
    until("the deadline passes", || async { guard.check().is_err() }).await;
    assert_eq!(soon("it is known", guard.lost()).await, Lost::Deadline);
    let error = soon("it is known", guard.release()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Lost::Deadline));
}

async fn a_release_after_the_loss_does_not_touch_the_next_holder(bench: Bench) {
    let (wire, session) = bench.wired(SHORT).await;
    let (other, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    wire.cut([Call::Renew], Fault::Hangs);
    let next = soon("the lease runs out", other.mutex(&name).lock())
        .await
        .unwrap();
    wire.mend();
    guard.release().await.unwrap_err();
    let (wire, session) = (wire, session);
    drop(
        soon("the session recovers", session.mutex(bench.name()).lock())
            .await
            .unwrap(),
    );
    assert!(wire.sent(Call::Withdraw) > 0);
    next.check().unwrap();
    assert_eq!(bench.queue(&name).await.claims.len(), 1);
    next.release().await.unwrap();
}

async fn a_release_after_the_loss_does_not_touch_the_same_sessions_next_hold(bench: Bench) {
    let (wire, session) = bench.wired(SHORT).await;
    let name = bench.name();
    let lost = session.mutex(&name).lock().await.unwrap();
    wire.cut([Call::Renew], Fault::Hangs);
    soon("the lease runs out", lost.lost()).await;
    wire.mend();
    let next = soon("the session gets it again", session.mutex(&name).lock())
        .await
        .unwrap();
    lost.release().await.unwrap_err();
    next.check().unwrap();
    let other = bench.session(TTL).await;
    assert!(try_lock(&other, &name).await.is_none());
    next.release().await.unwrap();
}

async fn a_waiter_whose_lease_ended_goes_to_the_end_of_the_queue(bench: Bench) {
    let (wire, session) = bench.wired(WAITS).await;
    let (holder, behind, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = holder.mutex(&name).lock().await.unwrap();
    let mutex = session.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    let mutex = behind.mutex(&name);
    let second = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 3).await;
    let before = bench.queue(&name).await.claims[1].id;
    wire.cut([Call::Renew], Fault::Hangs);
    until("the waiter's claim is gone", || async {
        let queue = bench.queue(&name).await;
        queue.claims.iter().all(|claim| claim.id != before)
    })
    .await;
    wire.mend();
    bench.queue_of(&name, 3).await;
    guard.release().await.unwrap();
    let second = soon("it is the other's turn now", second)
        .await
        .unwrap()
        .unwrap();
    let token = second.token();
    second.release().await.unwrap();
    let last = soon("then ours", waiting).await.unwrap().unwrap();
    assert!(last.token() > token);
}

async fn a_hold_is_kept_for_longer_than_its_ttl(bench: Bench) {
    let (session, other, name) = (
        bench.session(KEPT).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = session.mutex(&name).lock().await.unwrap();
    let start = Instant::now();
    while start.elapsed() < KEPT + SHORT {
        guard.check().unwrap();
        assert!(try_lock(&other, &name).await.is_none());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    guard.release().await.unwrap();
}
