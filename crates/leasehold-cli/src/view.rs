//! A lock as programs see it with `--json`, and which locks a pattern means.

use leasehold::engine::{Claimant, Eviction, Queue};
use leasehold::rule::UNBOUNDED;
use leasehold::{Inspector, Name, Owner};
use serde::Serialize;

use crate::print::millis;

/// A lock and its queue.
#[derive(Debug, Serialize)]
pub(crate) struct LockView {
    pub(crate) name: String,
    /// `null` if nobody uses the lock.
    pub(crate) kind: Option<&'static str>,
    /// How many slots a semaphore has.
    pub(crate) slots: Option<u32>,
    pub(crate) holders: Vec<ClaimView>,
    pub(crate) waiting: Vec<ClaimView>,
}

/// A claim in a lock's queue.
#[derive(Debug, Serialize)]
pub(crate) struct ClaimView {
    pub(crate) owner: OwnerView,
    /// `exclusive`, `shared` or `slot`.
    pub(crate) mode: &'static str,
    pub(crate) token: Option<u64>,
    pub(crate) age_ms: u64,
    pub(crate) ttl_left_ms: u64,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct OwnerView {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) label: String,
}

/// A lock that was broken.
#[derive(Debug, Serialize)]
pub(crate) struct EvictionView {
    pub(crate) owner: OwnerView,
    pub(crate) token: u64,
    pub(crate) by: String,
    pub(crate) reason: String,
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
}

impl LockView {
    pub(crate) fn new(name: &Name, queue: &Queue) -> Self {
        let view = |claimant| ClaimView::new(claimant, queue.capacity);
        let (holders, waiting): (Vec<_>, Vec<_>) =
            queue.claims.iter().partition(|claimant| claimant.is_holder);
        Self {
            name: name.as_str().to_owned(),
            kind: kind(queue.capacity),
            slots: (!matches!(queue.capacity, 0 | 1 | UNBOUNDED)).then_some(queue.capacity),
            holders: holders.into_iter().map(view).collect(),
            waiting: waiting.into_iter().map(view).collect(),
        }
    }
}

impl ClaimView {
    pub(crate) fn new(claimant: &Claimant, capacity: u32) -> Self {
        Self {
            owner: OwnerView::new(&claimant.owner),
            mode: mode(claimant, capacity),
            token: claimant.token.map(u64::from),
            age_ms: millis(claimant.age),
            ttl_left_ms: millis(claimant.time_left),
        }
    }
}

impl OwnerView {
    pub(crate) fn new(owner: &Owner) -> Self {
        let (host, label) = (owner.host().to_owned(), owner.label().to_owned());
        Self {
            host,
            pid: owner.pid(),
            label,
        }
    }
}

impl EvictionView {
    pub(crate) fn new(eviction: &Eviction) -> Self {
        Self {
            owner: OwnerView::new(&eviction.owner),
            token: eviction.token.get(),
            by: eviction.by.clone(),
            reason: eviction.reason.clone(),
            at_ms: millis(eviction.at),
        }
    }
}

/// What a lock of this capacity is; nothing if nobody uses it.
pub(crate) fn kind(capacity: u32) -> Option<&'static str> {
    match capacity {
        0 => None,
        1 => Some("mutex"),
        UNBOUNDED => Some("rwlock"),
        _ => Some("semaphore"),
    }
}

/// How a claim uses a lock of this capacity.
pub(crate) fn mode(claimant: &Claimant, capacity: u32) -> &'static str {
    match capacity {
        1 => "exclusive",
        UNBOUNDED if claimant.weight == UNBOUNDED => "exclusive",
        UNBOUNDED => "shared",
        _ => "slot",
    }
}

/// The names that have claims and that the pattern means, sorted.
pub(crate) async fn names(inspector: &Inspector, pattern: &str) -> leasehold::Result<Vec<Name>> {
    let prefix = pattern.split(['*', '?']).next().unwrap_or_default();
    let mut names = inspector.names(prefix).await?;
    names.retain(|name| is_meant(pattern, name.as_str()));
    Ok(names)
}

/// Whether the name starts with the pattern or, if that has `*` or `?`, is as a
/// whole described by it.
fn is_meant(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return name.starts_with(pattern);
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // After a mismatch the last `*` takes one more character; earlier ones never
    // need to, so this is quadratic at worst.
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < name.len() {
        if at < pattern.len() && pattern[at] == '*' {
            star = Some((at, read));
            at += 1;
        } else if at < pattern.len() && (pattern[at] == '?' || pattern[at] == name[read]) {
            (at, read) = (at + 1, read + 1);
        } else if let Some((begin, taken)) = star {
            star = Some((begin, taken + 1));
            (at, read) = (begin + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_a_prefix_and_a_pattern_is_the_whole() {
        for (pattern, name) in [
            ("", "x"),
            ("jobs/", "jobs/nightly"),
            ("*", "x"),
            ("jobs/*", "jobs/a/b"),
            ("*night*", "jobs/nightly"),
            ("a?c", "a锁c"),
            ("*ab*ab", "abaabab"),
        ] {
            assert!(is_meant(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("obs", "jobs"),
            ("jobs?", "jobs"),
            ("*b", "abc"),
            ("?", "ab"),
        ] {
            assert!(!is_meant(pattern, name), "{pattern} {name}");
        }
    }
}
