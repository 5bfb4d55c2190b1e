//! A slice of time in which some tasks do the same thing again and again.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::bench::report::{median, micros};
use crate::exit::Failure;

/// What they did.
#[derive(Debug)]
pub(crate) struct Slice {
    /// How long each cycle took, in microseconds.
    pub(crate) samples: Vec<f64>,
    /// How many cycles each task ended in the time.
    pub(crate) grants: Vec<usize>,
    time: Duration,
    /// How long it took until the last cycle ended.
    took: Duration,
}

impl Slice {
    /// Runs a task per number up to `tasks`, each in a loop for the time.
    pub(crate) async fn of<C, F, E>(tasks: usize, time: Duration, cycle: C) -> Result<Self, Failure>
    where
        C: Fn(usize) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send,
        E: Send + 'static,
        Failure: From<E>,
    {
        let start = Instant::now();
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let cycle = cycle.clone();
            running.spawn(async move {
                let (mut samples, mut grants) = (Vec::new(), 0);
                loop {
                    let began = Instant::now();
                    cycle(task).await?;
                    samples.push(micros(began.elapsed()));
                    // Who pauses between tries may end long after the others.
                    if start.elapsed() >= time {
                        return Ok::<_, E>((task, samples, grants));
                    }
                    grants += 1;
                }
            });
        }
        let mut slice = Self {
            samples: Vec::new(),
            grants: vec![0; tasks],
            time,
            took: time,
        };
        while let Some(task) = running.join_next().await {
            let (task, mut samples, grants) = task.expect("no task panics")?;
            slice.grants[task] = grants;
            slice.samples.append(&mut samples);
        }
        slice.took = start.elapsed();
        Ok(slice)
    }

    /// All cycles, those too that ended after the time.
    pub(crate) fn cycles(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a count of cycles")]
        let cycles = self.samples.len() as f64;
        cycles
    }

    /// Cycles per second. If none ended in the time, those count that ended after it.
    pub(crate) fn rate(&self) -> f64 {
        match self.grants.iter().sum::<usize>() {
            0 => self.cycles() / self.took.as_secs_f64(),
            #[expect(clippy::cast_precision_loss, reason = "a count of cycles")]
            cycles => cycles as f64 / self.time.as_secs_f64(),
        }
    }

    pub(crate) fn p50(&mut self) -> f64 {
        median(&mut self.samples)
    }
}

/// The fewest grants that one had against the most that one had.
pub(crate) fn evenness(grants: &[usize]) -> f64 {
    let (least, most) = (grants.iter().min(), grants.iter().max());
    #[expect(clippy::cast_precision_loss, reason = "a count of grants")]
    match (least, most) {
        (Some(&least), Some(&most)) if most > 0 => least as f64 / most as f64,
        _ => 0.0,
    }
}
