//! What a node has still to be told: locks that were given back without its
//! answer.
//!
//! Requests over one connection are done in order. So if the lock was asked for
//! over the same connection as it is given back, nothing of it can come later.
//! Otherwise the request to take it may still be on its way over an older one,
//! and the node is told once more when that is too late to be done.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

use super::keys::Keys;
use super::nodes::{Call, Node, Nodes};
use crate::backoff;
use crate::clock::{Moment, boot_time};
use crate::random::random_u64;
use crate::redis::keys::Hex;
use crate::redis::lock;

/// How many locks one request gives back.
const BATCH: usize = 200;
/// How much is owed to a node at most. Beyond it the time to live does it.
const MOST: usize = 50_000;
/// How long more is waited for, to tell it together.
const TOGETHER: Duration = Duration::from_millis(2);
/// How often a node that is owed nothing is asked whether it is there.
const IDLE: Duration = Duration::from_secs(1);

/// What one node has still to be told.
#[derive(Debug, Default)]
pub(super) struct Owed {
    debts: Mutex<HashMap<String, Debt>>,
    /// Rung when there is a new one.
    bell: Notify,
}

/// One attempt on a lock.
#[derive(Debug, Clone)]
pub(super) struct Debt {
    lock: String,
    /// The connection that it was asked for over; `None` if that was answered.
    asked_over: Option<u64>,
    /// From when on a request to take the lock is refused.
    refused_from: Moment,
    /// The node was told, but may yet be asked for it.
    is_told: bool,
    /// When nothing can be left of it.
    until: Moment,
}

impl Debt {
    pub(super) fn new(keys: &Keys, asked_over: Option<u64>, sent: Moment, ttl: Duration) -> Self {
        Self {
            lock: keys.lock.clone(),
            asked_over,
            refused_from: sent + ttl,
            is_told: false,
            until: boot_time() + 2 * ttl,
        }
    }

    /// Whether telling the node settles it: over this connection, if that is known.
    pub(super) fn is_settled_over(&self, connection: Option<u64>, now: Moment) -> bool {
        let is_same = |asked| connection == Some(asked);
        self.asked_over.is_none_or(is_same) || now >= self.refused_from
    }
}

impl Owed {
    pub(super) fn add(&self, id: &Hex, debt: Debt) {
        let mut debts = lock(&self.debts);
        if debts.len() < MOST {
            debts.insert(id.as_str().to_owned(), debt);
        }
        drop(debts);
        self.bell.notify_one();
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        lock(&self.debts).is_empty()
    }

    /// What the node is to be told now.
    fn due(&self, now: Moment) -> Vec<(String, Debt)> {
        let mut debts = lock(&self.debts);
        debts.retain(|_, debt| now < debt.until);
        let due = debts.iter();
        let due = due.filter(|(_, debt)| !debt.is_told || now >= debt.refused_from);
        let due = due.take(BATCH);
        due.map(|(id, debt)| (id.clone(), debt.clone())).collect()
    }

    /// The node was told these over this connection.
    fn told(&self, due: &[(String, Debt)], connection: u64, now: Moment) {
        let mut debts = lock(&self.debts);
        for (id, debt) in due {
            if debt.is_settled_over(Some(connection), now) {
                debts.remove(id);
            } else if let Some(debt) = debts.get_mut(id) {
                debt.is_told = true;
            }
        }
    }
}

/// Tells the node what it is owed. Says whether it answers.
pub(super) async fn settle(nodes: &Nodes, node: &Node) -> bool {
    loop {
        let (connection, now) = (node.link.line_number(), boot_time());
        let due = node.owed.due(now);
        if due.is_empty() {
            return true;
        }
        let keys: Vec<_> = due.iter().map(|(_, debt)| &*debt.lock).collect();
        let ids: Vec<_> = due.iter().map(|(id, _)| &**id).collect();
        let call = Call {
            script: &nodes.scripts.release,
            keys: &keys,
            arguments: &ids,
        };
        if node.run::<u32>(&call).await.is_err() {
            return false;
        }
        // It may have gone over a newer one; then it is told again.
        if node.link.line_number() == connection {
            node.owed.told(&due, connection, now);
        }
    }
}

/// Keeps telling the node what it is owed, and looks whether it is there: nobody
/// else waits for a node that is away. Never returns.
pub(super) async fn keep_settling(nodes: &Nodes, node: &Node) {
    let mut failures = 0;
    loop {
        node.look_at_leftovers();
        if failures == 0 {
            let rung = tokio::time::timeout(IDLE, node.owed.bell.notified()).await;
            if rung.is_ok() {
                tokio::time::sleep(TOGETHER).await;
            } else if !is_there(node).await {
                failures = 1;
            }
        } else {
            let first = Duration::from_millis(50);
            let pause = backoff::pause(failures, first, IDLE, random_u64());
            tokio::time::sleep(pause).await;
            failures = match is_there(node).await {
                true => 0,
                false => failures + 1,
            };
        }
        if failures == 0 && !settle(nodes, node).await {
            failures = 1;
        }
    }
}

/// Asks the node for its clock, which is needed too.
async fn is_there(node: &Node) -> bool {
    let answer = node.link.ask::<(u64, u64)>(&::redis::cmd("TIME")).await;
    let Ok((seconds, micros)) = answer else {
        return false;
    };
    node.link.learn_time(seconds * 1000 + micros / 1000);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    fn owe(asked_over: Option<u64>, ttl: Duration) -> Owed {
        let keys = Keys::of(&Name::new("x").unwrap());
        let owed = Owed::default();
        let debt = Debt::new(&keys, asked_over, boot_time(), ttl);
        owed.add(&Hex::of(7), debt);
        owed
    }

    #[test]
    fn one_release_is_enough_over_the_connection_that_the_lock_was_asked_for_over() {
        for asked_over in [Some(3), None] {
            let (owed, now) = (owe(asked_over, Duration::from_secs(3600)), boot_time());
            let due = owed.due(now);
            assert_eq!(due.len(), 1);
            owed.told(&due, 3, now);
            assert!(owed.is_empty());
        }
    }

    #[test]
    fn what_was_answered_is_settled_whichever_connection_it_is_told_over() {
        let keys = Keys::of(&Name::new("x").unwrap());
        let (now, ttl) = (boot_time(), Duration::from_secs(3600));
        let debt = |asked_over| Debt::new(&keys, asked_over, now, ttl);
        assert!(debt(None).is_settled_over(None, now));
        assert!(!debt(Some(3)).is_settled_over(None, now));
        assert!(debt(Some(3)).is_settled_over(None, now + ttl));
    }

    #[test]
    fn a_request_that_may_still_come_over_another_is_outlived() {
        let ttl = Duration::from_secs(3600);
        let (owed, now) = (owe(Some(3), ttl), boot_time());
        owed.told(&owed.due(now), 4, now);
        assert!(owed.due(now).is_empty(), "it was told");
        assert!(!owed.is_empty(), "the old request may still come");
        let later = now + ttl + Duration::from_secs(1);
        let due = owed.due(later);
        assert_eq!(due.len(), 1, "told once more");
        owed.told(&due, 4, later);
        assert!(owed.is_empty());
    }

    #[test]
    fn what_has_expired_is_not_told() {
        let owed = owe(Some(1), Duration::ZERO);
        assert!(owed.due(boot_time()).is_empty());
        assert!(owed.is_empty());
    }
}
