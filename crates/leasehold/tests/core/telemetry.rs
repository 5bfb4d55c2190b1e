//! What a program that listens gets to see: counters, histograms and spans.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Takes a lock twice, keeps it past a renewal, and loses it once.
async fn a_day_at_work() {
    let session = leasehold::connect("memory:?ttl=1s").await.unwrap();
    session
        .mutex("x")
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let guard = session.mutex("x").lock().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    session
        .inspector()
        .evict("x", "ann", "stuck")
        .await
        .unwrap();
    guard.lost().await;
}

async fn a_long_day_at_work() {
    let session = leasehold::connect("memory:").await.unwrap();
    let lock = session.mutex("x").expected_hold(Duration::from_secs(60));
    let guard = lock.lock().await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    guard.release().await.unwrap();
}

fn run_paused(work: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(work);
}

#[test]
fn a_hold_that_outlives_its_time_is_counted_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || run_paused(a_long_day_at_work()));
    let seen = snapshotter.snapshot().into_vec();
    let stuck = seen
        .iter()
        .find(|(key, ..)| key.key().name() == "leasehold_stuck_total");
    assert!(
        matches!(stuck, Some((.., DebugValue::Counter(1)))),
        "{stuck:?}"
    );
}

#[test]
fn locks_renewals_and_losses_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || run_paused(a_day_at_work()));
    let seen: Vec<_> = snapshotter.snapshot().into_vec();
    let value = |name: &str, label: Option<(&str, &str)>| {
        seen.iter().find_map(|(key, _, _, value)| {
            let key = key.key();
            let has = |(label, value)| key.labels().any(|l| l.key() == label && l.value() == value);
            (key.name() == name && label.is_none_or(has)).then_some(value)
        })
    };
    let count = |name, label| match value(name, label) {
        Some(DebugValue::Counter(count)) => *count,
        other => panic!("{name} {label:?}: {other:?}"),
    };
    let samples = |name| match value(name, Some(("store", "memory"))) {
        Some(DebugValue::Histogram(samples)) => samples.len(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(
        count("leasehold_acquired_total", Some(("store", "memory"))),
        2
    );
    assert!(count("leasehold_renewals_total", Some(("outcome", "renewed"))) >= 5);
    assert_eq!(
        count("leasehold_lost_total", Some(("reason", "evicted"))),
        1
    );
    assert_eq!(samples("leasehold_waited_seconds"), 2);
    assert_eq!(samples("leasehold_held_seconds"), 1);
}

/// Notes the names of spans.
struct Names(Arc<Mutex<Vec<&'static str>>>);

impl<S: tracing::Subscriber> Layer<S> for Names {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: Context<'_, S>,
    ) {
        self.0.lock().unwrap().push(attributes.metadata().name());
    }
}

#[test]
fn acquiring_renewing_and_releasing_are_spans() {
    let names = Arc::default();
    let subscriber = tracing_subscriber::registry().with(Names(Arc::clone(&names)));
    // For the whole program: what another test, without a subscriber, does
    // first would otherwise switch the spans off here too.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    run_paused(a_day_at_work());
    let names = names.lock().unwrap();
    for name in ["acquire", "renew", "release"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
}
