//! Somebody who looks at the store all the while, by a way of his own that no
//! fault is put on, and tells whose claims he saw hold. Only where the store
//! proves that what it tells is so now: a look at yesterday's copy proves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold::Name;
use leasehold::conformance::Bench;
use leasehold::engine::Engine;

use super::LOCK;
use crate::history::{Event, Moment, now};
use crate::recorder::Recorder;

/// The pause between two looks.
const EVERY: Duration = Duration::from_millis(15);
/// A look that takes longer is given up.
const LONGEST: Duration = Duration::from_millis(700);

/// Looks until it is dropped.
#[derive(Debug)]
pub(super) struct Witness {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// One that looks at the lock of a run on this store.
    pub(super) fn start(url: &str, recorder: &Recorder) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, recorder) = (is_over.clone(), recorder.clone());
        // Without its options: they are for sessions.
        let url = url.split('?').next().unwrap_or_default().to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let Ok(runtime) = runtime {
                runtime.block_on(look_on(&url, &ends, &recorder));
            }
        });
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn look_on(url: &str, is_over: &AtomicBool, recorder: &Recorder) {
    let Ok(name) = Name::new(LOCK) else {
        return;
    };
    let mut sight = Sight::default();
    let mut engine: Option<Arc<dyn Engine>> = None;
    while !is_over.load(Ordering::Relaxed) {
        if engine.is_none() {
            let url = url.to_owned();
            // It panics if the store goes away in the middle of it.
            let coming = tokio::spawn(async move {
                let bench = Bench::new(&url).await?;
                Ok::<_, leasehold::Error>(bench.engine().await)
            });
            let came = tokio::time::timeout(LONGEST, coming).await;
            engine = came.ok().and_then(Result::ok).and_then(Result::ok);
        }
        if let Some(engine) = &engine {
            let sent = now();
            let look = tokio::time::timeout(LONGEST, engine.holders(&name)).await;
            // A look that fails says nothing of what is there.
            if let Ok(Ok(holders)) = look {
                for seen in sight.take(&holders, sent, now()) {
                    recorder.tell("store", seen);
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
    for seen in sight.take(&[], 0, 0) {
        recorder.tell("store", seen);
    }
}

/// PURE: who was seen, from when to when.
#[derive(Debug, Default)]
struct Sight {
    holders: BTreeMap<u64, (Moment, Moment)>,
}

impl Sight {
    /// Takes one look: who held, when it was sent and answered. Gives those who
    /// are not seen any more.
    fn take(&mut self, holders: &[u64], sent: Moment, answered: Moment) -> Vec<Event> {
        for holder in holders {
            // It held at some time between the two.
            let (_, to) = self.holders.entry(*holder).or_insert((answered, sent));
            *to = sent;
        }
        let gone = self
            .holders
            .extract_if(.., |holder, _| !holders.contains(holder));
        let gone = gone.filter(|(_, (from, to))| from < to);
        gone.map(|(holder, (from, to))| Event::Seen {
            name: LOCK.to_owned(),
            holder,
            token: None,
            from,
            to,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_certain_from_its_first_answer_to_the_last_question() {
        let mut sight = Sight::default();
        assert_eq!(sight.take(&[7], 10, 12), []);
        assert_eq!(sight.take(&[7, 8], 20, 22), []);
        let seen = |holder, from, to| Event::Seen {
            name: LOCK.to_owned(),
            holder,
            token: None,
            from,
            to,
        };
        assert_eq!(sight.take(&[8], 30, 32), [seen(7, 12, 20)]);
        // Who is seen once held at some time, and nobody knows when.
        assert_eq!(sight.take(&[9], 40, 42), [seen(8, 22, 30)]);
        assert_eq!(sight.take(&[], 50, 52), []);
    }
}
