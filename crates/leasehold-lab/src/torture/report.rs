//! The page and the history of a run, as files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Plan, Tally, Verdict};
use crate::fault::Answer;
use crate::page::{Mood, Run, Scene, Table, page, svg, whole};

impl Verdict {
    /// Writes the page and the history into this folder, under this name, and
    /// gives the page.
    ///
    /// # Errors
    /// As writing does.
    pub fn write(&self, plan: &Plan, name: &str, out: &Path) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(out)?;
        // In the order of time, in the place of what was written while it ran:
        // at once, so that there is always one of the two.
        let (path, whole) = (history_file(out, name), out.join(format!("{name}.whole")));
        let file = std::fs::File::create(&whole)?;
        self.history.write(std::io::BufWriter::new(file))?;
        std::fs::rename(whole, path)?;
        let violations = self.violations();
        let title = format!("seed {}", plan.seed);
        let runs = [Run {
            title: &title,
            history: &self.history,
            violations: &violations,
        }];
        let mood = match self.broken.is_empty() {
            true => Mood::Good,
            false => Mood::Bad,
        };
        let heads = [
            "store",
            "asked for the lock",
            "gave it back",
            "accesses under it",
            "seen to hold in the store",
            "broken",
            "as the theory says",
        ];
        let tally = Tally::of(&self.history);
        let row = vec![
            plan.kind.name.to_owned(),
            tally.acquires.to_string(),
            tally.releases.to_string(),
            tally.accesses.to_string(),
            tally.witness.to_string(),
            self.broken.len().to_string(),
            self.allowed.len().to_string(),
        ];
        let table = Table {
            heads: heads.map(str::to_owned).to_vec(),
            rows: vec![(mood, row)],
        };
        let path = out.join(format!("{name}.html"));
        std::fs::write(&path, page(name, &self.lead(plan), &table, &runs))?;
        Ok(path)
    }

    /// Each fault, and in words how often it took place, and why it did not or may
    /// not have.
    #[must_use]
    pub fn what_happened(&self) -> Vec<(&'static str, String)> {
        let mut faults: BTreeMap<&str, (u32, BTreeMap<String, u32>)> = BTreeMap::new();
        for happened in &self.faults {
            let (times, others) = faults.entry(happened.fault).or_default();
            match &happened.answer {
                Answer::Installed => *times += 1,
                Answer::Skipped(why) => {
                    *others.entry(format!("skipped ({why})")).or_default() += 1;
                }
                Answer::Doubtful(why) => {
                    *others.entry(format!("doubtful ({why})")).or_default() += 1;
                }
            }
        }
        let in_words = |(times, others): (u32, BTreeMap<String, u32>)| {
            let others = others
                .into_iter()
                .map(|(what, count)| format!(", {count} {what}"));
            let times = match times {
                0 => "never".to_owned(),
                1 => "once".to_owned(),
                _ => format!("{times} times"),
            };
            format!("{times}{}", others.collect::<String>())
        };
        let faults = faults.into_iter();
        faults.map(|(name, came)| (name, in_words(came))).collect()
    }

    /// What came of it.
    fn in_a_sentence(&self) -> &'static str {
        match (self.broken.is_empty(), self.allowed.is_empty()) {
            (false, _) => "A promise was broken: see below.",
            (true, false) => {
                "No promise was broken. What is red is what this store does not promise under \
                 these faults, as the theory says."
            }
            (true, true) => "No promise was broken.",
        }
    }

    /// What a reader should know before the picture.
    fn lead(&self, plan: &Plan) -> String {
        let faults = self.what_happened().into_iter();
        let faults: Vec<_> = faults
            .map(|(name, came)| format!("{name} {came}"))
            .collect();
        let came = self.in_a_sentence();
        format!(
            "{} processes count in the ledger under one lock on {}, while faults happen ({}); \
             then nothing does, and everybody must get the lock. Somebody looks at the store all the \
             while, at all claims alike, by a way of his own; what holds while he is blind is \
             unknown. {came}",
            plan.workers,
            plan.kind.name,
            faults.join("; ")
        )
    }

    /// Writes the picture into this folder, as a file of its own.
    ///
    /// # Errors
    /// As writing does.
    pub fn write_picture(&self, name: &str, out: &Path) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(out)?;
        let path = out.join(format!("{name}.svg"));
        std::fs::write(&path, self.picture())?;
        Ok(path)
    }

    /// The picture.
    #[must_use]
    pub fn picture(&self) -> String {
        svg(&whole(&Scene::new(&self.history, &self.violations())))
    }
}

/// Where the history of the run with this name is, also while it goes on.
#[must_use]
pub fn history_file(out: &Path, name: &str) -> PathBuf {
    out.join(format!("{name}.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::torture::Happened;

    #[test]
    fn what_took_place_is_told_apart_from_what_was_skipped_or_is_doubtful() {
        let happened = |fault, answer| Happened {
            fault,
            answer,
            span: (0, 0),
        };
        let verdict = Verdict {
            history: History::default(),
            broken: Vec::new(),
            allowed: Vec::new(),
            faults: vec![
                happened("kill", Answer::Installed),
                happened("kill", Answer::Doubtful("nobody held".into())),
                happened("kill", Answer::Installed),
                happened("clock", Answer::Skipped("no clock".into())),
            ],
            grants: 0,
        };
        let told = verdict.what_happened();
        let told: Vec<_> = told.iter().map(|(name, came)| (*name, &**came)).collect();
        assert_eq!(
            told,
            [
                ("clock", "never, 1 skipped (no clock)"),
                ("kill", "2 times, 1 doubtful (nobody held)")
            ]
        );
    }
}
