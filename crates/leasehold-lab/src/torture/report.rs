//! The page and the history of a run, as files.

use std::path::{Path, PathBuf};

use super::{Plan, Verdict};
use crate::page::{Mood, Run, Table, page};

impl Verdict {
    /// Writes the page and the history into this folder, under this name, and
    /// gives the page.
    ///
    /// # Errors
    /// As writing does.
    pub fn write(&self, plan: &Plan, name: &str, out: &Path) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(out)?;
        let file = std::fs::File::create(out.join(format!("{name}.jsonl")))?;
        self.history.write(std::io::BufWriter::new(file))?;
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
        let heads = ["store", "grants", "broken", "as the theory says"];
        let row = vec![
            plan.kind.name.to_owned(),
            self.grants.to_string(),
            self.broken.len().to_string(),
            self.allowed.len().to_string(),
        ];
        let table = Table {
            heads: heads.map(str::to_owned).to_vec(),
            rows: vec![(mood, row)],
        };
        let path = out.join(format!("{name}.html"));
        let lead = "Faults under load, and what became of the promises.";
        std::fs::write(&path, page(name, lead, &table, &runs))?;
        Ok(path)
    }
}
