//! Giving a lock back. Those nodes are waited for that are known to have it; the
//! others, also those that never answered, are told in the background.

use std::time::Duration;

use futures_util::StreamExt;

use super::claims::{Mine, Trace};
use super::nodes::{Call, Nodes};
use super::owed::Debt;
use crate::clock::boot_time;
use crate::engine::Withdrawn;
use crate::redlock::quorum::{Kept, renewed};

/// What the nodes said when a lock was given back.
#[derive(Debug)]
struct Tally {
    found: usize,
    absent: usize,
}

/// Gives back what an attempt left on the nodes. Waits until those that granted
/// it have said so; if these are no majority, or one does not answer, for the
/// others too, but not longer than the limit. `None` if no majority answered.
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
    let call = &call;
    let mut untold = Untold {
        nodes,
        mine,
        trace,
        untold: (0..count).filter(|node| trace.may_be_on(*node)).collect(),
    };
    let tell = |number: usize| {
        let node = &nodes.all[number];
        let connection = node.link.line_number();
        async move { (number, connection, node.run::<u32>(call).await) }
    };
    let untold_now = untold.untold.clone().into_iter();
    let (first, mut others): (Vec<_>, Vec<_>) =
        untold_now.partition(|node| trace.granted.contains(node) || trace.granted.is_empty());
    let mut answers: futures_util::stream::FuturesUnordered<_> =
        first.into_iter().map(tell).collect();
    let mut tally = Tally {
        found: 0,
        // Those that said no when they were asked.
        absent: count - untold.untold.len(),
    };
    let (soon, limit) = (tokio::time::sleep(limit / 4), tokio::time::sleep(limit));
    tokio::pin!(soon, limit);
    while renewed(count, tally.found, tally.absent) == Kept::Unknown {
        let answer = tokio::select! {
            biased;
            Some(answer) = answers.next() => Some(answer),
            () = &mut soon, if !others.is_empty() => None,
            () = &mut limit => break,
            else => None,
        };
        match answer {
            Some((number, connection, Ok(found))) => {
                match found {
                    0 => tally.absent += 1,
                    _ => tally.found += 1,
                }
                untold.is_told(number, connection);
            }
            // A failed attempt is cleaned up where it had come to anything.
            _ if trace.is_failed => break,
            _ if others.is_empty() && answers.is_empty() => break,
            _ => answers.extend(others.drain(..).map(tell)),
        }
        if trace.is_failed && answers.is_empty() {
            break;
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

/// The nodes that have yet to be told. They are owed it when this is dropped.
struct Untold<'a> {
    nodes: &'a Nodes,
    mine: &'a Mine,
    trace: &'a Trace,
    untold: Vec<usize>,
}

impl Untold<'_> {
    fn debt(&self, number: usize) -> Debt {
        let (keys, trace) = (&self.mine.keys, self.trace);
        Debt::new(keys, trace.over[number], trace.sent, self.mine.ttl)
    }

    /// The node was told over this connection, if that is still the one.
    fn is_told(&mut self, number: usize, connection: u64) {
        let is_sure = self.nodes.all[number].link.line_number() == connection;
        if is_sure && self.debt(number).is_settled_over(connection, boot_time()) {
            self.untold.retain(|untold| *untold != number);
        }
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        for &number in &self.untold {
            self.nodes.all[number]
                .owed
                .add(&self.trace.id, self.debt(number));
        }
    }
}
