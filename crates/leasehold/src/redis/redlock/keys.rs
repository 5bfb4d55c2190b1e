//! The names of a lock's keys. Pure.

use crate::name::Name;

/// No lock's name starts so: such keys are ours.
pub(super) const OURS: &str = "lh:";
/// What a node knows of itself.
pub(super) const NODE: &str = "lh:redlock";
/// The pattern of all notes.
pub(super) const NOTES: &str = "lh:r:*";

/// The keys of one lock on a node. The lock itself is at its name as it is,
/// where other libraries look for it too.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) lock: String,
    pub(super) note: String,
    pub(super) evictions: String,
}

impl Keys {
    pub(super) fn of(name: &Name) -> Self {
        Self {
            lock: name.as_str().to_owned(),
            note: ["lh:r:", name.as_str()].concat(),
            evictions: ["lh:re:", name.as_str()].concat(),
        }
    }

    /// The name of the lock that has this note.
    pub(super) fn name(note: &str) -> Option<Name> {
        Name::new(note.strip_prefix("lh:r:")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_tells_its_lock() {
        for text in ["a", "lh", "a:b", "{x}", "r:🔒"] {
            let keys = Keys::of(&Name::new(text).unwrap());
            assert_eq!(keys.lock, text);
            assert_eq!(Keys::name(&keys.note).unwrap().as_str(), text);
            assert_eq!(Keys::name(&keys.evictions), None);
        }
    }
}
