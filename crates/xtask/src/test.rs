//! `cargo xtask test`: every ring of tests, on a machine that may be fresh.

use crate::report::Report;
use crate::shell::{self, Outcome, cargo, run, run_within};
use crate::{apt, clients, servers};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long one example may take to run.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// How many messages and slots the recipes are proven with. Fewer are quicker.
const MANY: [(&str, &str); 2] = [
    ("LEASEHOLD_TEST_MESSAGES", "2000"),
    ("LEASEHOLD_TEST_SLOTS", "500"),
];

/// Runs every ring, also after one has failed, and says whether all passed.
///
/// The quick way installs nothing and runs neither doc tests nor examples.
pub(crate) fn test(quick: bool) -> bool {
    let mut report = Report::new("ring");
    let everything = "test --workspace --all-features --no-fail-fast";
    if quick {
        let arguments = everything.split(' ').chain(["--lib", "--bins", "--tests"]);
        report.step("tests", || run(&mut cargo(arguments)));
        return report.finish();
    }
    bring_tools(&mut report);
    report.step("tests", || {
        let mut tests = cargo(everything.split(' '));
        run(no_skip(tests.envs(MANY)))
    });
    match examples(&shell::root().join("crates/leasehold/examples")) {
        Err(error) => report.step("examples", || Err(error)),
        Ok(examples) => {
            for name in examples {
                report.step(format!("example {name}"), || example(&name));
            }
        }
    }
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

/// The tests have built it, with the same features: to build one package alone
/// would build the library once more.
fn example(name: &str) -> Outcome {
    let program = shell::target().join("debug/examples").join(name);
    run_within(EXAMPLE_LIMIT, no_skip(&mut Command::new(program)))
}

/// A test that would skip because a tool is missing fails instead.
fn no_skip(command: &mut Command) -> &mut Command {
    command.env("LEASEHOLD_NO_SKIP", "1")
}

/// The names of the examples in a folder: `NAME.rs` and `NAME/main.rs`.
fn examples(folder: &Path) -> Result<Vec<String>, String> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("reading {}: {error}", folder.display()))?;
    let mut names: Vec<_> = entries
        .iter()
        .map(fs::DirEntry::path)
        .filter(|path| path.extension().is_some_and(|x| x == "rs") || path.join("main.rs").exists())
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_sources_not_other_files() {
        let names = examples(&shell::root().join("crates/xtask/src")).unwrap();
        assert!(names.contains(&"report".to_owned()));
        assert!(!names.contains(&"apt.sh".to_owned()));
    }

    #[test]
    fn a_folder_with_a_main_is_an_example() {
        let names = examples(&shell::root().join("crates/xtask")).unwrap();
        assert_eq!(names, ["src"]);
    }

    #[test]
    fn without_the_folder_there_are_no_examples() {
        assert!(examples(Path::new("/nowhere")).unwrap().is_empty());
    }
}
