//! Waiting for a lock that another holds: asleep until the server says that the
//! lock changed, it expires, or it is no longer certain that nothing was missed.

use std::time::Duration;

use futures_util::future::join_all;

use super::PlainEngine;
use super::claims::Mine;
use crate::clock::boot_time;
use crate::engine::{Lease, Standing, Ticket};
use crate::random::random_u64;
use crate::rule::Watch;

/// How often a session that waits proves its connection.
const PROVE: Duration = Duration::from_millis(500);
/// How late we ask again if the connection is not proven.
const LOOK: Duration = Duration::from_millis(750);
/// How late, at most, if the server does not tell of changes.
const POLL: Duration = Duration::from_millis(200);
/// How many races in a row may be lost before we stand back a little.
const RACES: u32 = 2;
/// The longest that we stand back.
const LONGEST: u32 = 20;

/// What a claim that waits is told: there is no queue, so only the holder is
/// known to be before it.
pub(super) const WAITING: Standing = Standing::Waiting {
    watch: Watch::Any,
    ahead: 1,
};

/// Waits until the lock may be free.
///
/// # Cancel safety
/// A ring that nobody took is kept for the next wait.
pub(super) async fn wait(engine: &PlainEngine, ticket: &Ticket) -> Standing {
    let mine = engine.claims.claim(&ticket.claim);
    let (Some(mine), Some(open)) = (mine, engine.claims.lease(ticket.lease)) else {
        return Standing::Gone;
    };
    let since = boot_time();
    let left = mine.free_at().map(|free_at| free_at.since(since));
    let link = engine.server.link(ticket.claim.name.as_str());
    let is_told_of_changes = link.as_ref().is_some_and(|link| link.is_greeted());
    let look = match is_told_of_changes {
        // Whoever waits for us gives up after a ttl without any answer.
        true => LOOK.min(open.lease.ttl / 2),
        // Not in step with others.
        false => POLL / 2 + part_of(POLL / 2),
    };
    let sleep = left.map_or(look, |left| left.min(look));
    tokio::select! {
        biased;
        () = mine.bell.notified() => {
            let pause = stand_back(&mine);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            return Standing::MayBeFree;
        }
        () = tokio::time::sleep(sleep) => {}
    }
    let is_over = left.is_some_and(|left| left <= look);
    let is_proven = link.is_some_and(|link| link.is_proven(since));
    if is_over || !is_told_of_changes || !is_proven {
        return Standing::MayBeFree;
    }
    WAITING
}

/// Everybody wakes when a lock is given back. Where that is many, which we know
/// from being too late again and again, not all of them ask at the same time.
fn stand_back(mine: &Mine) -> Duration {
    let lost = mine.lost_races().saturating_sub(RACES).min(LONGEST);
    match lost {
        0 => Duration::ZERO,
        lost => part_of(Duration::from_millis(lost.into())),
    }
}

/// A random part of it.
fn part_of(most: Duration) -> Duration {
    let part = u32::try_from(random_u64() % 1024).unwrap_or(0);
    most * part / 1024
}

/// Keeps proving the connection as long as a claim of this lease waits. What
/// the server tells comes in order with its replies, so a reply proves that
/// nothing was missed before it.
pub(super) async fn prove(engine: &PlainEngine, lease: &Lease) {
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
