//! Every story ends as the theory says: the wrong strategies go wrong, ours does
//! not. On real servers, with real processes.

use std::cell::Cell;
use std::path::Path;

use leasehold_lab::story::{STORIES, Stage, Story};
use libtest_mimic::Trial;

use crate::{Outcome, PAGES, trial};

pub(crate) fn trials() -> Vec<Trial> {
    let stories = STORIES.iter();
    let name = |story: &Story| format!("stories::{}", story.name);
    stories
        .map(|story| trial(name(story), || tell(story)))
        .collect()
}

fn tell(story: &Story) -> Outcome {
    testbed::need(story.lacks());
    let folder = tempfile::tempdir()?;
    let begun = Cell::new(0);
    let stage = Stage {
        folder: folder.path(),
        url: None,
        progress: &|_| begun.set(begun.get() + 1),
    };
    let report = story.tell(&stage)?;
    assert_eq!(begun.get(), story.strategies, "its bar comes to the end");
    if !report.surprises.is_empty() {
        let page = report.write(story, Path::new(PAGES))?;
        let surprises = report.surprises.join("; ");
        return Err(format!("{surprises}; see {}", page.display()).into());
    }
    let page = std::fs::read_to_string(report.write(story, folder.path())?)?;
    for (_, row) in &report.table.rows {
        // In the table, and as the title of its picture.
        assert!(page.contains(&row[0]), "{row:?} is on the page");
    }
    Ok(())
}
