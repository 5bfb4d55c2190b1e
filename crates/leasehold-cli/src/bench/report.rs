//! What was measured, against what it is measured by, as a table or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::exit::Failure;
use crate::print;

/// Collects the figures and shows each as soon as it is there.
#[derive(Debug)]
pub(crate) struct Report {
    is_json: bool,
    lines: Vec<Value>,
}

/// A goal that this project sets itself; a benchmark shows, it never fails.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    None,
}

impl Report {
    pub(crate) fn new(is_json: bool) -> Self {
        Self {
            is_json,
            lines: Vec::new(),
        }
    }

    /// One figure: what, its value with a unit, and the goal.
    pub(crate) fn figure(
        &mut self,
        part: &str,
        what: &str,
        value: f64,
        unit: &str,
        goal: Goal,
    ) -> Result<(), Failure> {
        let (sign, goal, is_met) = match goal {
            Goal::AtLeast(goal) => ("at least", Some(goal), Some(value >= goal)),
            Goal::AtMost(goal) => ("at most", Some(goal), Some(value <= goal)),
            Goal::None => ("", None, None),
        };
        if !self.is_json {
            self.heading()?;
            let goal = goal.map_or(String::new(), |goal| format!("{sign} {}", short(goal)));
            let verdict = match is_met {
                Some(true) => "ok",
                Some(false) => "MISSED",
                None => "",
            };
            let value = number(value);
            let line = format!("{part:<24} {what:<34} {value:>12} {unit:<10} {goal:<14} {verdict}");
            print::text(&format!("{}\n", line.trim_end()))?;
        }
        self.lines.push(json!({
            "part": part, "figure": what, "value": value, "unit": unit,
            "goal": goal, "goal_is": sign, "met": is_met,
        }));
        Ok(())
    }

    /// Words about a part that no figure has.
    pub(crate) fn note(&mut self, part: &str, text: &str) -> Result<(), Failure> {
        if !self.is_json {
            self.heading()?;
            print::text(&format!("{part:<24} {}\n", print::clean(text)))?;
        }
        self.lines.push(json!({ "part": part, "note": text }));
        Ok(())
    }

    fn heading(&self) -> Result<(), Failure> {
        if !self.lines.is_empty() {
            return Ok(());
        }
        let (part, what, value, unit) = ("part", "figure", "value", "unit");
        print::text(&format!(
            "{part:<24} {what:<34} {value:>12} {unit:<10} goal\n"
        ))
    }

    pub(crate) fn finish(&self) -> Result<(), Failure> {
        if self.is_json {
            print::json_line(&self.lines)?;
        }
        Ok(())
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// A goal as it was set, or as it was measured if another's figure is the goal.
fn short(goal: f64) -> String {
    match goal.fract() {
        0.0 => goal.to_string(),
        _ if goal < 10.0 => goal.to_string(),
        _ => number(goal),
    }
}

/// The value below which the given part of the samples lies.
pub(crate) fn quantile(samples: &mut [f64], part: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let last = samples.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a position in a list"
    )]
    let at = (last as f64 * part).round() as usize;
    samples.get(at).copied().unwrap_or(f64::NAN)
}

pub(crate) fn median(samples: &mut [f64]) -> f64 {
    quantile(samples, 0.5)
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
