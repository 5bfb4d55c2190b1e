//! The keys of one lock, and our notes beside it. Pure.

use crate::engine::TicketId;
use crate::name::Name;
use crate::redis::cluster::slot;

/// How the keys of ours start; a lock's name may not.
pub(super) const OURS: &str = "lh:";
const NOTE: &str = "lh:p:{";
const EVICTIONS: &str = "lh:pe:{";
/// All notes.
pub(super) const NOTES: &str = "lh:p:{*";

/// The keys of one lock: all in one slot.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// Shared with everybody else: the lock's name as it is.
    pub(super) lock: String,
    pub(super) note: String,
    pub(super) evictions: String,
}

impl Keys {
    pub(super) fn of(name: &Name) -> Self {
        let name = name.as_str();
        let rest = match tag(name) {
            // A brace that closes nothing, and the whole name decides the slot:
            // no tag can be made of it, so another one of that slot is looked for.
            None if name.contains('}') => format!("{}}}:{name}", stand_in(slot(name))),
            None => format!("{name}}}"),
            Some(tag) => format!("{tag}}}:{name}"),
        };
        Self {
            lock: name.to_owned(),
            note: format!("{NOTE}{rest}"),
            evictions: format!("{EVICTIONS}{rest}"),
        }
    }

    /// The lock that this note is on.
    pub(super) fn name(note: &str) -> Option<Name> {
        let (tag, rest) = note.strip_prefix(NOTE)?.split_once('}')?;
        let name = match rest {
            "" => tag,
            rest => rest.strip_prefix(':')?,
        };
        Name::new(name).ok()
    }
}

/// The part of a key that decides its slot, if it is not the whole key.
fn tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// A text of that slot: the least number that is one.
fn stand_in(wanted: u16) -> String {
    let numbers = (0_u64..).map(|number| number.to_string());
    let mut found = numbers.filter(|number| slot(number) == wanted);
    found.next().unwrap_or_default()
}

/// The value of a lock of ours.
pub(super) fn hex(ticket: TicketId) -> String {
    format!("{:032x}", ticket.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_lock_share_its_slot_and_tell_its_name() {
        for text in [
            "a",
            "{x}",
            "a{b",
            "a}b",
            "}{",
            "{}",
            "{}{a}",
            "a{b}c}d{e}",
            "it's 100%",
            "🔒{",
            "{🔒}",
            "}:a",
            "lock:{user}:7",
        ] {
            let keys = Keys::of(&Name::new(text).unwrap());
            assert_eq!(keys.lock, text);
            assert_eq!(slot(&keys.note), slot(text), "{keys:?}");
            assert_eq!(slot(&keys.evictions), slot(text), "{keys:?}");
            assert_eq!(Keys::name(&keys.note).unwrap().as_str(), text, "{keys:?}");
        }
    }

    #[test]
    fn every_slot_has_a_stand_in() {
        for wanted in (0..16384).step_by(1021) {
            assert_eq!(slot(&stand_in(wanted)), wanted);
        }
    }

    #[test]
    fn two_names_have_different_notes() {
        // One's tag is the other's name.
        let (one, other) = (Name::new("a").unwrap(), Name::new("{a}").unwrap());
        assert_ne!(Keys::of(&one).note, Keys::of(&other).note);
    }
}
