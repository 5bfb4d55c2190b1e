//! Who leads, as others see it.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Election, Leader};
use crate::clock::Moment;
use crate::error::Result;
use crate::reaper::limited;

/// Tells every leader in order. Made by [`Election::observe`].
///
/// It looks now and then. A leader that came and went between two looks is told
/// all the same, because the memo keeps the latest ones; if there were more than
/// it has room for, `missed` says how many.
#[derive(Debug)]
pub struct Observer {
    election: Election,
    pause: Duration,
    /// When to look next; kept here, so that one who is cut off again and again
    /// still gets to look.
    due: Option<Moment>,
    sightings: Sightings,
}

/// What an observer sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// This one leads, or led since the last sighting; or it says something
    /// else of itself.
    Leader {
        /// Who.
        leader: Leader,
        /// How many there were before it that are not told.
        missed: u64,
    },
    /// Nobody leads.
    Nobody,
}

impl Observer {
    pub(super) fn new(election: Election) -> Self {
        let ttl = election.session.ttl();
        let (least, most) = (Duration::from_millis(20), Duration::from_secs(1));
        Self {
            election,
            pause: (ttl / 20).clamp(least, most),
            due: None,
            sightings: Sightings::default(),
        }
    }

    /// How often to look: by default 20 times in a ttl, and at least once a
    /// second.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Waits for the next sighting. The first one comes at once: who leads now,
    /// with those whom the store still knows before it, or nobody. Goes on when
    /// the store was away.
    ///
    /// # Errors
    /// `Closed` if the session is, `Conflict` if the name is in use for
    /// something else; else whatever does not pass by itself.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Sighting> {
        loop {
            if let Some(sighting) = self.sightings.waiting.pop_front() {
                return Ok(sighting);
            }
            let core = self.election.session.core();
            if let Some(due) = self.due {
                tokio::select! {
                    biased;
                    () = core.closed() => {}
                    () = core.clock.sleep_until(due) => {}
                }
            }
            if core.is_closed() {
                let doing = format!("observe {}", self.election.name);
                return Err(core.closed_error(doing));
            }
            let looked = limited(core, self.election.look()).await;
            self.due = Some(core.clock.now() + self.pause);
            match looked {
                Some(Ok((leader, leaders))) => self.sightings.take_in(leader.as_ref(), leaders),
                // It comes back, or the session closes.
                None => {}
                Some(Err(error)) if error.is_passing() => {}
                Some(Err(error)) => return Err(error),
            }
        }
    }
}

/// What is to be told, and what was told last. Pure.
#[derive(Debug, Default)]
struct Sightings {
    waiting: VecDeque<Sighting>,
    last: Option<Leader>,
    is_vacant: bool,
}

impl Sightings {
    /// Takes in one look: who leads, and the latest leaders, oldest first.
    fn take_in(&mut self, leader: Option<&Leader>, leaders: Vec<Leader>) {
        for newer in leaders {
            let is_told = |last: &Leader| newer.token < last.token || newer == *last;
            if self.last.as_ref().is_some_and(is_told) {
                continue;
            }
            let last = self.last.as_ref().map_or(newer.term, |last| last.term);
            let missed = newer.term.saturating_sub(last + 1);
            self.last = Some(newer.clone());
            self.is_vacant = false;
            self.waiting.push_back(Sighting::Leader {
                leader: newer,
                missed,
            });
        }
        let leads = |last: &Leader| leader.is_some_and(|leader| leader.token == last.token);
        let is_vacant = !self.last.as_ref().is_some_and(leads);
        if is_vacant && !self.is_vacant {
            self.waiting.push_back(Sighting::Nobody);
        }
        // Whoever was taken for gone and is not, because one look was late.
        if !is_vacant
            && self.is_vacant
            && let Some(last) = self.last.clone()
        {
            self.waiting.push_back(Sighting::Leader {
                leader: last,
                missed: 0,
            });
        }
        self.is_vacant = is_vacant;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Token;

    fn leader(term: u64, value: &str) -> Leader {
        Leader {
            term,
            token: Token::new(32 * term),
            holder: term,
            value: value.into(),
        }
    }

    fn look(sightings: &mut Sightings, leads: Option<&Leader>, leaders: &[&Leader]) {
        sightings.take_in(leads, leaders.iter().copied().cloned().collect());
    }

    fn told(sightings: &mut Sightings) -> Vec<String> {
        let told = sightings.waiting.drain(..).map(|sighting| match sighting {
            Sighting::Leader { leader, missed: 0 } => format!("{} {}", leader.term, leader.text()),
            Sighting::Leader { leader, missed } => format!("{} after {missed}", leader.term),
            Sighting::Nobody => "nobody".into(),
        });
        told.collect()
    }

    #[test]
    fn every_leader_is_told_once_and_in_order() {
        let mut sightings = Sightings::default();
        look(&mut sightings, None, &[]);
        assert_eq!(told(&mut sightings), ["nobody"]);
        let (one, two, three) = (leader(1, "a"), leader(2, "b"), leader(3, "c"));
        look(&mut sightings, Some(&one), &[&one]);
        look(&mut sightings, Some(&one), &[&one]);
        assert_eq!(told(&mut sightings), ["1 a"]);
        look(&mut sightings, None, &[&one]);
        look(&mut sightings, Some(&three), &[&one, &two, &three]);
        assert_eq!(told(&mut sightings), ["nobody", "2 b", "3 c"]);
        // A look that was late does not go back.
        look(&mut sightings, Some(&one), &[&one]);
        assert_eq!(told(&mut sightings), ["nobody"]);
        look(&mut sightings, Some(&three), &[&three]);
        assert_eq!(told(&mut sightings), ["3 c"]);
    }

    #[test]
    fn another_value_is_told_and_a_gap_is_counted() {
        let mut sightings = Sightings::default();
        let one = leader(1, "a");
        look(&mut sightings, Some(&one), &[&one]);
        let said = leader(1, "b");
        look(&mut sightings, Some(&said), &[&said]);
        let late = leader(5, "c");
        look(&mut sightings, Some(&late), &[&late]);
        assert_eq!(told(&mut sightings), ["1 a", "1 b", "5 after 3"]);
    }
}
