//! Waiting for a lock: asleep until the server says that its key changed, the
//! holder's time is over, or it is no longer certain that nothing was missed.

use std::time::Duration;

use futures_util::future::join_all;

use super::RedissonEngine;
use crate::clock::boot_time;
use crate::engine::{Lease, Standing, Ticket};
use crate::random::random_u64;
use crate::rule::Watch;

/// How often a session with waiting claims proves its connection.
const PROVE: Duration = Duration::from_millis(500);
/// How late a claim asks by itself if the connection is not proven.
const LOOK: Duration = Duration::from_millis(750);
/// How late, at most, where the server does not tell of changes.
const POLL: Duration = Duration::from_millis(200);

/// What a claim is told that waits: only the holder is known to be before it.
pub(super) const WAITING: Standing = Standing::Waiting {
    watch: Watch::Any,
    ahead: 1,
};

/// Waits until the lock may be free, for a while.
///
/// # Cancel safety
/// A change that nobody took notice of is kept for the next wait.
pub(super) async fn wait(engine: &RedissonEngine, ticket: &Ticket) -> Standing {
    let mine = engine.claims.claim(&ticket.claim);
    let (Some(mine), Some(open)) = (mine, engine.claims.lease(ticket.lease)) else {
        return Standing::Gone;
    };
    let since = boot_time();
    let left = mine.left(since);
    let link = engine.server.link(ticket.claim.name.as_str());
    let is_told = link.as_ref().is_some_and(|link| link.is_greeted());
    let look = match is_told {
        // Whoever waits for us gives up after a ttl without any answer.
        true => LOOK.min(open.lease.ttl / 2),
        false => poll(random_u64()),
    };
    tokio::select! {
        biased;
        () = mine.bell.notified() => {
            let rest = mine.rest(boot_time());
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
            return Standing::MayBeFree;
        }
        () = tokio::time::sleep(left.min(look)) => {}
    }
    let is_proven = is_told && link.is_some_and(|link| link.is_proven(since));
    if left <= look || !is_proven {
        return Standing::MayBeFree;
    }
    WAITING
}

/// Not in step with others.
fn poll(random: u64) -> Duration {
    let part = u32::try_from(random % 1024).unwrap_or(0);
    POLL / 2 + POLL / 2 * part / 1024
}

/// Keeps proving the connection as long as a claim of this lease waits. What
/// the server tells of changes comes on it in order with its replies, and is
/// switched on before a connection is used: a reply proves that nothing was
/// missed before it.
pub(super) async fn prove(engine: &RedissonEngine, lease: &Lease) {
    loop {
        let links = engine.server.links();
        let asked = links.iter().filter_map(|link| link.asked()).max();
        let since = asked.map_or(PROVE, |asked| boot_time().since(asked));
        tokio::time::sleep(PROVE.saturating_sub(since)).await;
        if engine.claims.is_anyone_waiting(lease.id) {
            join_all(links.iter().map(|link| link.ping())).await;
        } else {
            tokio::time::sleep(PROVE).await;
        }
    }
}
