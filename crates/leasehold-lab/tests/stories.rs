//! Every story ends as the theory says: the wrong strategies go wrong, ours does
//! not. On real servers, with real processes.

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;

use leasehold_lab::keeper::run_program_kept;
use leasehold_lab::story::{STORIES, Stage, Story};
use libtest_mimic::{Arguments, Failed, Trial};

/// What a failure leaves to look at.
const PAGES: &str = env!("CARGO_TARGET_TMPDIR");

fn main() -> ExitCode {
    match run_program_kept(env!("CARGO_BIN_EXE_leasehold-lab")) {
        Ok(None) => trials(),
        Ok(Some(code)) => code,
        Err(error) => panic!("{error}"),
    }
}

/// Below a keeper, so that nothing is left of it however it ends.
fn trials() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each starts several servers and processes of its own.
    arguments.test_threads = Some(1);
    let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
    let trials = STORIES.iter().map(|story| {
        let lacks = story.lacks().filter(|_| may_skip);
        let trial = Trial::test(story.name, || tell(story));
        match lacks {
            Some(what) => trial
                .with_kind(format!("lacks {what}"))
                .with_ignored_flag(true),
            None => trial,
        }
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn tell(story: &Story) -> Result<(), Failed> {
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
