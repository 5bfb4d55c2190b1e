//! How the nodes of a lock are called, in Curator's way or in kazoo's. Pure.

use super::order;
use crate::engine::{Ticket, TicketId};
use crate::rule::UNBOUNDED;

/// Whose locks these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Also that of go-zookeeper and of zookeeper-client.
    Curator,
    Kazoo,
}

/// What a node below a lock is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Child {
    Claim(Place),
    /// A claim in another way of naming: whoever made it does not see ours.
    Mixed,
    /// A lock below this one, or something that is none.
    Other,
}

/// A claim as its node's name tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: String,
    pub(super) sequence: i32,
    pub(super) sort: Sort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    /// A mutex's; in kazoo's way a writer's too.
    Whole,
    Write,
    Read,
    Permits {
        capacity: u32,
        weight: u32,
    },
}

const LOCK: &str = "lock-";
const READ: &str = "-__READ__";
const WRITE: &str = "-__WRIT__";
const KAZOO_LOCK: &str = "__lock__";
const KAZOO_READ: &str = "__rlock__";
const PERMITS: &str = "-permits-";
/// Other things of Curator's that must not stand in a lock's queue.
const LATCH: &str = "-latch-";
const LEASE: &str = "-lease-";

impl Layout {
    pub(super) const NAMES: &'static [&'static str] = &["curator", "kazoo"];

    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "curator" => Some(Self::Curator),
            "kazoo" => Some(Self::Kazoo),
            _ => None,
        }
    }

    /// The name of a claim's node, to which the server adds a number.
    pub(super) fn prefix(self, ticket: &Ticket) -> String {
        let id = ticket.claim.id;
        let (capacity, weight) = (ticket.capacity, ticket.weight);
        match (self, capacity, weight) {
            (Self::Curator, 1, _) => format!("{}-{LOCK}", protected(id)),
            (Self::Curator, UNBOUNDED, UNBOUNDED) => format!("{}{WRITE}", protected(id)),
            (Self::Curator, UNBOUNDED, _) => format!("{}{READ}", protected(id)),
            (Self::Kazoo, 1, _) | (Self::Kazoo, UNBOUNDED, UNBOUNDED) => {
                format!("{:032x}{KAZOO_LOCK}", id.0)
            }
            (Self::Kazoo, UNBOUNDED, _) => format!("{:032x}{KAZOO_READ}", id.0),
            _ => format!("{}{PERMITS}{capacity:08x}-{weight:08x}-", protected(id)),
        }
    }

    /// Whether somebody would take a node of this name for a claim.
    pub(super) fn is_claim_to_any(node: &str) -> bool {
        [Self::Curator, Self::Kazoo]
            .iter()
            .any(|layout| layout.read(node) != Child::Other)
    }

    /// What a child of a lock's node is.
    pub(super) fn read(self, node: &str) -> Child {
        if let Some(place) = permits(node) {
            return Child::Claim(place);
        }
        let curator = [
            (LOCK, Sort::Whole),
            (READ, Sort::Read),
            (WRITE, Sort::Write),
        ];
        let kazoo = [(KAZOO_LOCK, Sort::Whole), (KAZOO_READ, Sort::Read)];
        let (ours, theirs): (&[_], &[_]) = match self {
            Self::Curator => (&curator, &kazoo),
            Self::Kazoo => (&kazoo, &curator),
        };
        let place = |(marker, sort): &(&str, Sort)| {
            let sequence = numbered(node, marker)?;
            Some(Place {
                node: node.to_owned(),
                sequence,
                sort: *sort,
            })
        };
        if let Some(place) = ours.iter().find_map(place) {
            return Child::Claim(place);
        }
        let mut others = theirs.iter().map(|(marker, _)| *marker);
        let is_mixed = others.any(|marker| numbered(node, marker).is_some())
            || is_of_the_recipe(node)
            || [LATCH, LEASE]
                .iter()
                .any(|marker| numbered(node, marker).is_some());
        match is_mixed {
            true => Child::Mixed,
            false => Child::Other,
        }
    }
}

impl Sort {
    /// Units that a lock has whose claims are like this one, as one sees it who
    /// asks for a lock of `asked`.
    pub(super) fn capacity(self, layout: Layout, asked: u32) -> u32 {
        match self {
            Self::Whole if layout == Layout::Kazoo && asked == UNBOUNDED => UNBOUNDED,
            Self::Whole => 1,
            Self::Write | Self::Read => UNBOUNDED,
            Self::Permits { capacity, .. } => capacity,
        }
    }

    /// Units that the claim takes of a lock with so many.
    pub(super) fn weight(self, capacity: u32) -> u32 {
        match self {
            // Whatever the lock has: 1 of a mutex, all of a reader-writer lock.
            Self::Whole => capacity,
            Self::Write => UNBOUNDED,
            Self::Read => 1,
            Self::Permits { weight, .. } => weight,
        }
    }
}

impl Place {
    /// The claims of a lock in the order in which they were made.
    pub(super) fn sort(places: &mut [Self]) {
        // A reader that Curator made of a writer has the writer's number, and
        // comes after it.
        places.sort_by(|one, other| {
            order::compare(one.sequence, other.sequence).then(one.sort.cmp(&other.sort))
        });
    }

    /// Whether the numbers of these claims say in which order they were made.
    pub(super) fn are_ordered(places: &[Self]) -> bool {
        !places.iter().any(|place| order::is_worn(place.sequence))
    }
}

/// The random part of a node's name, if it has one of the usual kinds.
pub(super) fn id_of(node: &str) -> Option<TicketId> {
    let node = node.strip_prefix("_c_").unwrap_or(node);
    let mut digits = String::new();
    for character in node.chars() {
        match character {
            '-' if digits.len() < 32 => {}
            _ if digits.len() == 32 => break,
            _ => digits.push(character),
        }
    }
    let is_id = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = is_id.then(|| u128::from_str_radix(&digits, 16).ok());
    id.flatten().map(TicketId)
}

/// The way in which Curator marks a node whose creation may go unanswered.
fn protected(id: TicketId) -> String {
    let text = format!("{:032x}", id.0);
    let (a, rest) = text.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    format!("_c_{a}-{b}-{c}-{d}-{e}")
}

fn numbered(node: &str, marker: &str) -> Option<i32> {
    let (_, number) = node.rsplit_once(marker)?;
    order::read(number)
}

/// A claim of the lock that comes with ZooKeeper: `x-SESSION-NUMBER`.
fn is_of_the_recipe(node: &str) -> bool {
    let parts = node
        .strip_prefix("x-")
        .and_then(|rest| rest.rsplit_once('-'));
    parts.is_some_and(|(session, number)| {
        session.parse::<i64>().is_ok() && order::read(number).is_some()
    })
}

fn permits(node: &str) -> Option<Place> {
    let (_, rest) = node.rsplit_once(PERMITS)?;
    let (capacity, rest) = rest.split_once('-')?;
    let (weight, number) = rest.split_once('-')?;
    Some(Place {
        node: node.to_owned(),
        sequence: order::read(number)?,
        sort: Sort::Permits {
            capacity: u32::from_str_radix(capacity, 16).ok()?,
            weight: u32::from_str_radix(weight, 16).ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{ClaimRef, LeaseId};
    use crate::name::Name;

    fn prefix(layout: Layout, capacity: u32, weight: u32) -> String {
        layout.prefix(&Ticket {
            claim: ClaimRef {
                name: Name::new("a").unwrap(),
                id: TicketId(0xab),
            },
            lease: LeaseId(7),
            holder: 42,
            capacity,
            weight,
            waits: true,
            label: None,
        })
    }

    fn sort(layout: Layout, node: &str) -> Option<(i32, Sort)> {
        match layout.read(node) {
            Child::Claim(place) => Some((place.sequence, place.sort)),
            _ => None,
        }
    }

    #[test]
    fn nodes_are_called_as_curator_and_kazoo_call_them() {
        let (curator, kazoo) = (Layout::Curator, Layout::Kazoo);
        let id = "00000000-0000-0000-0000-0000000000ab";
        assert_eq!(prefix(curator, 1, 1), format!("_c_{id}-lock-"));
        assert_eq!(
            prefix(curator, UNBOUNDED, UNBOUNDED),
            format!("_c_{id}-__WRIT__")
        );
        assert_eq!(prefix(curator, UNBOUNDED, 1), format!("_c_{id}-__READ__"));
        let id = "000000000000000000000000000000ab";
        assert_eq!(prefix(kazoo, 1, 1), format!("{id}__lock__"));
        assert_eq!(prefix(kazoo, UNBOUNDED, UNBOUNDED), format!("{id}__lock__"));
        assert_eq!(prefix(kazoo, UNBOUNDED, 1), format!("{id}__rlock__"));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for layout in [Layout::Curator, Layout::Kazoo] {
            for (capacity, weight) in [(1, 1), (UNBOUNDED, UNBOUNDED), (UNBOUNDED, 1), (5, 3)] {
                for number in ["0000000007", "-2147483648", "-000000001"] {
                    let node = prefix(layout, capacity, weight) + number;
                    let (sequence, sort) = sort(layout, &node).unwrap();
                    assert_eq!(sequence, number.parse::<i32>().unwrap());
                    assert_eq!(sort.capacity(layout, capacity), capacity, "{node}");
                    assert_eq!(sort.weight(capacity), weight, "{node}");
                    assert_eq!(id_of(&node), Some(TicketId(0xab)), "{node}");
                }
            }
        }
    }

    #[test]
    fn another_dialect_is_known_and_other_nodes_are_not_claims() {
        let (curator, kazoo) = (Layout::Curator, Layout::Kazoo);
        assert_eq!(curator.read("ab__lock__0000000001"), Child::Mixed);
        assert_eq!(curator.read("ab__rlock__0000000001"), Child::Mixed);
        assert_eq!(curator.read("_c_ab-latch-0000000001"), Child::Mixed);
        assert_eq!(kazoo.read("_c_ab-lock-0000000001"), Child::Mixed);
        assert_eq!(kazoo.read("_c_ab-__WRIT__0000000001"), Child::Mixed);
        assert_eq!(curator.read("x-72057594037927936-0000000001"), Child::Mixed);
        assert_eq!(kazoo.read("x--72057594037927936-0000000001"), Child::Mixed);
        assert_eq!(curator.read("x-ray-0000000001"), Child::Other);
        assert_eq!(curator.read("jobs"), Child::Other);
        assert_eq!(curator.read("lock-7"), Child::Other);
        assert_eq!(curator.read("2024010112"), Child::Other);
        // Go's client and a lock with a name of its own.
        let go = "_c_0123456789abcdef0123456789abcdef-lock-0000000003";
        assert_eq!(sort(curator, go), Some((3, Sort::Whole)));
        assert_eq!(sort(curator, "my-lock-0000000003"), Some((3, Sort::Whole)));
    }

    #[test]
    fn a_reader_made_of_a_writer_comes_after_it() {
        let place = |sequence, sort| Place {
            node: String::new(),
            sequence,
            sort,
        };
        let mut places = [
            place(5, Sort::Read),
            place(i32::MIN, Sort::Read),
            place(5, Sort::Write),
            place(i32::MAX, Sort::Write),
        ];
        // Near the end of the counter 5 is far behind, so it was first.
        places[0].sequence = i32::MAX - 9;
        places[2].sequence = i32::MAX - 9;
        Place::sort(&mut places);
        let sorts: Vec<_> = places.iter().map(|place| place.sort).collect();
        assert_eq!(sorts, [Sort::Write, Sort::Read, Sort::Write, Sort::Read]);
    }
}
