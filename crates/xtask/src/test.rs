//! `cargo xtask test`: every ring of tests, on a machine that may be fresh.

use crate::programs::{self, Kind, Program};
use crate::report::Report;
use crate::runner::{Case, Run, Verdict};
use crate::shell::{self, Outcome, cargo, run_within};
use crate::{apt, clients, runner, servers, suite, tools};
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// How long all doc tests may take to build and run.
const DOC_LIMIT: Duration = Duration::from_secs(600);

/// How long it may take to install and build what the tests need.
const TOOLS_LIMIT: Duration = Duration::from_secs(1800);

/// How long one example may take to run.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// How much of a failed installation is shown.
const LAST_LINES: usize = 40;

/// Which tests run, and on what.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) extent: Extent,
    /// Tools that this machine cannot have. What needs them is left out.
    pub(crate) without: Vec<String>,
    /// Which variant of a store runs in full, instead of the commit's.
    pub(crate) rotation: Option<u64>,
}

/// How much runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What needs no server, and nothing is installed.
    Quick,
    /// Every store in full and every variant in part.
    #[default]
    Usual,
    /// Every case on every variant, and the long runs.
    All,
}

impl Options {
    /// `None` if a word is none of ours.
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" if options.extent == Extent::Usual => options.extent = Extent::Quick,
                "--all" if options.extent == Extent::Usual => options.extent = Extent::All,
                "--without" => options.without.push((*words.next()?).to_owned()),
                "--rotation" => options.rotation = Some(words.next()?.parse().ok()?),
                _ => return None,
            }
        }
        Some(options)
    }

    /// What test programs find in their environment.
    fn variables(&self) -> Vec<(String, String)> {
        let mut variables = match self.extent {
            Extent::Quick => vec![("LEASEHOLD_TEST_QUICK", "1".to_owned())],
            Extent::Usual => vec![
                ("LEASEHOLD_NO_SKIP", "1".to_owned()),
                ("LEASEHOLD_TEST_MESSAGES", "300".to_owned()),
                ("LEASEHOLD_TEST_SLOTS", "120".to_owned()),
            ],
            Extent::All => vec![
                ("LEASEHOLD_NO_SKIP", "1".to_owned()),
                ("LEASEHOLD_TEST_ALL", "1".to_owned()),
                ("LEASEHOLD_TEST_MESSAGES", "2000".to_owned()),
                ("LEASEHOLD_TEST_SLOTS", "500".to_owned()),
            ],
        };
        variables.push((
            "LEASEHOLD_TEST_WITHOUT",
            clients::all_without(&tools::all_without(&self.without)).join(","),
        ));
        // Without a commit it is the first; the end of the run names it in any case.
        let rotation = self.rotation.or_else(of_commit).unwrap_or_default();
        variables.push(("LEASEHOLD_TEST_ROTATION", rotation.to_string()));
        let owned = |(name, value): (&str, String)| (name.to_owned(), value);
        variables.into_iter().map(owned).collect()
    }
}

/// A number that another commit has another of.
fn of_commit() -> Option<u64> {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short=8", "HEAD"]);
    let commit = git.current_dir(shell::root()).output().ok()?;
    u64::from_str_radix(str::from_utf8(&commit.stdout).ok()?.trim(), 16).ok()
}

/// Runs everything, also after something has failed, and says whether all passed.
pub(crate) fn test(options: &Options) -> bool {
    let is_quick = options.extent == Extent::Quick;
    let mut report = Report::new("step");
    let mut programs = Vec::new();
    thread::scope(|scope| {
        let tools = (!is_quick).then(|| scope.spawn(|| tools_beside(&options.without)));
        report.step("build", || {
            programs = programs::build()?;
            Ok(())
        });
        if let Some(tools) = tools {
            report.step("tools, after the build", || {
                let panicked = |_| Err("it panicked".to_owned());
                tools.join().unwrap_or_else(panicked)
            });
        }
    });
    let (tests, examples): (Vec<_>, Vec<_>) = programs
        .into_iter()
        .partition(|program| program.kind == Kind::Test);
    let variables = options.variables();
    let mut summary = String::new();
    report.step("tests", || {
        let tests = match is_quick {
            true => tests.into_iter().filter(programs::is_quick).collect(),
            false => tests,
        };
        let runs = suite::run(tests, &variables)?;
        summary = suite::summary(&runs) + &left_out(&runs);
        let failed = runs.iter().filter(|(_, run)| !run.has_passed());
        let mut wrong: Vec<_> = failed
            .map(|(program, _)| format!("{} failed", program.name))
            .collect();
        if !is_quick {
            let ran = runs
                .iter()
                .map(|(program, run)| (&*program.name, run.cases.len()));
            wrong.extend(programs::complaints(&ran.collect::<Vec<_>>()));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("; ")),
        }
    });
    if !is_quick {
        report.step("doc tests", || {
            let arguments = "test --workspace --all-features --doc --no-fail-fast";
            let mut cargo = cargo(arguments.split(' '));
            run_within(DOC_LIMIT, cargo.envs(variables.iter().cloned()))
        });
        for program in examples {
            report.step(program.name, || {
                let mut command = Command::new(program.file);
                run_within(EXAMPLE_LIMIT, command.envs(variables.iter().cloned()))
            });
        }
    }
    println!("{summary}");
    report.finish()
}

/// How many tests have not run, by the reason; last those that are not proved because
/// something is missing.
fn left_out(runs: &[(Program, Run)]) -> String {
    let mut by_reason: BTreeMap<&str, usize> = BTreeMap::new();
    let is_left_out = |case: &&Case| case.verdict == Verdict::Ignored;
    for case in runs
        .iter()
        .flat_map(|(_, run)| run.cases.iter().filter(is_left_out))
    {
        let reason = case.text.trim();
        // What a store does not promise is as many things as there are stores.
        let (kind, _) = reason.split_once(": ").unwrap_or((reason, ""));
        *by_reason.entry(kind).or_default() += 1;
    }
    let is_missing = |reason: &str| reason.ends_with("is missing");
    let (missing, others): (Vec<_>, Vec<_>) = by_reason
        .into_iter()
        .partition(|(reason, _)| is_missing(reason));
    let mut text = String::from("\ntests that were left out\n");
    for (reason, count) in others {
        let _ = writeln!(text, "  {count:5}  {reason}");
    }
    for (reason, count) in missing {
        let _ = writeln!(text, "not proved, because {reason}: {count} tests");
    }
    text
}

/// Only what the tests need, without the tests.
pub(crate) fn tools(without: &[String]) -> bool {
    let mut report = Report::new("step");
    report.step("packages", || apt::install_missing(without));
    report.step("servers of other versions", || servers::build(without));
    report.step("foreign clients", || clients::build(without));
    report.finish()
}

/// The same as a process of its own, whose output is shown if it fails: cargo builds the
/// tests meanwhile.
fn tools_beside(without: &[String]) -> Outcome {
    let log = tools_log()?;
    let wrong = |error| format!("{}: {error}", log.display());
    let output = File::create(&log).map_err(wrong)?;
    let mut tools = Command::new(env::current_exe().map_err(wrong)?);
    tools.arg("tools");
    for name in without {
        tools.args(["--without", name]);
    }
    let errors = output.try_clone().map_err(wrong)?;
    tools.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut tools = tools.spawn().map_err(wrong)?;
    shell::ended("cargo xtask tools", &mut tools, TOOLS_LIMIT).map_err(|why| {
        println!("{}", suite::last_lines(&log, LAST_LINES));
        format!("{why}; all of it: {}", log.display())
    })
}

fn tools_log() -> Result<PathBuf, String> {
    Ok(runner::logs()?.join("tools.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let parsed = Options::parse(&["--all", "--without", "chromium", "--rotation", "3"]);
        let expected = Options {
            extent: Extent::All,
            without: vec!["chromium".to_owned()],
            rotation: Some(3),
        };
        assert_eq!(parsed, Some(expected));
        assert_eq!(Options::parse(&[]), Some(Options::default()));
        assert_eq!(Options::parse(&["--quik"]), None);
        assert_eq!(Options::parse(&["--quick", "--all"]), None);
        assert_eq!(Options::parse(&["--without"]), None);
    }
}
