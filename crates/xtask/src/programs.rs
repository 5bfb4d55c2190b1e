//! The test programs: what cargo builds, how long each may take, and which run beside others.

use crate::json;
use crate::shell::{self, cargo};
use std::path::PathBuf;
use std::time::Duration;

/// A test program or an example that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// What people call it: `leasehold conformance`.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) file: PathBuf,
    /// The folder of its package, where cargo would start it.
    pub(crate) folder: PathBuf,
    /// The arguments of `cargo test` that select it.
    pub(crate) select: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Test,
    Example,
}

/// How many shares of the machine there are for programs that run beside each other. Tests
/// mostly wait, so there are more of them than there are cores.
pub(crate) const SHARES: usize = 10;

/// What a program takes of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// How many of the machine's shares.
    pub(crate) shares: usize,
    /// A program that takes longer hangs.
    pub(crate) limit: Duration,
}

/// The programs, the longest first: those that start last should be short. Each with its
/// shares of the machine and a number of cases that it has at least.
const PROGRAMS: &[(&str, usize, usize)] = &[
    ("leasehold stores", 3, 500),
    ("leasehold conformance", 3, 4_000),
    ("leasehold-lab lab", 3, 40),
    ("leasehold lossy", 2, 150),
    ("leasehold-cli cli", 3, 250),
    ("leasehold-models redlock_models", 2, 35),
    ("leasehold core", 2, 50),
    ("leasehold unit", 2, 300),
    ("leasehold-models gate_models", 2, 10),
    ("leasehold-cli program", 1, 30),
    ("leasehold-lab unit", 1, 75),
    ("leasehold-lab program", 1, 2),
    ("leasehold-models unit", 1, 0),
    ("testbed unit", 1, 5),
    ("xtask program", 1, 40),
];

/// What is wrong with a run of programs that should be all of them: one is missing, is not
/// in the table, or had fewer cases than it has to have.
pub(crate) fn complaints(ran: &[(&str, usize)]) -> Vec<String> {
    let too_few = |(name, _, least): &&(&str, usize, usize)| {
        !ran.iter()
            .any(|(other, count)| other == name && count >= least)
    };
    let too_few = PROGRAMS.iter().filter(too_few);
    let too_few = too_few.map(|(name, _, least)| format!("{name}: fewer than {least} cases"));
    let is_unknown = |name: &&str| PROGRAMS.iter().all(|(known, ..)| known != name);
    let unknown = ran.iter().map(|(name, _)| *name).filter(is_unknown);
    let unknown = unknown.map(|name| format!("{name}: not in the table of programs"));
    too_few.chain(unknown).collect()
}

/// In which order programs start; those of which nothing is known come last.
pub(crate) fn place(name: &str) -> usize {
    let place = PROGRAMS.iter().position(|(known, ..)| *known == name);
    place.unwrap_or(PROGRAMS.len())
}

/// A program of which nothing is known takes the whole machine.
pub(crate) fn weight(name: &str) -> Weight {
    let limit = Duration::from_secs(30 * 60);
    match PROGRAMS.iter().find(|(known, ..)| *known == name) {
        Some(&(_, shares, _)) => Weight { shares, limit },
        None => Weight {
            shares: SHARES,
            limit,
        },
    }
}

/// Whether a program runs where nothing is installed, and fast.
pub(crate) fn is_quick(program: &Program) -> bool {
    const SLOW: [&str; 5] = [
        "leasehold stores",
        "leasehold lossy",
        "leasehold-cli cli",
        "leasehold-lab lab",
        "leasehold-models redlock_models",
    ];
    !SLOW.contains(&program.name.as_str())
}

/// Builds every test program and every example of the workspace.
///
/// # Errors
/// If something does not compile.
pub(crate) fn build() -> Result<Vec<Program>, String> {
    let arguments = "test --workspace --all-features --no-run --message-format";
    let mut command = cargo(arguments.split(' '));
    let messages = shell::output(command.arg("json-render-diagnostics"))?;
    let mut programs: Vec<_> = messages.lines().filter_map(program).collect();
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}

/// The program that a message of cargo tells of, if it tells of one.
fn program(message: &str) -> Option<Program> {
    let file = json::text(message, "executable")?;
    let manifest = PathBuf::from(json::text(message, "manifest_path")?);
    let target = json::text(message, "name")?;
    let folder = manifest.parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let is_kind = |kind: &str| message.contains(&format!("\"kind\":[\"{kind}\"]"));
    let (_, profile) = message.split_once("\"profile\":")?;
    let (profile, _) = profile.split_once('}')?;
    let is_test = profile.contains("\"test\":true");
    let (kind, name, select) = if is_kind("example") {
        (
            Kind::Example,
            format!("example {target}"),
            format!("--example {target}"),
        )
    } else if is_kind("test") {
        let name = format!("{package} {target}");
        (Kind::Test, name, format!("--test {target}"))
    } else if is_test && is_kind("bin") {
        (
            Kind::Test,
            format!("{package} program"),
            format!("-p {package} --bins"),
        )
    } else if is_test {
        (
            Kind::Test,
            format!("{package} unit"),
            format!("-p {package} --lib"),
        )
    } else {
        return None;
    };
    Some(Program {
        name,
        kind,
        file: file.into(),
        folder,
        select,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as cargo writes it, shortened.
    fn message(kind: &str, target: &str, is_test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/lab/Cargo.toml","target":{{"kind":["{kind}"],"name":"{target}","test":true}},"profile":{{"opt_level":"1","test":{is_test}}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn a_test_program_is_named_by_package_and_target() {
        let found = program(&message("test", "matrix", true, r#""/t/matrix-1""#)).unwrap();
        assert_eq!(found.name, "lab matrix");
        assert_eq!(found.select, "--test matrix");
        assert_eq!(found.folder, PathBuf::from("/w/crates/lab"));
    }

    #[test]
    fn a_program_that_users_run_is_no_test_program() {
        assert_eq!(program(&message("bin", "lab", false, r#""/t/lab""#)), None);
        assert_eq!(program(&message("lib", "lab", true, "null")), None);
        let units = program(&message("bin", "lab", true, r#""/t/lab-1""#)).unwrap();
        assert_eq!(units.name, "lab program");
    }

    #[test]
    fn a_program_that_is_missing_unknown_or_empty_is_found() {
        let mut ran: Vec<_> = PROGRAMS
            .iter()
            .map(|(name, _, least)| (*name, *least))
            .collect();
        assert!(complaints(&ran).is_empty());
        ran[0].1 -= 1;
        ran[1].0 = "leasehold conformity";
        assert_eq!(complaints(&ran).len(), 3, "{:?}", complaints(&ran));
    }

    #[test]
    fn an_unknown_program_takes_the_whole_machine() {
        assert_eq!(weight("leasehold unheard-of").shares, SHARES);
        assert!(PROGRAMS.iter().all(|(_, shares, _)| *shares <= SHARES));
    }
}
