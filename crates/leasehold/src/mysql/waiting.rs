//! Waiting for a lock. There is nobody to tell us, so we look: soon after the
//! one in the way came to stand there, then less and less often, and the less
//! the more are before us. One claim of a session looks for all that wait for
//! the same lock.

use std::time::Duration;

use tokio::sync::MutexGuard;

use super::MysqlEngine;
use super::inbox::{Crowd, Mine};
use super::look::Line;
use super::takeover::take_over;
use crate::clock::{Moment, boot_time};
use crate::engine::{Standing, Ticket};
use crate::error::Result;
use crate::name::Name;

/// How soon the first in line looks, and how late.
const SOONEST: Duration = Duration::from_millis(1);
const LATEST: Duration = Duration::from_millis(100);
/// How late the one that looks for all does it.
const LATEST_OF_ALL: Duration = Duration::from_millis(500);
/// How long the others leave it to that one, which may stand still.
const OVERDUE: Duration = Duration::from_millis(750);

/// Waits until the claim's standing may have changed and says what it is.
///
/// # Cancel safety
/// What was told and not heard is kept for the next wait, for a moment.
pub(super) async fn wait(engine: &MysqlEngine, ticket: &Ticket) -> Result<Standing> {
    let Some(mine) = engine.inbox.claim(ticket.claim.id) else {
        return Ok(Standing::Gone);
    };
    if mine.order().is_none() {
        return Ok(Standing::Gone);
    }
    let name = &ticket.claim.name;
    let crowd = engine.inbox.crowd(&mine);
    let looks_for_all = turn(&mine, &crowd).await;
    if looks_for_all.is_some() {
        let now = boot_time();
        let pauses = crowd.waiting();
        let pause = pauses.iter().map(|mine| pause_of(mine, now)).min();
        tokio::select! {
            biased;
            () = mine.bell.notified() => {}
            () = tokio::time::sleep(pause.unwrap_or(SOONEST)) => {}
        }
    }
    if let Some(standing) = mine.heard(boot_time()) {
        return Ok(standing);
    }
    // Whoever comes to wait after the look began is not in what it sees.
    let others = crowd.waiting();
    crowd.looks(boot_time());
    let line = look(engine, name, &mine).await?;
    for other in others {
        if other.claim.id != mine.claim.id && other.is_waiting() {
            other.tell(line.standing(&other));
        }
    }
    Ok(line.standing(&mine))
}

/// Waits until it is this claim's turn to look for all, or it has to look without
/// being it.
async fn turn<'a>(mine: &Mine, crowd: &'a Crowd) -> Option<MutexGuard<'a, ()>> {
    let began = boot_time();
    loop {
        let overdue = crowd.looked(began) + OVERDUE;
        tokio::select! {
            biased;
            () = mine.bell.notified() => return None,
            looks_for_all = crowd.turn.lock() => return Some(looks_for_all),
            () = tokio::time::sleep(overdue.since(boot_time())) => {}
        }
        // If somebody looked meanwhile, it was for this one too.
        if crowd.looked(began) + OVERDUE <= boot_time() {
            return None;
        }
    }
}

/// Looks, and takes over from the dead who are before us.
async fn look(engine: &MysqlEngine, name: &Name, mine: &Mine) -> Result<Line> {
    let doing = || format!("wait for {name}");
    let line = engine.look(name, doing).await?;
    let is_blocked_by_the_dead = matches!(line.standing(mine), Standing::Waiting { ahead, .. }
        if line.0[..usize::try_from(ahead).unwrap_or(0)].iter().any(|place| place.left.is_zero()));
    if !is_blocked_by_the_dead {
        return Ok(line);
    }
    take_over(engine, name).await?;
    engine.look(name, doing).await
}

fn pause_of(mine: &Mine, now: Moment) -> Duration {
    let (ahead, since) = mine.blocked();
    let pause = pause(ahead, since, now);
    match mine.blocked_until() {
        Some(until) => pause.min(until.since(now).max(SOONEST)),
        None => pause,
    }
}

/// An eighth of the time that nothing has changed, so that a hand-over is late by
/// a small part of what it waited for.
fn pause(ahead: u32, since: Moment, now: Moment) -> Duration {
    let first = (now.since(since) / 8).clamp(SOONEST, LATEST);
    first.saturating_mul(ahead.max(1)).min(LATEST_OF_ALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_rarer_with_time_and_with_those_before() {
        let since = boot_time();
        let after = |millis| since + Duration::from_millis(millis);
        assert_eq!(pause(1, since, since), SOONEST);
        assert_eq!(pause(1, since, after(80)), Duration::from_millis(10));
        assert_eq!(pause(1, since, after(10_000)), LATEST);
        assert_eq!(pause(5, since, since), 5 * SOONEST);
        assert_eq!(pause(100, since, after(10_000)), LATEST_OF_ALL);
    }
}
