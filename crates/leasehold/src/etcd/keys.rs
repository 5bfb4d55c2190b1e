//! Where things are in the store. `docs/stores/etcd.md` describes it.

use std::fmt;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::engine::{LeaseId, TicketId};
use crate::name::Name;

/// Everything of ours that is not a mutex is below this; so no lock's name may
/// start with it.
const HOUSE: &str = "leasehold/";
const SHARED: &str = "leasehold/shared/";
const BROKEN: &str = "leasehold/broken/";
const INBOX: &str = "leasehold/inbox/";
const TAIL: &str = "leasehold/tail/";
const MEMO: &str = "leasehold/memo/";
const STAMP: &str = "leasehold/stamp/";

/// The keys from `start` to before `end`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
}

impl Range {
    /// All keys that start so.
    pub(super) fn below(prefix: impl AsRef<[u8]>) -> Self {
        let start = prefix.as_ref().to_vec();
        Self {
            end: after_all_with(&start),
            start,
        }
    }

    /// What is in this range before and after the keys of the other.
    pub(super) fn around(&self, inner: &Self) -> [Self; 2] {
        let before = Self {
            start: self.start.clone(),
            end: inner.start.clone(),
        };
        let after = Self {
            start: inner.end.clone(),
            end: self.end.clone(),
        };
        [before, after]
    }
}

/// Keys may have tickets in them, which are not for everybody's eyes.
impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Range")
    }
}

/// The least key after all that start so; no end at all for no prefix, which
/// etcd writes as a single zero.
fn after_all_with(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    vec![0]
}

/// Where the claims of a mutex are, and also those of the locks below it.
pub(super) fn mutex(name: &Name) -> Range {
    Range::below(format!("{name}/"))
}

/// The claim of a lease on a mutex.
pub(super) fn mutex_claim(name: &Name, lease: i64) -> Vec<u8> {
    format!("{name}/{lease:x}").into_bytes()
}

/// One more claim of a lease on a mutex, while the first is there.
pub(super) fn mutex_claim_beside(name: &Name, lease: i64, id: TicketId) -> Vec<u8> {
    format!("{name}/{lease:x}.{:032x}", id.0).into_bytes()
}

/// Where the claims of a lock are that more than one may hold.
pub(super) fn shared(name: &Name) -> Range {
    Range::below(format!("{SHARED}{}/", field(name.as_str())))
}

/// Those of one capacity: nobody may claim the lock with another one.
pub(super) fn shared_with(name: &Name, capacity: u32) -> Range {
    let name = field(name.as_str());
    Range::below(format!("{SHARED}{name}/{capacity:08x}/"))
}

pub(super) fn shared_claim(name: &Name, capacity: u32, id: TicketId) -> Vec<u8> {
    let mut key = shared_with(name, capacity).start;
    key.extend(format!("{:032x}", id.0).bytes());
    key
}

/// Shared locks whose names start so.
pub(super) fn shared_names(prefix: &str) -> Range {
    Range::below(format!("{SHARED}{}", field(prefix)))
}

/// The name and the capacity of a shared lock, from one of its claims.
pub(super) fn read_shared(key: &[u8]) -> Option<(Name, u32)> {
    let rest = std::str::from_utf8(key).ok()?.strip_prefix(SHARED)?;
    let mut parts = rest.split('/');
    let name = Name::new(unfield(parts.next()?)).ok()?;
    let capacity = u32::from_str_radix(parts.next()?, 16).ok()?;
    Some((name, capacity))
}

/// What was broken of a lock.
pub(super) fn broken(name: &Name) -> Range {
    Range::below(format!("{BROKEN}{}/", field(name.as_str())))
}

/// The note on one broken claim.
pub(super) fn broken_claim(name: &Name, revision: i64) -> Vec<u8> {
    let mut key = broken(name).start;
    key.extend(format!("{revision:016x}").bytes());
    key
}

/// What a session watches.
pub(super) fn inbox(lease: i64) -> Vec<u8> {
    format!("{INBOX}{lease:x}").into_bytes()
}

/// Who came last into the queue of a mutex, if it was long.
pub(super) fn tail(name: &Name) -> Vec<u8> {
    format!("{TAIL}{}", field(name.as_str())).into_bytes()
}

/// The memo of a lock.
pub(super) fn memo(name: &Name) -> Vec<u8> {
    format!("{MEMO}{}", field(name.as_str())).into_bytes()
}

/// Says that a lock has had no writer since it was made.
pub(super) fn stamp(name: &Name) -> Vec<u8> {
    format!("{STAMP}{}", field(name.as_str())).into_bytes()
}

/// The store's number of a lease.
pub(super) fn number(lease: LeaseId) -> i64 {
    i64::try_from(lease.0).unwrap_or(i64::MAX)
}

/// What a key below a mutex is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// A claim on it, by anybody.
    Claim,
    /// A claim on a lock whose name starts with this one's and a slash.
    Below,
    /// Neither. It would be in the way of Go's recipe for ever.
    Foreign,
}

/// A claim's key ends with its own lease, and perhaps a ticket.
pub(super) fn sort(queue: &Range, key: &[u8], lease: i64) -> Sort {
    // A lock may be called `leasehold`; what is in our house is not on it.
    if is_in_house(key) {
        return Sort::Below;
    }
    let rest = key.strip_prefix(queue.start.as_slice()).unwrap_or(key);
    let last = rest.rsplit(|byte| *byte == b'/').next().unwrap_or(rest);
    let is_claim = std::str::from_utf8(last).is_ok_and(|last| names_lease(last, lease));
    match (is_claim, last.len() == rest.len()) {
        (true, true) => Sort::Claim,
        (true, false) => Sort::Below,
        (false, _) => Sort::Foreign,
    }
}

/// The mutex that a claim is on, if the key is one.
pub(super) fn read_mutex(key: &[u8], lease: i64) -> Option<Name> {
    let key = std::str::from_utf8(key).ok()?;
    let (name, last) = key.rsplit_once('/')?;
    let is_claim = names_lease(last, lease) && !is_in_house(key.as_bytes());
    is_claim.then(|| Name::new(name).ok()).flatten()
}

fn names_lease(last: &str, lease: i64) -> bool {
    let (number, _ticket) = last.split_once('.').unwrap_or((last, ""));
    lease != 0 && number == format!("{lease:x}")
}

fn is_in_house(key: &[u8]) -> bool {
    let rooms = [SHARED, BROKEN, INBOX, TAIL, MEMO, STAMP];
    rooms.iter().any(|room| key.starts_with(room.as_bytes()))
}

/// Whether a lock may not have this name.
pub(super) fn is_reserved(name: &Name) -> bool {
    name.as_str().starts_with(HOUSE)
}

/// A text without separators.
pub(super) fn field(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

pub(super) fn unfield(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_mutex_has_the_keys_of_gos_recipe() {
        let key = mutex_claim(&name("jobs/nightly"), 0x694d_8ab3);
        assert_eq!(key, b"jobs/nightly/694d8ab3");
        assert_eq!(mutex(&name("a")).end, b"a0");
        assert_eq!(read_mutex(&key, 0x694d_8ab3), Some(name("jobs/nightly")));
        assert_eq!(read_mutex(&key, 7), None);
        let beside = mutex_claim_beside(&name("a"), 255, TicketId(1));
        assert_eq!(sort(&mutex(&name("a")), &beside, 255), Sort::Claim);
    }

    #[test]
    fn locks_below_a_lock_are_not_claims_on_it() {
        let queue = mutex(&name("a"));
        assert_eq!(sort(&queue, b"a/ff", 255), Sort::Claim);
        assert_eq!(sort(&queue, b"a/b/ff", 255), Sort::Below);
        assert_eq!(sort(&queue, b"a//ff", 255), Sort::Below);
        assert_eq!(sort(&queue, b"a/ff", 0), Sort::Foreign);
        assert_eq!(sort(&queue, b"a/note", 255), Sort::Foreign);
        let ours = mutex(&name("leasehold"));
        let inside = shared_claim(&name("a"), 3, TicketId(7));
        assert_eq!(sort(&ours, &inside, 255), Sort::Below);
        // It has no lease.
        assert_eq!(sort(&ours, &memo(&name("a")), 0), Sort::Below);
        assert_eq!(sort(&ours, b"leasehold/ff", 255), Sort::Claim);
    }

    #[test]
    fn odd_names_survive_their_keys() {
        for text in ["a", "a/b", "it's 100%", "🔒 *?", "%7B", "/", "a/00000001/b"] {
            let key = shared_claim(&name(text), 3, TicketId(7));
            assert_eq!(read_shared(&key), Some((name(text), 3)));
            let queue = shared_with(&name(text), 3);
            assert!(key.starts_with(&queue.start) && key < queue.end);
        }
    }

    #[test]
    fn a_range_ends_after_its_last_key() {
        assert_eq!(Range::below([]).end, [0]);
        assert_eq!(Range::below([7, 255, 255]).end, [8]);
        let (outer, inner) = (Range::below("a/"), Range::below("a/b/"));
        let [before, after] = outer.around(&inner);
        assert_eq!(
            (before.start, before.end),
            (b"a/".to_vec(), b"a/b/".to_vec())
        );
        assert_eq!((after.start, after.end), (b"a/b0".to_vec(), b"a0".to_vec()));
    }
}
