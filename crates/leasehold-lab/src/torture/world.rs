//! A run that is under way: what faults are done to.

use std::time::{Duration, Instant};

use crate::crew::{Hand, until};
use crate::disk::Disk;
use crate::fault::Answer;
use crate::ground::Ground;
use crate::history::{Event, Line, Moment, now};
use crate::hold::holds;
use crate::proxy::Proxy;
use crate::recorder::Recorder;
use crate::story::Error;
use crate::worker::Job;

/// Why a fault is doubtful that happened to workers that did not hold.
pub const NOBODY_HIT: &str = "nobody who held was hit";
/// Who has held for so many nanoseconds has work that takes long.
const LONG_ENOUGH: Moment = 50_000_000;

/// A run that is under way.
#[derive(Debug)]
pub struct World {
    /// The store.
    pub ground: Box<dyn Ground>,
    /// The workers.
    pub hands: Vec<Hand>,
    /// The network of each worker, one proxy per server.
    pub networks: Vec<Vec<Proxy>>,
    /// What happened so far.
    pub recorder: Recorder,
    pub(super) jobs: Vec<Job>,
    /// The ttl of the workers' sessions.
    pub ttl: Duration,
    /// The disk of the store; why it has none of its own, if it has not. It
    /// goes last, after the servers.
    pub disk: Result<Disk, String>,
}

impl World {
    /// A store without workers, for tests of what is done to it.
    #[cfg(test)]
    pub(crate) fn without_workers(ground: Box<dyn Ground>) -> Self {
        Self {
            ground,
            hands: Vec::new(),
            networks: Vec::new(),
            recorder: Recorder::default(),
            jobs: Vec::new(),
            ttl: Duration::ZERO,
            disk: Err("no disk".to_owned()),
        }
    }

    /// One of the workers: who holds if the number is even, else any.
    #[must_use]
    pub fn choose_worker(&self, choice: u64) -> usize {
        let (any, aims) = (choice / 2, choice.is_multiple_of(2));
        let holder = aims.then(|| self.wait_for_holder()).flatten();
        holder.unwrap_or(usize::try_from(any % self.hands.len() as u64).unwrap_or(0))
    }

    /// Who holds, if possible one whose hold will not be over at once.
    fn wait_for_holder(&self) -> Option<usize> {
        let has_held = |since| now().saturating_sub(since) > LONG_ENOUGH;
        until(self.ttl, || {
            let holder = self.recorder.holder();
            holder.is_some_and(|(_, since)| has_held(since))
        });
        let (holder, _) = self.recorder.holder()?;
        self.hands.iter().position(|hand| hand.name == holder)
    }

    /// Does something to the store while whoever holds stands still: until the
    /// next one has been granted the lock, or for half of its time. So it may
    /// believe to hold all the while, on every store.
    pub fn behind_holder<T>(&mut self, act: impl FnOnce(&mut dyn Ground) -> T) -> T {
        let (recorder, half) = (&self.recorder, self.ttl / 2);
        let holder = recorder.holder().map(|(name, _)| name);
        let mut hands = self.hands.iter();
        let hand = hands.find(|hand| Some(&hand.name) == holder.as_ref());
        let since = now();
        std::thread::scope(|scope| {
            if let Some(hand) = hand {
                hand.pause();
                scope.spawn(move || {
                    let is_next = |line: &Line| {
                        let is_grant = matches!(line.event, Event::Granted { .. });
                        is_grant && line.at > since && line.by != hand.name
                    };
                    until(half, || recorder.has(is_next));
                    hand.resume();
                });
            }
            act(&mut *self.ground)
        })
    }

    /// Waits for somebody whose hold will not be over at once, if there is one.
    pub fn wait_for_long_hold(&self) {
        self.wait_for_holder();
    }

    /// Whether what was done to this worker since then was done to a holder.
    #[must_use]
    pub fn judge(&self, number: usize, since: Moment) -> Answer {
        let name = &self.hands[number].name;
        let holds = holds(&self.recorder.history());
        match holds
            .iter()
            .any(|hold| hold.by == *name && hold.to >= since)
        {
            true => Answer::Installed,
            false => Answer::Doubtful(NOBODY_HIT.into()),
        }
    }

    /// One of the servers, and its name; none if there is none.
    #[must_use]
    pub fn choose_server(&self, choice: u64) -> Option<(usize, String)> {
        let count = self.ground.servers() as u64;
        let number = usize::try_from((choice / 2).checked_rem(count)?).unwrap_or(0);
        Some((number, format!("server {}", number + 1)))
    }

    /// Tells a worker to stand still before its next write.
    ///
    /// # Errors
    /// If it cannot be told.
    pub fn stop_at_write(&self, number: usize) -> std::io::Result<()> {
        let file = self.jobs[number].stops_with.as_ref();
        file.map_or(Ok(()), |file| std::fs::write(file, ""))
    }

    /// Takes that back. Gives whether the worker had not heard of it: else it
    /// stands still, or is about to.
    #[must_use]
    pub fn take_stop_back(&self, number: usize) -> bool {
        let file = self.jobs[number].stops_with.as_ref();
        file.is_none_or(|file| std::fs::remove_file(file).is_ok())
    }

    /// Kills a worker. One that had failed by itself before is told as such.
    pub fn kill_worker(&mut self, number: usize) {
        let hand = &mut self.hands[number];
        if let Some(why) = hand.failure() {
            self.recorder.tell(&hand.name, Event::Failed { why });
        }
        hand.kill();
    }

    /// Waits until all workers have ended, at most so long, and tells of those
    /// that did not, or not well.
    pub(super) fn finish(&mut self, longest: Duration) {
        let deadline = Instant::now() + longest;
        for hand in &mut self.hands {
            let has_ended = hand.finish(deadline.saturating_duration_since(Instant::now()));
            let failure = match has_ended {
                true => hand.failure(),
                false => Some(format!("did not end within {} ms", longest.as_millis())),
            };
            if let Some(why) = failure {
                self.recorder.tell(&hand.name, Event::Failed { why });
            }
        }
    }

    /// Starts a worker anew in the place of a dead one.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_worker(&mut self, number: usize) -> Result<(), Error> {
        self.hands[number] = Hand::start(&self.jobs[number], &self.recorder)?;
        Ok(())
    }
}
