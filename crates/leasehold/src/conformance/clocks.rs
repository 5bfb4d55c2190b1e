//! Processes whose wall clocks disagree. Leases are none of a wall clock's
//! business.

use std::path::PathBuf;
use std::time::Duration;

use super::bench::{Bench, soon};
use super::{Case, peers};
use crate::promises::Promises;

/// So long that a busy machine renews in time.
const SHORT: Duration = Duration::from_secs(20);
const PAST_IT: Duration = Duration::from_secs(22);

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new(
        &[21],
        faked_peers,
        a_process_whose_wall_clock_is_an_hour_off_agrees_with_the_others,
    )]
}

/// The library that shows a process another time, from the Debian package
/// `libfaketime`.
pub(super) fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .find(|library| library.exists())
}

pub(super) fn faked_peers(promises: &Promises) -> Result<(), &'static str> {
    peers(promises)?;
    let without = std::env::var("LEASEHOLD_TEST_WITHOUT").unwrap_or_default();
    let may_lack = without.split(',').any(|name| name == "libfaketime");
    let must_run = std::env::var_os("LEASEHOLD_NO_SKIP").is_some() && !may_lack;
    super::promised(
        must_run || faketime().is_some(),
        "needs the package libfaketime for this",
    )
}

async fn a_process_whose_wall_clock_is_an_hour_off_agrees_with_the_others(bench: Bench) {
    tokio::join!(agrees(&bench, "+1h"), agrees(&bench, "-1h"));
}

/// The hold of a process with this wall clock is kept past the ttl, and so is ours.
async fn agrees(bench: &Bench, offset: &str) {
    let (session, name) = (bench.session(SHORT).await, bench.name());
    let mut peer = bench.peer_at_another_time(SHORT, offset).await;
    let token = peer.granted(&format!("lock {name}")).await;
    let mutex = session.mutex(&name);
    let wait = mutex.lock_within(PAST_IT).await;
    assert!(wait.is_err(), "{offset}: the lock is held elsewhere");
    assert_eq!(peer.ask("check").await, "held", "{offset}");
    assert_eq!(peer.ask("release").await, "ok", "{offset}");
    let guard = soon("the lock is free", mutex.lock()).await.unwrap();
    assert!(guard.token().get() > token, "{offset}");
    let ask = format!("within {} {name}", PAST_IT.as_millis());
    let answer = peer.ask(&ask).await;
    assert!(answer.starts_with("error"), "{offset}: {answer}");
    guard.check().unwrap();
    guard.release().await.unwrap();
}
