//! Who believes to hold what, and what went wrong: the checks of the
//! simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use tokio::time::Instant;

/// Whether a guard says that it holds.
type Believes = Box<dyn Fn() -> bool + Send>;

#[derive(Default)]
struct Book {
    beliefs: BTreeMap<String, Vec<Belief>>,
    tokens: BTreeMap<String, BTreeSet<u64>>,
    entered: u64,
    faults: Vec<String>,
    trace: Vec<String>,
}

struct Belief {
    entry: u64,
    token: u64,
    weight: u32,
    believes: Believes,
    /// The store has given up the claim; by then the guard has to say so.
    condemned: Option<Instant>,
}

pub(crate) struct Ledger {
    start: Instant,
    /// The store was made to forget leases or to break locks: then two may
    /// believe to hold for a while, and a claim that is not there any more may
    /// be handed on inside a process. Only the tokens tell them apart.
    is_rough: bool,
    keeps_trace: bool,
    book: Mutex<Book>,
}

/// A grant, as the ledger wants it.
pub(crate) struct Grant<'a> {
    pub(crate) name: &'a str,
    pub(crate) token: u64,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    /// The greatest token that anybody had on this name before this was asked.
    pub(crate) floor: u64,
    /// Another guard on a hold that is entered already.
    pub(crate) is_entered_again: bool,
}

impl Ledger {
    pub(crate) fn new(is_rough: bool, keeps_trace: bool) -> Self {
        Self {
            start: Instant::now(),
            is_rough,
            keeps_trace,
            book: Mutex::default(),
        }
    }

    /// The greatest token that anybody got on this name so far.
    pub(crate) fn floor(&self, name: &str) -> u64 {
        let book = self.book.lock().unwrap();
        book.tokens
            .get(name)
            .and_then(|tokens| tokens.last().copied())
            .unwrap_or(0)
    }

    /// Takes down a grant and checks it; the number is for `leave`.
    pub(crate) fn enter(&self, grant: &Grant<'_>, believes: Believes) -> u64 {
        let book = &mut *self.book.lock().unwrap();
        let Grant {
            name,
            token,
            weight,
            capacity,
            floor,
            is_entered_again,
        } = *grant;
        let last = book
            .tokens
            .get(name)
            .and_then(|tokens| tokens.last().copied())
            .unwrap_or(0);
        let is_new = book.tokens.entry(name.into()).or_default().insert(token);
        if !is_new && !is_entered_again {
            book.faults
                .push(format!("{name}: the token {token} was granted twice"));
        }
        if token <= floor && !is_entered_again && !self.is_rough {
            book.faults
                .push(format!("{name}: the token {token} is not above {floor}"));
        }
        // With one holder at a time the grants arrive in their order.
        if capacity == 1 && is_new && token < last && !self.is_rough && believes() {
            book.faults
                .push(format!("{name}: the token {token} came after {last}"));
        }
        book.entered += 1;
        let entry = book.entered;
        let belief = Belief {
            entry,
            token,
            weight,
            believes,
            condemned: None,
        };
        book.beliefs.entry(name.into()).or_default().push(belief);
        book.check(name, capacity, self.is_rough);
        entry
    }

    /// The store has given up the claims on this name, or on every name. Their
    /// guards have to say so by then.
    pub(crate) fn condemn(&self, name: Option<&str>, by: Instant) {
        let mut book = self.book.lock().unwrap();
        let is_meant = |(of, _): &(&String, _)| name.is_none_or(|name| name == *of);
        for (_, beliefs) in book.beliefs.iter_mut().filter(is_meant) {
            for belief in beliefs {
                belief.condemned.get_or_insert(by);
            }
        }
    }

    /// Called right before the guard is given back.
    pub(crate) fn leave(&self, name: &str, entry: u64) {
        let mut book = self.book.lock().unwrap();
        if let Some(beliefs) = book.beliefs.get_mut(name) {
            beliefs.retain(|belief| belief.entry != entry);
        }
    }

    pub(crate) fn check(&self, name: &str, capacity: u32) {
        let mut book = self.book.lock().unwrap();
        book.check(name, capacity, self.is_rough);
    }

    pub(crate) fn fault(&self, fault: impl fmt::Display) {
        self.note(format_args!("FAULT {fault}"));
        let at = self.start.elapsed();
        self.book
            .lock()
            .unwrap()
            .faults
            .push(format!("{fault} (at {at:?})"));
    }

    pub(crate) fn note(&self, event: fmt::Arguments<'_>) {
        let line = format!("{:>9.3?} {event}", self.start.elapsed());
        if self.keeps_trace {
            eprintln!("{line}");
        }
        self.book.lock().unwrap().trace.push(line);
    }

    /// What went wrong, and a number that is the same if and only if the same
    /// things happened at the same times.
    pub(crate) fn finish(&self) -> (Vec<String>, u64) {
        let mut book = self.book.lock().unwrap();
        book.beliefs.clear();
        let mut hasher = DefaultHasher::new();
        book.trace.hash(&mut hasher);
        (std::mem::take(&mut book.faults), hasher.finish())
    }
}

impl Book {
    fn check(&mut self, name: &str, capacity: u32, is_rough: bool) {
        let Some(beliefs) = self.beliefs.get(name) else {
            return;
        };
        let now = Instant::now();
        for belief in beliefs {
            if belief.condemned.is_some_and(|by| by < now) && (belief.believes)() {
                let token = belief.token;
                self.faults.push(format!(
                    "{name}: {token} believes to hold what the store no longer has"
                ));
            }
        }
        if is_rough {
            return;
        }
        let believed: BTreeMap<u64, u32> = beliefs
            .iter()
            .filter(|belief| (belief.believes)())
            .map(|belief| (belief.token, belief.weight))
            .collect();
        let sum: u64 = believed.values().copied().map(u64::from).sum();
        if sum > u64::from(capacity) {
            let tokens: Vec<_> = believed.keys().collect();
            self.faults
                .push(format!("{name}: held at once under the tokens {tokens:?}"));
        }
    }
}
