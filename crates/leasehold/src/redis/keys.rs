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
    pub(super) record: String,
    pub(super) queue: String,
    pub(super) evictions: String,
}

impl Keys {
    pub(super) fn of(name: &Name) -> Self {
        let record = format!("lh:{{{}}}", utf8_percent_encode(name.as_str(), IN_KEYS));
        let (queue, evictions) = (format!("{record}:q"), format!("{record}:ev"));
        Self {
            record,
            queue,
            evictions,
        }
    }

    /// The lock whose queue this key is.
    pub(super) fn name(queue: &str) -> Option<Name> {
        let encoded = queue.strip_prefix("lh:{")?.strip_suffix("}:q")?;
        let name = percent_decode_str(encoded).decode_utf8().ok()?;
        Name::new(name).ok()
    }
}

/// The pattern of the queues whose names start like this.
pub(super) fn pattern(prefix: &str) -> String {
    let encoded = utf8_percent_encode(prefix, IN_KEYS).to_string();
    let mut pattern = String::from("lh:{");
    for letter in encoded.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "*}:q"
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
            assert_eq!(Keys::name(&keys.queue).unwrap().as_str(), text);
            // One pair of braces: that is the hash tag.
            assert_eq!(keys.queue.matches(['{', '}']).count(), 2);
        }
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(pattern("a*[{"), "lh:{a\\*\\[%7B*}:q");
    }

    #[test]
    fn a_field_has_no_separator() {
        for text in ["", "a b", "50%", "ü\n"] {
            assert!(!field(text).contains([' ', '\n']));
            assert_eq!(unfield(&field(text)), text);
        }
    }
}
