//! Waiting for a lock: asleep until a message comes, the claim in the way
//! expires, or it is no longer certain that no message was missed.

use std::time::Duration;

use futures_util::future::join_all;

use super::RedisEngine;
use super::answer::{Answer, strange};
use super::inbox::Mine;
use super::keys::inbox;
use crate::clock::boot_time;
use crate::engine::{Lease, Standing, Ticket};
use crate::error::Result;
use crate::fence::Token;

/// How often a session with waiting claims proves its connection.
const PROVE: Duration = Duration::from_millis(500);
/// How late a claim looks by itself if the connection is not proven.
const LOOK: Duration = Duration::from_millis(750);

/// Waits until the claim's standing may have changed and says what it is.
///
/// # Cancel safety
/// A message that nobody took is kept for the next wait.
pub(super) async fn wait(engine: &RedisEngine, ticket: &Ticket) -> Result<Standing> {
    let Some(mine) = engine.inbox.claim(ticket.claim.id) else {
        return Ok(Standing::Gone);
    };
    let mut since = boot_time();
    loop {
        if let Some(standing) = granted(&mine) {
            return Ok(standing);
        }
        let now = boot_time();
        let left = mine.blocked_until().map(|until| until.since(now));
        let left = left.unwrap_or(Duration::ZERO);
        let is_told = tokio::select! {
            biased;
            () = mine.bell.notified() => true,
            () = tokio::time::sleep(left.min(LOOK)) => false,
        };
        if let Some(standing) = granted(&mine) {
            return Ok(standing);
        }
        let link = engine.server.link(mine.keys.lock());
        let is_proven = link.is_some_and(|link| link.is_proven(since));
        if is_told || left <= LOOK || !is_proven {
            return look(engine, &mine).await;
        }
        since = boot_time();
    }
}

fn granted(mine: &Mine) -> Option<Standing> {
    let order = mine.granted()?;
    mine.is_held(false);
    let token = Token::new(order);
    Some(Standing::Held { token })
}

async fn look(engine: &RedisEngine, mine: &Mine) -> Result<Standing> {
    let doing = || format!("wait for {}", mine.claim.name);
    let answer = engine
        .server
        .run(
            &engine.scripts.look,
            &mine.keys.three(),
            &[mine.ticket.as_str()],
            doing,
        )
        .await?;
    Answer::read(answer)
        .into_standing(mine)
        .ok_or_else(|| strange(doing(), &engine.server.label))
}

/// Keeps proving that messages arrive, as long as a claim of this lease waits.
pub(super) async fn prove(engine: &RedisEngine, lease: &Lease) {
    let channel = inbox(lease.id);
    loop {
        let links = engine.server.links();
        let asked = links.iter().filter_map(|link| link.asked()).max();
        let since = asked.map_or(PROVE, |asked| boot_time().since(asked));
        tokio::time::sleep(PROVE.saturating_sub(since)).await;
        if engine.inbox.is_anyone_waiting(lease.id) {
            join_all(links.iter().map(|link| link.prove(&channel))).await;
        } else {
            tokio::time::sleep(PROVE).await;
        }
    }
}
