//! Two workers and a ledger: the first is in the middle of its work when
//! something happens, the second comes, and then the first goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Error, Report, Told};
use crate::crew::{Hand, until};
use crate::history::{Access, Event, Line};
use crate::invariant::{belief, lost_updates, stale_writes, told_in_time};
use crate::recorder::Recorder;
use crate::resource::Resource;
use crate::worker::{Accident, Job, Strategy};

/// How long anybody may take for what it must come to.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// How long the second one is given where it should not get in.
const PATIENCE: Duration = Duration::from_secs(3);

/// The heads of the table that [`Two::judge`] fills.
pub(super) const HEADS: [&str; 5] = [
    "strategy",
    "updates",
    "lost",
    "two at once",
    "second waited",
];

/// The two, and what they work on.
pub(super) struct Two {
    pub(super) recorder: Recorder,
    ledger: Resource,
    strategy: Strategy,
    lock: String,
    /// The first goes on when this file is there.
    word: PathBuf,
}

impl Two {
    pub(super) fn new(strategy: Strategy, folder: &Path, number: usize) -> Result<Self, Error> {
        let recorder = Recorder::default();
        let ledger = Resource::start("ledger", 0, recorder.clone())?;
        Ok(Self {
            recorder,
            ledger,
            strategy,
            lock: format!("lab/{}/{number}", std::process::id()),
            word: folder.join(format!("word-{number}")),
        })
    }

    /// A worker on this store.
    pub(super) fn job(&self, name: &str, url: &str) -> Job {
        Job::new(name, self.strategy, url, &self.lock, self.ledger.address)
    }

    /// Starts the first worker and waits until it has read and works on.
    pub(super) fn first(&self, url: &str, ttl_millis: u64) -> Result<Hand, Error> {
        let file = self.word.clone();
        self.start_first(url, ttl_millis, Accident::WorksUntil { file })
    }

    /// The same with one that stands still between its last look at the lock and
    /// its write.
    pub(super) fn first_at_write(&self, url: &str, ttl_millis: u64) -> Result<Hand, Error> {
        let hand = self.start_first(url, ttl_millis, Accident::StopsBeforeWrite)?;
        if !until(LONGEST, || hand.is_stopped()) {
            return Err("the first worker came to no write".into());
        }
        self.recorder.breaks("pause", "w1");
        Ok(hand)
    }

    fn start_first(&self, url: &str, ttl_millis: u64, accident: Accident) -> Result<Hand, Error> {
        let accident = Some(accident);
        let mut hand = Hand::start(
            &Job {
                accident,
                ttl_millis,
                ..self.job("w1", url)
            },
            &self.recorder,
        )?;
        let has_read =
            |line: &Line| line.by == "w1" && matches!(line.event, Event::Answered { .. });
        let mut has_ended = false;
        let works = until(LONGEST, || {
            has_ended = hand.has_ended();
            has_ended || self.recorder.has(has_read)
        });
        match works && !has_ended {
            true => Ok(hand),
            false => Err("the first worker did not come to work".into()),
        }
    }

    /// Starts the second worker, and waits until it has written. One that should
    /// not get in is given less time for it.
    pub(super) fn second(&self, url: &str, gets_in: bool) -> Result<Hand, Error> {
        let hand = Hand::start(&self.job("w2", url), &self.recorder)?;
        let is_written = |line: &Line| match &line.event {
            Event::Decides { of, access, .. } => of == "w2" && matches!(access, Access::Write(_)),
            _ => false,
        };
        let longest = if gets_in { LONGEST } else { PATIENCE };
        until(longest, || self.recorder.has(is_written));
        Ok(hand)
    }

    /// Lets the first one go on, and both come to their end.
    pub(super) fn finish(&self, mut first: Hand, mut second: Hand) -> Result<(), Error> {
        self.recorder.note("the first goes on");
        std::fs::write(&self.word, "")?;
        if first.is_stopped() {
            first.resume();
        }
        first.finish(LONGEST);
        second.finish(LONGEST);
        Ok(())
    }

    /// What came out, as a row of the report.
    pub(super) fn judge(self, title: &str, should_be_bad: bool, report: &mut Report) {
        let history = self.recorder.history();
        let is_update = |line: &&Line| match &line.event {
            Event::Decides {
                accepted, access, ..
            } => *accepted && matches!(access, Access::Write(_)),
            _ => false,
        };
        let updates = history.lines.iter().filter(is_update).count() as u64;
        let lost = updates.saturating_sub(self.ledger.value());
        let at_once = belief(&history);
        let holds = crate::hold::holds(&history);
        let waited = holds.iter().find(|hold| hold.by == "w2");
        let waited = waited.map_or_else(
            || "never got in".to_owned(),
            |hold| format!("{} ms", hold.from.saturating_sub(hold.asked) / 1_000_000),
        );
        let two = match at_once.is_empty() {
            true => "no",
            false => "yes",
        };
        let fields = vec![
            updates.to_string(),
            lost.to_string(),
            two.to_owned(),
            waited,
        ];
        let mut violations = lost_updates(&history, "ledger");
        violations.extend(stale_writes(&history));
        violations.extend(told_in_time(&history, 1));
        violations.extend(at_once);
        let title = title.to_owned();
        let told = Told {
            title,
            history,
            violations,
        };
        report.add(told, fields, lost > 0, should_be_bad);
    }
}
