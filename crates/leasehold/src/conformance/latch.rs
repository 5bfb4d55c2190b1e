//! Latches: open when all parts are counted, and not before.

use std::time::Duration;

use super::bench::{Bench, soon, when_over};
use super::memo::no_memo;
use super::wire::{Call, Fault};
use super::{Case, memo, memo_and_peers};
use crate::error::ErrorKind;

/// Longer than a case may take, so that it does not run out by itself.
const TTL: Duration = Duration::from_secs(60);
/// Of those who are killed.
const SHORT: Duration = Duration::from_secs(2);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[], memo, it_opens_when_all_parts_are_counted),
        Case::new(&[7], memo, a_part_that_has_a_name_is_counted_once),
        Case::new(&[7], memo, a_lost_or_repeated_answer_counts_once),
        Case::new(&[], memo, parts_that_are_counted_at_once_are_all_counted),
        Case::new(&[], memo, it_stays_open_until_it_is_closed),
        Case::new(&[], memo, another_number_or_use_is_refused),
        Case::new(
            &[9],
            memo_and_peers,
            who_dies_while_counting_is_in_the_way_for_its_ttl_at_most,
        ),
        Case::new(
            &[9],
            memo_and_peers,
            what_a_process_counted_stays_when_it_dies,
        ),
        Case::new(
            &[10],
            memo_and_peers,
            who_is_stopped_while_counting_counts_nothing_later,
        ),
        Case::new(&[26], no_memo, a_store_without_memos_has_no_latches),
    ]
}

async fn it_opens_when_all_parts_are_counted(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (ours, theirs) = (a.latch(&name, 3), b.latch(&name, 3));
    let waiting = tokio::spawn({
        let latch = theirs.clone();
        async move { latch.wait().await }
    });
    assert_eq!(ours.count_down().await.unwrap(), 2);
    assert_eq!(theirs.count_down().await.unwrap(), 1);
    let error = ours.wait_within(Duration::from_millis(50)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(!waiting.is_finished());
    assert_eq!(ours.count_down().await.unwrap(), 0);
    soon("it opens", waiting).await.unwrap().unwrap();
    ours.wait().await.unwrap();
    bench.queue_of(&name, 0).await;
}

async fn a_part_that_has_a_name_is_counted_once(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    for (session, part, left) in [(&a, "x", 1), (&b, "x", 1), (&a, "x", 1), (&b, "y", 0)] {
        let latch = session.latch(&name, 2);
        assert_eq!(latch.count_down_as(part).await.unwrap(), left);
    }
    a.latch(&name, 2).wait().await.unwrap();
}

async fn a_lost_or_repeated_answer_counts_once(bench: Bench) {
    let (wire, session) = bench.wired(Duration::from_secs(10)).await;
    let name = bench.name();
    let latch = session.latch(&name, 3);
    wire.cut([Call::Memo, Call::Withdraw, Call::Enqueue], Fault::Repeated);
    assert_eq!(latch.count_down().await.unwrap(), 2);
    wire.cut([Call::Memo], Fault::Refused);
    let error = soon("it gives up", latch.count_down()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    wire.mend();
    assert_eq!(latch.left().await.unwrap(), 2);
    // What is counted is told as counted, though the lock could not be given back.
    wire.cut([Call::Withdraw], Fault::Refused);
    assert_eq!(soon("it is counted", latch.count_down()).await.unwrap(), 1);
    wire.mend();
    assert_eq!(latch.left().await.unwrap(), 1);
}

async fn parts_that_are_counted_at_once_are_all_counted(bench: Bench) {
    const PARTS: u32 = 12;
    let name = bench.name();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(bench.session(TTL).await);
    }
    let mut counting = Vec::new();
    for part in 0..PARTS {
        let latch = sessions[part as usize % 3].latch(&name, PARTS);
        counting.push(tokio::spawn(async move { latch.count_down().await }));
    }
    let mut left = Vec::new();
    for one in counting {
        left.push(soon("all are counted", one).await.unwrap().unwrap());
    }
    left.sort_unstable();
    assert_eq!(left, (0..PARTS).collect::<Vec<_>>());
    sessions[0].latch(&name, PARTS).wait().await.unwrap();
}

async fn it_stays_open_until_it_is_closed(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let latch = session.latch(&name, 1);
    for _ in 0..3 {
        assert_eq!(latch.left().await.unwrap(), 1);
        assert_eq!(latch.count_down().await.unwrap(), 0);
        assert_eq!(latch.count_down().await.unwrap(), 0);
        latch.wait().await.unwrap();
        let later = bench.session(TTL).await;
        later.latch(&name, 1).wait().await.unwrap();
        latch.reset().await.unwrap();
    }
}

async fn another_number_or_use_is_refused(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    session.latch(&name, 3).count_down().await.unwrap();
    let error = session.latch(&name, 4).count_down().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains('3') && text.contains('4'), "{text}");
    let error = session.latch(&name, 4).wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let other = bench.name();
    let guard = session.mutex(&other).lock().await.unwrap();
    guard.write_memo("something else").await.unwrap();
    guard.release().await.unwrap();
    let error = session.latch(&other, 3).count_down().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    for total in [0, crate::MOST_MEMBERS + 1] {
        let error = session.latch(bench.name(), total).wait().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    assert_eq!(session.latch(&name, 3).left().await.unwrap(), 2);
}

async fn who_dies_while_counting_is_in_the_way_for_its_ttl_at_most(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let latch = session.latch(&name, 2);
    assert_eq!(latch.count_down().await.unwrap(), 1);
    let mut peer = bench.peer(SHORT).await;
    // As far as one gets who counts: it has the lock and has written nothing.
    peer.granted(&format!("lock {name}")).await;
    peer.kill();
    let left = when_over(SHORT, latch.count_down()).await;
    assert_eq!(left.unwrap(), 0);
    latch.wait().await.unwrap();
}

async fn what_a_process_counted_stays_when_it_dies(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let latch = session.latch(&name, 2);
    let mut peer = bench.peer(SHORT).await;
    assert_eq!(peer.ask(&format!("count 2 {name}")).await, "left 1");
    peer.kill();
    assert_eq!(latch.left().await.unwrap(), 1);
    assert_eq!(latch.count_down().await.unwrap(), 0);
}

async fn who_is_stopped_while_counting_counts_nothing_later(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let latch = session.latch(&name, 3);
    let mut peer = bench.peer(SHORT).await;
    peer.granted(&format!("lock {name}")).await;
    peer.stop();
    let left = when_over(SHORT, latch.count_down()).await;
    assert_eq!(left.unwrap(), 2);
    peer.resume();
    assert_ne!(peer.ask("check").await, "held");
    // What it asks for now is a part of its own.
    assert_eq!(peer.ask(&format!("count 3 {name}")).await, "left 1");
    assert_eq!(latch.left().await.unwrap(), 1);
}

async fn a_store_without_memos_has_no_latches(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    for error in [
        session.latch(&name, 2).count_down().await.unwrap_err(),
        session.latch(&name, 2).wait().await.unwrap_err(),
        session
            .barrier(&name, 2)
            .enter()
            .await
            .map(drop)
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    bench.queue_of(&name, 0).await;
}
