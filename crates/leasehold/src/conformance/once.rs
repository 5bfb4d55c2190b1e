//! Once per slot, whoever asks, however often.

use std::time::Duration;

use super::bench::{Bench, soon, until, when_over};
use super::peer_main::quarters;
use super::{Case, clocks, memo, memo_and_peers, promised};
use crate::error::ErrorKind;
use crate::once::{Begun, Missed, OnCrash, Once, Run, Schedule};
use crate::promises::{Promises, Reach};
use crate::session::Session;

/// Longer than a case may take, so that it does not run out by itself.
const TTL: Duration = Duration::from_secs(60);
/// Of those who are killed or stopped.
const SHORT: Duration = Duration::from_secs(3);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[1], memo, of_many_who_ask_for_a_slot_one_runs_it),
        Case::new(&[], memo, while_one_runs_others_hear_which_slot_it_is),
        Case::new(&[], memo, a_plain_lock_of_the_name_is_no_slot_that_runs),
        Case::new(&[], memo, what_was_run_can_be_forgotten),
        Case::new(&[], memo, a_late_one_and_one_far_ahead_are_refused),
        Case::new(&[], memo, a_run_that_was_cut_off_is_repeated),
        Case::new(&[], memo, a_run_that_was_cut_off_is_given_up),
        Case::new(&[], memo, what_was_missed_is_made_up_in_order),
        Case::new(&[], memo, a_name_with_another_schedule_is_refused),
        Case::new(&[], memo, a_clock_far_ahead_of_the_stores_is_found_out),
        Case::new(&[], memo, the_lock_is_kept_for_as_long_as_asked),
        Case::new(
            &[9],
            memo_and_peers,
            the_slot_of_a_killed_runner_is_run_again,
        ),
        Case::new(
            &[9],
            memo_and_peers,
            the_slot_of_a_killed_runner_is_given_up,
        ),
        Case::new(
            &[3, 10],
            memo_and_peers,
            a_runner_stopped_past_its_ttl_completes_nothing,
        ),
        Case::new(
            &[21],
            a_clock_of_its_own,
            clocks_that_are_an_hour_off_run_no_slot_twice,
        ),
    ]
}

/// The clock of a file is that of whoever looks at it.
fn a_clock_of_its_own(promises: &Promises) -> Result<(), &'static str> {
    memo(promises).and(clocks::faked_peers(promises))?;
    let is_server = promises.reach == Reach::Network;
    promised(is_server, "has the clock of its machine")
}

fn numbered(session: &Session, name: &str) -> Once {
    session.once(name, Schedule::numbers())
}

/// What comes of asking, once whoever was cut off has let go.
async fn asked(once: &Once, slot: u64) -> Begun {
    soon("the lock is free", async {
        loop {
            match once.begin_slot(slot).await.unwrap() {
                Begun::Elsewhere | Begun::Busy { .. } => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                begun => return begun,
            }
        }
    })
    .await
}

async fn started(once: &Once, slot: u64) -> Run {
    match asked(once, slot).await {
        Begun::Started(run) => run,
        other => panic!("{other:?}"),
    }
}

async fn of_many_who_ask_for_a_slot_one_runs_it(bench: Bench) {
    let name = bench.name();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(bench.session(TTL).await);
    }
    for slot in 1..=5 {
        let asking = |session: &Session| {
            let once = numbered(session, &name);
            tokio::spawn(async move {
                let mut runs = 0;
                // Until it is done, so that nobody gives up too early.
                loop {
                    match once.begin_slot(slot).await.unwrap() {
                        Begun::Started(run) => {
                            assert_eq!((run.slot(), run.attempt()), (slot, 1));
                            runs += 1;
                            run.complete().await.unwrap();
                        }
                        Begun::Elsewhere | Begun::Busy { .. } => tokio::task::yield_now().await,
                        Begun::Done { .. } => return runs,
                        other => panic!("{other:?}"),
                    }
                }
            })
        };
        let twice = sessions.iter().chain(&sessions);
        let asked: Vec<_> = twice.map(asking).collect();
        let mut runs = 0;
        for one in asked {
            runs += soon("all have asked", one).await.unwrap();
        }
        assert_eq!(runs, 1, "slot {slot}");
    }
}

async fn while_one_runs_others_hear_which_slot_it_is(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let other = numbered(&bench.session(TTL).await, &name);
    let ask = async |slot| other.begin_slot(slot).await.unwrap();
    let mut run = started(&numbered(&session, &name), 7).await;
    assert!(matches!(ask(7).await, Begun::Elsewhere));
    assert!(matches!(ask(6).await, Begun::Old { slot: 6, last: 7 }));
    let next = ask(8).await;
    let running = Some(7);
    assert!(
        matches!(next, Begun::Busy { slot: 8, running: seen } if seen == running),
        "{next:?}"
    );
    let ahead = ask(1_000_000_000).await;
    assert!(matches!(ahead, Begun::TooFarAhead { .. }), "{ahead:?}");
    // Done, although the lock is still held.
    run.mark_done().await.unwrap();
    let done = ask(7).await;
    assert!(matches!(done, Begun::Done { slot: 7 }), "{done:?}");
    run.complete().await.unwrap();
    assert_eq!(started(&other, 8).await.attempt(), 1);
}

async fn what_was_run_can_be_forgotten(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let once = numbered(&session, &name);
    let run = started(&once, 1_000_000).await;
    let other = numbered(&bench.session(TTL).await, &name);
    assert!(!other.reset().await.unwrap(), "it is held");
    run.complete().await.unwrap();
    let old = asked(&other, 7).await;
    assert!(matches!(old, Begun::Old { .. }), "{old:?}");
    until("it is forgotten", || async { other.reset().await.unwrap() }).await;
    let run = started(&once, 7).await;
    assert_eq!((run.slot(), run.attempt()), (7, 1));
}

/// Nobody takes it for a run; and nothing is lost by it.
async fn a_plain_lock_of_the_name_is_no_slot_that_runs(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let once = numbered(&bench.session(TTL).await, &name);
    for slot in [1, 2] {
        let plain = session.mutex(&name).lock().await.unwrap();
        let busy = once.begin_slot(slot).await.unwrap();
        assert!(
            matches!(busy, Begun::Busy { running: None, .. }),
            "{busy:?}"
        );
        plain.release().await.unwrap();
        let run = started(&once, slot).await;
        assert_eq!((run.slot(), run.attempt()), (slot, 1));
        run.complete().await.unwrap();
    }
}

async fn a_late_one_and_one_far_ahead_are_refused(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let once = numbered(&session, &name);
    started(&once, 20).await.complete().await.unwrap();
    let late = asked(&once, 19).await;
    assert!(
        matches!(late, Begun::Old { slot: 19, last: 20 }),
        "{late:?}"
    );
    let ahead = asked(&once, 1_000_000_000).await;
    assert!(matches!(ahead, Begun::TooFarAhead { .. }), "{ahead:?}");
    let done = asked(&once, 20).await;
    assert!(matches!(done, Begun::Done { slot: 20 }), "{done:?}");
    bench.queue_of(&name, 0).await;
}

async fn a_run_that_was_cut_off_is_repeated(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let run = started(&numbered(&a, &name), 7).await;
    let elsewhere = numbered(&b, &name).begin_slot(7).await.unwrap();
    assert!(matches!(elsewhere, Begun::Elsewhere), "{elsewhere:?}");
    // As if its process had died: nothing is written.
    drop(run);
    bench.queue_of(&name, 0).await;
    let again = started(&numbered(&b, &name), 7).await;
    assert_eq!((again.slot(), again.attempt()), (7, 2));
    // One whose lock is broken cannot say that it is done.
    let inspector = bench.inspector();
    inspector.evict(&name, "ann", "asleep").await.unwrap();
    let third = started(&numbered(&a, &name), 7).await;
    assert_eq!(third.attempt(), 3);
    let error = again.complete().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    third.complete().await.unwrap();
    let done = asked(&numbered(&b, &name), 7).await;
    assert!(matches!(done, Begun::Done { .. }), "{done:?}");
}

async fn a_run_that_was_cut_off_is_given_up(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let once = numbered(&session, &name).on_crash(OnCrash::GiveUp);
    drop(started(&once, 7).await);
    bench.queue_of(&name, 0).await;
    for _ in 0..2 {
        let done = asked(&once, 7).await;
        assert!(matches!(done, Begun::Done { slot: 7 }), "{done:?}");
    }
    assert_eq!(started(&once, 8).await.slot(), 8);
}

async fn what_was_missed_is_made_up_in_order(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let once = numbered(&session, &name);
    started(&once, 3).await.complete().await.unwrap();
    drop(started(&once, 4).await);
    bench.queue_of(&name, 0).await;
    let all = once.clone().missed(Missed::All);
    for (slot, attempt) in [(4, 2), (5, 1), (6, 1)] {
        let run = started(&all, 6).await;
        assert_eq!((run.slot(), run.attempt()), (slot, attempt));
        run.complete().await.unwrap();
    }
    let latest = once.missed(Missed::Latest);
    for slot in [9, 10] {
        let run = started(&latest, 10).await;
        assert_eq!(run.slot(), slot);
        run.complete().await.unwrap();
    }
}

async fn a_name_with_another_schedule_is_refused(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let hourly = Schedule::per(Duration::from_secs(3600)).unwrap();
    let once = session.once(&name, hourly.clone());
    let Begun::Started(run) = once.begin().await.unwrap() else {
        panic!("nobody else asks");
    };
    run.complete().await.unwrap();
    let error = numbered(&session, &name).begin_slot(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("per 1h"), "{error}");
    let other = bench.name();
    drop(session.election(&other).campaign("x").await.unwrap());
    let once = session.once(&other, hourly);
    let refused = || async {
        match once.begin().await {
            // The leader has not given it back yet.
            Ok(Begun::Elsewhere) => false,
            Ok(begun) => panic!("{begun:?}"),
            Err(error) => error.kind() == ErrorKind::Conflict,
        }
    };
    until("it is refused", refused).await;
}

/// What the store's clock shows, if it has one; some tell it only those who write.
async fn time(session: &Session, name: &str) -> Option<Duration> {
    let guard = session.mutex(name).lock().await.unwrap();
    let time = session.memo(name).await.unwrap().time;
    guard.release().await.unwrap();
    time
}

async fn a_clock_far_ahead_of_the_stores_is_found_out(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let hourly = Schedule::per(Duration::from_secs(3600)).unwrap();
    let once = session.once(&name, hourly.clone());
    let Some(now) = time(&session, &name).await else {
        // A store without a clock cannot know.
        let present = hourly.slot_at(crate::clock::wall_time()).unwrap();
        return started(&once, present + 5).await.complete().await.unwrap();
    };
    let present = hourly.slot_at(now).unwrap();
    let ahead = asked(&once, present + 3).await;
    assert!(matches!(ahead, Begun::TooFarAhead { .. }), "{ahead:?}");
    // One slot ahead is a difference between clocks.
    assert_eq!(started(&once, present + 1).await.slot(), present + 1);
}

async fn the_lock_is_kept_for_as_long_as_asked(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let shortest = Duration::from_millis(300);
    let once = numbered(&session, &name).at_least(shortest);
    let run = started(&once, 1).await;
    let begun = std::time::Instant::now();
    let held = run.guard().held();
    run.complete().await.unwrap();
    assert!(begun.elapsed() + held >= shortest - Duration::from_millis(5));
    bench.queue_of(&name, 0).await;
}

async fn the_slot_of_a_killed_runner_is_run_again(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(SHORT).await,
        bench.name(),
    );
    let once = numbered(&session, &name);
    assert_eq!(peer.ask(&format!("slot 7 {name}")).await, "started 1");
    peer.kill();
    let run = when_over(SHORT, started(&once, 7)).await;
    assert_eq!((run.slot(), run.attempt()), (7, 2));
    run.complete().await.unwrap();
    // What is done outlives whoever did it.
    let mut peer = bench.peer(SHORT).await;
    assert_eq!(peer.ask(&format!("slot 8 {name}")).await, "started 1");
    assert_eq!(peer.ask("finish").await, "ok");
    peer.kill();
    let done = asked(&once, 8).await;
    assert!(matches!(done, Begun::Done { slot: 8 }), "{done:?}");
}

async fn the_slot_of_a_killed_runner_is_given_up(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(SHORT).await,
        bench.name(),
    );
    let once = numbered(&session, &name).on_crash(OnCrash::GiveUp);
    assert_eq!(peer.ask(&format!("slot 7 {name}")).await, "started 1");
    peer.kill();
    let done = when_over(SHORT, asked(&once, 7)).await;
    assert!(matches!(done, Begun::Done { slot: 7 }), "{done:?}");
    // Also for those who would run it again.
    let done = asked(&numbered(&session, &name), 7).await;
    assert!(matches!(done, Begun::Done { slot: 7 }), "{done:?}");
    assert_eq!(started(&once, 8).await.attempt(), 1);
}

async fn a_runner_stopped_past_its_ttl_completes_nothing(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(SHORT).await,
        bench.name(),
    );
    let ask = format!("slot 7 {name}");
    assert_eq!(peer.ask(&ask).await, "started 1");
    peer.stop();
    let run = when_over(SHORT, started(&numbered(&session, &name), 7)).await;
    assert_eq!(run.attempt(), 2);
    peer.tell("check");
    peer.resume();
    for answer in [peer.answer().await, peer.ask("finish").await] {
        assert!(answer.contains(": lost: "), "{answer}");
    }
    let memo = session.memo(&name).await.unwrap().memo.unwrap();
    assert_eq!(memo.token, run.token());
    assert!(memo.text().ends_with("7 2 running\n"), "{}", memo.text());
    assert_eq!(peer.ask(&ask).await, "elsewhere");
    run.complete().await.unwrap();
    assert_eq!(peer.ask(&ask).await, "done");
}

async fn clocks_that_are_an_hour_off_run_no_slot_twice(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let once = session.once(&name, quarters());
    let time = time(&session, &name).await;
    let now = time.unwrap_or_else(crate::clock::wall_time);
    let present = quarters().slot_at(now).unwrap();
    started(&once, present).await.complete().await.unwrap();
    let mut behind = bench.peer_at_another_time(TTL, "-1h").await;
    let mut ahead = bench.peer_at_another_time(TTL, "+1h").await;
    let ask = format!("quarter {name}");
    assert_eq!(behind.ask(&ask).await, "old");
    if time.is_some() {
        assert_eq!(ahead.ask(&ask).await, "too far ahead");
        let done = asked(&once, present).await;
        assert!(matches!(done, Begun::Done { .. }), "{done:?}");
        // No slot is used up by it.
        let next = started(&once, present + 1).await;
        return next.complete().await.unwrap();
    }
    // A store that tells no time believes it. No slot is run twice for that.
    assert_eq!(ahead.ask(&ask).await, "started 1");
    assert_eq!(ahead.ask("finish").await, "ok");
    let old = asked(&once, present + 1).await;
    assert!(
        matches!(old, Begun::Old { last, .. } if last > present + 1),
        "{old:?}"
    );
    assert_eq!(behind.ask(&ask).await, "old");
}
