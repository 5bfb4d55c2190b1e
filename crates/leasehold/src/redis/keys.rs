//! The names of a lock's keys, and texts inside its records. Pure.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::engine::{LeaseId, TicketId};
use crate::name::Name;

/// What could end a key's hash tag early, or be taken for an escape.
const IN_KEYS: &AsciiSet = &AsciiSet::EMPTY.add(b'%').add(b'{').add(b'}');
/// What separates the fields of a record, or be taken for an escape.
const IN_FIELDS: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// A name that ends like this lies in the slot of the one without it: a barrier has two
/// names, and what forgets one of them must forget the other.
const BESIDE: &str = ".gate";

/// The keys of one lock: all in one slot. Every claim has them, so they lie in
/// one text, one behind the other; the lock's own is the beginning of the first.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    text: String,
    /// How long the lock's own key is.
    length: usize,
}

impl Keys {
    pub(super) fn of(name: &Name) -> Self {
        let (name, beside) = match name.as_str().trim_end_matches(BESIDE).len() {
            // Nothing in braces would be no hash tag.
            0 => name.as_str().split_at(BESIDE.len()),
            length => name.as_str().split_at(length),
        };
        let name = utf8_percent_encode(name, IN_KEYS);
        let length = "lh:{}".len() + name.clone().map(str::len).sum::<usize>() + beside.len();
        let mut text = String::with_capacity(3 * length + ":q:c:ev".len());
        for end in [":q", ":c", ":ev"] {
            text.push_str("lh:{");
            text.extend(name.clone());
            text.push('}');
            text.push_str(beside);
            text.push_str(end);
        }
        Self { text, length }
    }

    /// The lock's own key.
    pub(super) fn lock(&self) -> &str {
        &self.text[..self.length]
    }

    /// Those that the scripts on one lock work on: the lock, its queue, the
    /// claims in its queue.
    pub(super) fn three(&self) -> [&str; 3] {
        let [lock, queue, claims, _] = self.all();
        [lock, queue, claims]
    }

    /// And its evictions.
    pub(super) fn all(&self) -> [&str; 4] {
        let (queue, rest) = self.text.split_at(self.length + 2);
        let (claims, evictions) = rest.split_at(self.length + 2);
        [self.lock(), queue, claims, evictions]
    }

    /// The name of the lock that has this key; none for the keys beside it.
    pub(super) fn name(lock: &str) -> Option<Name> {
        let (encoded, beside) = lock.strip_prefix("lh:{")?.split_once('}')?;
        if !beside.trim_end_matches(BESIDE).is_empty() {
            return None;
        }
        let name = percent_decode_str(encoded).decode_utf8().ok()?;
        Name::new(name.into_owned() + beside).ok()
    }
}

/// A pattern of the locks whose names start like this, and of some others. A key that
/// ends with a brace, or as `BESIDE` does, is a lock: the keys beside it end with another
/// letter.
pub(super) fn pattern(prefix: &str) -> String {
    // The end of the prefix may lie behind the braces.
    let base = (1..=BESIDE.len()).find_map(|length| prefix.strip_suffix(&BESIDE[..length]));
    let prefix = base.unwrap_or(prefix).trim_end_matches(BESIDE);
    let encoded = utf8_percent_encode(prefix, IN_KEYS).to_string();
    let mut pattern = String::from("lh:{");
    for letter in encoded.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "*[}e]"
}

pub(super) fn field(text: &str) -> String {
    utf8_percent_encode(text, IN_FIELDS).to_string()
}

pub(super) fn unfield(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// An id in 32 hexadecimal digits. It proves ownership, so it is shown only in
/// part, as the id itself.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hex(String);

impl Hex {
    pub(super) fn of(number: u128) -> Self {
        let digits = number.to_be_bytes().into_iter();
        let digits = digits.flat_map(|byte| [byte >> 4, byte & 15]);
        let digit = |value| char::from(b"0123456789abcdef"[usize::from(value)]);
        let mut text = String::with_capacity(32);
        text.extend(digits.map(digit));
        Self(text)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", &self.0[..8])
    }
}

pub(super) fn unhex(text: &str) -> Option<TicketId> {
    u128::from_str_radix(text, 16).ok().map(TicketId)
}

pub(super) fn inbox(lease: LeaseId) -> String {
    ["lh:inbox:", Hex::of(lease.0).as_str()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_survive_their_keys() {
        for text in [
            "a",
            "{x}",
            "}:q",
            "it's 100%",
            "🔒 *?",
            "%7B",
            ".gate",
            "a.gate",
            "{.gate",
            ".gate.gate",
            "a.gates",
        ] {
            let keys = Keys::of(&Name::new(text).unwrap());
            assert_eq!(Keys::name(keys.lock()).unwrap().as_str(), text);
            for beside in &keys.all()[1..] {
                assert_eq!(Keys::name(beside), None);
                // One pair of braces: that is the hash tag.
                assert_eq!(beside.matches(['{', '}']).count(), 2);
            }
        }
    }

    #[test]
    fn both_names_of_a_barrier_are_in_one_slot() {
        for text in ["x", "load/test", "{x}", "x.gate", ".gate", "🔒"] {
            let gate = Name::new(format!("{text}.gate")).unwrap();
            let [permits, gate] = [Name::new(text).unwrap(), gate].map(|name| Keys::of(&name));
            assert_ne!(permits.lock(), gate.lock());
            // What is in the first pair of braces.
            let tag = |keys: &Keys| {
                let (_, rest) = keys.lock().split_once('{').unwrap();
                rest.split_once('}').unwrap().0.to_owned()
            };
            assert!(!tag(&permits).is_empty());
            assert_eq!(tag(&permits), tag(&gate), "{text}");
        }
    }

    #[test]
    fn an_id_is_32_digits_and_shown_in_part() {
        for number in [0, 0xab, u128::MAX, 0x0123_4567 << 96] {
            let hex = Hex::of(number);
            assert_eq!(hex.as_str(), format!("{number:032x}"));
            assert_eq!(unhex(hex.as_str()), Some(TicketId(number)));
            assert_eq!(format!("{hex:?}"), format!("{:?}", TicketId(number)));
        }
        assert_eq!(inbox(LeaseId(7)), format!("lh:inbox:{:032x}", 7));
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(pattern("a*[{"), "lh:{a\\*\\[%7B*[}e]");
        for prefix in ["a", "a.", "a.ga", "a.gate", "a.gate.g"] {
            assert_eq!(pattern(prefix), "lh:{a*[}e]");
        }
    }

    #[test]
    fn a_field_has_no_separator() {
        for text in ["", "a b", "50%", "ü\n"] {
            assert!(!field(text).contains([' ', '\n']));
            assert_eq!(unfield(&field(text)), text);
        }
    }
}
