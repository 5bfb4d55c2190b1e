//! Waiting for a lock that others have: asleep until a majority of the nodes
//! says that it changed, or it expires. There is no queue, so whoever waits asks
//! again then, in competition with all others.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::RedlockEngine;
use super::claims::{Claims, Mine, OpenLease};
use super::nodes::Nodes;
use crate::backoff;
use crate::clock::boot_time;
use crate::engine::{Standing, Ticket};
use crate::random::random_u64;
use crate::redis::link::Ears;
use crate::rule::Watch;

/// A node tells us when a key that we read was changed, if we ask for that right
/// before we read it: what locks cost does not depend on it.
pub(super) const GREETING: &[&[&str]] = &[&["CLIENT", "TRACKING", "ON", "OPTIN"]];
/// How late we look again if nothing was heard.
const LOOK: Duration = Duration::from_millis(750);
/// How late, at most, if a node does not tell of changes.
const POLL: Duration = Duration::from_millis(200);
/// How many races in a row may be lost before we stand back.
const RACES: u32 = 1;

/// What a claim that waits is told: there is no queue, so only the holder is
/// known to be before it.
pub(super) const WAITING: Standing = Standing::Waiting {
    watch: Watch::Any,
    ahead: 1,
};

/// What one node tells.
#[derive(Debug)]
pub(super) struct NodeEars {
    pub(super) number: usize,
    pub(super) majority: usize,
    pub(super) claims: Arc<Claims>,
}

impl Ears for NodeEars {
    fn hear(&self, channel: &str, message: &[u8]) {
        self.claims.hear(channel, message);
    }

    fn changed(&self, keys: Option<Vec<String>>) {
        let keys = keys.as_deref();
        self.claims.changed(self.number, self.majority, keys);
    }

    /// What is not known any more may be free.
    fn missed(&self) {
        self.claims.changed(self.number, self.majority, None);
        self.claims.missed();
    }
}

/// Waits until a majority of the nodes may have the lock free.
///
/// # Cancel safety
/// It looks anew with each call.
pub(super) async fn wait(engine: &RedlockEngine, ticket: &Ticket) -> Standing {
    let mine = engine.claims.claim(ticket.claim.id);
    let (Some(mine), Some(open)) = (mine, engine.claims.lease(ticket.lease)) else {
        return Standing::Gone;
    };
    let nodes = &*engine.nodes;
    mine.looks();
    let since = boot_time();
    // Whoever waits for us gives up after a ttl without any answer.
    let look = match nodes.all.iter().all(|node| node.link.is_greeted()) {
        true => LOOK.min(open.lease.ttl / 2),
        false => POLL / 2 + part_of(POLL / 2),
    };
    let left = mine.free_at().map(|free_at| free_at.since(since));
    let is_free = tokio::select! {
        biased;
        () = mine.bell.notified() => true,
        () = look_at(nodes, &mine, &open) => true,
        () = tokio::time::sleep(left.map_or(look, |left| left.min(look))) => {
            left.is_some_and(|left| left <= look)
        }
    };
    if !is_free {
        return WAITING;
    }
    stand_back(&mine).await;
    Standing::MayBeFree
}

/// Asks the nodes who have it, and returns if a majority has nobody. From then
/// on they tell of changes.
async fn look_at(nodes: &Nodes, mine: &Mine, open: &OpenLease) {
    let (mut track, mut get) = (::redis::cmd("CLIENT"), ::redis::cmd("GET"));
    track.arg("CACHING").arg("YES");
    get.arg(&mine.keys.lock);
    let (track, get) = (&track, &get);
    let mut answers = nodes.ask(0..nodes.all.len(), |node| async move {
        let link = &node.link;
        match link.is_greeted() {
            true => Ok(link.ask_after::<Option<Vec<u8>>>(track, get).await?.0),
            false => link.ask(get).await,
        }
    });
    let limit = tokio::time::sleep(open.limit);
    tokio::pin!(limit);
    loop {
        let answer = tokio::select! {
            Some(answer) = answers.next() => answer,
            () = &mut limit => break,
            else => break,
        };
        if let (number, Ok(None)) = answer
            && mine.is_free_on(number) as usize >= nodes.majority()
        {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Everybody wakes when a lock is given back, and where several ask at the same
/// time each may get some nodes and nobody a majority. Who was too late before
/// lets others go first, for a random time.
async fn stand_back(mine: &Mine) {
    let Some(lost) = mine
        .lost_races()
        .checked_sub(RACES)
        .filter(|lost| *lost > 0)
    else {
        return;
    };
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(100));
    let longest = backoff::pause(lost.min(20), first, longest, u64::MAX);
    tokio::time::sleep(part_of(longest)).await;
}

/// A random part of it.
fn part_of(most: Duration) -> Duration {
    let part = u32::try_from(random_u64() % 1024).unwrap_or(0);
    most * part / 1024
}
