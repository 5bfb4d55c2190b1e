//! Reading without a lock: a stamp is good as long as no writer comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::bench::{Bench, soon, tried, try_lock, until, when_over};
use super::wire::{Call, Fault};
use super::{Case, peers, promised};
use crate::error::ErrorKind;
use crate::promises::Promises;
use crate::rwlock::RwLock;
use crate::stamp::StampWord;

/// Longer than a case may take, so that it does not run out by itself.
const TTL: Duration = Duration::from_secs(60);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[], stamps, a_stamp_is_good_until_a_writer_comes),
        Case::new(&[], stamps, a_stamp_leaves_no_claim),
        Case::new(&[], stamps, the_stamp_of_a_written_lock_is_never_good),
        Case::new(&[], stamps, a_stamp_before_a_waiting_writer_is_never_good),
        Case::new(&[], stamps, a_writer_that_comes_to_wait_spoils_a_stamp),
        Case::new(&[], stamps, a_writer_of_another_lock_does_no_harm),
        Case::new(&[], stamps, what_a_good_stamp_read_was_never_half_written),
        Case::new(
            &[9],
            stamps_and_peers,
            a_killed_writer_spoils_stamps_for_its_ttl_at_most,
        ),
        Case::new(
            &[10],
            stamps_and_peers,
            a_stamp_is_spoilt_by_a_process_that_is_then_stopped,
        ),
        Case::new(&[7], stamps, a_lost_or_repeated_answer_says_nothing_wrong),
        Case::new(&[], stamps, the_stamp_of_another_lock_or_session_is_refused),
        Case::new(&[], words, a_word_is_as_good_in_another_session),
        Case::new(&[26], no_words, a_store_without_words_says_so),
        Case::new(&[26], no_stamps, a_store_that_cannot_tell_says_so),
    ]
}

fn stamps(promises: &Promises) -> Result<(), &'static str> {
    promised(promises.stamp, "cannot tell whether a writer came")
}

fn stamps_and_peers(promises: &Promises) -> Result<(), &'static str> {
    stamps(promises).and(peers(promises))
}

fn words(promises: &Promises) -> Result<(), &'static str> {
    promised(promises.stamp_word, "has stamps for one session only")
}

fn no_words(promises: &Promises) -> Result<(), &'static str> {
    let is_meant = promises.stamp && !promises.stamp_word;
    promised(is_meant, "has no stamps, or such for any session")
}

fn no_stamps(promises: &Promises) -> Result<(), &'static str> {
    promised(!promises.stamp, "can tell whether a writer came")
}

async fn a_stamp_is_good_until_a_writer_comes(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (ours, theirs) = (a.rwlock(&name), b.rwlock(&name));
    for _ in 0..3 {
        let stamp = ours.stamp().await.unwrap();
        assert!(stamp.may_be_good());
        assert!(ours.validate(&stamp).await.unwrap());
        // Others who read without a lock do no harm.
        let other = theirs.stamp().await.unwrap();
        assert!(ours.validate(&stamp).await.unwrap());
        theirs.write().await.unwrap().release().await.unwrap();
        assert!(!ours.validate(&stamp).await.unwrap());
        assert!(!theirs.validate(&other).await.unwrap());
        // It does not become good again.
        ours.stamp().await.unwrap();
        assert!(!ours.validate(&stamp).await.unwrap());
    }
    let stamp = ours.stamp().await.unwrap();
    let write = tried(|| async { ours.try_write().await }).await.unwrap();
    assert!(!ours.validate(&stamp).await.unwrap());
    write.release().await.unwrap();
    assert!(!ours.validate(&stamp).await.unwrap());
}

async fn a_stamp_leaves_no_claim(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let lock = session.rwlock(&name);
    let stamp = lock.stamp().await.unwrap();
    let names = bench.inspector().names("case/").await.unwrap();
    assert!(names.is_empty(), "{names:?}");
    let queue = bench.queue(&name).await;
    assert!(queue.claims.is_empty());
    assert!(lock.validate(&stamp).await.unwrap());
    // And it is in nobody's way.
    let write = tried(|| async { lock.try_write().await }).await.unwrap();
    write.release().await.unwrap();
    let other = bench.name();
    session.rwlock(&other).stamp().await.unwrap();
    let guard = try_lock(&session, &other).await.unwrap();
    guard.release().await.unwrap();
}

async fn the_stamp_of_a_written_lock_is_never_good(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (ours, theirs) = (a.rwlock(&name), b.rwlock(&name));
    let write = theirs.write().await.unwrap();
    let stamp = ours.stamp().await.unwrap();
    assert!(!stamp.may_be_good());
    assert!(!ours.validate(&stamp).await.unwrap());
    write.release().await.unwrap();
    assert!(!ours.validate(&stamp).await.unwrap());
    assert!(ours.stamp().await.unwrap().may_be_good());
}

async fn a_stamp_before_a_waiting_writer_is_never_good(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (ours, theirs) = (a.rwlock(&name), b.rwlock(&name));
    let read = ours.read().await.unwrap();
    let waiting = tokio::spawn(async move { theirs.write().await });
    bench.queue_of(&name, 2).await;
    let stamp = ours.stamp().await.unwrap();
    assert!(!ours.validate(&stamp).await.unwrap());
    read.release().await.unwrap();
    let write = soon("the writer holds", waiting).await.unwrap().unwrap();
    assert!(!ours.validate(&stamp).await.unwrap());
    write.release().await.unwrap();
    assert!(!ours.validate(&stamp).await.unwrap());
}

async fn a_writer_that_comes_to_wait_spoils_a_stamp(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (ours, theirs) = (a.rwlock(&name), b.rwlock(&name));
    let read = ours.read().await.unwrap();
    let stamp = ours.stamp().await.unwrap();
    assert!(ours.validate(&stamp).await.unwrap(), "readers are no harm");
    let waiting = tokio::spawn(async move { theirs.write().await });
    bench.queue_of(&name, 2).await;
    read.release().await.unwrap();
    let write = soon("the writer holds", waiting).await.unwrap().unwrap();
    assert!(!ours.validate(&stamp).await.unwrap());
    write.release().await.unwrap();
    assert!(!ours.validate(&stamp).await.unwrap());
}

async fn a_writer_of_another_lock_does_no_harm(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let lock = a.rwlock(&name);
    let stamp = lock.stamp().await.unwrap();
    let other = b.rwlock(bench.name()).write().await.unwrap();
    let mutex = b.mutex(bench.name()).lock().await.unwrap();
    assert!(lock.validate(&stamp).await.unwrap());
    other.release().await.unwrap();
    mutex.release().await.unwrap();
    assert!(lock.validate(&stamp).await.unwrap());
}

/// Two numbers that writers keep equal, with a pause between. They go on until each
/// reader has met one of them.
async fn what_a_good_stamp_read_was_never_half_written(bench: Bench) {
    const READERS: u64 = 2;
    const MOST: u64 = 1000;
    let name = bench.name();
    let pair = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let (met, is_over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let lock = bench.session(TTL).await.rwlock(&name);
        let (pair, met, is_over) = (pair.clone(), met.clone(), is_over.clone());
        readers.push(tokio::spawn(async move {
            let mut has_met = false;
            loop {
                // After the last writer it becomes good, and is read whole.
                let is_last = is_over.load(Ordering::SeqCst);
                let stamp = lock.stamp().await.unwrap();
                let one = pair[0].load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                let other = pair[1].load(Ordering::SeqCst);
                let is_good = lock.validate(&stamp).await.unwrap();
                assert!(!is_good || one == other, "{one} and {other}");
                if !is_good && !std::mem::replace(&mut has_met, true) {
                    met.fetch_add(1, Ordering::SeqCst);
                }
                if is_last && is_good {
                    return one;
                }
            }
        }));
    }
    let mut writers = Vec::new();
    for _ in 0..2 {
        let lock = bench.session(TTL).await.rwlock(&name);
        let (pair, met) = (pair.clone(), met.clone());
        writers.push(tokio::spawn(async move {
            for number in 0..MOST {
                if number >= 10 && met.load(Ordering::SeqCst) == READERS {
                    return;
                }
                let write = lock.write().await.unwrap();
                let next = pair[0].load(Ordering::SeqCst) + 1;
                pair[0].store(next, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
                pair[1].store(next, Ordering::SeqCst);
                write.release().await.unwrap();
            }
            panic!("a reader never meets a writer");
        }));
    }
    for writer in writers {
        soon("all is written", writer).await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    let last = pair[1].load(Ordering::SeqCst);
    for reader in readers {
        assert_eq!(soon("all is read", reader).await.unwrap(), last);
    }
}

async fn a_killed_writer_spoils_stamps_for_its_ttl_at_most(bench: Bench) {
    let ttl = Duration::from_secs(2);
    let (session, name) = (bench.session(TTL).await, bench.name());
    let lock = session.rwlock(&name);
    let before = lock.stamp().await.unwrap();
    let mut peer = bench.peer(ttl).await;
    peer.granted(&format!("write {name}")).await;
    assert!(!lock.validate(&before).await.unwrap());
    peer.kill();
    // Whoever cannot read without the lock takes it, and finds the dead.
    let read = when_over(ttl, lock.read()).await.unwrap();
    read.release().await.unwrap();
    let after = lock.stamp().await.unwrap();
    assert!(lock.validate(&after).await.unwrap());
    assert!(!lock.validate(&before).await.unwrap());
}

async fn a_stamp_is_spoilt_by_a_process_that_is_then_stopped(bench: Bench) {
    let ttl = Duration::from_secs(2);
    let (session, name) = (bench.session(TTL).await, bench.name());
    let lock = session.rwlock(&name);
    let before = lock.stamp().await.unwrap();
    let mut peer = bench.peer(ttl).await;
    peer.granted(&format!("write {name}")).await;
    peer.stop();
    assert!(!lock.validate(&before).await.unwrap());
    let read = when_over(ttl, lock.read()).await.unwrap();
    read.release().await.unwrap();
    let between = lock.stamp().await.unwrap();
    peer.resume();
    assert_ne!(peer.ask("check").await, "held");
    // What it does not hold any more it cannot spoil.
    assert!(lock.validate(&between).await.unwrap());
    assert!(!lock.validate(&before).await.unwrap());
    peer.granted(&format!("write {name}")).await;
    assert!(!lock.validate(&between).await.unwrap());
}

async fn a_lost_or_repeated_answer_says_nothing_wrong(bench: Bench) {
    let (wire, session) = bench.wired(Duration::from_secs(10)).await;
    let (other, name) = (bench.session(TTL).await, bench.name());
    let lock = session.rwlock(&name);
    wire.cut([Call::Stamp], Fault::Repeated);
    let stamp = lock.stamp().await.unwrap();
    assert!(lock.validate(&stamp).await.unwrap());
    wire.cut([Call::Stamp], Fault::LosesReply);
    let before = wire.sent(Call::Stamp);
    let (asking, asked) = (lock.clone(), stamp.clone());
    let validating = tokio::spawn(async move { asking.validate(&asked).await });
    until("it asks again", || async {
        wire.sent(Call::Stamp) > before + 1
    })
    .await;
    wire.mend();
    assert!(soon("it hears", validating).await.unwrap().unwrap());
    wire.cut([Call::Stamp], Fault::Refused);
    let error = soon("it gives up", lock.validate(&stamp))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let write = other.rwlock(&name).write().await.unwrap();
    write.release().await.unwrap();
    wire.mend();
    assert!(!lock.validate(&stamp).await.unwrap());
}

async fn the_stamp_of_another_lock_or_session_is_refused(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let stamp = a.rwlock(&name).stamp().await.unwrap();
    for lock in [a.rwlock(bench.name()), b.rwlock(&name)] {
        let error = lock.validate(&stamp).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    let error = a.rwlock("").stamp().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    let lock = a.rwlock(&name);
    a.close().await;
    let error = lock.stamp().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

async fn a_store_that_cannot_tell_says_so(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let error = session.rwlock(&name).stamp().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

async fn a_word_is_as_good_in_another_session(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let lock = session.rwlock(&name);
    let word = good_word(&bench, &name, &lock).await;
    let error = session.rwlock(bench.name()).validate_word(&word).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Usage);
    let write = lock.write().await.unwrap();
    assert!(!lock.validate_word(&word).await.unwrap());
    assert_eq!(lock.stamp().await.unwrap().word().unwrap(), None);
    write.release().await.unwrap();
    assert!(!lock.validate_word(&word).await.unwrap());
    good_word(&bench, &name, &lock).await;
    assert!(!lock.validate_word(&word).await.unwrap());
}

/// A word that another session made, which is not there any more. A store may
/// tidy up between the two and take the word for spoilt; so more than one is made.
async fn good_word(bench: &Bench, name: &str, lock: &RwLock) -> StampWord {
    let making = async {
        loop {
            let maker = bench.session(TTL).await;
            let stamp = maker.rwlock(name).stamp().await.unwrap();
            let word = stamp.word().unwrap().unwrap();
            maker.close().await;
            let word = word.to_string().parse().unwrap();
            if lock.validate_word(&word).await.unwrap() {
                return word;
            }
        }
    };
    soon("a word is good elsewhere", making).await
}

async fn a_store_without_words_says_so(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let lock = session.rwlock(&name);
    let error = lock.stamp().await.unwrap().word().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}
