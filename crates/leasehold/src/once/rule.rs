//! What to do about a slot, and what the memo says of the last one. Pure.

use super::schedule::Schedule;

/// Begins every such memo.
const HEAD: &str = "leasehold once 1\n";

/// What is done about slots that nobody ran in their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// Nothing: only the slot of now is run.
    #[default]
    Skip,
    /// The latest of them is run before the slot of now.
    Latest,
    /// All of them are run, in order.
    All,
}

/// What is done about a slot whose run was cut off: its process died, or lost
/// the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCrash {
    /// It is run again by whoever asks for it next: at least once, if anybody
    /// does. When its time is over that takes [`Missed::All`], or
    /// [`Missed::Latest`] if it is the latest.
    #[default]
    Retry,
    /// It is not: at most once.
    GiveUp,
}

/// The memo: the last slot that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) schedule: String,
    pub(super) slot: u64,
    /// The how-manieth run of the slot, from 1.
    pub(super) attempt: u32,
    pub(super) is_done: bool,
}

/// What to do next. Whoever asks holds the lock, so whatever runs is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Run {
        slot: u64,
        attempt: u32,
    },
    /// The slot counts as done.
    GiveUp {
        slot: u64,
    },
    /// The slot was run.
    Done,
    /// A later one was begun.
    Old {
        last: u64,
    },
}

pub(super) fn step(
    record: Option<&Record>,
    schedule: &Schedule,
    due: u64,
    missed: Missed,
    on_crash: OnCrash,
) -> Step {
    let run = |slot| {
        let before = record.filter(|record| record.slot == slot);
        let attempt = before.map_or(1, |record| record.attempt.saturating_add(1));
        Step::Run { slot, attempt }
    };
    let Some(last) = record else {
        return run(due);
    };
    let is_cut_off = !last.is_done;
    if last.slot > due {
        return Step::Old { last: last.slot };
    }
    if last.slot == due {
        return match (is_cut_off, on_crash) {
            (false, _) => Step::Done,
            (true, OnCrash::Retry) => run(due),
            (true, OnCrash::GiveUp) => Step::GiveUp { slot: due },
        };
    }
    // The first slot that nobody ran.
    let first = match is_cut_off && on_crash == OnCrash::Retry {
        true => Some(last.slot),
        false => schedule.next(last.slot),
    };
    let made_up = match missed {
        Missed::Skip => None,
        Missed::Latest => schedule
            .previous(due)
            .filter(|latest| first.is_some_and(|first| first <= *latest)),
        Missed::All => first.filter(|first| *first < due),
    };
    run(made_up.unwrap_or(due))
}

/// What becomes of a slot while another holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meanwhile {
    /// The holder runs it.
    Runs,
    Done,
    /// A later one was begun.
    Old {
        last: u64,
    },
    /// The holder runs an earlier one.
    Earlier {
        running: u64,
    },
    /// The holder has done an earlier one, and is about to give the lock back, or keeps
    /// it for a while.
    Leaving {
        last: u64,
    },
    /// The holder has not said what it does.
    Unknown,
}

/// `is_holders` if the record was written by the one who holds the lock now.
pub(super) fn meanwhile(record: Option<&Record>, is_holders: bool, due: u64) -> Meanwhile {
    match record {
        Some(last) if last.slot > due => Meanwhile::Old { last: last.slot },
        Some(last) if last.slot == due && last.is_done => Meanwhile::Done,
        Some(last) if is_holders && last.slot == due => Meanwhile::Runs,
        Some(last) if is_holders && last.is_done => Meanwhile::Leaving { last: last.slot },
        Some(last) if is_holders => Meanwhile::Earlier { running: last.slot },
        _ => Meanwhile::Unknown,
    }
}

impl Record {
    pub(super) fn write(&self) -> String {
        let Self {
            schedule,
            slot,
            attempt,
            is_done,
        } = self;
        let state = if *is_done { "done" } else { "running" };
        format!("{HEAD}{schedule}\n{slot} {attempt} {state}\n")
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.strip_prefix(HEAD)?;
        let (schedule, rest) = text.strip_suffix('\n')?.split_once('\n')?;
        let mut words = rest.split(' ');
        Some(Self {
            schedule: schedule.to_owned(),
            slot: words.next()?.parse().ok()?,
            attempt: words.next()?.parse().ok()?,
            is_done: match words.next()? {
                "done" => true,
                "running" => false,
                _ => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(slot: u64, is_done: bool) -> Record {
        Record {
            schedule: "numbers".into(),
            slot,
            attempt: 1,
            is_done,
        }
    }

    fn then(last: Option<Record>, missed: Missed, on_crash: OnCrash) -> Step {
        step(last.as_ref(), &Schedule::numbers(), 10, missed, on_crash)
    }

    const fn run(slot: u64, attempt: u32) -> Step {
        Step::Run { slot, attempt }
    }

    #[test]
    fn a_slot_is_run_once_and_an_older_one_never() {
        let skip = |last| then(last, Missed::Skip, OnCrash::Retry);
        assert_eq!(skip(None), run(10, 1));
        assert_eq!(skip(Some(record(9, true))), run(10, 1));
        assert_eq!(skip(Some(record(10, true))), Step::Done);
        assert_eq!(skip(Some(record(11, true))), Step::Old { last: 11 });
        assert_eq!(skip(Some(record(11, false))), Step::Old { last: 11 });
    }

    #[test]
    fn a_run_that_was_cut_off_is_repeated_or_given_up() {
        let last = || Some(record(10, false));
        assert_eq!(then(last(), Missed::Skip, OnCrash::Retry), run(10, 2));
        let given_up = Step::GiveUp { slot: 10 };
        assert_eq!(then(last(), Missed::All, OnCrash::GiveUp), given_up);
    }

    #[test]
    fn what_was_missed_is_made_up_as_asked() {
        for (slot, is_done, missed, expected) in [
            (6, true, Missed::Skip, run(10, 1)),
            (6, true, Missed::Latest, run(9, 1)),
            (9, true, Missed::Latest, run(10, 1)),
            (6, true, Missed::All, run(7, 1)),
            (6, false, Missed::Skip, run(10, 1)),
            (6, false, Missed::Latest, run(9, 1)),
            (9, false, Missed::Latest, run(9, 2)),
            (6, false, Missed::All, run(6, 2)),
        ] {
            let step = then(Some(record(slot, is_done)), missed, OnCrash::Retry);
            assert_eq!(step, expected, "{slot} {is_done} {missed:?}");
        }
        let cut_off = || Some(record(9, false));
        assert_eq!(then(cut_off(), Missed::Latest, OnCrash::GiveUp), run(10, 1));
        assert_eq!(then(cut_off(), Missed::All, OnCrash::GiveUp), run(10, 1));
    }

    #[test]
    fn while_another_holds_only_what_it_wrote_says_what_runs() {
        let during = |slot, is_done, is_holders| {
            let last = record(slot, is_done);
            meanwhile(Some(&last), is_holders, 10)
        };
        for is_holders in [true, false] {
            assert_eq!(during(10, true, is_holders), Meanwhile::Done);
            let old = Meanwhile::Old { last: 11 };
            assert_eq!(during(11, false, is_holders), old);
        }
        assert_eq!(during(10, false, true), Meanwhile::Runs);
        // It was cut off, and whoever holds has not begun it again yet.
        assert_eq!(during(10, false, false), Meanwhile::Unknown);
        let earlier = Meanwhile::Earlier { running: 9 };
        assert_eq!(during(9, false, true), earlier);
        assert_eq!(during(9, true, true), Meanwhile::Leaving { last: 9 });
        assert_eq!(during(9, true, false), Meanwhile::Unknown);
        assert_eq!(meanwhile(None, false, 10), Meanwhile::Unknown);
    }

    #[test]
    fn a_record_is_read_back() {
        let mut record = record(7, true);
        record.schedule = "cron */5 * * * *".into();
        assert_eq!(Record::read(record.write().as_bytes()), Some(record));
        assert_eq!(Record::read(b"leasehold election 1\n"), None);
    }
}
