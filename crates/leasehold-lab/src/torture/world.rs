//! A run that is under way: what faults are done to.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::crew::{Hand, until};
use crate::disk::Disk;
use crate::fault::Answer;
use crate::ground::{Ground, Mended};
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

/// A worker that waits, or whose store is away, says so now and then; one that
/// stood still may be silent for so much longer.
const SILENT: Duration = Duration::from_secs(30);

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
    /// Nobody asks for the lock while this file is there.
    pub(super) rest: PathBuf,
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
            rest: PathBuf::new(),
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

    /// Who holds, if possible one whose hold will not be over at once. Waits for
    /// somebody who does, for a ttl at most.
    pub fn wait_for_holder(&self) -> Option<usize> {
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
        let (mark, since) = (recorder.so_far(), now());
        std::thread::scope(|scope| {
            if let Some(hand) = hand {
                hand.pause();
                scope.spawn(move || {
                    let is_next = |line: &Line| {
                        let is_grant = matches!(line.event, Event::Granted { .. });
                        is_grant && line.at > since && line.by != hand.name
                    };
                    until(half, || recorder.has_after(mark, is_next));
                    hand.resume();
                });
            }
            act(&mut *self.ground)
        })
    }

    /// Does something to the store while nobody holds, if all come to rest.
    pub fn while_all_rest<T>(&mut self, act: impl FnOnce(&mut dyn Ground) -> T) -> T {
        let mark = self.recorder.so_far();
        // Without the file nobody rests, and it is done all the same.
        let _ = std::fs::write(&self.rest, "");
        until(self.ttl * 2, || {
            let lines = self.recorder.after(mark);
            let rest = lines.iter().filter(|line| line.event == Event::Rests);
            let resting: BTreeSet<_> = rest.map(|line| &line.by).collect();
            self.hands.iter().all(|hand| resting.contains(&hand.name))
        });
        let done = act(&mut *self.ground);
        let _ = std::fs::remove_file(&self.rest);
        done
    }

    /// Whether what was done to this worker since then was done to a holder.
    #[must_use]
    pub fn judge(&self, number: usize, since: Moment) -> Answer {
        self.judge_workers(&self.hands[number..=number], since)
    }

    /// Whether what was done to servers since then was done while somebody held.
    #[must_use]
    pub fn judge_servers(&self, since: Moment) -> Answer {
        self.judge_workers(&self.hands, since)
    }

    fn judge_workers(&self, hands: &[Hand], since: Moment) -> Answer {
        let names: BTreeSet<_> = hands.iter().map(|hand| &*hand.name).collect();
        let holds = holds(&self.recorder.since_grants(&names, since));
        let mut holds = holds.iter().filter(|hold| names.contains(&*hold.by));
        match holds.any(|hold| hold.to >= since) {
            true => Answer::Installed,
            false => Answer::Doubtful(NOBODY_HIT.into()),
        }
    }

    /// Servers, and what they are called: if the number is even those without
    /// which the store cannot go on, as soon as somebody holds, else any one.
    /// None if there is none.
    #[must_use]
    pub fn choose_servers(&self, choice: u64) -> Option<(Vec<usize>, String)> {
        let count = self.ground.servers() as u64;
        let first = usize::try_from((choice / 2).checked_rem(count)?).unwrap_or(0);
        let servers = match choice.is_multiple_of(2) {
            true => {
                self.wait_for_holder();
                self.ground.vital(first)
            }
            false => vec![first],
        };
        let names: Vec<_> = servers
            .iter()
            .map(|it| format!("server {}", it + 1))
            .collect();
        Some((servers, names.join(", ")))
    }

    /// Does what an operator does when servers have forgotten. Workers that are in
    /// the way of it are killed, and others start in their place.
    ///
    /// # Errors
    /// If that is not enough.
    pub fn operate(&mut self) -> Result<(), String> {
        let ttl_millis = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        if self.ground.mend(ttl_millis)? == Mended::All {
            return Ok(());
        }
        self.recorder
            .note("too much is forgotten: an operator begins anew");
        (0..self.hands.len()).for_each(|number| self.kill_worker(number));
        self.ground.mend_without_workers()?;
        for number in 0..self.hands.len() {
            self.start_worker(number)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
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

    /// Kills a worker. One that had failed by itself before, or had hung, is told
    /// as such.
    pub fn kill_worker(&mut self, number: usize) {
        let hand = &mut self.hands[number];
        let longest = Duration::from_millis(4 * self.jobs[number].patience_millis) + SILENT;
        let is_silent = self.recorder.is_silent(&hand.name, longest);
        let hung = is_silent.then(|| format!("said nothing for {} s", longest.as_secs()));
        if let Some(why) = hand.failure().or(hung) {
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
