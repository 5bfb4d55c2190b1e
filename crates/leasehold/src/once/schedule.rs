//! Slots: growing numbers that everybody gets from the same schedule. Pure.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// How far ahead of the last slot a number may be: far enough for dates such as
/// 20261231.
const FARTHEST: u64 = 100_000;

/// What gives the slots.
#[derive(Debug, Clone)]
pub struct Schedule(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// Slot n is the n-th period since 1970.
    Per(Duration),
    /// A slot is the second of its tick since 1970, in UTC.
    #[cfg(feature = "cron")]
    Cron(Box<croner::Cron>),
    /// Whoever asks says it.
    Numbers,
}

impl Schedule {
    /// A slot for each period since 1970.
    ///
    /// # Errors
    /// `Usage` if the period is less than a millisecond.
    pub fn per(period: Duration) -> Result<Self> {
        if period < Duration::from_millis(1) {
            return Err(refused(format!(
                "a period of {period:?}; at least 1ms is needed"
            )));
        }
        Ok(Self(Kind::Per(period)))
    }

    /// A slot for each tick of a cron expression, in UTC.
    ///
    /// # Errors
    /// `Usage` if it is none, or never ticks.
    #[cfg(feature = "cron")]
    pub fn cron(expression: &str) -> Result<Self> {
        let wrong = |why: String| refused(format!("the cron expression {expression:?} {why}"));
        let parsed = croner::parser::CronParser::new().parse(expression);
        let cron = parsed.map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let schedule = Self(Kind::Cron(Box::new(cron)));
        if schedule.next(0).is_none() {
            return Err(wrong("never fires".into()));
        }
        Ok(schedule)
    }

    /// Slots are numbers that whoever asks says: a build, a date, a version.
    pub fn numbers() -> Self {
        Self(Kind::Numbers)
    }

    /// The slot that a time since 1970 is in; `None` before the first, or if
    /// slots have nothing to do with time.
    pub fn slot_at(&self, time: Duration) -> Option<u64> {
        match &self.0 {
            Kind::Per(period) => u64::try_from(time.as_nanos() / period.as_nanos()).ok(),
            #[cfg(feature = "cron")]
            Kind::Cron(cron) => {
                let tick = cron.find_previous_occurrence(&cron::time(time.as_secs())?, true);
                cron::slot(tick.ok()?)
            }
            Kind::Numbers => None,
        }
    }

    /// The slot after this one.
    pub fn next(&self, slot: u64) -> Option<u64> {
        match &self.0 {
            #[cfg(feature = "cron")]
            Kind::Cron(cron) => {
                let tick = cron.find_next_occurrence(&cron::time(slot)?, false);
                cron::slot(tick.ok()?)
            }
            Kind::Per(_) | Kind::Numbers => slot.checked_add(1),
        }
    }

    /// The slot before this one.
    pub fn previous(&self, slot: u64) -> Option<u64> {
        match &self.0 {
            #[cfg(feature = "cron")]
            Kind::Cron(cron) => {
                let tick = cron.find_previous_occurrence(&cron::time(slot)?, false);
                cron::slot(tick.ok()?)
            }
            Kind::Per(_) | Kind::Numbers => slot.checked_sub(1),
        }
    }

    /// The greatest slot that may be asked for, by the store's clock where there
    /// is one: the next one, because clocks differ. Numbers are bound by the
    /// last slot alone.
    pub(super) fn latest(&self, time: Option<Duration>, last: Option<u64>) -> Option<u64> {
        match &self.0 {
            Kind::Numbers => last.map(|last| last.saturating_add(FARTHEST)),
            _ => {
                let present = self.slot_at(time?)?;
                Some(self.next(present).unwrap_or(present))
            }
        }
    }
}

/// As it stands in the memo: two that are written alike have the same slots.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Per(period) => write!(f, "per {}", humantime::format_duration(*period)),
            #[cfg(feature = "cron")]
            Kind::Cron(cron) => {
                // The memo has it in a line of its own.
                let words: Vec<_> = cron.as_str().split_whitespace().collect();
                write!(f, "cron {}", words.join(" "))
            }
            Kind::Numbers => f.write_str("numbers"),
        }
    }
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::Usage, "read the schedule", why)
}

#[cfg(feature = "cron")]
mod cron {
    use chrono::{DateTime, Utc};

    pub(super) fn time(seconds: u64) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)
    }

    pub(super) fn slot(tick: DateTime<Utc>) -> Option<u64> {
        u64::try_from(tick.timestamp()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_a_period_since_1970() {
        let schedule = Schedule::per(Duration::from_secs(900)).unwrap();
        assert_eq!(schedule.slot_at(Duration::from_secs(1799)), Some(1));
        assert_eq!(schedule.slot_at(Duration::from_secs(1800)), Some(2));
        assert_eq!((schedule.next(2), schedule.previous(0)), (Some(3), None));
        assert_eq!(schedule.to_string(), "per 15m");
        assert!(Schedule::per(Duration::ZERO).is_err());
    }

    #[cfg(feature = "cron")]
    #[test]
    fn a_tick_of_cron_is_a_slot() {
        let schedule = Schedule::cron("0 2 * * *").unwrap();
        let day = |day: u64| day * 86_400 + 2 * 3600;
        let at = |seconds| schedule.slot_at(Duration::from_secs(seconds));
        assert_eq!(at(day(20_000)), Some(day(20_000)));
        assert_eq!(at(day(20_000) - 1), Some(day(19_999)));
        assert_eq!(schedule.next(day(20_000)), Some(day(20_001)));
        assert_eq!(schedule.previous(day(20_000)), Some(day(19_999)));
        let spaced = Schedule::cron("0  2 *\n* *").unwrap();
        assert_eq!(spaced.to_string(), schedule.to_string());
    }

    #[cfg(feature = "cron")]
    #[test]
    fn an_expression_that_is_none_or_never_fires_is_refused() {
        for expression in ["", "nightly", "61 * * * *", "0 0 30 2 *"] {
            let error = Schedule::cron(expression).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{expression}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_next_slot_by_the_stores_clock_is_the_latest() {
        let schedule = Schedule::per(Duration::from_secs(10)).unwrap();
        let time = Some(Duration::from_secs(1005));
        assert_eq!(schedule.latest(time, Some(3)), Some(101));
        assert_eq!(schedule.latest(None, Some(3)), None);
        assert_eq!(Schedule::numbers().latest(time, Some(3)), Some(100_003));
        assert_eq!(Schedule::numbers().latest(time, None), None);
    }
}
