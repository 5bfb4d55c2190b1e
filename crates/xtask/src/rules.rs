//! Rules of the house that no other tool checks.

use crate::files;
use crate::links;
use crate::manifest;
use crate::shell::Outcome;
use std::path::Path;

/// Spelled in halves, so that this file does not break its own rule.
const UNFINISHED: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
];

/// Checks every rule and prints each complaint.
///
/// # Errors
/// If there was a complaint, or a file cannot be read.
pub(crate) fn check() -> Outcome {
    let mut complaints = links::broken()?;
    for file in files::with_extension(&["rs", "lua", "sql", "sh", "toml", "js", "css", "html"])? {
        let text = files::text(&file)?;
        complaints.extend(unfinished(&file, &text));
        if file.file_name().is_some_and(|name| name == "Cargo.toml") {
            complaints.extend(allows_unsafe(&file, &text));
        }
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} complaints:\n  {}",
            complaints.join("\n  ")
        )),
    }
}

fn unfinished(file: &Path, text: &str) -> Vec<String> {
    let words = |line: &str| UNFINISHED.into_iter().find(|word| has_word(line, word));
    let found = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let word = words(line)?;
        Some(format!("{}:{number}: {word} is left", file.display()))
    });
    found.collect()
}

fn has_word(line: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !joins(line[..at].chars().next_back()) && !joins(line[at + word.len()..].chars().next())
    })
}

/// Every crate takes the workspace's lints, and those forbid unsafe code.
fn allows_unsafe(file: &Path, text: &str) -> Option<String> {
    let has = |table, entry| manifest::table(text, table).contains(&entry);
    let is_root = file == Path::new("Cargo.toml");
    if is_root && !has("workspace.lints.rust", ("unsafe_code", "\"forbid\"")) {
        return Some("Cargo.toml: [workspace.lints.rust] lacks unsafe_code = \"forbid\"".into());
    }
    if !is_root && !has("lints", ("workspace", "true")) {
        return Some(format!(
            "{}: [lints] lacks workspace = true",
            file.display()
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_is_found_by_whole_words() {
        let file = Path::new("a.rs");
        for word in UNFINISHED {
            let text = format!("fine\n// {word} later\n");
            assert_eq!(unfinished(file, &text), [format!("a.rs:2: {word} is left")]);
        }
        assert!(unfinished(file, concat!("MASTO", "DO", "N")).is_empty());
    }

    #[test]
    fn a_crate_without_the_workspaces_lints_is_found() {
        let member = Path::new("crates/a/Cargo.toml");
        assert!(allows_unsafe(member, "[package]\nname = \"a\"\n").is_some());
        assert!(allows_unsafe(member, "[lints]\nworkspace = true\n").is_none());
        let root = Path::new("Cargo.toml");
        assert!(allows_unsafe(root, "[workspace.lints.rust]\nunsafe_code = \"warn\"").is_some());
        assert!(allows_unsafe(root, "[workspace.lints.rust]\nunsafe_code = \"forbid\"").is_none());
    }
}
