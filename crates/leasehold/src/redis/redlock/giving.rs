//! Giving a lock back. Every node is told, also those that never answered.

use std::time::Duration;

use futures_util::StreamExt;

use super::keys::Keys;
use super::nodes::{Call, Nodes};
use super::owed::Debt;
use crate::clock::{Moment, boot_time};
use crate::engine::Withdrawn;
use crate::redis::keys::Hex;
use crate::redlock::quorum::{Kept, renewed};

/// One attempt on a lock, as it is given back.
#[derive(Debug)]
pub(super) struct Gift<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) keys: &'a Keys,
    pub(super) id: &'a Hex,
    /// When it was asked for.
    pub(super) sent: Moment,
    /// Over which connection each node was asked; `None` if it answered.
    pub(super) asked_over: &'a [Option<u64>],
    pub(super) ttl: Duration,
}

/// What the nodes said when a lock was given back.
#[derive(Debug)]
struct Tally {
    found: usize,
    absent: usize,
    /// The nodes that said nothing yet, and over which connection they were told.
    unheard: Vec<(usize, u64)>,
}

impl Gift<'_> {
    /// Tells all nodes, and waits for those in `wanted`, or without these until
    /// a majority has said the same; but not longer than the limit. `None` if no
    /// majority answered. What others are owed is noted down, also if the future
    /// is dropped.
    pub(super) async fn give(
        &self,
        wanted: Option<&[usize]>,
        limit: Duration,
    ) -> Option<Withdrawn> {
        let nodes = self.nodes;
        let count = nodes.all.len();
        let told = boot_time();
        let call = Call {
            script: &nodes.scripts.release,
            keys: &[&self.keys.lock],
            arguments: &[self.id.as_str()],
        };
        let call = &call;
        let mut noted = Noted {
            gift: self,
            told,
            tally: Tally {
                found: 0,
                absent: 0,
                unheard: nodes
                    .all
                    .iter()
                    .map(|node| (node.number, node.link.line_number()))
                    .collect(),
            },
        };
        let tally = &mut noted.tally;
        let mut answers = nodes.ask(0..count, |node| node.run::<u32>(call));
        let limit = tokio::time::sleep(limit);
        tokio::pin!(limit);
        loop {
            let (number, answer) = tokio::select! {
                biased;
                Some(answer) = answers.next() => answer,
                () = &mut limit => break,
                else => break,
            };
            match answer {
                Ok(0) => tally.absent += 1,
                Ok(_) => tally.found += 1,
                Err(_) => continue,
            }
            // One that was asked over another connection may yet be.
            let over = tally.unheard.iter().find(|(unheard, _)| *unheard == number);
            let over = over.map(|(_, over)| *over);
            if self.asked_over[number].is_none_or(|asked| Some(asked) == over) {
                tally.unheard.retain(|(unheard, _)| *unheard != number);
            }
            let is_enough = match wanted {
                Some(wanted) => wanted
                    .iter()
                    .all(|wanted| !tally.unheard.iter().any(|(node, _)| node == wanted)),
                None => renewed(count, tally.found, tally.absent) != Kept::Unknown,
            };
            if is_enough {
                break;
            }
        }
        tally.verdict(count, nodes.majority())
    }
}

impl Tally {
    fn verdict(&self, count: usize, majority: usize) -> Option<Withdrawn> {
        match renewed(count, self.found, self.absent) {
            Kept::No => Some(Withdrawn::Absent),
            Kept::Yes => Some(Withdrawn::Removed),
            // It was there, on fewer nodes than could say so.
            Kept::Unknown if self.found + self.absent >= majority => Some(Withdrawn::Removed),
            Kept::Unknown => None,
        }
    }
}

/// Notes down what is owed to nodes when it is dropped.
struct Noted<'a> {
    gift: &'a Gift<'a>,
    told: Moment,
    tally: Tally,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let gift = self.gift;
        for &(number, over) in &self.tally.unheard {
            let asked_over = gift.asked_over[number];
            let debt = Debt::new(gift.keys, asked_over, gift.sent, gift.ttl);
            let node = &gift.nodes.all[number];
            node.owed.add(gift.id, debt.told(over, self.told));
        }
    }
}
