//! Somebody who looks at the store all the while, by a way of his own that no
//! fault is put on, and tells whose claims he saw hold, whichever way their workers
//! connected. Only where the store proves that what it tells is so now: a look at
//! yesterday's copy proves nothing. When he cannot look, he says so and tries again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold::Name;
use leasehold::conformance::Bench;
use leasehold::engine::{Engine, Promises};

use super::LOCK;
use super::voters::Voters;
use crate::ground::Ground;
use crate::history::{Event, Moment, now};
use crate::recorder::Recorder;
use crate::story::Error;

/// The pause between two looks.
const EVERY: Duration = Duration::from_millis(15);
/// A look that takes longer is given up.
pub(super) const LONGEST: Duration = Duration::from_millis(700);
/// By whom the history is told of it.
const STORE: &str = "store";

/// Looks until it is dropped.
#[derive(Debug)]
pub(super) struct Witness {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    recorder: Recorder,
}

impl Witness {
    /// One that looks at the lock of a run on this store; none if the store does
    /// not tell who holds so that one can rely on it.
    ///
    /// # Errors
    /// If it cannot be started. A store that is away is no error.
    pub(super) fn start(
        ground: &dyn Ground,
        promises: Promises,
        recorder: &Recorder,
    ) -> Result<Option<Self>, Error> {
        let Some(mut eyes) = Eyes::on(ground, promises)? else {
            return Ok(None);
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, tells) = (is_over.clone(), recorder.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread =
            std::thread::spawn(move || runtime.block_on(look_on(&mut eyes, &ends, &tells)));
        Ok(Some(Self {
            is_over,
            thread: Some(thread),
            recorder: recorder.clone(),
        }))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            let why = "whoever looks at the store panicked".to_owned();
            self.recorder.tell("lab", Event::Failed { why });
        }
    }
}

async fn look_on(eyes: &mut Eyes, is_over: &AtomicBool, recorder: &Recorder) {
    let mut is_blind = false;
    while !is_over.load(Ordering::Relaxed) {
        let sent = now();
        let look = tokio::time::timeout(LONGEST, eyes.look());
        match look.await.unwrap_or_else(|_| Err("no answer".into())) {
            Ok(seen) => {
                if std::mem::take(&mut is_blind) {
                    recorder.tell(STORE, Event::Sees);
                }
                for event in seen {
                    recorder.tell(STORE, event);
                }
            }
            // It says nothing of what is there.
            Err(why) => {
                if !std::mem::replace(&mut is_blind, true) {
                    recorder.tell(STORE, Event::Blind { since: sent, why });
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
    for event in eyes.close() {
        recorder.tell(STORE, event);
    }
}

/// The way to see who holds.
enum Eyes {
    /// The store says so.
    Store {
        url: String,
        name: Name,
        engine: Option<Arc<dyn Engine>>,
        sight: Sight,
    },
    /// Most of its servers do.
    Voters(Voters),
}

impl Eyes {
    fn on(ground: &dyn Ground, promises: Promises) -> Result<Option<Self>, Error> {
        let voters = ground.voters();
        if !voters.is_empty() {
            return Ok(Some(Self::Voters(Voters::new(&voters)?)));
        }
        if !promises.holders {
            return Ok(None);
        }
        // Without its options: they are for sessions.
        let url = ground.url(&ground.ports(), 0);
        Ok(Some(Self::Store {
            url: url.split('?').next().unwrap_or_default().to_owned(),
            name: Name::new(LOCK)?,
            engine: None,
            sight: Sight::default(),
        }))
    }

    /// Looks once. Gives those who are not seen any more, or why there is nothing
    /// to be seen.
    async fn look(&mut self) -> Result<Vec<Event>, String> {
        match self {
            Self::Voters(voters) => voters.look().await,
            Self::Store {
                url,
                name,
                engine,
                sight,
            } => {
                let text = |error: leasehold::Error| error.to_string();
                let engine = match engine {
                    Some(engine) => engine,
                    None => {
                        let bench = Bench::new(url).await.map_err(text)?;
                        engine.insert(bench.try_engine().await.map_err(text)?)
                    }
                };
                let sent = now();
                let holders = engine.holders(name).await.map_err(text)?;
                Ok(sight.take(&holders, sent, now()))
            }
        }
    }

    /// Gives those who were seen in the last look.
    fn close(&mut self) -> Vec<Event> {
        match self {
            Self::Store { sight, .. } => sight.take(&[], 0, 0),
            Self::Voters(voters) => voters.close(),
        }
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
    use crate::crew::until;
    use crate::ground::Kind;

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

    /// One store that tells who holds, and one of which most servers do.
    #[test]
    fn a_witness_of_a_store_that_is_away_says_so_and_sees_when_it_is_back() {
        for store in ["redis", "redlock"] {
            let kind = Kind::find(store).unwrap();
            if let Some(what) = (kind.lacks)() {
                println!("skipped: {what} is missing");
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let mut ground = (kind.start)(folder.path()).unwrap();
            let url = ground.url(&ground.ports(), 30_000);
            let promises = super::super::promises(&url).unwrap();
            let servers: Vec<_> = (0..ground.servers()).collect();
            servers.iter().for_each(|&server| ground.kill(server));
            let recorder = Recorder::default();
            let witness = Witness::start(&*ground, promises, &recorder).unwrap();
            let witness = witness.expect("such a store can be looked at");
            let told = |is_it: fn(&Event) -> bool| {
                let told = until(LONGEST * 20, || recorder.has(|line| is_it(&line.event)));
                assert!(told, "{store}: {:?}", recorder.history().lines);
            };
            told(|event| matches!(event, Event::Blind { .. }));
            ground.start_all_again(&servers);
            told(|event| *event == Event::Sees);
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let is_seen = || recorder.has(|line| matches!(line.event, Event::Seen { .. }));
            let hold = async {
                let session = leasehold::connect(&url).await.unwrap();
                while !is_seen() {
                    let guard = session.mutex(LOCK).lock().await.unwrap();
                    tokio::time::sleep(4 * EVERY).await;
                    guard.release().await.unwrap();
                }
                session.close().await;
            };
            let held = runtime.block_on(async { tokio::time::timeout(LONGEST * 20, hold).await });
            assert!(held.is_ok(), "{store}: {:?}", recorder.history().lines);
            drop(witness);
        }
    }
}
