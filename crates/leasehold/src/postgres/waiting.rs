//! Waiting for a lock: asleep until a message comes, the lease in the way ends,
//! or it is time to look in case a message was lost.

use std::time::Duration;

use super::PostgresEngine;
use super::answer::{Answer, strange};
use super::inbox::Mine;
use super::pool::Lane;
use super::text::{quoted, ticket};
use crate::clock::boot_time;
use crate::engine::{Standing, Ticket};
use crate::error::Result;
use crate::fence::Token;

/// How late a claim looks by itself.
const LOOK: Duration = Duration::from_millis(750);
/// The same where messages do not get through.
const LOOK_UNTOLD: Duration = Duration::from_millis(50);
/// How long to wait for somebody else who is taking over the same session.
const TAKE_OVER: Duration = Duration::from_millis(20);

/// Waits until the claim's standing may have changed and says what it is.
///
/// # Cancel safety
/// A message that nobody took is kept for the next wait.
pub(super) async fn wait(engine: &PostgresEngine, ticket: &Ticket) -> Result<Standing> {
    let Some(mine) = engine.inbox.claim(ticket.claim.id) else {
        return Ok(Standing::Gone);
    };
    let Some(order) = mine.order() else {
        return Ok(Standing::Gone);
    };
    if let Some(standing) = granted(&mine) {
        return Ok(standing);
    }
    let now = boot_time();
    let left = mine.blocked_until().map(|until| until.since(now));
    let longest = match engine.ears.is_listening() {
        true => LOOK,
        false => LOOK_UNTOLD,
    };
    let pause = left.unwrap_or(Duration::ZERO).max(TAKE_OVER).min(longest);
    tokio::select! {
        biased;
        () = mine.bell.notified() => {}
        () = tokio::time::sleep(pause) => {}
    }
    if let Some(standing) = granted(&mine) {
        return Ok(standing);
    }
    let answer = ask(engine, &mine, order, "look").await?;
    let answer = match answer {
        Answer::Waiting { wake, .. } if wake.is_zero() => {
            ask(engine, &mine, order, "take_over").await?
        }
        answer => answer,
    };
    answer
        .into_standing(&mine)
        .ok_or_else(|| strange(doing(&mine), &engine.pool.label))
}

fn doing(mine: &Mine) -> String {
    format!("wait for {}", mine.claim.name)
}

fn granted(mine: &Mine) -> Option<Standing> {
    let order = mine.granted()?;
    mine.is_held(order);
    let token = Token::new(order);
    Some(Standing::Held { token })
}

async fn ask(engine: &PostgresEngine, mine: &Mine, order: u64, function: &str) -> Result<Answer> {
    let arguments = format!(
        "{}, {}, {order}",
        quoted(mine.claim.name.as_str()),
        ticket(mine.claim.id)
    );
    let answer = engine
        .call_for_record(Lane::InLine, function, &arguments, || doing(mine))
        .await?;
    Answer::read(&answer.rows).ok_or_else(|| strange(doing(mine), &engine.pool.label))
}
