//! Waiting for a lock: asleep until a message comes, the claim in the way
//! expires, or it is no longer certain that no message was missed.

use std::time::Duration;

use super::answer::Answer;
use super::connection::Server;
use super::inbox::Mine;
use super::keys::{Keys, hex, inbox};
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
pub(super) async fn wait(server: &Server, ticket: &Ticket) -> Result<Standing> {
    let Some(mine) = server.inbox.claim(ticket.claim.id) else {
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
        if is_told || left <= LOOK || !server.inbox.is_proven(since) {
            return look(server, &mine).await;
        }
        since = boot_time();
    }
}

fn granted(mine: &Mine) -> Option<Standing> {
    let order = mine.granted()?;
    mine.is_held();
    let token = Token::new(order);
    Some(Standing::Held { token })
}

async fn look(server: &Server, mine: &Mine) -> Result<Standing> {
    let name = &mine.claim.name;
    let keys = Keys::of(name);
    let doing = || format!("wait for {name}");
    let answer = server
        .run(
            &server.scripts.look,
            &[&keys.record, &keys.queue],
            &[&hex(mine.claim.id)],
            doing,
        )
        .await?;
    Answer::read(answer)
        .into_standing(mine)
        .ok_or_else(|| super::answer::strange(doing(), &server.label))
}

/// Keeps proving that messages arrive, as long as a claim of this lease waits:
/// sends one to ourselves, and subscribes again if it does not come.
///
/// A plain `PING` would prove the connection but not the subscription: the
/// client does not say if it could not subscribe again.
pub(super) async fn prove(server: &Server, lease: &Lease) {
    let channel = inbox(lease.id);
    loop {
        let asked = server.inbox.asked();
        let since = asked.map_or(PROVE, |asked| boot_time().since(asked));
        tokio::time::sleep(PROVE.saturating_sub(since)).await;
        if !server.inbox.is_anyone_waiting(lease.id) {
            tokio::time::sleep(PROVE).await;
            continue;
        }
        if asked.is_some_and(|asked| !server.inbox.is_proven(asked)) {
            let _ = server.subscribe(&channel).await;
            server.inbox.ring_all();
        }
        let mut publish = ::redis::cmd("PUBLISH");
        publish.arg(&channel).arg(server.inbox.asks(boot_time()));
        // If it fails the claims that wait find out, each by itself.
        let _: Result<u64> = server.ask(&publish, || "listen".to_owned()).await;
    }
}
