//! Who believed to hold a lock, and for how long: read off a history.

use std::collections::BTreeMap;

use crate::history::{Event, History, Moment};

/// One worker's belief to hold one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The worker.
    pub by: String,
    /// The lock.
    pub name: String,
    /// Its token.
    pub token: Option<u64>,
    /// When it asked.
    pub asked: Moment,
    /// When it was told that it holds.
    pub from: Moment,
    /// When it stopped to believe so.
    pub to: Moment,
    /// Why it did.
    pub end: End,
    /// The line of the grant in the history.
    pub granted_line: usize,
    /// The line that ended it.
    pub end_line: usize,
}

/// Why a belief ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The worker gave the lock back.
    Released,
    /// It was told of the loss.
    Lost,
    /// It was killed.
    Killed,
    /// Its time was over, and it could not be told: it stood still.
    Over,
    /// It still held at the end of the run, or when the worker was granted the
    /// lock once more.
    Open,
}

/// A belief that has not ended yet.
struct Open {
    hold: Hold,
    until: Moment,
}

impl Open {
    fn close(self, at: Moment, end: End, line: usize) -> Hold {
        // Whoever stands still past its time does not act in it: what it does
        // when it wakes up is looked at by other rules.
        let (to, end) = match (self.until < at, end) {
            // The dead cannot be told, in time or later.
            (true, End::Killed) => (self.until, End::Killed),
            (true, _) => (self.until, End::Over),
            (false, end) => (at, end),
        };
        Hold {
            to,
            // A worker that wakes up after its time and is told at once was
            // told; that its belief ended earlier is seen in `to`.
            end,
            end_line: line,
            ..self.hold
        }
    }
}

/// All beliefs, in the order of their beginning.
#[must_use]
pub fn holds(history: &History) -> Vec<Hold> {
    let mut asked: BTreeMap<&str, Moment> = BTreeMap::new();
    let mut open: BTreeMap<&str, Open> = BTreeMap::new();
    let mut holds = Vec::new();
    for (number, line) in history.lines.iter().enumerate() {
        let by = line.by.as_str();
        let end = match &line.event {
            Event::Asks { .. } => {
                asked.insert(by, line.at);
                continue;
            }
            Event::Granted { name, token, until } => {
                let hold = Hold {
                    by: by.to_owned(),
                    name: name.clone(),
                    token: *token,
                    asked: asked.remove(by).unwrap_or(line.at),
                    from: line.at,
                    to: line.at,
                    end: End::Open,
                    granted_line: number,
                    end_line: number,
                };
                let until = until.unwrap_or(Moment::MAX);
                let earlier = open.insert(by, Open { hold, until });
                // One that nobody has told the end of lasts until the next one.
                holds.extend(earlier.map(|it| it.close(line.at, End::Open, number)));
                continue;
            }
            Event::Renewed { until } => {
                if let Some(open) = open.get_mut(by) {
                    open.until = open.until.max(*until);
                }
                continue;
            }
            Event::Releases => End::Released,
            Event::Lost { .. } => End::Lost,
            Event::Killed | Event::Failed { .. } => End::Killed,
            _ => continue,
        };
        if let Some(open) = open.remove(by) {
            holds.push(open.close(line.at, end, number));
        }
    }
    let (last, line) = (history.span().1, history.lines.len().saturating_sub(1));
    holds.extend(open.into_values().map(|it| it.close(last, End::Open, line)));
    holds.sort_by_key(|hold| (hold.from, hold.granted_line));
    holds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{granted, line};

    #[test]
    fn a_hold_lasts_until_its_release_its_loss_its_death_or_its_time() {
        let lost = Event::Lost { why: "gone".into() };
        let renewed = Event::Renewed { until: 90_000_000 };
        let history = History::new(vec![
            line(1, "a", Event::Asks { name: "l".into() }),
            line(2, "a", granted(1, 10)),
            line(4, "a", Event::Releases),
            line(5, "b", granted(2, 50)),
            line(20, "b", lost),
            line(21, "c", granted(3, 30)),
            line(25, "c", renewed),
            line(60, "c", Event::Killed),
            line(61, "d", granted(4, 70)),
            line(99, "d", Event::Releases),
            line(100, "e", granted(5, 110)),
            line(120, "e", Event::Killed),
        ]);
        let holds = holds(&history);
        let seen: Vec<_> = holds
            .iter()
            .map(|hold| {
                (
                    &*hold.by,
                    hold.from / 1_000_000,
                    hold.to / 1_000_000,
                    hold.end,
                )
            })
            .collect();
        let expected = [
            ("a", 2, 4, End::Released),
            ("b", 5, 20, End::Lost),
            ("c", 21, 60, End::Killed),
            ("d", 61, 70, End::Over),
            ("e", 100, 110, End::Killed),
        ];
        assert_eq!(seen, expected);
        assert_eq!(holds[0].asked, 1_000_000);
    }
}
