//! Every name is a lock of its own, whatever characters it has.

use std::time::Duration;

use super::bench::{Bench, try_lock};
use super::{Case, nothing};
use crate::error::ErrorKind;

const TTL: Duration = Duration::from_secs(60);

/// Names that a careless store would take for each other, or for something
/// else.
const ODD: &[&str] = &[
    "a",
    "A",
    "aa",
    "a/",
    "/a",
    "a/b",
    "a//b",
    "a/b/",
    "a\\b",
    "a.b",
    "a:b",
    "a b",
    " a",
    "a ",
    "a%",
    "a%2Fb",
    "a%25",
    "a_b",
    "a*b",
    "a?b",
    "[a]",
    "{a}",
    "{a}b",
    "a'b",
    "a''b",
    "a\"b",
    "a`b",
    "'; drop table claims; --",
    "a;b",
    "$a",
    "${a}",
    "a\u{a0}b",
    "é",
    "e\u{301}",
    "É",
    "ß",
    "ss",
    "SS",
    "ı",
    "i",
    "I",
    "İ",
    "ﬁ",
    "fi",
    "\u{c5}",
    "\u{212b}",
    "🔒",
    "🔒🔒",
    "日本",
    ".",
    "..",
    "../a",
    "~",
    "-",
    "--help",
    "0",
    "00",
    "null",
    "NULL",
    "true",
];

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[22], nothing, odd_names_work_and_never_collide),
        Case::new(&[22], nothing, the_longest_names_work_and_never_collide),
        Case::new(&[22], nothing, names_that_are_not_allowed_are_refused),
        Case::new(&[22], nothing, names_are_listed_by_their_prefix_as_they_are),
    ]
}

async fn odd_names_work_and_never_collide(bench: Bench) {
    let names: Vec<String> = ODD.iter().map(|name| (*name).to_owned()).collect();
    never_collide(&bench, names).await;
}

async fn the_longest_names_work_and_never_collide(bench: Bench) {
    let long = "x".repeat(511);
    let names = ["", "x", "X", "/", "%", "'"].map(|end| format!("{long}{end}"));
    let wide = ["🔒".repeat(128), format!("{}aaaa", "🔒".repeat(127))];
    never_collide(&bench, names.into_iter().chain(wide).collect()).await;
}

async fn never_collide(bench: &Bench, mut names: Vec<String>) {
    let (a, b) = (bench.session(TTL).await, bench.session(TTL).await);
    let mut guards = Vec::new();
    for name in &names {
        let guard = try_lock(&a, name).await;
        guards.push(guard.unwrap_or_else(|| panic!("{name:?} shares a lock with another name")));
    }
    for name in &names {
        assert!(try_lock(&b, name).await.is_none(), "{name:?}");
        assert_eq!(bench.queue(name).await.claims.len(), 1, "{name:?}");
    }
    let listed = bench.inspector().names("").await.unwrap();
    let listed: Vec<_> = listed.iter().map(|name| name.as_str().to_owned()).collect();
    names.sort_unstable();
    assert_eq!(listed, names);
    for guard in guards {
        guard.release().await.unwrap();
    }
}

async fn names_that_are_not_allowed_are_refused(bench: Bench) {
    let session = bench.session(TTL).await;
    for name in ["", "a\nb", "a\0b", "\u{7f}", "\u{85}", &"x".repeat(513)] {
        let error = session.mutex(name).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{name:?}: {error}");
    }
    assert!(bench.inspector().names("").await.unwrap().is_empty());
}

async fn names_are_listed_by_their_prefix_as_they_are(bench: Bench) {
    let session = bench.session(TTL).await;
    let mut guards = Vec::new();
    for name in ["job/b", "job/a", "job", "jobs", "Job/a", "j%/a", "j_b/a"] {
        guards.push(session.mutex(name).lock().await.unwrap());
    }
    let inspector = bench.inspector();
    for (prefix, expected) in [
        ("job/", vec!["job/a", "job/b"]),
        ("j%", vec!["j%/a"]),
        ("j_", vec!["j_b/a"]),
        ("x", vec![]),
    ] {
        let names = inspector.names(prefix).await.unwrap();
        let names: Vec<_> = names.iter().map(crate::Name::as_str).collect();
        assert_eq!(names, expected, "{prefix}");
    }
}
