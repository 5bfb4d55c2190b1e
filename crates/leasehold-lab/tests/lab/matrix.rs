//! A few cells of the matrix: nothing that a fence must keep out gets in, on any
//! of these stores, and what a lock alone cannot keep out is found.

use std::path::Path;
use std::time::Duration;

use leasehold_lab::disk::REFUSED;
use leasehold_lab::fault::{Answer, DISK_FULL, FAILOVER, Fault, PAUSE_AT_WRITE, RESTART_ALL_EMPTY};
use leasehold_lab::ground::Kind;
use leasehold_lab::invariant::Violation;
use leasehold_lab::matrix::{Came, Cell, Row};
use leasehold_lab::recorder::Recorder;
use leasehold_lab::story::Error;
use leasehold_lab::torture::{NOBODY_HIT, Verdict, World, torture};
use libtest_mimic::Trial;

use testbed::{left_out, may_skip, runs_all, skip};

use crate::{Outcome, PAGES, trial};

/// What a cell must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Must {
    /// Nothing that a fence keeps out; that two believe to hold may be.
    BeFenced,
    /// Updates are lost.
    Lose,
    /// Two believe to hold, and updates may be lost, in one of some runs: when
    /// whom the store tells what is nothing that a seed could fix.
    Betray,
}

/// One or two of each store.
const CELLS: &[(&str, Row, Must)] = &[
    ("sqlite", Row::Fenced(PAUSE_AT_WRITE), Must::BeFenced),
    ("sqlite", Row::Unfenced(PAUSE_AT_WRITE), Must::Lose),
    ("redis", Row::Fenced(FAILOVER), Must::BeFenced),
    ("redis", Row::Unfenced(FAILOVER), Must::Betray),
    ("redlock", Row::Fenced(RESTART_ALL_EMPTY), Must::BeFenced),
    ("etcd", Row::Fenced(FAILOVER), Must::BeFenced),
    ("zookeeper", Row::Fenced("cut"), Must::BeFenced),
    ("postgres", Row::Fenced(FAILOVER), Must::BeFenced),
    ("mariadb", Row::Permits, Must::BeFenced),
];

/// Those that only run with `--all`.
const MORE_CELLS: &[(&str, Row, Must)] = &[
    ("sqlite", Row::Fenced("kill"), Must::BeFenced),
    ("sqlite", Row::Fenced(DISK_FULL), Must::BeFenced),
    ("redis", Row::Fenced("restart-empty"), Must::BeFenced),
    ("redis", Row::Unfenced(PAUSE_AT_WRITE), Must::Lose),
    ("redis", Row::Unfenced("clock"), Must::Betray),
    ("redis", Row::Unfenced("restart-empty"), Must::Betray),
    ("redlock", Row::Fenced("clock"), Must::BeFenced),
    ("redlock", Row::Unfenced(RESTART_ALL_EMPTY), Must::Betray),
];

/// How many runs one may be among in which somebody is hit, or two believe.
const ATTEMPTS: u32 = 4;
/// How long the first run is; each is twice as long as the one before.
const LENGTH: Duration = Duration::from_secs(4);

pub(crate) fn trials() -> Vec<Trial> {
    let cells = CELLS.iter().chain(MORE_CELLS).enumerate();
    let cells = cells.map(|(number, &(store, row, must))| {
        let name = format!("matrix::{store}: {}", row.name());
        let is_more = number >= CELLS.len();
        if is_more && !runs_all() {
            return left_out(name, "only with --all");
        }
        trial(name, move || {
            let mut told = Vec::new();
            for attempt in 0..ATTEMPTS {
                let seed = 100 * u64::from(attempt) + number as u64;
                match run(store, row, must, seed, LENGTH * 2_u32.pow(attempt))? {
                    None => return Ok(()),
                    Some(came) => told.push(came),
                }
            }
            Err(told.join("; ").into())
        })
    });
    let others = [
        trial("matrix::a_run_that_breaks_off_has_a_history", break_off),
        trial("matrix::what_is_left_in_the_store_is_found", litter),
    ];
    cells.chain(others).collect()
}

/// Something in the database that no lock put there: the inspector does not see
/// it, and whoever comes next does not tidy it up.
fn litter() -> Outcome {
    let litters = |world: &mut World, _: u64, _: Duration| {
        let url = world.ground.url(&[], 1_000);
        let file = url.trim_start_matches("sqlite:").split('?').next();
        let database = rusqlite::Connection::open(file.unwrap_or_default());
        let made = database.and_then(|it| it.execute("create table litter as select 1", []));
        made.map_or_else(
            |error| Answer::Skipped(error.to_string()),
            |_| Answer::Installed,
        )
    };
    let verdict = run_with(Fault {
        name: "litter",
        happen: litters,
    })?;
    let is_told = |it: &Violation| {
        it.invariant == "nothing left behind" && it.text.ends_with("gone: 1 × litter")
    };
    assert!(verdict.broken.iter().any(is_told), "{:?}", verdict.broken);
    Ok(())
}

/// A short run on SQLite with this fault.
fn run_with(fault: Fault) -> Result<Verdict, Error> {
    let kind = Kind::find("sqlite").ok_or("there is such a store")?;
    let mut plan = Row::Fenced("kill").plan(kind, 1, LENGTH);
    plan.faults = vec![fault];
    let folder = tempfile::tempdir()?;
    torture(&plan, folder.path(), &Recorder::default(), &|_| {})
}

/// A server that does not start again is an assertion that fails.
fn break_off() -> Outcome {
    let verdict = run_with(Fault {
        name: "gone",
        happen: |_, _, _| panic!("it starts again"),
    })?;
    let is_told = |it: &Violation| {
        it.invariant == "ends well" && it.text.contains("the run broke off: it starts again")
    };
    assert!(verdict.broken.iter().any(is_told), "{:?}", verdict.broken);
    assert!(verdict.grants > 0, "what came before is there");
    Ok(())
}

/// `None` if it came as it must; what came if it is worth another try: the fault hit no
/// holder, betrayed none, or left time for few grants. All else fails.
fn run(
    store: &str,
    row: Row,
    must: Must,
    seed: u64,
    length: Duration,
) -> Result<Option<String>, Error> {
    let kind = Kind::find(store).ok_or("there is such a store")?;
    let folder = tempfile::tempdir()?;
    let (cell, ran) = Cell::run(kind, row, seed, length, folder.path())?;
    let grants = ran.map_or(0, |verdict| verdict.grants);
    match (must, cell.came) {
        // The right to mount a disk is nothing that could be installed.
        (_, Came::Skipped(why))
            if why != NOBODY_HIT && (may_skip(&why) || why.starts_with(REFUSED)) =>
        {
            skip(why);
        }
        (Must::BeFenced, Came::Held | Came::OutOfOrder(_) | Came::TwoBelieved(_)) if grants > 4 => {
        }
        (Must::Lose, Came::Lost(_)) => {}
        (Must::Betray, Came::Lost(_) | Came::TwoBelieved(_)) => {}
        (_, came) => {
            let told = format!("seed {seed}: {grants} grants, {came:?}");
            let may_come = match came {
                Came::Skipped(_) => true,
                Came::Held | Came::OutOfOrder(_) => must != Must::Lose,
                Came::TwoBelieved(_) => must == Must::BeFenced,
                _ => false,
            };
            if may_come {
                return Ok(Some(told));
            }
            // A seed does not fix who is served when: the page is what there is.
            for file in std::fs::read_dir(folder.path())?.flatten() {
                std::fs::copy(file.path(), Path::new(PAGES).join(file.file_name()))?;
            }
            return Err(format!("{told}; see {PAGES}").into());
        }
    }
    Ok(None)
}
