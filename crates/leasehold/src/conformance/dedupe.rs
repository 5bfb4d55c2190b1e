//! One effect per message, whoever is given it and however often.

use std::time::Duration;

use super::bench::{Bench, soon, until};
use super::wire::{Call, Fault};
use super::{Case, clocks, memo, peers, promised};
use crate::dedupe::{Begun, Dedupe, LONGEST_KEY, LONGEST_RESULT, Work};
use crate::error::ErrorKind;
use crate::promises::Promises;

/// Longer than a case may take: nothing here waits for a lease to run out.
const TTL: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(1);
/// Short enough to wait for, long enough for a machine that is busy.
const BRIEF: Duration = Duration::from_secs(2);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[1], retention, of_many_who_are_given_a_message_one_does_it),
        Case::new(&[], retention, while_one_works_others_are_told_when_to_ask),
        Case::new(&[], retention, an_attempt_that_is_dropped_is_counted),
        Case::new(&[], retention, after_so_many_attempts_it_is_given_up),
        Case::new(&[9], with_peers, a_killed_worker_leaves_an_attempt),
        Case::new(
            &[3, 10],
            with_peers,
            a_worker_paused_past_its_ttl_completes_nothing,
        ),
        Case::new(
            &[21],
            with_faked_peers,
            a_clock_that_is_an_hour_off_forgets_nothing,
        ),
        Case::new(
            &[],
            retention,
            after_the_retention_it_is_as_if_it_had_not_been,
        ),
        Case::new(
            &[],
            retention,
            a_memo_that_ends_is_made_to_stay_and_the_other_way,
        ),
        Case::new(&[], retention, a_result_that_is_too_long_loses_nothing),
        Case::new(&[22], retention, bad_keys_and_numbers_are_refused),
        Case::new(&[], retention, the_name_of_another_party_is_noticed),
        Case::new(&[7], retention, a_lost_reply_is_one_attempt_and_one_result),
        Case::new(&[26], no_retention, a_store_without_retention_says_so),
    ]
}

fn retention(promises: &Promises) -> Result<(), &'static str> {
    promised(promises.retention, "keeps no memos for a time")
}

fn no_retention(promises: &Promises) -> Result<(), &'static str> {
    promised(!promises.retention, "keeps memos for a time")
}

fn with_peers(promises: &Promises) -> Result<(), &'static str> {
    retention(promises).and(peers(promises))
}

fn with_faked_peers(promises: &Promises) -> Result<(), &'static str> {
    retention(promises).and(clocks::faked_peers(promises))
}

/// What comes of asking, once whoever had it has let go.
async fn asked(message: &Dedupe) -> Begun {
    soon("the message is free", async {
        loop {
            match message.begin().await.unwrap() {
                Begun::InProgress { .. } => tokio::time::sleep(Duration::from_millis(5)).await,
                begun => return begun,
            }
        }
    })
    .await
}

async fn started(message: &Dedupe) -> Work {
    match asked(message).await {
        Begun::Started(work) => work,
        other => panic!("{other:?}"),
    }
}

async fn result(message: &Dedupe) -> String {
    match asked(message).await {
        Begun::Done(result) => String::from_utf8(result).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn lock_of(key: &str) -> String {
    format!("dedupe/{key}")
}

async fn of_many_who_are_given_a_message_one_does_it(bench: Bench) {
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(bench.session(TTL).await);
    }
    for _ in 0..3 {
        let key = bench.name();
        let mut tasks = Vec::new();
        for (number, session) in sessions.iter().chain(&sessions).enumerate() {
            let message = session.dedupe(&key);
            tasks.push(tokio::spawn(async move {
                match asked(&message).await {
                    Begun::Started(work) => {
                        assert_eq!(work.attempt(), 1);
                        work.complete(number.to_string()).await.unwrap();
                        (number.to_string(), true)
                    }
                    Begun::Done(result) => (String::from_utf8(result).unwrap(), false),
                    other => panic!("{other:?}"),
                }
            }));
        }
        let (mut results, mut done) = (Vec::new(), 0);
        for task in tasks {
            let (result, is_ours) = soon("all have asked", task).await.unwrap();
            results.push(result);
            done += u32::from(is_ours);
        }
        results.dedup();
        assert_eq!((done, results.len()), (1, 1), "{results:?}");
    }
}

async fn while_one_works_others_are_told_when_to_ask(bench: Bench) {
    let (a, b, key) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (ours, theirs) = (a.dedupe(&key), b.dedupe(&key));
    let work = started(&ours).await;
    for message in [&ours, &theirs] {
        let Begun::InProgress { retry_after } = message.begin().await.unwrap() else {
            panic!("it is being done");
        };
        assert!(
            !retry_after.is_zero() && retry_after <= TTL,
            "{retry_after:?}"
        );
    }
    work.complete(b"a\0\xff").await.unwrap();
    // The lock is still ours, and the message is done.
    let Begun::Done(result) = theirs.begin().await.unwrap() else {
        panic!("it is done");
    };
    assert_eq!(result, b"a\0\xff");
    work.release().await.unwrap();
    bench.queue_of(&lock_of(&key), 0).await;
}

async fn an_attempt_that_is_dropped_is_counted(bench: Bench) {
    let (session, key) = (bench.session(TTL).await, bench.name());
    let message = session.dedupe(&key);
    let first = started(&message).await;
    let token = first.token();
    drop(first);
    let second = started(&message).await;
    assert_eq!(second.attempt(), 2);
    assert!(second.token() > token);
    second.release().await.unwrap();
    // As if it had not been begun.
    let third = started(&message).await;
    assert_eq!(third.attempt(), 3);
    third.abandon().await.unwrap();
    assert_eq!(started(&message).await.attempt(), 3);
    let other = session.dedupe(bench.name());
    started(&other).await.abandon().await.unwrap();
    let work = started(&other).await;
    assert_eq!(work.attempt(), 1);
    // What is done is not taken back.
    work.complete("done").await.unwrap();
    work.abandon().await.unwrap();
    let done = asked(&other).await;
    assert!(matches!(done, Begun::Done(_)), "{done:?}");
}

async fn after_so_many_attempts_it_is_given_up(bench: Bench) {
    let (session, key) = (bench.session(TTL).await, bench.name());
    let message = session.dedupe(&key).max_attempts(2);
    drop(started(&message).await);
    drop(started(&message).await);
    for _ in 0..2 {
        let given_up = asked(&message).await;
        assert!(
            matches!(given_up, Begun::GivenUp { attempts: 2 }),
            "{given_up:?}"
        );
    }
    // Who allows more goes on.
    let more = session.dedupe(&key).max_attempts(3);
    started(&more).await.complete("late").await.unwrap();
    assert_eq!(result(&message).await, "late");
}

async fn a_killed_worker_leaves_an_attempt(bench: Bench) {
    let (session, mut peer, key) = (
        bench.session(TTL).await,
        bench.peer(BRIEF).await,
        bench.name(),
    );
    assert_eq!(peer.ask(&format!("begin 3600 {key}")).await, "started 1");
    peer.kill();
    let message = session.dedupe(&key);
    let work = started(&message).await;
    assert_eq!(work.attempt(), 2);
    work.complete("second").await.unwrap();
    // What is done outlives whoever did it, and is told before its lock is free.
    let mut peer = bench.peer(TTL).await;
    let other = bench.name();
    assert_eq!(peer.ask(&format!("begin 3600 {other}")).await, "started 1");
    assert_eq!(peer.ask("complete theirs").await, "ok");
    peer.kill();
    assert_eq!(result(&session.dedupe(&other)).await, "theirs");
    assert_eq!(result(&message).await, "second");
}

async fn a_worker_paused_past_its_ttl_completes_nothing(bench: Bench) {
    let (session, mut peer, key) = (
        bench.session(TTL).await,
        bench.peer(BRIEF).await,
        bench.name(),
    );
    assert_eq!(peer.ask(&format!("begin 3600 {key}")).await, "started 1");
    peer.stop();
    let message = session.dedupe(&key);
    let work = started(&message).await;
    assert_eq!(work.attempt(), 2);
    peer.resume();
    let answer = peer.ask("complete stale").await;
    assert!(answer.contains(": lost: "), "{answer}");
    work.complete("ours").await.unwrap();
    drop(work);
    assert_eq!(result(&message).await, "ours");
    assert_eq!(peer.ask(&format!("begin 3600 {key}")).await, "done ours");
}

async fn a_clock_that_is_an_hour_off_forgets_nothing(bench: Bench) {
    let session = bench.session(TTL).await;
    let half = Duration::from_secs(1800);
    for offset in ["+1h", "-1h"] {
        let mut peer = bench.peer_at_another_time(TTL, offset).await;
        let (ours, theirs, brief) = (bench.name(), bench.name(), bench.name());
        let work = started(&session.dedupe(&ours).retention(half)).await;
        work.complete("ours").await.unwrap();
        assert_eq!(peer.ask(&format!("begin 1800 {theirs}")).await, "started 1");
        assert_eq!(peer.ask("complete theirs").await, "ok");
        assert_eq!(peer.ask(&format!("begin 1 {brief}")).await, "started 1");
        assert_eq!(peer.ask("complete brief").await, "ok");
        assert_eq!(peer.ask(&format!("begin 1800 {ours}")).await, "done ours");
        assert_eq!(result(&session.dedupe(&theirs)).await, "theirs");
        forgotten(&bench, &brief).await;
    }
}

/// Waits until nobody can read anything of the message.
async fn forgotten(bench: &Bench, key: &str) {
    let (inspector, name) = (bench.inspector(), lock_of(key));
    until("the message is forgotten", || async {
        inspector.memo(&name).await.unwrap().memo.is_none()
    })
    .await;
}

async fn after_the_retention_it_is_as_if_it_had_not_been(bench: Bench) {
    let (session, key) = (bench.session(TTL).await, bench.name());
    let message = session.dedupe(&key).retention(SHORT).max_attempts(1);
    let begun = std::time::Instant::now();
    started(&message).await.complete("done").await.unwrap();
    assert_eq!(
        session
            .memo(lock_of(&key))
            .await
            .unwrap()
            .memo
            .unwrap()
            .edition,
        2
    );
    forgotten(&bench, &key).await;
    assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
    let work = started(&message).await;
    assert_eq!(work.attempt(), 1);
    drop(work);
    forgotten(&bench, &key).await;
    assert_eq!(
        started(&message).await.attempt(),
        1,
        "it is not given up for ever"
    );
}

async fn a_memo_that_ends_is_made_to_stay_and_the_other_way(bench: Bench) {
    let (session, inspector) = (bench.session(TTL).await, bench.inspector());
    let (stays, ends) = (bench.name(), bench.name());
    let guard = session.mutex(&stays).lock().await.unwrap();
    guard.write_memo_for("for a time", SHORT).await.unwrap();
    guard.write_memo("for good").await.unwrap();
    let other = session.mutex(&ends).lock().await.unwrap();
    other.write_memo("for good").await.unwrap();
    other.write_memo_for("for a time", SHORT).await.unwrap();
    until("the second has ended", || async {
        inspector.memo(&ends).await.unwrap().memo.is_none()
    })
    .await;
    let kept = inspector.memo(&stays).await.unwrap().memo.unwrap();
    assert_eq!(kept.text(), "for good");
    // A hold that outlives its memo writes another one.
    other.write_memo("again").await.unwrap();
    let again = inspector.memo(&ends).await.unwrap().memo.unwrap();
    assert_eq!((again.edition, &*again.text()), (3, "again"));
    let error = other.write_memo_for("x", Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

async fn a_result_that_is_too_long_loses_nothing(bench: Bench) {
    let (session, key) = (bench.session(TTL).await, bench.name());
    let message = session.dedupe(&key);
    let work = started(&message).await;
    let error = work
        .complete(vec![b'x'; LONGEST_RESULT + 1])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("at most 4000"), "{error}");
    work.guard().check().unwrap();
    work.complete(vec![b'x'; LONGEST_RESULT]).await.unwrap();
    drop(work);
    assert_eq!(result(&message).await.len(), LONGEST_RESULT);
}

async fn bad_keys_and_numbers_are_refused(bench: Bench) {
    let session = bench.session(TTL).await;
    let longest = "k".repeat(LONGEST_KEY);
    let fine = started(&session.dedupe(&longest)).await;
    fine.complete("").await.unwrap();
    let second = Duration::from_secs(1);
    for message in [
        session.dedupe(""),
        session.dedupe(format!("{longest}k")),
        session.dedupe("a\nb"),
        session.dedupe("x").max_attempts(0),
        session.dedupe("x").retention(Duration::ZERO),
        session.dedupe("x").retention(second * u32::MAX),
    ] {
        let error = message.begin().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

async fn the_name_of_another_party_is_noticed(bench: Bench) {
    let (session, key) = (bench.session(TTL).await, bench.name());
    let message = session.dedupe(&key);
    let guard = session.mutex(lock_of(&key)).lock().await.unwrap();
    guard.write_memo("my own notes").await.unwrap();
    let held = message.begin().await.unwrap_err();
    assert_eq!(held.kind(), ErrorKind::Conflict, "{held}");
    guard.release().await.unwrap();
    let error = message.begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("choose another key"), "{error}");
    bench.queue_of(&lock_of(&key), 0).await;
    let memo = session.memo(lock_of(&key)).await.unwrap().memo.unwrap();
    assert_eq!(memo.text(), "my own notes", "nothing is lost");
}

async fn a_lost_reply_is_one_attempt_and_one_result(bench: Bench) {
    let ((wire, session), other, key) = (
        bench.wired(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let message = session.dedupe(&key);
    wire.cut([Call::Memo], Fault::Repeated);
    let work = started(&message).await;
    assert_eq!(work.attempt(), 1);
    wire.cut([Call::Memo], Fault::LosesReply);
    let completing = work.complete("once");
    tokio::pin!(completing);
    let sent = wire.sent(Call::Memo);
    tokio::select! {
        biased;
        answered = &mut completing => panic!("{answered:?}"),
        () = until("it is asked again", || async { wire.sent(Call::Memo) > sent + 1 }) => {}
    }
    assert_eq!(result(&other.dedupe(&key)).await, "once");
    wire.mend();
    soon("it is answered", completing).await.unwrap();
    let memo = other.memo(lock_of(&key)).await.unwrap().memo.unwrap();
    assert_eq!((memo.edition, memo.token), (2, work.token()));
}

async fn a_store_without_retention_says_so(bench: Bench) {
    let (session, key) = (bench.session(TTL).await, bench.name());
    let error = session.dedupe(&key).begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(!error.to_string().contains('\n'), "{error}");
    let guard = session.mutex(&key).lock().await.unwrap();
    let error = guard.write_memo_for("x", TTL).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    if memo(&bench.promises()).is_ok() {
        guard.write_memo("for good").await.unwrap();
    }
    bench.queue_of(&lock_of(&key), 0).await;
}
