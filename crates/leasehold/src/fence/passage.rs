//! PURE: when a request may go on to a service that cannot check fences.
//!
//! Comparing tokens at the door is not enough: a request that was let in may
//! still be under way, and act after a newer one. So the door lets a newer
//! holder in only when everything of the older ones has been answered, or can
//! act no more: a request whose end nobody saw (a broken connection, a death of
//! ours) counts as under way for the longest time that the service ever takes,
//! `drain_max`. The mark is on the disk before the first request of its holder
//! goes on, and after a restart nobody passes for `drain_max`, since whatever
//! the dead process had let in may still be under way.
//!
//! Time is counted from any one moment; only differences matter.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Fence, Policy, Stale, access};

/// The door to one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Passage {
    mark: Option<Fence>,
    /// Whether the mark is on the disk.
    is_kept: bool,
    under_way: BTreeMap<Fence, u32>,
    /// Until when the requests of a fence may act whose end nobody saw.
    doubtful: BTreeMap<Fence, Duration>,
    closed_until: Duration,
}

/// What a request has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Go on to the service.
    Go,
    /// Bring the mark to the disk, say so, and ask again.
    Keep,
    /// Ask again when another request ends, and at this time if there is one.
    Wait(Option<Duration>),
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The service has answered to the end.
    Answered,
    /// The service has never seen it.
    NotSent,
    /// Nobody knows: the service may act on it for `drain_max`.
    Unknown,
}

impl Passage {
    /// A resource that nobody has claimed.
    pub fn new() -> Self {
        Self::after_restart(None, Duration::ZERO)
    }

    /// What the disk has, and when nothing of before can act any more.
    pub fn after_restart(mark: Option<Fence>, closed_until: Duration) -> Self {
        Self {
            mark,
            is_kept: mark.is_some(),
            under_way: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            closed_until,
        }
    }

    /// The fence that the resource goes by.
    pub fn mark(&self) -> Option<Fence> {
        self.mark
    }

    /// A request has come. A newer fence shuts the older ones out from now on,
    /// although it has to wait for what is under way.
    ///
    /// # Errors
    /// `Stale` if a newer one has come.
    pub fn arrive(&mut self, fence: Fence) -> Result<(), Stale> {
        let mark = Policy::Ordered.claim(self.mark, fence)?;
        if self.mark != Some(mark) {
            self.mark = Some(mark);
            self.is_kept = false;
        }
        Ok(())
    }

    /// The mark is on the disk.
    pub fn keep(&mut self, fence: Fence) {
        self.is_kept |= self.mark == Some(fence);
    }

    /// What a request that has arrived may do now.
    ///
    /// # Errors
    /// `Stale` if a newer one has come meanwhile.
    pub fn turn(&self, fence: Fence, now: Duration) -> Result<Turn, Stale> {
        access(self.mark, fence)?;
        if !self.is_kept {
            return Ok(Turn::Keep);
        }
        if self.under_way.keys().any(|other| *other != fence) {
            return Ok(Turn::Wait(None));
        }
        let doubts = self.doubtful.iter().filter(|(other, _)| **other != fence);
        let until = doubts.map(|(_, until)| *until).max();
        match until.max(Some(self.closed_until)) {
            Some(until) if until > now => Ok(Turn::Wait(Some(until))),
            _ => Ok(Turn::Go),
        }
    }

    /// The request goes on to the service.
    pub fn start(&mut self, fence: Fence) {
        *self.under_way.entry(fence).or_default() += 1;
    }

    /// A request that went on has ended.
    pub fn end(&mut self, fence: Fence, ending: Ending, now: Duration, drain_max: Duration) {
        if let Some(count) = self.under_way.get_mut(&fence) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&fence);
            }
        }
        self.doubtful.retain(|_, until| *until > now);
        if ending == Ending::Unknown {
            let until = self.doubtful.entry(fence).or_default();
            *until = (*until).max(now + drain_max);
        }
    }

    /// How many requests are under way.
    pub fn under_way(&self) -> u32 {
        self.under_way.values().sum()
    }
}

impl Default for Passage {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Token;

    const DRAIN: Duration = Duration::from_secs(30);

    fn fence(token: u64) -> Fence {
        Fence {
            token: Token::new(token),
            holder: token,
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A door through which a request of the first holder has gone.
    fn with_one_under_way() -> Passage {
        let mut passage = Passage::new();
        passage.arrive(fence(1)).unwrap();
        passage.keep(fence(1));
        passage.start(fence(1));
        passage
    }

    #[test]
    fn nothing_goes_on_before_the_mark_is_kept() {
        let mut passage = Passage::new();
        passage.arrive(fence(1)).unwrap();
        assert_eq!(passage.turn(fence(1), at(0)), Ok(Turn::Keep));
        // The disk is slow: what arrives then is not what was kept.
        passage.arrive(fence(2)).unwrap();
        passage.keep(fence(1));
        assert_eq!(passage.turn(fence(2), at(0)), Ok(Turn::Keep));
        assert!(passage.turn(fence(1), at(0)).is_err());
        passage.keep(fence(2));
        assert_eq!(passage.turn(fence(2), at(0)), Ok(Turn::Go));
    }

    #[test]
    fn a_newer_holder_shuts_the_older_out_and_waits_for_what_is_under_way() {
        let mut passage = with_one_under_way();
        assert_eq!(passage.turn(fence(1), at(0)), Ok(Turn::Go));
        passage.arrive(fence(2)).unwrap();
        passage.keep(fence(2));
        assert!(passage.arrive(fence(1)).is_err());
        assert_eq!(passage.turn(fence(2), at(1000)), Ok(Turn::Wait(None)));
        passage.end(fence(1), Ending::Answered, at(1000), DRAIN);
        assert_eq!(passage.turn(fence(2), at(1000)), Ok(Turn::Go));
    }

    #[test]
    fn a_request_whose_end_nobody_saw_is_waited_for_by_others_only() {
        let mut passage = with_one_under_way();
        passage.end(fence(1), Ending::Unknown, at(10), DRAIN);
        assert_eq!(passage.turn(fence(1), at(11)), Ok(Turn::Go));
        passage.arrive(fence(2)).unwrap();
        passage.keep(fence(2));
        let until = Turn::Wait(Some(at(40)));
        assert_eq!(passage.turn(fence(2), at(11)), Ok(until));
        assert_eq!(passage.turn(fence(2), at(40)), Ok(Turn::Go));
    }

    #[test]
    fn one_that_was_never_sent_is_not_waited_for() {
        let mut passage = with_one_under_way();
        passage.end(fence(1), Ending::NotSent, at(10), DRAIN);
        passage.arrive(fence(2)).unwrap();
        passage.keep(fence(2));
        assert_eq!(passage.turn(fence(2), at(10)), Ok(Turn::Go));
    }

    #[test]
    fn after_a_restart_nobody_passes_for_a_while() {
        let mut passage = Passage::after_restart(Some(fence(5)), at(30));
        assert!(passage.arrive(fence(4)).is_err());
        passage.arrive(fence(5)).unwrap();
        let wait = Turn::Wait(Some(at(30)));
        assert_eq!(passage.turn(fence(5), at(29)), Ok(wait));
        assert_eq!(passage.turn(fence(5), at(30)), Ok(Turn::Go));
        assert_eq!(Passage::default().mark(), None);
    }
}
