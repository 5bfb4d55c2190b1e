//! Where everybody's lines come together.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::history::{Event, History, Line, Moment, now};

/// Takes lines from several threads.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    lines: Arc<Mutex<Lines>>,
}

#[derive(Debug, Default)]
struct Lines {
    all: Vec<Line>,
    /// Where each goes at once, in the order in which they come.
    file: Option<File>,
}

impl Lines {
    fn push(&mut self, line: Line) {
        if let Some(file) = &mut self.file {
            let mut text = serde_json::to_vec(&line).unwrap_or_default();
            text.push(b'\n');
            // A file that takes no more is not tried again: at the end of the
            // run all is written once more, and what is wrong comes to light.
            if file.write_all(&text).is_err() {
                self.file = None;
            }
        }
        self.all.push(line);
    }
}

impl Recorder {
    /// One that also writes each line into this file as soon as it comes, so
    /// that nothing is lost with the lab.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn streaming(path: &Path) -> std::io::Result<Self> {
        let lines = Lines {
            all: Vec::new(),
            file: Some(File::create(path)?),
        };
        Ok(Self {
            lines: Arc::new(Mutex::new(lines)),
        })
    }

    /// Takes a line that somebody else made.
    pub fn take(&self, line: Line) {
        self.lines().push(line);
    }

    /// Records what happens now.
    pub fn tell(&self, by: &str, event: Event) {
        let by = by.to_owned();
        let mut lines = self.lines();
        // The time is read with the lock in hand, so that what one thread does
        // after another is later.
        lines.push(Line {
            at: now(),
            by,
            event,
        });
    }

    /// A remark of the lab for the picture.
    pub fn note(&self, text: &str) {
        self.tell("lab", Event::Note { text: text.into() });
    }

    /// Something is broken from now on.
    pub fn breaks(&self, kind: &str, on: &str) {
        let (kind, on) = (kind.into(), on.into());
        self.tell("lab", Event::Fault { kind, on });
    }

    /// Something was broken from that moment on, which is known only now.
    pub fn broke(&self, kind: &str, on: &str, at: Moment) {
        let (kind, on) = (kind.into(), on.into());
        let event = Event::Fault { kind, on };
        self.take(by_the_lab(at, event));
    }

    /// It was whole again at that moment.
    pub fn healed(&self, kind: &str, on: &str, at: Moment) {
        let (kind, on) = (kind.into(), on.into());
        let event = Event::Healed { kind, on };
        self.take(by_the_lab(at, event));
    }

    /// It is whole again.
    pub fn heals(&self, kind: &str, on: &str) {
        let (kind, on) = (kind.into(), on.into());
        self.tell("lab", Event::Healed { kind, on });
    }

    /// How many lines have come so far.
    #[must_use]
    pub fn so_far(&self) -> usize {
        self.lines().all.len()
    }

    /// Whether a line like that has come.
    #[must_use]
    pub fn has(&self, is_it: impl Fn(&Line) -> bool) -> bool {
        self.lines().all.iter().any(is_it)
    }

    /// Whether a line like that has come after so many others. What is asked again
    /// and again is asked so: a long run has many lines.
    #[must_use]
    pub fn has_after(&self, count: usize, is_it: impl Fn(&Line) -> bool) -> bool {
        self.lines().all.iter().skip(count).any(is_it)
    }

    /// How many lines like that have come.
    #[must_use]
    pub fn count(&self, is_it: impl Fn(&Line) -> bool) -> usize {
        self.lines().all.iter().filter(|line| is_it(line)).count()
    }

    /// Who was granted last and holds still, and since when, by what has come
    /// so far.
    #[must_use]
    pub fn holder(&self) -> Option<(String, Moment)> {
        let lines = self.lines();
        let mut gone = BTreeSet::new();
        for line in lines.all.iter().rev() {
            match &line.event {
                Event::Granted { .. } if !gone.contains(line.by.as_str()) => {
                    return Some((line.by.clone(), line.at));
                }
                Event::Releases | Event::Lost { .. } | Event::Killed | Event::Failed { .. } => {
                    gone.insert(line.by.as_str());
                }
                _ => {}
            }
        }
        None
    }

    /// Whether this one has told something, and nothing for so long.
    #[must_use]
    pub fn is_silent(&self, by: &str, longest: Duration) -> bool {
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(Moment::MAX);
        let since = now().saturating_sub(nanos);
        let lines = self.lines();
        let last = lines.all.iter().rev().find(|line| line.by == by);
        last.is_some_and(|line| line.at < since)
    }

    /// What has come since each of these was granted something for the last time
    /// before this moment.
    #[must_use]
    pub fn since_grants(&self, names: &BTreeSet<&str>, moment: Moment) -> History {
        let lines = self.lines();
        let mut open = names.clone();
        let mut rest = lines.all.iter().enumerate().rev();
        let begin = rest.find(|(_, line)| {
            if line.at < moment && matches!(line.event, Event::Granted { .. }) {
                open.remove(&*line.by);
            }
            open.is_empty()
        });
        let begin = begin.map_or(0, |(number, _)| number);
        History::new(lines.all[begin..].to_vec())
    }

    /// All that has come so far.
    #[must_use]
    pub fn history(&self) -> History {
        History::new(self.lines().all.clone())
    }

    /// What has come after so many lines.
    #[must_use]
    pub fn after(&self, count: usize) -> Vec<Line> {
        self.lines().all.iter().skip(count).cloned().collect()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn by_the_lab(at: Moment, event: Event) -> Line {
    let by = "lab".into();
    Line { at, by, event }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{granted, line};

    #[test]
    fn a_line_is_in_the_file_as_soon_as_it_has_come() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let recorder = Recorder::streaming(&path).unwrap();
        for number in 1..=3 {
            recorder.take(line(number, "a", granted(number, 50)));
            let file = std::io::BufReader::new(File::open(&path).unwrap());
            let written = History::read(file).unwrap();
            assert_eq!(written.lines, recorder.history().lines);
        }
    }

    #[test]
    fn the_holder_is_who_was_granted_last_and_did_not_leave() {
        let recorder = Recorder::default();
        assert_eq!(recorder.holder(), None);
        recorder.take(line(1, "a", granted(1, 50)));
        recorder.take(line(2, "b", granted(2, 50)));
        assert_eq!(recorder.holder(), Some(("b".into(), 2_000_000)));
        recorder.take(line(3, "b", Event::Releases));
        assert_eq!(recorder.holder(), Some(("a".into(), 1_000_000)));
        recorder.take(line(4, "a", Event::Killed));
        assert_eq!(recorder.holder(), None);
    }
}
