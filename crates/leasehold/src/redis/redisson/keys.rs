//! The names of a lock's keys as Redisson makes them, and of ours beside them.
//! Pure.

use crate::engine::TicketId;
use crate::name::Name;

/// How the keys end that we keep beside a lock. Redisson puts a name into braces
/// unless it has some, so `x` and `{x}` come to the same; the two ends keep them
/// apart.
const RECORD: &str = ":leasehold";
const RECORD_TAGGED: &str = ":leasehold:tagged";
const EVICTIONS: &str = ":ev";
const CHANNEL: &str = "redisson_lock__channel";
const COUNTER: &str = "redisson_lock_token";

/// The keys of one lock: in a cluster all in one slot, see `is_for_cluster`.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// Redisson's key: the name as it is.
    pub(super) lock: String,
    pub(super) channel: String,
    /// The counter of `RFencedLock`.
    pub(super) counter: String,
    pub(super) record: String,
    pub(super) evictions: String,
}

impl Keys {
    pub(super) fn of(name: &Name) -> Self {
        let name = name.as_str();
        let (tagged, end) = match name.contains('{') {
            true => (name.to_owned(), RECORD_TAGGED),
            false => (format!("{{{name}}}"), RECORD),
        };
        let record = format!("{tagged}{end}");
        Self {
            lock: name.to_owned(),
            channel: format!("{CHANNEL}:{tagged}"),
            counter: format!("{COUNTER}:{tagged}"),
            evictions: format!("{record}{EVICTIONS}"),
            record,
        }
    }

    /// The lock beside which this key is our record.
    pub(super) fn name(record: &str) -> Option<Name> {
        let name = match record.strip_suffix(RECORD_TAGGED) {
            Some(name) => Some(name).filter(|name| name.contains('{')),
            None => {
                let name = record.strip_suffix(RECORD)?;
                let name = name.strip_prefix('{')?.strip_suffix('}');
                name.filter(|name| !name.contains('{'))
            }
        };
        Name::new(name?).ok()
    }

    /// Whether the name is that of a key that we keep beside another lock.
    pub(super) fn is_taken(name: &Name) -> bool {
        let key = name.as_str();
        let key = key.strip_suffix(EVICTIONS).unwrap_or(key);
        // What `durability` writes.
        let key = key.strip_suffix(":w").unwrap_or(key);
        Self::name(key).is_some()
    }

    /// Whether a cluster has all these keys in one place. Redisson's rule for
    /// braces fails for names such as `a{b` or `a}b`, for itself too.
    pub(super) fn is_for_cluster(&self) -> bool {
        use super::super::cluster::slot;
        slot(&self.lock) == slot(&self.channel) && slot(&self.lock) == slot(&self.record)
    }
}

/// All records, whatever the names.
pub(super) const PATTERN: &str = "*:leasehold*";

/// What Redisson takes for a client and a thread of it: the session, and a
/// number of its own for each claim. So no claim ever re-enters another's hold.
pub(super) fn holder(client: u128, ticket: TicketId) -> String {
    let bits = client & !(0xf << 76) & !(0b11 << 62) | 0x4 << 76 | 0b10 << 62;
    let uuid = format!("{bits:032x}");
    let (a, b, c) = (&uuid[..8], &uuid[8..12], &uuid[12..16]);
    let (d, e) = (&uuid[16..20], &uuid[20..]);
    let thread = (ticket.0 ^ ticket.0 >> 64) & u128::from(u64::MAX >> 1);
    format!("{a}-{b}-{c}-{d}-{e}:{thread}")
}

/// A number for a holder that has no ticket: FNV-1a of its text.
pub(super) fn foreign_id(holder: &str) -> TicketId {
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b_u128;
    let step = |sum: u128, byte| (sum ^ u128::from(byte)).wrapping_mul(prime);
    TicketId(holder.bytes().fold(start, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str) -> Keys {
        Keys::of(&Name::new(name).unwrap())
    }

    #[test]
    fn redissons_keys_are_as_redisson_makes_them() {
        let plain = keys("jobs/nightly");
        assert_eq!(plain.lock, "jobs/nightly");
        assert_eq!(plain.channel, "redisson_lock__channel:{jobs/nightly}");
        assert_eq!(plain.counter, "redisson_lock_token:{jobs/nightly}");
        assert_eq!(keys("a{b}").channel, "redisson_lock__channel:a{b}");
    }

    #[test]
    fn every_name_has_a_record_of_its_own() {
        let names = ["x", "{x}", "a{", "}", "{}", "x:leasehold", "🔒 *"];
        let mut seen = std::collections::BTreeSet::new();
        for text in names {
            let name = Name::new(text).unwrap();
            let record = Keys::of(&name).record;
            assert_eq!(Keys::name(&record), Some(name));
            assert!(seen.insert(record.clone()), "{record}");
            assert!(Keys::is_taken(&Name::new(&record).unwrap()), "{record}");
            assert!(!Keys::is_taken(&Name::new(text).unwrap()), "{text}");
        }
        let evictions = keys("x").evictions;
        assert!(Keys::is_taken(&Name::new(evictions).unwrap()));
    }

    #[test]
    fn a_cluster_has_most_names_in_one_place() {
        for (name, fits) in [("x", true), ("{x}y", true), ("a{b", false), ("a}b", false)] {
            assert_eq!(keys(name).is_for_cluster(), fits, "{name}");
        }
    }

    #[test]
    fn a_holder_is_a_uuid_and_a_positive_long() {
        let holder = holder(u128::MAX, TicketId(u128::from(u64::MAX) << 64));
        let (uuid, thread) = holder.split_once(':').unwrap();
        assert_eq!(uuid, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(thread.parse::<i64>().unwrap(), i64::MAX);
    }
}
