//! What a claim's node says of it. Others that share the lock write what they
//! like.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::dialect::{self, Layout, Place};
use super::wire::Stat;
use crate::clock::wall_time;
use crate::engine::{Owner, Ticket, TicketId};

/// The version of the layout.
const MARK: &str = "leasehold1";

/// A claim as its node describes it.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) id: TicketId,
    pub(super) holder: u64,
    pub(super) owner: Owner,
    pub(super) capacity: u32,
    pub(super) weight: u32,
    /// How long its session lives without a word.
    pub(super) ttl: Duration,
}

/// The data of a claim's node: `leasehold1 holder pid host label capacity weight
/// ttl`.
pub(super) fn write(ticket: &Ticket, owner: &Owner, ttl: Duration) -> Vec<u8> {
    let label = ticket.label.as_deref().unwrap_or(owner.label());
    let text = format!(
        "{MARK} {} {} {} {} {} {} {}",
        ticket.holder,
        owner.pid(),
        field(owner.host()),
        field(label),
        ticket.capacity,
        ticket.weight,
        ttl.as_millis()
    );
    text.into_bytes()
}

impl Record {
    pub(super) fn of(layout: Layout, place: &Place, data: &[u8], stat: &Stat) -> Self {
        // Whoever made a name without an id is known by the transaction.
        let by_czxid = TicketId((u128::from(stat.czxid.unsigned_abs()) << 64) | 1);
        let id = dialect::id_of(&place.node).unwrap_or(by_czxid);
        Self::read(id, data).unwrap_or_else(|| Self::foreign(layout, place, id, data, stat))
    }

    fn read(id: TicketId, data: &[u8]) -> Option<Self> {
        let fields: Vec<_> = std::str::from_utf8(data).ok()?.split(' ').collect();
        let [mark, holder, pid, host, label, capacity, weight, ttl] = fields[..] else {
            return None;
        };
        (mark == MARK).then_some(())?;
        Some(Self {
            id,
            holder: holder.parse().ok()?,
            owner: Owner::seen(unfield(host), pid.parse().ok()?, unfield(label)),
            capacity: capacity.parse().ok()?,
            weight: weight.parse().ok()?,
            ttl: Duration::from_millis(ttl.parse().ok()?),
        })
    }

    /// Another program's claim. It usually leaves its address or its name.
    fn foreign(layout: Layout, place: &Place, id: TicketId, data: &[u8], stat: &Stat) -> Self {
        let said: String = String::from_utf8_lossy(data).chars().take(80).collect();
        let session = stat.owner;
        let label = match said.is_empty() {
            true => format!("another program, session {session:x}"),
            false => format!("another program, {said:?}, session {session:x}"),
        };
        let capacity = place.sort.capacity(layout, 1);
        Self {
            id,
            holder: 0,
            owner: Owner::seen("", 0, label),
            capacity,
            weight: place.sort.weight(capacity),
            ttl: Duration::ZERO,
        }
    }
}

/// The note on a broken claim: `leasehold1 at czxid pid host label by reason`.
pub(super) fn write_broken(record: &Record, czxid: i64, by: &str, reason: &str) -> Vec<u8> {
    let text = format!(
        "{MARK} {} {czxid} {} {} {} {} {}",
        wall_time().as_millis(),
        record.owner.pid(),
        field(record.owner.host()),
        field(record.owner.label()),
        field(by),
        field(reason)
    );
    text.into_bytes()
}

/// A broken claim as its note describes it.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) at: Duration,
    pub(super) czxid: u64,
    pub(super) owner: Owner,
    pub(super) by: String,
    pub(super) reason: String,
}

impl Broken {
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let fields: Vec<_> = std::str::from_utf8(data).ok()?.split(' ').collect();
        let [_mark, at, czxid, pid, host, label, by, reason] = fields[..] else {
            return None;
        };
        Some(Self {
            at: Duration::from_millis(at.parse().ok()?),
            czxid: czxid.parse().ok()?,
            owner: Owner::seen(unfield(host), pid.parse().ok()?, unfield(label)),
            by: unfield(by),
            reason: unfield(reason),
        })
    }
}

/// A text without separators.
fn field(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn unfield(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{ClaimRef, LeaseId};
    use crate::name::Name;
    use crate::zookeeper::dialect::Child;

    fn place(node: &str) -> Place {
        match Layout::Curator.read(node) {
            Child::Claim(place) => place,
            other => panic!("{node}: {other:?}"),
        }
    }

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
        let data = write(&ticket, &owner, Duration::from_secs(5));
        let node = Layout::Curator.prefix(&ticket) + "0000000003";
        let record = Record::of(Layout::Curator, &place(&node), &data, &Stat::default());
        assert_eq!((record.id, record.holder), (TicketId(0xab), 42));
        assert_eq!((record.capacity, record.weight), (3, 2));
        assert_eq!(record.owner.to_string(), "big host:99 (my job)");
        let note = write_broken(&record, 16, "ann", "too long");
        let broken = Broken::read(&note).unwrap();
        assert_eq!((broken.czxid, broken.reason.as_str()), (16, "too long"));
    }

    #[test]
    fn a_claim_of_another_program_has_a_name_of_its_own() {
        let stat = |czxid| Stat {
            czxid,
            owner: 255,
            ..Stat::default()
        };
        let of = |node: &str, czxid| {
            Record::of(Layout::Curator, &place(node), b"10.0.0.7", &stat(czxid))
        };
        let (one, other) = (of("my-lock-0000000001", 5), of("my-lock-0000000002", 6));
        assert_ne!(one.id, other.id);
        assert!(one.owner.label().contains("10.0.0.7"));
        assert!(one.owner.label().contains("session ff"));
    }
}
