//! The models of Redlock, row by row; each prints what it found.
//!
//! `LEASEHOLD_TEST_ALL=1` runs the rows that take minutes, as `cargo xtask test --all` does;
//! `LEASEHOLD_TRACES=1` prints the steps that break what must break.

use std::process::ExitCode;

use leasehold_models::redlock::row::{Outcome, Row, Verdict};
use leasehold_models::redlock::rows::rows;
use libtest_mimic::{Arguments, Failed, Trial};

/// The document with the proof and the table of these rows.
const PROOF: &str = include_str!("../../../docs/proofs/redlock.md");

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A row uses all cores by itself.
    arguments.test_threads = Some(1);
    let mut trials = vec![Trial::test(
        "the_document_has_these_rows",
        the_document_has_these_rows,
    )];
    trials.extend(rows().map(|row| match row.is_long && !testbed::runs_all() {
        true => testbed::left_out(row.name, "only with --all"),
        false => Trial::test(row.name, move || check(row)),
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn check(row: &Row) -> Result<(), Failed> {
    let outcome = row.run();
    println!("{}", line(row, &outcome));
    if std::env::var_os("LEASEHOLD_TRACES").is_some() {
        for (name, steps) in &outcome.broken {
            println!("  {name}: {}", steps.join("; "));
        }
    }
    row.judge(&outcome)?;
    Ok(())
}

fn line(row: &Row, outcome: &Outcome) -> String {
    let names = |names: Vec<&str>| names.join(" ");
    let found = match row.verdict {
        Verdict::Holds => {
            let properties = row.properties.iter().map(|it| it.name()).collect();
            format!("{} hold", names(properties))
        }
        Verdict::Breaks => {
            let lengths = outcome.broken.iter();
            let broken = lengths.map(|(name, steps)| format!("{name} in {} steps", steps.len()));
            format!(
                "broken as expected: {}",
                broken.collect::<Vec<_>>().join(", ")
            )
        }
    };
    let (states, seconds) = (outcome.states, outcome.took.as_secs_f32());
    format!("{}: {states} states, {seconds:.1} s, {found}", row.name)
}

/// The rows of the document's table, in its order.
fn documented() -> Vec<(&'static str, &'static str)> {
    let rows = PROOF.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` |")?;
        Some((name, rest.rsplit('|').nth(1)?.trim()))
    });
    cells.collect()
}

fn the_document_has_these_rows() -> Result<(), Failed> {
    let expected: Vec<(&str, String)> = rows()
        .map(|row| {
            let names: Vec<_> = row.properties.iter().map(|it| it.name()).collect();
            let verb = match row.verdict {
                Verdict::Holds => "hold",
                Verdict::Breaks => "break",
            };
            (row.name, format!("{} {verb}", names.join(" ")))
        })
        .collect();
    let documented = documented();
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, it)| (*name, it.as_str()))
        .collect();
    if documented == expected {
        return Ok(());
    }
    Err(format!("docs/proofs/redlock.md says {documented:?}, the models {expected:?}").into())
}
