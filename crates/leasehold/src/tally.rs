//! A memo that says who was counted: the parts of a latch, or those who were the
//! last to enter a barrier together.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;

/// How many can be counted: their ids fit into a memo.
pub const MOST_MEMBERS: u32 = 200;

/// Of how many, and who.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) total: u32,
    pub(crate) ids: BTreeSet<u64>,
}

impl Tally {
    pub(crate) fn of(total: u32) -> Self {
        let ids = BTreeSet::new();
        Self { total, ids }
    }

    /// How many are missing.
    pub(crate) fn left(&self) -> u32 {
        let counted = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        self.total.saturating_sub(counted)
    }

    pub(crate) fn write(&self, kind: &str) -> String {
        let ids: Vec<_> = self.ids.iter().map(|id| format!("{id:016x}")).collect();
        format!("leasehold {kind} 1\n{}\n{}\n", self.total, ids.join(" "))
    }

    pub(crate) fn read(kind: &str, bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let text = text.strip_prefix(&format!("leasehold {kind} 1\n"))?;
        let (total, ids) = text.strip_suffix('\n')?.split_once('\n')?;
        let ids = ids.split(' ').filter(|id| !id.is_empty());
        let ids: Option<_> = ids.map(|id| u64::from_str_radix(id, 16).ok()).collect();
        Some(Self {
            total: total.parse().ok()?,
            ids: ids?,
        })
    }

    /// Those who wait at a barrier go in together if there are enough of them. Who
    /// went in the last time, and has not left, waits for nobody.
    pub(crate) fn next(&self, present: &BTreeSet<u64>) -> Option<Self> {
        let waiting: BTreeSet<u64> = present.difference(&self.ids).copied().collect();
        let all = Self {
            total: self.total,
            ids: waiting,
        };
        (all.left() == 0).then_some(all)
    }

    /// Whether any of them is still there.
    pub(crate) fn is_any_in(&self, present: &BTreeSet<u64>) -> bool {
        !self.ids.is_disjoint(present)
    }
}

/// The id of a part that has a name: the same everywhere and for good, so it is not
/// left to the standard library. FNV-1a.
pub(crate) fn id_of(part: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    part.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Writes a memo for good, or for a time.
pub(crate) async fn write_kept(guard: &Guard, text: &str, keep: Option<Duration>) -> Result<()> {
    match keep {
        Some(keep) => guard.write_memo_for(text, keep).await,
        None => guard.write_memo(text).await,
    }
}

pub(crate) fn must_be_countable(total: u32, doing: impl Fn() -> String) -> Result<()> {
    if (1..=MOST_MEMBERS).contains(&total) {
        return Ok(());
    }
    let why = format!("{total} members; allowed is 1 to {MOST_MEMBERS}");
    Err(Error::new(ErrorKind::Usage, doing(), why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memo::LONGEST_MEMO;

    fn tally(total: u32, ids: impl IntoIterator<Item = u64>) -> Tally {
        let ids = ids.into_iter().collect();
        Tally { total, ids }
    }

    #[test]
    fn a_tally_is_read_back_and_nothing_else_is() {
        for tally in [tally(1, []), tally(3, [0, u64::MAX]), tally(2, [7, 8])] {
            let text = tally.write("latch");
            assert_eq!(Tally::read("latch", text.as_bytes()), Some(tally));
            assert_eq!(Tally::read("barrier", text.as_bytes()), None);
        }
        for text in [
            "",
            "leasehold latch 1\n3\n",
            "leasehold latch 1\nx\n\n",
            "x",
        ] {
            assert_eq!(Tally::read("latch", text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn as_many_as_are_allowed_fit() {
        let all = tally(MOST_MEMBERS, (0..MOST_MEMBERS).map(u64::from));
        assert!(all.write("barrier").len() <= LONGEST_MEMO);
        assert_eq!(all.left(), 0);
    }

    #[test]
    fn those_who_were_in_before_are_not_counted_again() {
        let last = tally(2, [1, 2]);
        for (present, expected) in [
            (&[][..], None),
            (&[1, 2], None),
            (&[2, 3], None),
            (&[3], None),
            (&[3, 4], Some(tally(2, [3, 4]))),
        ] {
            let present = present.iter().copied().collect();
            assert_eq!(last.next(&present), expected, "{present:?}");
        }
        assert!(last.is_any_in(&[2, 3].into()));
        assert!(!last.is_any_in(&[3].into()));
    }

    #[test]
    fn the_id_of_a_part_never_changes() {
        assert_eq!(id_of(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(id_of("a"), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(id_of("ab"), id_of("ba"));
    }
}
