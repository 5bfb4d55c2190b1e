//! What a node has still to be told: locks that were given back while it did
//! not answer.
//!
//! Requests over one connection are done in order. So a later answer over the
//! connection that the release went over proves the release, and if the lock was
//! asked for over the same connection, nothing of it can come later. Otherwise
//! the node is told again; and where a request to take the lock may still be on
//! its way over an older connection, once more when that is too late to be done.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use super::keys::Keys;
use super::nodes::{Call, Node, Nodes};
use crate::clock::{Moment, boot_time};
use crate::redis::keys::Hex;
use crate::redis::lock;

/// How many locks one request gives back.
const BATCH: usize = 200;
/// How much is owed to a node at most. Beyond it the time to live does it.
const MOST: usize = 50_000;

/// What one node has still to be told.
#[derive(Debug, Default)]
pub(super) struct Owed(Mutex<HashMap<String, Debt>>);

/// One attempt on a lock.
#[derive(Debug, Clone)]
pub(super) struct Debt {
    lock: String,
    /// The connection that it was asked for over; `None` if that was answered.
    asked_over: Option<u64>,
    /// From when on a request to take the lock is refused.
    refused_from: Moment,
    /// The connection that the last release went over, and when.
    told_over: Option<(u64, Moment)>,
    /// When nothing can be left of it.
    until: Moment,
}

impl Debt {
    pub(super) fn new(keys: &Keys, asked_over: Option<u64>, sent: Moment, ttl: Duration) -> Self {
        Self {
            lock: keys.lock.clone(),
            asked_over,
            refused_from: sent + ttl,
            told_over: None,
            until: boot_time() + 2 * ttl,
        }
    }

    pub(super) fn told(mut self, over: u64, at: Moment) -> Self {
        self.told_over = Some((over, at));
        self
    }

    /// Whether a release over this connection, sent then, settles it.
    fn is_settled_by(&self, over: u64, at: Moment) -> bool {
        self.asked_over.is_none_or(|asked| asked == over) || at >= self.refused_from
    }
}

impl Owed {
    pub(super) fn add(&self, id: &Hex, debt: Debt) {
        let mut owed = lock(&self.0);
        if owed.len() < MOST {
            owed.insert(id.as_str().to_owned(), debt);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// A request that was sent then over this connection was answered.
    fn proven(&self, over: u64, sent: Moment) {
        let now = boot_time();
        lock(&self.0).retain(|_, debt| {
            let is_proven = debt.told_over.is_some_and(|(told, at)| {
                told == over && at <= sent && debt.is_settled_by(told, at)
            });
            !is_proven && now < debt.until
        });
    }

    /// Those that have to be told now over this connection.
    fn to_tell(&self, over: u64) -> Vec<(String, String)> {
        let now = boot_time();
        let mut owed = lock(&self.0);
        let open = owed.iter_mut().filter(|(_, debt)| {
            debt.told_over.is_none_or(|(told, at)| {
                told != over || (!debt.is_settled_by(told, at) && now >= debt.refused_from)
            })
        });
        let open = open.take(BATCH).map(|(id, debt)| {
            debt.told_over = Some((over, now));
            (id.clone(), debt.lock.clone())
        });
        open.collect()
    }
}

/// Tells the node what it is owed, as far as it answers, and learns its clock.
pub(super) async fn settle(nodes: &Nodes, node: &Node) {
    loop {
        let (over, sent) = (node.link.line_number(), boot_time());
        let Ok((seconds, micros)) = node.link.ask::<(u64, u64)>(&::redis::cmd("TIME")).await else {
            return;
        };
        node.link.learn_time(seconds * 1000 + micros / 1000);
        if node.link.line_number() != over {
            return;
        }
        node.owed.proven(over, sent);
        let open = node.owed.to_tell(over);
        if open.is_empty() {
            return;
        }
        let keys: Vec<_> = open.iter().map(|(_, lock)| &**lock).collect();
        let ids: Vec<_> = open.iter().map(|(id, _)| &**id).collect();
        let call = Call {
            script: &nodes.scripts.release,
            keys: &keys,
            arguments: &ids,
        };
        if node.run::<u32>(&call).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    fn owed(asked_over: Option<u64>, sent: Moment) -> (Owed, Hex, Debt) {
        let keys = Keys::of(&Name::new("x").unwrap());
        let debt = Debt::new(&keys, asked_over, sent, Duration::from_secs(3600));
        (Owed::default(), Hex::of(7), debt)
    }

    #[test]
    fn a_later_answer_over_the_same_connection_is_proof() {
        let now = boot_time();
        let (owed, id, debt) = owed(Some(3), now);
        owed.add(&id, debt.told(3, now));
        assert!(owed.to_tell(3).is_empty(), "it is on its way");
        owed.proven(4, boot_time());
        assert!(!owed.is_empty(), "another connection proves nothing");
        assert_eq!(owed.to_tell(4).len(), 1, "told again over the new one");
        owed.proven(4, boot_time());
        assert!(!owed.is_empty(), "the old request may still come");
    }

    #[test]
    fn a_lock_that_was_asked_for_with_an_answer_needs_one_release() {
        let now = boot_time();
        let (owed, id, debt) = owed(None, now);
        owed.add(&id, debt);
        assert_eq!(owed.to_tell(5).len(), 1);
        owed.proven(5, boot_time());
        assert!(owed.is_empty());
    }

    #[test]
    fn what_cannot_be_done_any_more_is_not_waited_for() {
        let now = boot_time();
        let keys = Keys::of(&Name::new("x").unwrap());
        let debt = Debt::new(&keys, Some(1), now, Duration::ZERO);
        let owed = Owed::default();
        owed.add(&Hex::of(7), debt);
        owed.proven(9, boot_time());
        assert!(owed.is_empty());
    }
}
