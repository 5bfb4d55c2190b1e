//! Waiting for a lock: asleep until the server says that its key changed, the
//! holder's time is over, or it is no longer certain that nothing was missed.

use std::time::Duration;

use futures_util::future::join_all;

use super::super::keys::inbox;
use super::RedissonEngine;
use crate::clock::boot_time;
use crate::engine::{Lease, Standing, Ticket};

/// How often a session with waiting claims proves its connection.
const PROVE: Duration = Duration::from_millis(500);
/// How late a claim asks by itself if the connection is not proven.
const LOOK: Duration = Duration::from_millis(750);

/// Waits until the lock may be free.
///
/// # Cancel safety
/// A change that nobody took notice of is kept for the next wait.
pub(super) async fn wait(engine: &RedissonEngine, ticket: &Ticket) -> Standing {
    let Some(mine) = engine.claims.claim(&ticket.claim) else {
        return Standing::Gone;
    };
    let mut since = boot_time();
    loop {
        let left = mine.left(boot_time());
        let is_told = tokio::select! {
            biased;
            () = mine.bell.notified() => true,
            () = tokio::time::sleep(left.min(LOOK)) => false,
        };
        if is_told {
            let rest = mine.rest(boot_time());
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
            return Standing::MayBeFree;
        }
        let link = engine.server.link(ticket.claim.name.as_str());
        let is_proven = link.is_some_and(|link| link.is_proven(since));
        if left <= LOOK || !is_proven {
            return Standing::MayBeFree;
        }
        since = boot_time();
    }
}

/// Keeps proving that the servers' messages arrive, as long as a claim of this
/// lease waits.
///
/// What a server says of changed keys comes on the same connection and in order
/// with our own messages to ourselves, and it is switched on before a
/// connection is used. So one proves the other.
pub(super) async fn prove(engine: &RedissonEngine, lease: &Lease) {
    let channel = inbox(lease.id);
    loop {
        let links = engine.server.links();
        let asked = links.iter().filter_map(|link| link.asked()).max();
        let since = asked.map_or(PROVE, |asked| boot_time().since(asked));
        tokio::time::sleep(PROVE.saturating_sub(since)).await;
        if engine.claims.is_anyone_waiting(lease.id) {
            join_all(links.iter().map(|link| link.prove(&channel))).await;
        } else {
            tokio::time::sleep(PROVE).await;
        }
    }
}
