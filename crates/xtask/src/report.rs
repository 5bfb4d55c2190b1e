//! The table at the end of a chore: what was done, how it ended, how long it took.

use crate::shell::Outcome;
use std::fmt;
use std::time::{Duration, Instant};

/// The steps of one chore. Every step is taken, also after one has failed.
#[derive(Debug)]
pub(crate) struct Report {
    heading: &'static str,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    outcome: Outcome,
    took: Duration,
}

impl Report {
    /// An empty report; the heading says what its rows are.
    pub(crate) fn new(heading: &'static str) -> Self {
        let rows = Vec::new();
        Self { heading, rows }
    }

    /// Takes one step and remembers how it ended.
    pub(crate) fn step(&mut self, name: impl Into<String>, work: impl FnOnce() -> Outcome) {
        let name = name.into();
        println!("\n=== {name}");
        let started = Instant::now();
        let outcome = work();
        if let Err(reason) = &outcome {
            eprintln!("{name}: {reason}");
        }
        let took = started.elapsed();
        self.rows.push(Row {
            name,
            outcome,
            took,
        });
    }

    /// Prints the table and says whether every step succeeded.
    pub(crate) fn finish(self) -> bool {
        println!("\n{self}");
        self.failed() == 0
    }

    fn failed(&self) -> usize {
        self.rows.iter().filter(|row| row.outcome.is_err()).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rows.iter().map(|row| row.name.len());
        let width = names.chain([self.heading.len()]).max().unwrap_or(0);
        writeln!(f, "{:width$} | result | seconds", self.heading)?;
        for row in &self.rows {
            let result = if row.outcome.is_ok() {
                "passed"
            } else {
                "FAILED"
            };
            let seconds = row.took.as_secs_f32();
            writeln!(f, "{:width$} | {result} | {seconds:7.1}", row.name)?;
        }
        writeln!(f)?;
        let failures = self
            .rows
            .iter()
            .filter_map(|row| Some((&row.name, row.outcome.as_ref().err()?)));
        for (name, reason) in failures {
            writeln!(f, "{name}: {reason}\n")?;
        }
        let failed = self.failed();
        write!(f, "{} passed, {failed} failed", self.rows.len() - failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let mut report = Report::new("ring");
        report.step("first", || Err("it broke".into()));
        report.step("second one", || Ok(()));
        let text = report.to_string();
        assert_eq!(text.lines().last(), Some("1 passed, 1 failed"));
        assert!(text.starts_with("ring       | result | seconds\nfirst      | FAILED |     0.0\n"));
        assert!(text.contains("\nfirst: it broke\n"));
        assert!(!report.finish());
    }

    #[test]
    fn a_step_is_taken_after_a_failed_one() {
        let mut taken = false;
        let mut report = Report::new("ring");
        report.step("first", || Err(String::new()));
        report.step("second", || {
            taken = true;
            Ok(())
        });
        assert!(taken);
    }
}
