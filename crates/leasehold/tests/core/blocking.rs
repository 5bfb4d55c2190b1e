//! The recipes without async: threads that meet, take turns and are counted.

use std::time::Duration;

use leasehold::blocking::{Session, connect, dedupe, election::Sighting, once};
use leasehold::{ErrorKind, Lost};

/// Long enough for anything that is bound to happen.
const LONG: Duration = Duration::from_secs(120);
const MOMENT: Duration = Duration::from_millis(20);

fn session(store: &str) -> Session {
    connect(&format!("memory:{store}")).unwrap()
}

#[test]
fn one_thread_leads_at_a_time_and_an_observer_sees_each() {
    let (a, b) = (session("lead"), session("lead"));
    let (ours, theirs) = (a.election("x"), b.election("x"));
    let mut observer = ours.observe().every(Duration::from_millis(5));
    assert_eq!(observer.next().unwrap(), Sighting::Nobody);
    assert_eq!(observer.next_within(MOMENT).unwrap(), None);
    let first = ours.campaign("a").unwrap();
    first.check().unwrap();
    first.proclaim("still a").unwrap();
    assert_eq!(first.term().unwrap(), 1);
    let (mut seen, token) = (Vec::new(), first.token());
    std::thread::scope(|scope| {
        let second = scope.spawn(|| theirs.campaign("b").unwrap());
        assert_eq!(ours.leader().unwrap().unwrap().text(), "still a");
        first.resign().unwrap();
        let second = second.join().unwrap();
        assert!(second.token() > token);
        assert_eq!(second.fence().token, second.token());
        while seen.last().is_none_or(|last| last != "b") {
            if let Some(Sighting::Leader { leader, .. }) = observer.next_within(LONG).unwrap() {
                seen.push(leader.text().into_owned());
            }
        }
        b.clone().close().unwrap();
        assert_eq!(second.lost().unwrap(), Lost::Closed);
    });
    // What was said before it was looked at may have gone unseen, its order not.
    assert!(seen.ends_with(&["still a".into(), "b".into()]), "{seen:?}");
}

#[test]
fn a_slot_is_run_once() {
    let (a, b) = (session("once"), session("once"));
    let numbers = once::Schedule::numbers;
    let ours = a.once("x", numbers()).missed(once::Missed::All);
    let theirs = b.once("x", numbers()).on_crash(once::OnCrash::GiveUp);
    let once::Begun::Started(run) = ours.begin_slot(7).unwrap() else {
        panic!("nobody else is there");
    };
    assert_eq!((run.slot(), run.attempt()), (7, 1));
    run.check().unwrap();
    assert!(matches!(
        theirs.begin_slot(7).unwrap(),
        once::Begun::Elsewhere
    ));
    run.complete().unwrap();
    let done = theirs.begin_slot(7).unwrap();
    assert!(matches!(done, once::Begun::Done { slot: 7 }), "{done:?}");
    let old = theirs.begin_slot(6).unwrap();
    assert!(
        matches!(old, once::Begun::Old { slot: 6, last: 7 }),
        "{old:?}"
    );
    let error = ours.begin().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
}

#[test]
fn a_message_is_done_once() {
    let (a, b) = (session("dedupe"), session("dedupe"));
    let ours = a.dedupe("k").retention(LONG * 20).max_attempts(2);
    let theirs = b.dedupe("k").max_hold(LONG);
    let started = |begun| match begun {
        dedupe::Begun::Started(work) => work,
        other => panic!("{other:?}"),
    };
    let work = started(ours.begin().unwrap());
    assert_eq!((work.key(), work.attempt()), ("k", 1));
    let busy = theirs.begin().unwrap();
    assert!(matches!(busy, dedupe::Begun::InProgress { .. }), "{busy:?}");
    work.abandon().unwrap();
    let work = started(theirs.begin().unwrap());
    assert_eq!(work.attempt(), 1, "the first was taken back");
    work.release().unwrap();
    let work = started(ours.begin().unwrap());
    assert_eq!(work.attempt(), 2);
    work.complete("result").unwrap();
    work.release().unwrap();
    let done = theirs.begin().unwrap();
    assert!(
        matches!(&done, dedupe::Begun::Done(result) if result == b"result"),
        "{done:?}"
    );
    let once_only = a.dedupe("poison").max_attempts(1);
    started(once_only.begin().unwrap()).release().unwrap();
    let given_up = once_only.begin().unwrap();
    assert!(
        matches!(given_up, dedupe::Begun::GivenUp { attempts: 1 }),
        "{given_up:?}"
    );
}

#[test]
fn threads_are_counted_and_meet() {
    let session = session("meet");
    let (latch, barrier) = (session.latch("latch", 2), session.barrier("barrier", 2));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| latch.wait_within(LONG));
        let meeting = scope.spawn(|| {
            let entered = barrier.enter_within(LONG)?;
            latch.count_down()?;
            entered.leave()
        });
        let entered = barrier.enter().unwrap();
        entered.check().unwrap();
        latch.count_down().unwrap();
        entered.leave().unwrap();
        meeting.join().unwrap().unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(latch.left().unwrap(), 0);
    latch.reset().unwrap();
    let error = latch.wait_within(MOMENT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
}

#[test]
fn a_stamp_is_handed_on_as_a_word() {
    let (a, b) = (session("stamp"), session("stamp"));
    let (ours, theirs) = (a.rwlock("x"), b.rwlock("x"));
    let word = ours.stamp().unwrap().word().unwrap().unwrap();
    assert!(theirs.validate_word(&word).unwrap());
    theirs.write().unwrap().release().unwrap();
    assert!(!theirs.validate_word(&word).unwrap());
}

#[test]
fn async_code_is_refused() {
    let session = session("async");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refused = runtime.block_on(async {
        [
            session.election("x").campaign("a").map(drop),
            session.dedupe("x").begin().map(drop),
            session.latch("x", 1).wait(),
            session.barrier("x", 1).enter().map(drop),
        ]
    });
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Usage);
    }
}
