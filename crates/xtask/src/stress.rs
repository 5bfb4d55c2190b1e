//! `cargo xtask stress [N] [PATTERN]`: repeats cases beside processor hogs and prints how
//! often each of them fails.

use crate::programs::{self, Kind, Program};
use crate::runner::{self, Setting, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How many threads take whatever processor time they can get.
const HOGS: usize = 4;
/// How often cases run unless a number is given.
const TIMES: usize = 5;
/// One round of one program may take this long.
const LIMIT: Duration = Duration::from_secs(3600);

/// How often a case ran and how often it failed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Tally {
    runs: usize,
    failures: usize,
    /// What it printed when it first failed.
    first: String,
}

/// Repeats every case whose name contains the pattern. Says whether none of them failed.
pub(crate) fn stress(times: Option<usize>, pattern: Option<&str>) -> bool {
    match tallies(times.unwrap_or(TIMES), pattern) {
        Err(error) => {
            eprintln!("{error}");
            false
        }
        Ok(tallies) => {
            println!("{}", table(&tallies));
            tallies.values().all(|tally| tally.failures == 0) && !tallies.is_empty()
        }
    }
}

fn tallies(times: usize, pattern: Option<&str>) -> Result<BTreeMap<String, Tally>, String> {
    let programs = programs::build()?.into_iter();
    let programs: Vec<_> = programs
        .filter(|program| program.kind == Kind::Test)
        .collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..HOGS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let tallies = repeat(&programs, times, pattern);
        is_over.store(true, Ordering::Relaxed);
        tallies
    })
}

fn repeat(
    programs: &[Program],
    times: usize,
    pattern: Option<&str>,
) -> Result<BTreeMap<String, Tally>, String> {
    let folder = runner::logs()?;
    let setting = Setting {
        arguments: pattern.into_iter().map(str::to_owned).collect(),
        variables: vec![("LEASEHOLD_NO_SKIP".to_owned(), "1".to_owned())],
        limit: LIMIT,
    };
    let mut tallies = BTreeMap::new();
    for round in 1..=times {
        for program in programs {
            let run = runner::run(program, &setting, &folder, |_, _| ());
            for case in &run.cases {
                if case.verdict == Verdict::Ignored {
                    continue;
                }
                let name = format!("{}: {}", program.name, case.name);
                let tally: &mut Tally = tallies.entry(name.clone()).or_default();
                tally.runs += 1;
                if case.verdict != Verdict::Passed {
                    tally.failures += 1;
                    println!("round {round}: {name} failed");
                    if tally.first.is_empty() {
                        tally.first.clone_from(&case.text);
                    }
                }
            }
            if let Some(wrong) = run.wrong {
                println!("round {round}: {}: {wrong}", program.name);
                let tally = tallies.entry(program.name.clone()).or_default();
                tally.runs += 1;
                tally.failures += 1;
                tally.first.clone_from(&wrong);
            }
        }
        println!("round {round} of {times} is over");
    }
    Ok(tallies)
}

/// The cases that failed, with their rates, and how many never did.
fn table(tallies: &BTreeMap<String, Tally>) -> String {
    let mut text = String::new();
    for (name, tally) in tallies.iter().filter(|(_, tally)| tally.failures > 0) {
        let Tally { runs, failures, .. } = tally;
        let _ = writeln!(text, "{failures:3} of {runs:3} failed  {name}");
        let _ = writeln!(text, "{}", tally.first.trim_end());
    }
    let never = tallies.values().filter(|tally| tally.failures == 0).count();
    let runs: usize = tallies.values().map(|tally| tally.runs).sum();
    let cases = tallies.len();
    let _ = write!(
        text,
        "{never} of {cases} cases never failed, in {runs} runs"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_the_rate_of_each_case_that_failed() {
        let tally = |runs, failures| Tally {
            runs,
            failures,
            first: "why".to_owned(),
        };
        let tallies = [("a".to_owned(), tally(5, 2)), ("b".to_owned(), tally(5, 0))];
        let text = table(&BTreeMap::from(tallies));
        assert!(text.starts_with("  2 of   5 failed  a\nwhy\n"), "{text}");
        assert!(text.ends_with("1 of 2 cases never failed, in 10 runs"));
    }
}
