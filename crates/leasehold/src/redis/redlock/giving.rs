//! Giving a lock back. All nodes that may have it are told at once, also those
//! that never answered; a majority is waited for, and the rest goes on in the
//! background.

use std::time::Duration;

use super::claims::{Mine, Trace};
use super::fan::Fan;
use super::leftovers::Given;
use super::nodes::{Call, Node, Nodes};
use super::owed::Debt;
use crate::clock::{Moment, boot_time};
use crate::engine::Withdrawn;
use crate::redlock::quorum::{Kept, renewed};

/// What the nodes said when a lock was given back.
#[derive(Debug)]
struct Tally {
    found: usize,
    absent: usize,
}

/// Gives back what an attempt left on the nodes. Waits until a majority has said
/// so, and if it came to nothing, until those that granted it have; but not longer
/// than the limit. `None` if no majority answered.
///
/// # Cancel safety
/// What nodes were not told is told in the background.
pub(super) async fn give_back(
    nodes: &Nodes,
    mine: &Mine,
    trace: &Trace,
    limit: Duration,
) -> Option<Withdrawn> {
    let count = nodes.all.len();
    let call = Call {
        script: &nodes.scripts.release,
        keys: &[&mine.keys.lock],
        arguments: &[trace.id.as_str()],
    };
    let make = |node: &Node, server: &str| call.command(node, server);
    let to: Vec<_> = (0..count).filter(|node| trace.may_be_on(*node)).collect();
    let mut tally = Tally {
        found: 0,
        // Those that said no when they were asked.
        absent: count - to.len(),
    };
    let mut untold = Untold {
        nodes,
        mine,
        trace,
        asked: boot_time(),
        fan: Fan::send(nodes, to.iter().copied(), call.script, &make),
        untold: to,
    };
    let limit = tokio::time::sleep(limit);
    tokio::pin!(limit);
    while !untold.is_enough(&tally) {
        let reply = tokio::select! {
            biased;
            reply = untold.fan.next() => reply,
            () = &mut limit => break,
        };
        let Some(reply) = reply else { break };
        let found = reply.answer.ok().map(::redis::from_redis_value::<u32>);
        if let Some(Ok(found)) = found {
            match found {
                0 => tally.absent += 1,
                _ => tally.found += 1,
            }
            untold.is_told(reply.node, reply.connection);
        }
    }
    tally.verdict(count, nodes.majority())
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

/// The nodes that have yet to be told. They are owed it when this is dropped,
/// unless they are just being told.
struct Untold<'a> {
    nodes: &'a Nodes,
    mine: &'a Mine,
    trace: &'a Trace,
    /// From when on they are told, at the earliest.
    asked: Moment,
    untold: Vec<usize>,
    fan: Fan<'a>,
}

impl Untold<'_> {
    fn debt(&self, number: usize) -> Debt {
        let (keys, trace) = (&self.mine.keys, self.trace);
        Debt::new(keys, trace.over[number], trace.sent, self.mine.ttl)
    }

    /// What came to nothing is cleaned up where it had come to anything; else a
    /// majority is waited for.
    fn is_enough(&self, tally: &Tally) -> bool {
        let granted = &self.trace.granted;
        if self.trace.is_failed && !granted.is_empty() {
            return !granted.iter().any(|node| self.untold.contains(node));
        }
        let count = self.nodes.all.len();
        renewed(count, tally.found, tally.absent) != Kept::Unknown
    }

    /// The node was told over this connection, if that is known.
    fn is_told(&mut self, number: usize, connection: Option<u64>) {
        if self.debt(number).is_settled_over(connection, self.asked) {
            self.untold.retain(|untold| *untold != number);
        }
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        for &number in &self.untold {
            let (node, debt) = (&self.nodes.all[number], self.debt(number));
            match self.fan.take(number) {
                Some(posted) => {
                    let given = Given {
                        id: self.trace.id.clone(),
                        debt,
                        asked: self.asked,
                    };
                    node.leftovers.keep(posted, Some(given));
                }
                None => node.owed.add(&self.trace.id, debt),
            }
        }
    }
}
