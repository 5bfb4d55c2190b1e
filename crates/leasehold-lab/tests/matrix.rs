//! A few cells of the matrix: nothing that a fence must keep out gets in, on any
//! of these stores, and what a lock alone cannot keep out is found.

use std::process::ExitCode;
use std::time::Duration;

use leasehold_lab::disk::REFUSED;
use leasehold_lab::fault::{DISK_FULL, FAILOVER, Fault, PAUSE_AT_WRITE};
use leasehold_lab::ground::Kind;
use leasehold_lab::invariant::Violation;
use leasehold_lab::matrix::{Came, Cell, Row};
use leasehold_lab::torture::{NOBODY_HIT, torture};
use libtest_mimic::{Arguments, Failed, Trial};

/// What a cell must come to.
#[derive(Debug, Clone, Copy)]
enum Must {
    /// Nothing that a fence keeps out; that two believe to hold may be.
    BeFenced,
    /// Updates are lost.
    Lose,
}

const CELLS: &[(&str, Row, Must)] = &[
    ("sqlite", Row::Fenced("kill"), Must::BeFenced),
    ("sqlite", Row::Fenced(PAUSE_AT_WRITE), Must::BeFenced),
    ("sqlite", Row::Unfenced(PAUSE_AT_WRITE), Must::Lose),
    ("sqlite", Row::Fenced(DISK_FULL), Must::BeFenced),
    ("redis", Row::Fenced("restart-empty"), Must::BeFenced),
    ("redis", Row::Fenced(FAILOVER), Must::BeFenced),
    ("redis", Row::Unfenced(PAUSE_AT_WRITE), Must::Lose),
    ("redlock", Row::Fenced("clock"), Must::BeFenced),
    ("etcd", Row::Fenced(FAILOVER), Must::BeFenced),
    ("zookeeper", Row::Fenced("cut"), Must::BeFenced),
    ("postgres", Row::Fenced(FAILOVER), Must::BeFenced),
    ("mariadb", Row::Permits, Must::BeFenced),
];

const LENGTH: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each starts several servers and processes of its own.
    arguments.test_threads = Some(1);
    let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
    let trials = CELLS
        .iter()
        .enumerate()
        .map(|(number, &(store, row, must))| {
            let name = format!("{store}: {}", row.name());
            Trial::test(name, move || run(store, row, must, number as u64, may_skip))
        });
    let early = Trial::test("a_run_that_breaks_off_has_a_history", break_off);
    libtest_mimic::run(&arguments, trials.chain([early]).collect()).exit_code()
}

/// A server that does not start again is an assertion that fails.
fn break_off() -> Result<(), Failed> {
    let kind = Kind::find("sqlite").ok_or("there is such a store")?;
    let mut plan = Row::Fenced("kill").plan(kind, 1, LENGTH);
    plan.faults = vec![Fault {
        name: "gone",
        happen: |_, _, _| panic!("it starts again"),
    }];
    let folder = tempfile::tempdir()?;
    let verdict = torture(&plan, folder.path(), &|_| {})?;
    let is_told = |it: &Violation| {
        it.invariant == "ends well" && it.text.contains("the run broke off: it starts again")
    };
    assert!(verdict.broken.iter().any(is_told), "{:?}", verdict.broken);
    assert!(verdict.grants > 0, "what came before is there");
    Ok(())
}

fn run(store: &str, row: Row, must: Must, seed: u64, may_skip: bool) -> Result<(), Failed> {
    let kind = Kind::find(store).ok_or("there is such a store")?;
    let (cell, ran) = Cell::run(kind, row, seed, LENGTH, &|_| {})?;
    let grants = ran.as_ref().map_or(0, |(_, verdict)| verdict.grants);
    match (must, cell.came) {
        // The right to mount a disk is nothing that could be installed.
        (_, Came::Skipped(why)) if why != NOBODY_HIT && (may_skip || why.starts_with(REFUSED)) => {
            println!("skipped: {why}");
        }
        (Must::BeFenced, Came::Held | Came::OutOfOrder(_) | Came::TwoBelieved(_)) if grants > 4 => {
        }
        (Must::Lose, Came::Lost(_)) => {}
        (_, came) => {
            // A seed does not fix who is served when: the page is what there is.
            let out = std::env::temp_dir().join("leasehold-lab");
            let name = format!("{store}-{seed}");
            let page = ran.map(|(plan, verdict)| verdict.write(&plan, &name, &out));
            let page = page.transpose()?;
            return Err(format!("seed {seed}: {grants} grants, {came:?}; see {page:?}").into());
        }
    }
    Ok(())
}
