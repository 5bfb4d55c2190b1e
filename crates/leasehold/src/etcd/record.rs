//! What a claim's key says of it. Others that share the lock write nothing.

use std::time::Duration;

use super::keys::{field, unfield};
use super::wire::KeyValue;
use crate::clock::wall_time;
use crate::engine::{Owner, Ticket, TicketId};

/// The version of the layout.
const MARK: &str = "leasehold1";

/// A claim as its key describes it.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: TicketId,
    pub(super) holder: u64,
    /// When it was made, by the wall clock of its machine.
    pub(super) since: Duration,
    pub(super) owner: Owner,
    pub(super) capacity: u32,
    pub(super) weight: u32,
    /// Another program made it, or a version of ours that we do not know.
    pub(super) is_foreign: bool,
}

/// The value of a claim's key: `leasehold1 ticket holder since pid host label
/// capacity weight`.
pub(super) fn write(ticket: &Ticket, owner: &Owner) -> Vec<u8> {
    let label = ticket.label.as_deref().unwrap_or(owner.label());
    let text = format!(
        "{MARK} {:032x} {} {} {} {} {} {} {}",
        ticket.claim.id.0,
        ticket.holder,
        wall_time().as_millis(),
        owner.pid(),
        field(owner.host()),
        field(label),
        ticket.capacity,
        ticket.weight
    );
    text.into_bytes()
}

impl Record {
    pub(super) fn of(kv: &KeyValue) -> Self {
        Self::read(&kv.value).unwrap_or_else(|| Self::foreign(kv))
    }

    fn read(value: &[u8]) -> Option<Self> {
        let fields: Vec<_> = std::str::from_utf8(value).ok()?.split(' ').collect();
        let [mark, id, holder, since, pid, host, label, capacity, weight] = fields[..] else {
            return None;
        };
        (mark == MARK).then_some(())?;
        Some(Self {
            id: TicketId(u128::from_str_radix(id, 16).ok()?),
            holder: holder.parse().ok()?,
            since: Duration::from_millis(since.parse().ok()?),
            owner: Owner::seen(unfield(host), pid.parse().ok()?, unfield(label)),
            capacity: capacity.parse().ok()?,
            weight: weight.parse().ok()?,
            is_foreign: false,
        })
    }

    /// Of another program's claim we know its key, its lease and its age in
    /// revisions; together they are a name for it.
    fn foreign(kv: &KeyValue) -> Self {
        let revision = u128::from(kv.create_revision.unsigned_abs());
        let lease = kv.lease.unsigned_abs();
        Self {
            id: TicketId((revision << 64) | u128::from(lease)),
            holder: 0,
            since: Duration::ZERO,
            owner: Owner::seen("", 0, format!("another program, lease {lease:x}")),
            capacity: 1,
            weight: 1,
            is_foreign: true,
        }
    }
}

/// The note on a broken claim: `leasehold1 at ticket revision pid host label by
/// reason`.
pub(super) fn write_broken(record: &Record, revision: i64, by: &str, reason: &str) -> Vec<u8> {
    let text = format!(
        "{MARK} {} {:032x} {revision} {} {} {} {} {}",
        wall_time().as_millis(),
        record.id.0,
        record.owner.pid(),
        field(record.owner.host()),
        field(record.owner.label()),
        field(by),
        field(reason)
    );
    text.into_bytes()
}

/// A broken claim as its note describes it.
pub(super) struct Broken {
    pub(super) at: Duration,
    pub(super) revision: u64,
    pub(super) owner: Owner,
    pub(super) by: String,
    pub(super) reason: String,
}

impl Broken {
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let fields: Vec<_> = std::str::from_utf8(value).ok()?.split(' ').collect();
        let [_mark, at, _ticket, revision, pid, host, label, by, reason] = fields[..] else {
            return None;
        };
        Some(Self {
            at: Duration::from_millis(at.parse().ok()?),
            revision: revision.parse().ok()?,
            owner: Owner::seen(unfield(host), pid.parse().ok()?, unfield(label)),
            by: unfield(by),
            reason: unfield(reason),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{ClaimRef, LeaseId};
    use crate::name::Name;

    #[test]
    fn a_claim_is_read_back_as_it_was_written() {
        let ticket = Ticket {
            claim: ClaimRef {
                name: Name::new("a").unwrap(),
                id: TicketId(0xab),
            },
            lease: LeaseId(7),
            holder: 42,
            capacity: 3,
            weight: 2,
            waits: true,
            label: Some("my job".into()),
        };
        let owner = Owner::seen("big host", 99, "");
        let kv = KeyValue {
            value: write(&ticket, &owner),
            ..KeyValue::default()
        };
        let record = Record::of(&kv);
        assert_eq!((record.id, record.holder), (TicketId(0xab), 42));
        assert_eq!((record.capacity, record.weight), (3, 2));
        assert_eq!(record.owner.to_string(), "big host:99 (my job)");
        let note = write_broken(&record, 16, "ann", "too long");
        let broken = Broken::read(&note).unwrap();
        assert_eq!((broken.revision, broken.reason.as_str()), (16, "too long"));
    }

    #[test]
    fn a_claim_of_another_program_has_a_name_of_its_own() {
        let kv = |create_revision| KeyValue {
            create_revision,
            lease: 255,
            ..KeyValue::default()
        };
        let (one, other) = (Record::of(&kv(5)), Record::of(&kv(6)));
        assert!(one.is_foreign);
        assert_ne!(one.id, other.id);
        assert!(one.owner.label().contains("lease ff"));
    }
}
