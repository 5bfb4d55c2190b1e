//! The names of a lock's keys, and texts inside its records. Pure.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::engine::{LeaseId, TicketId};
use crate::name::Name;

/// What could end a key's hash tag early, or be taken for an escape.
const IN_KEYS: &AsciiSet = &AsciiSet::EMPTY.add(b'%').add(b'{').add(b'}');
/// What separates the fields of a record, or be taken for an escape.
const IN_FIELDS: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// The keys of one lock: all in one slot.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) lock: String,
    pub(super) queue: String,
    pub(super) claims: String,
    pub(super) evictions: String,
}

impl Keys {
    pub(super) fn of(name: &Name) -> Self {
        let mut lock = String::with_capacity(name.as_str().len() + 8);
        lock.push_str("lh:{");
        lock.extend(utf8_percent_encode(name.as_str(), IN_KEYS));
        lock.push('}');
        let beside = |end: &str| [&lock, end].concat();
        Self {
            queue: beside(":q"),
            claims: beside(":c"),
            evictions: beside(":ev"),
            lock,
        }
    }

    /// Those that the scripts on one lock work on.
    pub(super) fn three(&self) -> [&str; 3] {
        [&self.lock, &self.queue, &self.claims]
    }

    pub(super) fn all(&self) -> [&str; 4] {
        [&self.lock, &self.queue, &self.claims, &self.evictions]
    }

    /// The name of the lock that has this key; none for the keys beside it.
    pub(super) fn name(lock: &str) -> Option<Name> {
        let encoded = lock.strip_prefix("lh:{")?.strip_suffix('}')?;
        let name = percent_decode_str(encoded).decode_utf8().ok()?;
        Name::new(name).ok()
    }
}

/// The pattern of the locks whose names start like this. A key that ends with
/// a brace is a lock: the keys beside it end with a letter.
pub(super) fn pattern(prefix: &str) -> String {
    let encoded = utf8_percent_encode(prefix, IN_KEYS).to_string();
    let mut pattern = String::from("lh:{");
    for letter in encoded.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "*}"
}

pub(super) fn field(text: &str) -> String {
    utf8_percent_encode(text, IN_FIELDS).to_string()
}

pub(super) fn unfield(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

pub(super) fn hex(ticket: TicketId) -> String {
    format!("{:032x}", ticket.0)
}

pub(super) fn unhex(text: &str) -> Option<TicketId> {
    u128::from_str_radix(text, 16).ok().map(TicketId)
}

pub(super) fn inbox(lease: LeaseId) -> String {
    format!("lh:inbox:{:032x}", lease.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_survive_their_keys() {
        for text in ["a", "{x}", "}:q", "it's 100%", "🔒 *?", "%7B"] {
            let keys = Keys::of(&Name::new(text).unwrap());
            assert_eq!(Keys::name(&keys.lock).unwrap().as_str(), text);
            for beside in &keys.all()[1..] {
                assert_eq!(Keys::name(beside), None);
                // One pair of braces: that is the hash tag.
                assert_eq!(beside.matches(['{', '}']).count(), 2);
            }
        }
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(pattern("a*[{"), "lh:{a\\*\\[%7B*}");
    }

    #[test]
    fn a_field_has_no_separator() {
        for text in ["", "a b", "50%", "ü\n"] {
            assert!(!field(text).contains([' ', '\n']));
            assert_eq!(unfield(&field(text)), text);
        }
    }
}
