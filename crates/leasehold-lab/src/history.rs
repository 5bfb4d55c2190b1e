//! What happened in a run: one JSON object per line. Everything that is checked
//! or drawn afterwards comes from here, so that a picture and a verdict cannot
//! disagree.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

/// Nanoseconds of the boot clock. All processes of one machine read the same.
pub type Moment = u64;

/// The time now.
#[must_use]
pub fn now() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When.
    pub at: Moment,
    /// Who tells it: a worker, a resource, or the lab.
    pub by: String,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Event {
    /// A worker asks for a lock.
    Asks {
        /// The lock.
        name: String,
    },
    /// A worker rests, because it was told to, until it may ask again.
    Rests,
    /// The store answered that it has a new place in the queue.
    Queued {
        /// Whether others are before it; else it holds.
        waits: bool,
    },
    /// It got it.
    Granted {
        /// The lock.
        name: String,
        /// The fencing token; none if the strategy has none.
        token: Option<u64>,
        /// Until when it may believe to hold if it hears nothing more.
        until: Option<Moment>,
    },
    /// The store answered that a claim of this worker holds. What the worker
    /// makes of it is another matter.
    Stands {
        /// The lock.
        name: String,
        /// The claim: the random part of its fence.
        holder: u64,
        /// Its token.
        token: u64,
        /// Until when the store has promised to keep it.
        until: Moment,
    },
    /// The store answered that it keeps claims of this worker for longer.
    Keeps {
        /// Which ones.
        holders: Vec<u64>,
        /// Until when.
        until: Moment,
    },
    /// The store is asked to take a claim of this worker away.
    Yields {
        /// Which one.
        holder: u64,
    },
    /// Somebody who looks at the store saw a claim hold, in each of his looks
    /// from one moment to another.
    Seen {
        /// The lock.
        name: String,
        /// The claim.
        holder: u64,
        /// Its token.
        token: Option<u64>,
        /// When the answer to the first look came.
        from: Moment,
        /// When the last one was sent.
        to: Moment,
    },
    /// Whoever looks at the store cannot: what holds is unknown until he sees again.
    Blind {
        /// When the first look was sent that failed.
        since: Moment,
        /// Why it did.
        why: String,
    },
    /// He sees again.
    Sees,
    /// It did not get it.
    Refused {
        /// What it was told.
        why: String,
        /// Whether the store may have done it all the same.
        unknown: bool,
    },
    /// It still holds, and may believe so for longer.
    Renewed {
        /// Until when.
        until: Moment,
    },
    /// It begins to give the lock back: it acts no more.
    Releases,
    /// It has given it back.
    Released {
        /// Whether the store did it; it did not if there was nothing left to
        /// give back.
        outcome: Outcome,
    },
    /// It was told that it holds no more.
    Lost {
        /// The reason.
        why: String,
    },
    /// A worker sends an access to a resource.
    Sends {
        /// Read, write, or claim.
        access: Access,
        /// The token that it shows.
        token: Option<u64>,
        /// The holder in the fence that it shows, random per claim.
        #[serde(default)]
        holder: Option<u64>,
    },
    /// The access came back.
    Answered {
        /// Whether the resource let it in.
        outcome: Outcome,
        /// The value after a read.
        value: Option<u64>,
    },
    /// A resource decided about an access, in the order of its deciding.
    Decides {
        /// Whose.
        of: String,
        /// Of which kind.
        access: Access,
        /// The token that was shown.
        token: Option<u64>,
        /// Whether it passed.
        accepted: bool,
        /// The resource's value afterwards.
        value: u64,
    },
    /// Something is broken on purpose.
    Fault {
        /// Which kind.
        kind: String,
        /// What it happens to: a worker or a server.
        on: String,
    },
    /// It is whole again.
    Healed {
        /// Which kind.
        kind: String,
        /// What it happened to.
        on: String,
    },
    /// A worker is dead. What it believed ends here.
    Killed,
    /// A worker ended with an error that nobody wanted, or did not end.
    Failed {
        /// How.
        why: String,
    },
    /// A part of the run begins.
    Phase {
        /// Its name.
        name: String,
    },
    /// A remark for people who look at the picture.
    Note {
        /// What to say.
        text: String,
    },
}

/// What is done to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Raise the mark and read.
    Claim,
    /// Read.
    Read,
    /// Write a value.
    Write(u64),
}

/// How an access ended, as its sender sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Ok,
    /// It was refused, and not done.
    No,
    /// Nobody knows.
    Unknown,
}

/// A whole run, in the order of time.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Its lines.
    pub lines: Vec<Line>,
}

impl History {
    /// Puts lines in the order of time. Lines of one moment stay as they came.
    #[must_use]
    pub fn new(mut lines: Vec<Line>) -> Self {
        lines.sort_by_key(|line| line.at);
        Self { lines }
    }

    /// Reads what [`History::write`] wrote.
    ///
    /// # Errors
    /// What cannot be read, with the number of its line.
    pub fn read(input: impl BufRead) -> std::io::Result<Self> {
        let mut lines = Vec::new();
        for (number, text) in input.lines().enumerate() {
            let line = serde_json::from_str(&text?)
                .map_err(|error| std::io::Error::other(format!("line {}: {error}", number + 1)))?;
            lines.push(line);
        }
        Ok(Self::new(lines))
    }

    /// Writes one line for each thing that happened.
    ///
    /// # Errors
    /// As writing does.
    pub fn write(&self, mut output: impl Write) -> std::io::Result<()> {
        for line in &self.lines {
            serde_json::to_writer(&mut output, line)?;
            output.write_all(b"\n")?;
        }
        output.flush()
    }

    /// The first and the last moment.
    #[must_use]
    pub fn span(&self) -> (Moment, Moment) {
        let first = self.lines.first().map_or(0, |line| line.at);
        (first, self.lines.last().map_or(first, |line| line.at))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A line of a worker, for tests; a moment is a millisecond.
    pub(crate) fn line(millis: u64, by: &str, event: Event) -> Line {
        Line {
            at: millis * 1_000_000,
            by: by.into(),
            event,
        }
    }

    pub(crate) fn granted(token: u64, until: u64) -> Event {
        Event::Granted {
            name: "l".into(),
            token: Some(token),
            until: Some(until * 1_000_000),
        }
    }

    #[test]
    fn what_is_written_is_read_in_the_order_of_time() {
        let decides = Event::Decides {
            of: "w1".into(),
            access: Access::Write(4),
            token: Some(7),
            accepted: false,
            value: 3,
        };
        let lines = vec![
            line(5, "resource", decides),
            line(2, "w1", granted(7, 9)),
            line(3, "w1", Event::Releases),
        ];
        let history = History::new(lines);
        let mut text = Vec::new();
        history.write(&mut text).unwrap();
        let again = History::read(&text[..]).unwrap();
        assert_eq!(again.lines, history.lines);
        assert_eq!(again.span(), (2_000_000, 5_000_000));
        let broken = History::read(&b"{}\n"[..]).unwrap_err();
        assert!(broken.to_string().starts_with("line 1: "), "{broken}");
    }
}
