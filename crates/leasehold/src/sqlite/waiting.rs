//! Waiting for a lock: asleep until a line comes, the process that is in the
//! way dies, its lease ends, or half a second has passed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::claims::{self, Sight};
use super::database::{Doing, Store};
use super::live::{Liveness, Watched};
use super::queue::END;
use crate::clock::{self, Moment};
use crate::engine::{LeaseId, Standing, Ticket};
use crate::error::Result;
use crate::rule::Watch;

/// How late a claim finds out if everything else fails.
const POLL: Duration = Duration::from_millis(500);

/// Waits until the claim's standing may have changed and says what it is.
///
/// # Cancel safety
/// A ring that nobody took is kept for the next wait.
pub(super) async fn wait(store: &Arc<Store>, ticket: &Ticket, watch: Watch) -> Result<Standing> {
    let standing = wait_once(store, ticket, watch).await?;
    if !matches!(standing, Standing::Waiting { .. }) {
        store.ours.waits_no_more(ticket.claim.id);
    }
    Ok(standing)
}

async fn wait_once(store: &Arc<Store>, ticket: &Ticket, watch: Watch) -> Result<Standing> {
    if !store.is_in_place() {
        return Ok(Standing::Gone);
    }
    let waiting = store.ours.waiting(ticket.claim.id);
    let place = waiting.as_ref().map_or(END, |waiting| waiting.place);
    let sight = look(store, ticket, place, watch).await?;
    let Standing::Waiting { watch, .. } = sight.standing else {
        return Ok(sight.standing);
    };
    let watched = open_pipes(store, &sight.blockers);
    if is_in_vain(store, &sight) {
        return take_over(store, ticket, place, &sight.blockers).await;
    }
    let bell = async {
        match &waiting {
            Some(waiting) => waiting.bell.notified().await,
            None => std::future::pending().await,
        }
    };
    let woken = tokio::select! {
        biased;
        () = bell => Woken::Told,
        () = any_ended(&watched) => Woken::Suspicious,
        () = tokio::time::sleep(until(&sight)) => Woken::InCase,
    };
    // Whoever is told most likely holds now: what it watched is not there.
    let watch = if woken == Woken::Told {
        Watch::Any
    } else {
        watch
    };
    let again = look(store, ticket, place, watch).await?;
    let is_waiting = matches!(again.standing, Standing::Waiting { .. });
    let is_over = again
        .blockers
        .iter()
        .any(|blocker| has_ended(blocker, again.now));
    if is_waiting && (woken == Woken::Suspicious || is_over) {
        return take_over(store, ticket, place, &sight.blockers).await;
    }
    Ok(again.standing)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    Told,
    Suspicious,
    InCase,
}

async fn look(store: &Arc<Store>, ticket: &Ticket, place: u64, watch: Watch) -> Result<Sight> {
    let doing = Doing("wait for", Some(&ticket.claim.name));
    let ticket = ticket.clone();
    store
        .run(doing, move |_, connection| {
            claims::look(connection, &ticket, place, watch)
        })
        .await
}

async fn take_over(
    store: &Arc<Store>,
    ticket: &Ticket,
    place: u64,
    suspects: &[(LeaseId, Option<Moment>)],
) -> Result<Standing> {
    let doing = Doing("wait for", Some(&ticket.claim.name));
    let ticket = ticket.clone();
    let suspects: Vec<_> = suspects.iter().map(|(session, _)| *session).collect();
    store
        .run(doing, move |store, connection| {
            claims::take_over(store, connection, &ticket, place, &suspects)
        })
        .await
}

/// The pipes of those in the way that can be watched; our own session's claims
/// tell us themselves.
///
/// They are opened before anything is asked about them: a pipe that is opened
/// after its session's death never says so. One that has ended already is of no
/// use; sleeping on it would be no sleep.
fn open_pipes(store: &Store, blockers: &[(LeaseId, Option<Moment>)]) -> Vec<Arc<Watched>> {
    let is_other = |id: &LeaseId| store.ours.lease(*id).is_none();
    let others = blockers.iter().map(|(id, _)| *id).filter(is_other);
    others
        .filter_map(|id| store.watchlist.watch(&store.file.sessions, id))
        .filter(|pipe| pipe.liveness() == Liveness::Alive)
        .collect()
}

fn is_in_vain(store: &Store, sight: &Sight) -> bool {
    let is_over =
        |blocker: &(LeaseId, _)| has_ended(blocker, sight.now) || store.is_process_gone(blocker.0);
    sight.blockers.iter().any(is_over)
}

fn has_ended((_, expires): &(LeaseId, Option<Moment>), now: Moment) -> bool {
    expires.is_none_or(|expires| expires <= now)
}

/// How long to sleep: to the first end of a lease, but not past the poll.
fn until(sight: &Sight) -> Duration {
    let ends = sight.blockers.iter().filter_map(|(_, expires)| *expires);
    let now = clock::boot_time();
    ends.map(|end| end.since(now))
        .min()
        .unwrap_or(POLL)
        .min(POLL)
}

/// Returns when one of the sessions' processes has ended.
async fn any_ended(watched: &[Arc<Watched>]) {
    let mut ends: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = Vec::new();
    for pipe in watched {
        ends.push(Box::pin(pipe.ended()));
    }
    std::future::poll_fn(|context| {
        for end in &mut ends {
            if end.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    })
    .await;
}
