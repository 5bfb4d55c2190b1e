//! What the memo of a message says, and what to do about the message. Pure.

/// Begins every such memo.
const HEAD: &[u8] = b"leasehold dedupe 1\n";

/// The memo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// How often the message was begun.
    pub(super) attempt: u32,
    /// There once it is done.
    pub(super) result: Option<Vec<u8>>,
}

/// What to do. Whoever asks holds the lock, so whoever was at it is not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Start { attempt: u32 },
    Done(Vec<u8>),
    GiveUp { attempts: u32 },
}

pub(super) fn step(record: Option<Record>, max_attempts: Option<u32>) -> Step {
    let (attempts, result) = record.map_or((0, None), |record| (record.attempt, record.result));
    match result {
        Some(result) => Step::Done(result),
        None if max_attempts.is_some_and(|most| attempts >= most) => Step::GiveUp { attempts },
        None => Step::Start {
            attempt: attempts.saturating_add(1),
        },
    }
}

impl Record {
    pub(super) fn running(attempt: u32) -> Self {
        Self {
            attempt,
            result: None,
        }
    }

    /// The head, `ATTEMPT STATE`, and the result in whatever bytes it has.
    pub(super) fn write(&self) -> Vec<u8> {
        let state = if self.result.is_some() {
            "done"
        } else {
            "running"
        };
        let line = format!("{} {state}\n", self.attempt);
        let result = self.result.as_deref().unwrap_or_default();
        [HEAD, line.as_bytes(), result].concat()
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(HEAD)?;
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        let (line, result) = (std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]);
        let (attempt, state) = line.split_once(' ')?;
        Some(Self {
            attempt: attempt.parse().ok()?,
            result: match state {
                "done" => Some(result.to_owned()),
                "running" if result.is_empty() => None,
                _ => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memo::LONGEST_MEMO;

    #[test]
    fn a_record_is_read_back_and_nothing_else_is() {
        let longest = vec![b'\n'; crate::dedupe::LONGEST_RESULT];
        for result in [
            None,
            Some(vec![]),
            Some(b"a\n\0\xff".to_vec()),
            Some(longest),
        ] {
            let record = Record {
                attempt: u32::MAX,
                result,
            };
            let written = record.write();
            assert!(written.len() <= LONGEST_MEMO);
            assert_eq!(Record::read(&written), Some(record));
        }
        for other in [
            &b""[..],
            b"leasehold once 1\nnumbers\n1 1 done\n",
            b"leasehold dedupe 2\n1 done\n",
            b"leasehold dedupe 1\n1 done",
            b"leasehold dedupe 1\nx done\n",
            b"leasehold dedupe 1\n1 running\nmore",
        ] {
            assert_eq!(Record::read(other), None);
        }
    }

    #[test]
    fn a_message_is_begun_as_often_as_is_allowed() {
        let begun = |attempt| Some(Record::running(attempt));
        assert_eq!(step(None, Some(1)), Step::Start { attempt: 1 });
        assert_eq!(step(begun(1), Some(2)), Step::Start { attempt: 2 });
        assert_eq!(step(begun(2), Some(2)), Step::GiveUp { attempts: 2 });
        assert_eq!(step(begun(7), None), Step::Start { attempt: 8 });
        let done = Record {
            attempt: 9,
            result: Some(b"x".to_vec()),
        };
        assert_eq!(step(Some(done), Some(2)), Step::Done(b"x".to_vec()));
    }
}
