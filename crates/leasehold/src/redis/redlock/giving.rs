//! Giving a lock back. Every node is told, also those that never answered,
//! until that is known or nothing can be left there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::keys::Keys;
use super::nodes::{Call, Nodes};
use crate::backoff;
use crate::clock::boot_time;
use crate::engine::Withdrawn;
use crate::random::random_u64;
use crate::redis::keys::Hex;

/// What the nodes said when a lock was given back.
#[derive(Debug)]
pub(super) struct Tally {
    found: usize,
    absent: usize,
    /// The nodes from which nothing was heard yet.
    pub(super) unheard: Vec<usize>,
}

impl Tally {
    /// What most of those say that answered; `None` if these are no majority.
    pub(super) fn verdict(&self, majority: usize) -> Option<Withdrawn> {
        if self.found + self.absent < majority {
            return None;
        }
        Some(match self.found >= self.absent {
            true => Withdrawn::Removed,
            false => Withdrawn::Absent,
        })
    }

    fn is_decided(&self, majority: usize) -> bool {
        self.found >= majority || self.absent >= majority
    }
}

/// What of a lock is given back.
#[derive(Debug, Clone)]
pub(super) struct Gift {
    pub(super) keys: Keys,
    pub(super) id: Hex,
}

impl Gift {
    /// Tells all nodes, and waits for those in `wanted` or until a majority has
    /// said the same, but not longer than the limit.
    pub(super) async fn give(
        &self,
        nodes: &Nodes,
        wanted: Option<&[usize]>,
        limit: Duration,
    ) -> Tally {
        let call = Call {
            script: &nodes.scripts.release,
            keys: &[&self.keys.lock],
            arguments: &[self.id.as_str()],
        };
        let call = &call;
        let mut answers = nodes.ask(0..nodes.all.len(), |node| node.run::<u32>(call));
        let mut tally = Tally {
            found: 0,
            absent: 0,
            unheard: (0..nodes.all.len()).collect(),
        };
        let limit = tokio::time::sleep(limit);
        tokio::pin!(limit);
        loop {
            let (number, answer) = tokio::select! {
                biased;
                Some(answer) = answers.next() => answer,
                () = &mut limit => return tally,
                else => return tally,
            };
            match answer {
                Ok(0) => tally.absent += 1,
                Ok(_) => tally.found += 1,
                Err(_) => continue,
            }
            tally.unheard.retain(|unheard| *unheard != number);
            let is_enough = match wanted {
                Some(wanted) => !wanted.iter().any(|node| tally.unheard.contains(node)),
                None => tally.is_decided(nodes.majority()),
            };
            if is_enough {
                return tally;
            }
        }
    }

    /// Tells one node until it has answered, or nothing can be left there: what
    /// it has expires after a ttl, and what is on its way is refused after one.
    pub(super) async fn see_to(self, nodes: Arc<Nodes>, number: usize, ttl: Duration) {
        let until = boot_time() + 2 * ttl;
        let Some(node) = nodes.all.get(number) else {
            return;
        };
        let mut pauses = 0;
        while boot_time() < until {
            let call = Call {
                script: &nodes.scripts.release,
                keys: &[&self.keys.lock],
                arguments: &[self.id.as_str()],
            };
            if node.run::<u32>(&call).await.is_ok() {
                return;
            }
            let (first, longest) = (Duration::from_millis(20), Duration::from_millis(500));
            tokio::time::sleep(backoff::pause(pauses, first, longest, random_u64())).await;
            pauses += 1;
        }
    }
}
