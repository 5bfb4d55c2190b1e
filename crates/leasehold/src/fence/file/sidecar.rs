//! What is kept beside a fenced file: its mark, and the append that may be
//! under way.
//!
//! ```text
//! leasehold-fence 1
//! mark 42-9f86d081884c7d65
//! append 1024 1100 8c736521
//! sum 1b2e33f0
//! ```
//! The append's numbers are where it begins, where it ends, and the checksum of
//! what lies between. The last line is the checksum of the lines before it.

use std::fmt::Write as _;

use crate::fence::Fence;

const KIND: &str = "leasehold-fence";
const VERSION: u32 = 1;

/// What the sidecar says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sidecar {
    pub(super) mark: Option<Fence>,
    pub(super) append: Option<Append>,
}

/// Bytes that were to be added; they are all there, or none of them counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Append {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) sum: u32,
}

impl Sidecar {
    pub(super) fn text(&self) -> String {
        let mut text = format!("{KIND} {VERSION}\n");
        if let Some(mark) = self.mark {
            _ = writeln!(text, "mark {mark}");
        }
        if let Some(Append { from, to, sum }) = self.append {
            _ = writeln!(text, "append {from} {to} {sum:08x}");
        }
        let sum = crc32fast::hash(text.as_bytes());
        _ = writeln!(text, "sum {sum:08x}");
        text
    }

    /// Reads it back.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        const BROKEN: &str = "it is damaged";
        let (head, _) = text.split_once('\n').ok_or(BROKEN)?;
        match head.split_once(' ') {
            Some((KIND, version)) if version.parse() == Ok(VERSION) => {}
            Some((KIND, _)) => return Err("a newer leasehold wrote it"),
            _ => return Err("it is not a sidecar of leasehold"),
        }
        let end = text.trim_end_matches('\n').rfind('\n').ok_or(BROKEN)? + 1;
        let (body, sum) = text.split_at(end);
        if sum != format!("sum {:08x}\n", crc32fast::hash(body.as_bytes())) {
            return Err(BROKEN);
        }
        let mut sidecar = Self::default();
        for line in body.lines().skip(1) {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("mark"), Some(mark), None, _) => {
                    sidecar.mark = Some(mark.parse().map_err(|_| BROKEN)?);
                }
                (Some("append"), Some(from), Some(to), Some(sum)) => {
                    let number = |text: &str| text.parse().map_err(|_| BROKEN);
                    sidecar.append = Some(Append {
                        from: number(from)?,
                        to: number(to)?,
                        sum: u32::from_str_radix(sum, 16).map_err(|_| BROKEN)?,
                    });
                }
                _ => return Err(BROKEN),
            }
        }
        Ok(sidecar)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fence::Token;

    proptest! {
        #[test]
        fn a_sidecar_survives_its_text_and_no_other_text_is_taken_for_one(
            token: u64, holder: u64, from in 0..u64::from(u32::MAX), more: u32, sum: u32,
            at: prop::sample::Index, byte: u8,
        ) {
            let mark = Some(Fence { token: Token::new(token), holder });
            let append = Some(Append { from, to: from + u64::from(more), sum });
            for sidecar in [Sidecar { mark, append }, Sidecar { mark, append: None }] {
                let text = sidecar.text();
                prop_assert_eq!(Sidecar::read(&text), Ok(sidecar));
                let mut bytes = text.clone().into_bytes();
                let at = at.index(bytes.len());
                bytes[at] = byte;
                let changed = String::from_utf8_lossy(&bytes);
                if changed != text {
                    prop_assert!(Sidecar::read(&changed).is_err());
                }
                prop_assert!(Sidecar::read(&text[..at]).is_err());
            }
        }
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let newer = Sidecar::read("leasehold-fence 2\nanything\n");
        assert_eq!(newer, Err("a newer leasehold wrote it"));
        let foreign = Sidecar::read("{\"not\": \"ours\"}\n");
        assert_eq!(foreign, Err("it is not a sidecar of leasehold"));
    }
}
