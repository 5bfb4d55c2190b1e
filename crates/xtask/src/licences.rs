//! Licences and sources of the dependencies, by the list in `deny.toml`.
//!
//! `verify` calls this. It reads what cargo itself knows of the tree, so it needs no tool and
//! takes a second. The file has the format of `cargo-deny`, which checks the same and more.

use crate::files;
use crate::shell::{self, Outcome};
use std::path::Path;

/// Where a dependency may come from.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every package of the tree, on all platforms and with all features.
///
/// # Errors
/// Names each package whose licence is not on the list or whose source is another.
pub(crate) fn check() -> Outcome {
    let policy = files::text(Path::new("deny.toml"))?;
    let allowed = allowed(&policy);
    let tree = "tree --workspace --all-features --target all --edges normal,build,dev";
    let mut command = shell::cargo(tree.split(' '));
    command.args(["--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"]);
    let tree = shell::output(&mut command)?;
    let mut complaints = foreign_sources(&files::text(Path::new("Cargo.lock"))?);
    complaints.extend(unlicensed(&tree, &allowed));
    match complaints.as_slice() {
        [] => Ok(()),
        _ => Err(complaints.join("\n  ")),
    }
}

/// The list `allow` of the policy.
fn allowed(policy: &str) -> Vec<&str> {
    let mut lines = policy.lines().map(str::trim);
    lines
        .by_ref()
        .skip_while(|line| !line.starts_with("allow = ["))
        .skip(1)
        .take_while(|line| *line != "]")
        .map(|line| line.trim_matches([',', '"']))
        .collect()
}

fn unlicensed(tree: &str, allowed: &[&str]) -> Vec<String> {
    let mut packages: Vec<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    packages.sort_unstable();
    packages.dedup();
    let refused = packages.iter().filter_map(|line| {
        let (package, licence) = line.split_once('|')?;
        let is_fine = is_allowed(licence, allowed);
        (!is_fine).then(|| format!("{package}: the licence {licence:?} is not in deny.toml"))
    });
    refused.collect()
}

/// Whether a licence expression can be met by licences of the list. `AND` binds tighter than
/// `OR`; old crates write `/` for `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let expression = expression.replace('/', " OR ");
    alternatives(&expression, " OR ").into_iter().any(|choice| {
        alternatives(choice, " AND ").into_iter().all(|part| {
            let part = part.trim();
            match part.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
                Some(inner) => is_allowed(inner, allowed),
                None => allowed.contains(&part),
            }
        })
    })
}

/// Splits at a word that stands outside of parentheses.
fn alternatives<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(word) {
        let before = &text[..at];
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(&text[start..at]);
            start = at + word.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Packages of the lock file that are neither ours nor from the registry.
fn foreign_sources(lock: &str) -> Vec<String> {
    let sources = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "));
    let mut foreign: Vec<_> = sources
        .map(|source| source.trim_matches('"'))
        .filter(|source| *source != SOURCE)
        .map(|source| format!("Cargo.lock: the source {source} is not the registry"))
        .collect();
    foreign.dedup();
    foreign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_by_one_choice_whose_parts_are_all_allowed() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for fine in [
            "MIT",
            "GPL-3.0 OR MIT",
            "Apache-2.0/MIT",
            "ISC AND MIT",
            "(MIT OR GPL-3.0) AND ISC",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(fine, &allowed), "{fine}");
        }
        for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0"] {
            assert!(!is_allowed(refused, &allowed), "{refused}");
        }
    }

    #[test]
    fn a_package_without_an_allowed_licence_is_named() {
        let tree = "a v1.0.0|MIT\n\nb v2.0.0|GPL-3.0\nb v2.0.0|GPL-3.0\n";
        let found = unlicensed(tree, &["MIT"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("b v2.0.0: "), "{found:?}");
    }

    #[test]
    fn the_projects_own_list_is_read() {
        let policy = files::text(Path::new("deny.toml")).unwrap();
        let allowed = allowed(&policy);
        assert!(allowed.contains(&"MIT"));
        assert!(allowed.contains(&"Apache-2.0 WITH LLVM-exception"));
        assert!(!allowed.iter().any(|licence| licence.contains(['#', '='])));
    }

    #[test]
    fn a_package_from_elsewhere_is_named() {
        let lock = "source = \"git+https://example.org/x\"\n";
        assert_eq!(foreign_sources(lock).len(), 1);
        assert!(foreign_sources(&format!("source = \"{SOURCE}\"\n")).is_empty());
    }
}
