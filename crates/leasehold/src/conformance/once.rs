//! Once per slot, whoever asks, however often.

use std::time::Duration;

use super::bench::{Bench, soon, until};
use super::{Case, memo};
use crate::error::ErrorKind;
use crate::once::{Begun, Missed, OnCrash, Once, Run, Schedule};
use crate::session::Session;

/// Longer than a case may take: nothing here waits for a lease to run out.
const TTL: Duration = Duration::from_secs(60);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[1], memo, of_many_who_ask_for_a_slot_one_runs_it),
        Case::new(&[], memo, a_late_one_and_one_far_ahead_are_refused),
        Case::new(&[], memo, a_run_that_was_cut_off_is_repeated),
        Case::new(&[], memo, a_run_that_was_cut_off_is_given_up),
        Case::new(&[], memo, what_was_missed_is_made_up_in_order),
        Case::new(&[], memo, a_name_with_another_schedule_is_refused),
        Case::new(&[], memo, a_clock_far_ahead_of_the_stores_is_found_out),
        Case::new(&[], memo, the_lock_is_kept_for_as_long_as_asked),
    ]
}

fn numbered(session: &Session, name: &str) -> Once {
    session.once(name, Schedule::numbers())
}

/// What comes of asking, once whoever was cut off has let go.
async fn asked(once: &Once, slot: u64) -> Begun {
    soon("the lock is free", async {
        loop {
            match once.begin_slot(slot).await.unwrap() {
                Begun::Elsewhere => tokio::time::sleep(Duration::from_millis(5)).await,
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
                        Begun::Elsewhere => tokio::task::yield_now().await,
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

async fn a_clock_far_ahead_of_the_stores_is_found_out(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let hourly = Schedule::per(Duration::from_secs(3600)).unwrap();
    let once = session.once(&name, hourly.clone());
    let reading = session.memo(&name).await.unwrap();
    let Some(now) = reading.time else {
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
