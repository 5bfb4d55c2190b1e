//! The memo: only the holder writes it, anybody reads it, and it stays.

use std::time::Duration;

use super::bench::{Bench, soon};
use super::wire::{Call, Fault};
use super::{Case, memo, promised, rwlock};
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, Memo, Noted, Owner, Standing, Ticket, TicketId,
};
use crate::error::{Effect, ErrorKind};
use crate::fence::Token;
use crate::guard::Lost;
use crate::memo::LONGEST_MEMO;
use crate::name::Name;
use crate::promises::Promises;
use crate::random::{random_u64, random_u128};

/// Longer than a case may take, so that it does not run out by itself.
const TTL: Duration = Duration::from_secs(60);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[], memo, a_memo_is_read_with_the_token_that_wrote_it),
        Case::new(&[], memo, a_memo_outlives_its_hold_and_its_session),
        Case::new(&[], memo, the_next_holder_writes_over_it),
        Case::new(&[], memo, a_holder_removes_it_by_writing_nothing),
        Case::new(&[2, 8], memo, whose_lock_was_broken_writes_nothing),
        Case::new(&[5], memo, a_claim_that_was_given_back_writes_nothing),
        Case::new(&[5], memo, whose_lease_ended_writes_nothing),
        Case::new(&[5], memo, whose_lease_ran_out_writes_nothing),
        Case::new(&[5], memo, who_only_waits_writes_nothing),
        Case::new(
            &[5, 7],
            memo,
            a_claim_that_came_back_does_not_write_under_its_old_token,
        ),
        Case::new(&[7], memo, a_lost_reply_to_a_write_is_one_write),
        Case::new(
            &[7],
            memo,
            a_late_request_does_not_bring_back_an_older_edition,
        ),
        Case::new(
            &[7],
            memo,
            a_late_request_does_not_bring_back_what_was_removed,
        ),
        Case::new(&[], memo, a_hold_that_wrote_is_not_handed_over),
        Case::new(&[], memo, a_memo_may_be_so_long_and_no_longer),
        Case::new(&[22], memo, memos_of_different_names_do_not_meet),
        Case::new(&[], readers_and_memo, a_reader_cannot_write_a_writer_can),
        Case::new(&[26], no_memo, a_store_without_memos_says_so),
    ]
}

fn readers_and_memo(promises: &Promises) -> Result<(), &'static str> {
    rwlock(promises).and(memo(promises))
}

pub(super) fn no_memo(promises: &Promises) -> Result<(), &'static str> {
    promised(!promises.memo, "keeps memos")
}

async fn read(bench: &Bench, name: &str) -> Option<Memo> {
    bench.inspector().memo(name).await.unwrap().memo
}

async fn text(bench: &Bench, name: &str) -> Option<String> {
    Some(read(bench, name).await?.text().into_owned())
}

async fn a_memo_is_read_with_the_token_that_wrote_it(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    assert_eq!(b.memo(&name).await.unwrap().memo, None);
    let guard = a.mutex(&name).lock().await.unwrap();
    guard.write_memo(b"one \0 \xff").await.unwrap();
    let memo = b.memo(&name).await.unwrap().memo.unwrap();
    assert_eq!(
        (memo.token, &*memo.bytes),
        (guard.token(), &b"one \0 \xff"[..])
    );
    guard.write_memo("two").await.unwrap();
    let memo = b.memo(&name).await.unwrap().memo.unwrap();
    assert_eq!((memo.token, memo.edition), (guard.token(), 2));
    assert_eq!(memo.text(), "two");
    guard.release().await.unwrap();
}

async fn a_memo_outlives_its_hold_and_its_session(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    guard.write_memo("kept").await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(text(&bench, &name).await.as_deref(), Some("kept"));
    session.close().await;
    assert_eq!(text(&bench, &name).await.as_deref(), Some("kept"));
    let names = bench.inspector().names("case/").await.unwrap();
    assert!(names.is_empty(), "a memo is no claim: {names:?}");
    let queue = bench.queue(&name).await;
    assert!(queue.claims.is_empty());
}

async fn the_next_holder_writes_over_it(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let first = a.mutex(&name).lock().await.unwrap();
    first.write_memo("first").await.unwrap();
    first.write_memo("first again").await.unwrap();
    let before = read(&bench, &name).await.unwrap();
    first.release().await.unwrap();
    let second = b.mutex(&name).lock().await.unwrap();
    assert_eq!(read(&bench, &name).await.unwrap(), before);
    second.write_memo("second").await.unwrap();
    let after = read(&bench, &name).await.unwrap();
    assert_eq!((after.token, &*after.text()), (second.token(), "second"));
    assert!(after.token > before.token);
}

async fn a_holder_removes_it_by_writing_nothing(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    // There is nothing to remove, and that is fine.
    guard.write_memo("").await.unwrap();
    guard.write_memo("something").await.unwrap();
    guard.write_memo("").await.unwrap();
    assert_eq!(read(&bench, &name).await, None);
    guard.write_memo("something else").await.unwrap();
    let found = text(&bench, &name).await;
    assert_eq!(found.as_deref(), Some("something else"));
}

async fn whose_lock_was_broken_writes_nothing(bench: Bench) {
    let (wire, session) = bench.wired(TTL).await;
    let name = bench.name();
    let guard = session.mutex(&name).lock().await.unwrap();
    guard.write_memo("before").await.unwrap();
    // Nothing tells the guard, so that it really asks.
    wire.cut([Call::Renew, Call::Listen], Fault::Hangs);
    bench
        .inspector()
        .evict(&name, "ann", "stuck")
        .await
        .unwrap();
    let error = guard.write_memo("after").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    // What the store said to one counts for all.
    guard.check().unwrap_err();
    assert_eq!(text(&bench, &name).await.as_deref(), Some("before"));
    let lost = soon("the guard hears of it", guard.lost()).await;
    assert!(matches!(lost, Lost::Evicted | Lost::Gone), "{lost:?}");
}

/// A claim that an engine granted, without a session.
async fn granted(engine: &dyn Engine, name: &str) -> (Lease, ClaimRef, Token) {
    granted_for(engine, name, TTL).await
}

async fn granted_for(engine: &dyn Engine, name: &str, ttl: Duration) -> (Lease, ClaimRef, Token) {
    let lease = engine.open(&Owner::new("memo"), ttl).await.unwrap();
    let ticket = ticket(lease, name);
    let token = held(engine, &ticket).await;
    (lease, ticket.claim, token)
}

fn ticket(lease: Lease, name: &str) -> Ticket {
    Ticket {
        claim: ClaimRef {
            name: Name::new(name).unwrap(),
            id: TicketId(random_u128()),
        },
        lease: lease.id,
        holder: random_u64(),
        capacity: 1,
        weight: 1,
        waits: true,
        label: None,
    }
}

async fn held(engine: &dyn Engine, ticket: &Ticket) -> Token {
    let standing = engine.enqueue(ticket).await.unwrap();
    let Standing::Held { token } = standing else {
        panic!("{standing:?}");
    };
    token
}

fn edition(token: Token, edition: u64, text: &str) -> Memo {
    Memo {
        token,
        edition,
        bytes: text.into(),
    }
}

async fn a_claim_that_was_given_back_writes_nothing(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let (lease, claim, token) = granted(&*engine, &name).await;
    engine.withdraw(&claim, Cause::Ours).await.unwrap();
    let write = engine.write_memo(&claim, &edition(token, 1, "late")).await;
    assert_eq!(write.unwrap(), Noted::NotHeld);
    // Also not while somebody else holds.
    let other = bench.session(TTL).await;
    let guard = other.mutex(&name).lock().await.unwrap();
    guard.write_memo("theirs").await.unwrap();
    let write = engine.write_memo(&claim, &edition(token, 2, "late")).await;
    assert_eq!(write.unwrap(), Noted::NotHeld);
    assert_eq!(text(&bench, &name).await.as_deref(), Some("theirs"));
    engine.close(&lease).await.unwrap();
}

async fn whose_lease_ended_writes_nothing(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let (lease, claim, token) = granted(&*engine, &name).await;
    engine.close(&lease).await.unwrap();
    let write = engine.write_memo(&claim, &edition(token, 1, "late")).await;
    assert_eq!(write.unwrap(), Noted::NotHeld);
    assert_eq!(read(&bench, &name).await, None);
}

/// What the store says to a write. A server may end the connection with the
/// lease, so the first answer may be that there is none.
async fn answered(engine: &dyn Engine, claim: &ClaimRef, memo: &Memo) -> Noted {
    soon("an answer to a write", async {
        loop {
            match engine.write_memo(claim, memo).await {
                Ok(noted) => return noted,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

async fn whose_lease_ran_out_writes_nothing(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let ttl = Duration::from_secs(1);
    // Nobody renews it.
    let (_lease, claim, token) = granted_for(&*engine, &name, ttl).await;
    let other = bench.session(TTL).await;
    let guard = other.mutex(&name).lock_within(TTL).await.unwrap();
    let write = answered(&*engine, &claim, &edition(token, 1, "late")).await;
    assert_eq!(write, Noted::NotHeld);
    guard.write_memo("theirs").await.unwrap();
    let write = answered(&*engine, &claim, &edition(token, 2, "late")).await;
    assert_eq!(write, Noted::NotHeld);
    assert_eq!(text(&bench, &name).await.as_deref(), Some("theirs"));
}

async fn who_only_waits_writes_nothing(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let (lease, claim, token) = granted(&*engine, &name).await;
    let waiting = ticket(lease, &name);
    let standing = engine.enqueue(&waiting).await.unwrap();
    assert!(matches!(standing, Standing::Waiting { .. }), "{standing:?}");
    // Its order is not told; on most stores it is the next one.
    let next = Token::new(token.get() + u64::from(engine.promises().tokens_per_grant));
    for token in [token, next] {
        let early = edition(token, 1, "early");
        let write = engine.write_memo(&waiting.claim, &early).await;
        assert_eq!(write.unwrap(), Noted::NotHeld);
    }
    assert_eq!(read(&bench, &name).await, None);
    engine.withdraw(&claim, Cause::Ours).await.unwrap();
    engine.close(&lease).await.unwrap();
}

async fn a_claim_that_came_back_does_not_write_under_its_old_token(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let lease = engine.open(&Owner::new("memo"), TTL).await.unwrap();
    let ticket = ticket(lease, &name);
    let token = held(&*engine, &ticket).await;
    engine.withdraw(&ticket.claim, Cause::Ours).await.unwrap();
    let other = bench.session(TTL).await;
    let guard = other.mutex(&name).lock().await.unwrap();
    guard.write_memo("theirs").await.unwrap();
    guard.release().await.unwrap();
    // A request for the claim that was long on its way, then one for the memo.
    let again = held(&*engine, &ticket).await;
    assert!(again > token);
    let write = async |memo| engine.write_memo(&ticket.claim, &memo).await.unwrap();
    assert_eq!(write(edition(token, 1, "late")).await, Noted::NotHeld);
    assert_eq!(text(&bench, &name).await.as_deref(), Some("theirs"));
    assert_eq!(write(edition(again, 1, "ours")).await, Noted::Written);
    assert_eq!(text(&bench, &name).await.as_deref(), Some("ours"));
    engine.close(&lease).await.unwrap();
}

async fn a_lost_reply_to_a_write_is_one_write(bench: Bench) {
    let (wire, session) = bench.wired(Duration::from_secs(10)).await;
    let name = bench.name();
    let guard = session.mutex(&name).lock().await.unwrap();
    wire.cut([Call::Memo], Fault::Repeated);
    guard.write_memo("twice").await.unwrap();
    assert_eq!(text(&bench, &name).await.as_deref(), Some("twice"));
    wire.cut([Call::Memo], Fault::LosesReply);
    let writing = guard.write_memo("lost");
    let error = tokio::time::timeout(Duration::from_secs(2), writing).await;
    // It asks again for as long as a wait would, and so it is still at it.
    error.unwrap_err();
    assert_eq!(text(&bench, &name).await.as_deref(), Some("lost"));
    wire.cut([Call::Memo], Fault::Refused);
    let writing = guard.write_memo("refused");
    let error = tokio::time::timeout(Duration::from_secs(30), writing).await;
    let error = error.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::None);
    wire.mend();
    guard.write_memo("last").await.unwrap();
    assert_eq!(read(&bench, &name).await.unwrap().edition, 4);
}

async fn a_late_request_does_not_bring_back_an_older_edition(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let (lease, claim, token) = granted(&*engine, &name).await;
    let write = async |memo| engine.write_memo(&claim, &memo).await.unwrap();
    assert_eq!(write(edition(token, 1, "running")).await, Noted::Written);
    assert_eq!(write(edition(token, 2, "done")).await, Noted::Written);
    assert_eq!(write(edition(token, 1, "running")).await, Noted::Written);
    assert_eq!(text(&bench, &name).await.as_deref(), Some("done"));
    assert_eq!(write(edition(token, 2, "done")).await, Noted::Written);
    assert_eq!(read(&bench, &name).await.unwrap().edition, 2);
    engine.close(&lease).await.unwrap();
}

async fn a_late_request_does_not_bring_back_what_was_removed(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let (lease, claim, token) = granted(&*engine, &name).await;
    let write = async |memo| engine.write_memo(&claim, &memo).await.unwrap();
    // The first is overtaken by the second, and there was nothing to remove.
    assert_eq!(write(edition(token, 2, "")).await, Noted::Written);
    assert_eq!(write(edition(token, 1, "running")).await, Noted::Written);
    assert_eq!(read(&bench, &name).await, None);
    assert_eq!(write(edition(token, 4, "again")).await, Noted::Written);
    assert_eq!(write(edition(token, 5, "")).await, Noted::Written);
    assert_eq!(write(edition(token, 4, "again")).await, Noted::Written);
    assert_eq!(read(&bench, &name).await, None);
    engine.close(&lease).await.unwrap();
    // The next one removes it too, and writes it anew.
    let (lease, claim, token) = granted(&*engine, &name).await;
    let write = async |memo| engine.write_memo(&claim, &memo).await.unwrap();
    assert_eq!(write(edition(token, 1, "")).await, Noted::Written);
    assert_eq!(write(edition(token, 2, "new")).await, Noted::Written);
    assert_eq!(text(&bench, &name).await.as_deref(), Some("new"));
    engine.close(&lease).await.unwrap();
}

async fn a_hold_that_wrote_is_not_handed_over(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    let claim = guard.hold().claim().id;
    guard.write_memo("mine").await.unwrap();
    let mutex = session.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    tokio::task::yield_now().await;
    let before = guard.token();
    guard.release().await.unwrap();
    let next = soon("the next task has it", waiting).await;
    let next = next.unwrap().unwrap();
    assert_ne!(next.hold().claim().id, claim);
    assert!(next.token() > before);
    next.write_memo("mine too").await.unwrap();
}

async fn a_memo_may_be_so_long_and_no_longer(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    let longest: Vec<u8> = (0..LONGEST_MEMO)
        .map(|number| (number % 256) as u8)
        .collect();
    guard.write_memo(&longest).await.unwrap();
    assert_eq!(read(&bench, &name).await.unwrap().bytes, longest);
    let error = guard.write_memo(vec![0; LONGEST_MEMO + 1]).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("4097 bytes"), "{error}");
    assert_eq!(read(&bench, &name).await.unwrap().bytes, longest);
    guard.check().unwrap();
}

async fn memos_of_different_names_do_not_meet(bench: Bench) {
    let session = bench.session(TTL).await;
    let name = bench.name();
    let names: Vec<_> = ["", "/", ":m", "/m", "/memo", "{", "}", "%", " ", "é", "'"]
        .iter()
        .map(|end| format!("{name}{end}x"))
        .collect();
    for name in &names {
        let guard = session.mutex(name).lock().await.unwrap();
        guard.write_memo(name).await.unwrap();
        guard.release().await.unwrap();
    }
    for name in &names {
        assert_eq!(text(&bench, name).await.as_ref(), Some(name));
    }
}

async fn a_reader_cannot_write_a_writer_can(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let reader = session.rwlock(&name).read().await.unwrap();
    let error = reader.write_memo("mine").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(read(&bench, &name).await, None);
    reader.release().await.unwrap();
    let writer = session.rwlock(&name).write().await.unwrap();
    writer.write_memo("mine").await.unwrap();
    assert_eq!(text(&bench, &name).await.as_deref(), Some("mine"));
}

async fn a_store_without_memos_says_so(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    for error in [
        guard.write_memo("x").await.unwrap_err(),
        session.memo(&name).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    guard.check().unwrap();
}
