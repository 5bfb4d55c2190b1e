//! `cargo xtask test`: every ring of tests, on a machine that may be fresh.

use crate::programs::{self, Kind};
use crate::report::Report;
use crate::shell::{cargo, run_within};
use crate::{apt, clients, servers, suite};
use std::process::Command;
use std::time::Duration;

/// How long all doc tests may take to build and run.
const DOC_LIMIT: Duration = Duration::from_secs(600);

/// How long one example may take to run.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// How many messages and slots the recipes are proven with. Fewer are quicker.
const MANY: [(&str, &str); 2] = [
    ("LEASEHOLD_TEST_MESSAGES", "2000"),
    ("LEASEHOLD_TEST_SLOTS", "500"),
];

/// Runs everything, also after something has failed, and says whether all passed.
///
/// The quick way installs nothing and runs neither doc tests nor examples.
pub(crate) fn test(quick: bool) -> bool {
    let mut report = Report::new("step");
    if !quick {
        bring_tools(&mut report);
    }
    let mut programs = Vec::new();
    report.step("build", || {
        programs = programs::build()?;
        Ok(())
    });
    let (tests, examples): (Vec<_>, Vec<_>) = programs
        .into_iter()
        .partition(|program| program.kind == Kind::Test);
    let mut summary = String::new();
    report.step("tests", || {
        let many = MANY.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let no_skip = ("LEASEHOLD_NO_SKIP".to_owned(), "1".to_owned());
        let variables: Vec<_> = many.into_iter().chain([no_skip]).collect();
        let runs = suite::run(tests, if quick { &[] } else { &variables })?;
        summary = suite::summary(&runs);
        let failed = runs.iter().filter(|(_, run)| !run.has_passed());
        match failed
            .map(|(program, _)| program.name.as_str())
            .collect::<Vec<_>>()
        {
            failed if runs.is_empty() && failed.is_empty() => Err("no test has run".to_owned()),
            failed if failed.is_empty() => Ok(()),
            failed => Err(format!("failed: {}", failed.join(", "))),
        }
    });
    if !quick {
        report.step("doc tests", || {
            let arguments = "test --workspace --all-features --doc --no-fail-fast";
            run_within(DOC_LIMIT, no_skip(&mut cargo(arguments.split(' '))))
        });
        for program in examples {
            report.step(program.name, || {
                run_within(EXAMPLE_LIMIT, no_skip(&mut Command::new(program.file)))
            });
        }
    }
    println!("{summary}");
    report.finish()
}

/// Only what the tests need, without the tests.
pub(crate) fn tools() -> bool {
    let mut report = Report::new("step");
    bring_tools(&mut report);
    report.finish()
}

fn bring_tools(report: &mut Report) {
    report.step("tools", apt::install_missing);
    report.step("servers of other versions", servers::build);
    report.step("foreign clients", clients::build);
}

/// A test that would skip because a tool is missing fails instead.
fn no_skip(command: &mut Command) -> &mut Command {
    command.env("LEASEHOLD_NO_SKIP", "1")
}
