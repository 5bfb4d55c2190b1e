//! Sessions that take one lock as fast as they can, somebody who makes its keys
//! expire early, and what the tokens must be like all the same.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{ErrorKind, Session};

const NAME: &str = "jobs/nightly";

/// All grants so far.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Counts what happens, so that it is known what came first.
    time: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When each token was known to be granted.
    granted: BTreeMap<u64, u64>,
    wrong: Option<String>,
}

impl History {
    pub(crate) fn len(&self) -> usize {
        self.state.lock().unwrap().granted.len()
    }

    /// The first token that came twice or too late.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.state.lock().unwrap().wrong.clone()
    }

    fn now(&self) -> u64 {
        self.time.fetch_add(1, SeqCst)
    }

    /// A grant that was asked for at that time has come.
    fn granted(&self, asked: u64, token: u64) {
        let mut state = self.state.lock().unwrap();
        let now = self.now();
        // Whatever was granted before this one was asked for has a lower token.
        let mut later = state.granted.range(token + 1..);
        let overtaken = later.find(|(_, known)| **known < asked);
        let wrong = match overtaken {
            _ if state.granted.contains_key(&token) => Some(format!("{token} came twice")),
            Some((other, _)) => Some(format!("{token} came after {other}")),
            None => None,
        };
        state.granted.entry(token).or_insert(now);
        state.wrong = state.wrong.take().or(wrong);
    }
}

/// Locks and gives back until it is over. Now and then a session stands still
/// with the lock in hand, and sometimes it forgets to give it back.
pub(crate) async fn take_turns(
    session: Session,
    number: usize,
    history: Arc<History>,
    is_over: Arc<AtomicBool>,
) -> Result<(), String> {
    let mut random = Random(number as u64 + 1);
    while !is_over.load(SeqCst) {
        let asked = history.now();
        let mutex = session.mutex(NAME);
        let guard = match mutex.lock_within(Duration::from_secs(1)).await {
            Ok(guard) => guard,
            Err(error) => match error.kind() {
                ErrorKind::TimedOut | ErrorKind::Unavailable => continue,
                _ => return Err(error.to_string()),
            },
        };
        history.granted(asked, guard.token().get());
        // Several nodes forget while somebody stands still for long.
        let pause = match random.below(8) {
            0 => 100 + random.below(500),
            1..4 => random.below(20),
            _ => 0,
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        match random.one_in(8) {
            true => drop(guard),
            // It may have been lost, or too few nodes know.
            false => drop(guard.release().await),
        }
    }
    session.close().await;
    Ok(())
}

/// Deletes the lock's key on nodes at random, as if it had expired there.
pub(crate) async fn lose_keys(ports: Vec<u16>, is_over: Arc<AtomicBool>) -> Result<(), String> {
    let mut random = Random(99);
    let mut connections = BTreeMap::new();
    while !is_over.load(SeqCst) {
        let port = ports[random.below(ports.len() as u64) as usize];
        let url = format!("redis://127.0.0.1:{port}");
        // Rarely enough that a lock is held while several nodes forget.
        tokio::time::sleep(Duration::from_millis(random.below(150))).await;
        if let Entry::Vacant(vacant) = connections.entry(port) {
            let client = redis::Client::open(url).map_err(|error| error.to_string())?;
            // The node may be down just now.
            let connecting = client.get_multiplexed_async_connection();
            if let Ok(connection) = connecting.await {
                vacant.insert(connection);
            }
        }
        if let Some(connection) = connections.get_mut(&port) {
            let mut delete = redis::cmd("DEL");
            let deleted = delete.arg(NAME).query_async::<u64>(connection).await;
            if deleted.is_err() {
                connections.remove(&port);
            }
        }
    }
    Ok(())
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}
