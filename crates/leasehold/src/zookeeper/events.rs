//! Who is to be woken when something happens to a node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use super::lock;

/// The watches of a session. The server forgets a watch when it has told of it,
/// and all of them when the connection ends.
#[derive(Debug, Default)]
pub(super) struct Events {
    watched: Mutex<HashMap<String, Vec<Weak<Notify>>>>,
}

impl Events {
    /// To be called before the server is asked to watch: the news may be faster
    /// than the answer.
    pub(super) fn watch(&self, path: &str, bell: &Arc<Notify>) {
        let mut watched = lock(&self.watched);
        let bells = watched.entry(path.to_owned()).or_default();
        bells.retain(|other| other.strong_count() > 0);
        let bell = Arc::downgrade(bell);
        if !bells.iter().any(|other| other.ptr_eq(&bell)) {
            bells.push(bell);
        }
    }

    /// Whether news of the path would ring the bell.
    pub(super) fn is_watched(&self, path: &str, bell: &Arc<Notify>) -> bool {
        let watched = lock(&self.watched);
        let bell = Arc::downgrade(bell);
        let mut bells = watched.get(path).into_iter().flatten();
        bells.any(|other| other.ptr_eq(&bell))
    }

    /// Nobody waits for this any more.
    pub(super) fn forget(&self, path: &str, bell: &Arc<Notify>) {
        let mut watched = lock(&self.watched);
        let Some(bells) = watched.get_mut(path) else {
            return;
        };
        let bell = Arc::downgrade(bell);
        bells.retain(|other| !other.ptr_eq(&bell));
        if bells.is_empty() {
            watched.remove(path);
        }
    }

    pub(super) fn ring(&self, path: &str) {
        let bells = lock(&self.watched).remove(path);
        bells.iter().flatten().for_each(ring);
    }

    pub(super) fn ring_all(&self) {
        let watched = std::mem::take(&mut *lock(&self.watched));
        watched.values().flatten().for_each(ring);
    }
}

fn ring(bell: &Weak<Notify>) {
    if let Some(bell) = bell.upgrade() {
        bell.notify_one();
    }
}
