//! The memo of an election: the latest leaders, newest first, as many as fit.
//! So whoever looks now and then still hears of all of them.

use super::Leader;
use crate::fence::Token;
use crate::memo::LONGEST_MEMO;

/// Begins every such memo.
const HEAD: &[u8] = b"leasehold election 1\n";

/// The latest leaders, newest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    leaders: Vec<Leader>,
}

impl Record {
    pub(super) fn newest(&self) -> Option<&Leader> {
        self.leaders.first()
    }

    /// Oldest first.
    pub(super) fn into_leaders(mut self) -> Vec<Leader> {
        self.leaders.reverse();
        self.leaders
    }

    /// A new leader, whose term is counted here.
    pub(super) fn begin(&mut self, leader: Leader) {
        let term = self.newest().map_or(1, |newest| newest.term + 1);
        self.leaders.insert(0, Leader { term, ..leader });
    }

    /// What the newest leader says now.
    pub(super) fn say(&mut self, value: &[u8]) {
        if let Some(leader) = self.leaders.first_mut() {
            leader.value = value.to_owned();
        }
    }

    /// `TERM TOKEN HOLDER LENGTH`, a line, and the value, for each leader.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        for leader in &self.leaders {
            let Leader {
                term,
                token,
                holder,
                value,
            } = leader;
            let line = format!("{term} {token} {holder:016x} {}\n", value.len());
            if bytes.len() + line.len() + value.len() + 1 > LONGEST_MEMO {
                break;
            }
            bytes.extend(line.bytes());
            bytes.extend(value);
            bytes.push(b'\n');
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(HEAD)?;
        let mut leaders = Vec::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            let line = std::str::from_utf8(&rest[..end]).ok()?;
            let mut words = line.split(' ');
            let term = words.next()?.parse().ok()?;
            let token = Token::new(words.next()?.parse().ok()?);
            let holder = u64::from_str_radix(words.next()?, 16).ok()?;
            let length: usize = words.next()?.parse().ok()?;
            rest = &rest[end + 1..];
            let value = rest.get(..length)?.to_owned();
            rest = rest.get(length..)?.strip_prefix(b"\n")?;
            leaders.push(Leader {
                term,
                token,
                holder,
                value,
            });
        }
        Some(Self { leaders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::LONGEST_VALUE;

    fn leader(token: u64, value: &[u8]) -> Leader {
        Leader {
            term: 0,
            token: Token::new(token),
            holder: token,
            value: value.to_owned(),
        }
    }

    #[test]
    fn a_record_is_read_back_with_any_value() {
        let mut record = Record::default();
        for (number, value) in [&b"a\nb"[..], b"", b"\xff\0"].into_iter().enumerate() {
            record.begin(leader(32 * number as u64, value));
        }
        record.say(b"last");
        let read = Record::read(&record.write()).unwrap();
        assert_eq!(read, record);
        let terms: Vec<_> = read.into_leaders().iter().map(|it| it.term).collect();
        assert_eq!(terms, [1, 2, 3]);
    }

    #[test]
    fn old_leaders_go_when_there_is_no_room_and_the_last_two_always_fit() {
        let mut record = Record::default();
        for token in (u64::MAX - 50)..u64::MAX {
            record.begin(leader(token, &[7; LONGEST_VALUE]));
            let bytes = record.write();
            assert!(bytes.len() <= LONGEST_MEMO);
            record = Record::read(&bytes).unwrap();
        }
        assert_eq!(record.leaders.len(), 2);
        assert_eq!(record.newest().unwrap().term, 50);
    }

    #[test]
    fn what_is_not_ours_is_not_read() {
        for bytes in [
            &b""[..],
            b"leasehold once 1\n",
            b"leasehold election 1\n1 2",
        ] {
            assert_eq!(Record::read(bytes), None);
        }
    }
}
