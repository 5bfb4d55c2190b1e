//! The one clean-up task of a session. It withdraws claims that were dropped,
//! cancelled or are in doubt, until the store has surely let go of them, and
//! ends the lease when the session closes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::backoff;
use crate::clock::Moment;
use crate::core::{Core, Term};
use crate::engine::{Cause, ClaimRef, Lease, Withdrawn};
use crate::error::Result;
use crate::hold::Claim;
use crate::local::Turn;
use crate::random::random_u64;

/// Something to clean up.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are the large one"
)]
pub(crate) enum Errand {
    Withdraw(Withdrawal),
    /// A lease that was lost: the store may still have it.
    Close(Lease),
    /// The session is closed: end its lease, if it has one, and stop.
    End {
        lease: Option<Lease>,
        done: Option<oneshot::Sender<()>>,
    },
}

/// A claim to take out of the store.
#[derive(Debug)]
pub(crate) struct Withdrawal {
    pub(crate) claim: ClaimRef,
    pub(crate) term: Arc<Term>,
    /// Set if a request for this claim may still be on its way to the store.
    pub(crate) doubt: Option<Doubt>,
    /// Passed on once the claim is out of the store.
    pub(crate) turn: Option<Turn>,
    /// Hears when the claim is out of the store.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

/// A request that we no longer listen to: it may put the claim back after we
/// took it out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doubt {
    /// It does not arrive after this.
    pub(crate) until: Moment,
    /// There was no other request, so finding the claim means that it has
    /// arrived.
    pub(crate) is_the_only_one: bool,
}

impl Doubt {
    /// Whether a withdrawal that was sent at `sent`, and then did or did not
    /// find the claim, was the last one needed.
    fn is_over(self, sent: Moment, found: Withdrawn) -> bool {
        sent >= self.until || (self.is_the_only_one && found == Withdrawn::Removed)
    }
}

impl Withdrawal {
    pub(crate) fn new(claim: Claim, turn: Option<Turn>) -> Self {
        Self {
            claim: claim.claim,
            term: claim.term,
            doubt: claim.doubt,
            turn,
            done: None,
        }
    }
}

impl Errand {
    pub(crate) fn withdraw(claim: Claim, turn: Option<Turn>) -> Self {
        Self::Withdraw(Withdrawal::new(claim, turn))
    }
}

impl Core {
    /// Hands work to the reaper. Without one the runtime is gone, and the
    /// store lets go of everything by itself.
    pub(crate) fn send(&self, errand: Errand) {
        let _ = self.errands.send(errand);
    }
}

/// How many requests are on their way at once. Errands that pause do not count,
/// so that claims in doubt never hold up a release.
const AT_ONCE: usize = 64;

pub(crate) async fn reaper(core: Arc<Core>, mut errands: mpsc::UnboundedReceiver<Errand>) {
    let requests = Semaphore::new(AT_ONCE);
    let mut withdrawals = FuturesUnordered::new();
    let mut closings = FuturesUnordered::new();
    let (last, done) = loop {
        tokio::select! {
            biased;
            Some(()) = withdrawals.next() => {}
            Some(()) = closings.next() => {}
            errand = errands.recv() => match errand {
                Some(Errand::Withdraw(withdrawal)) => {
                    withdrawals.push(withdraw(&core, &requests, withdrawal));
                }
                Some(Errand::Close(lease)) => closings.push(close(&core, lease)),
                Some(Errand::End { lease, done }) => break (lease, done),
                None => return,
            },
        }
    };
    // The leases take all of their claims along, so the withdrawals have
    // nothing left to do. They are dropped when the leases are ended: whoever
    // waits for one hears that it is over.
    closings.extend(last.map(|lease| close(&core, lease)));
    // Until then they go on: they may have what the closings need, such as a
    // connection.
    loop {
        tokio::select! {
            biased;
            closed = closings.next() => if closed.is_none() { break },
            Some(()) = withdrawals.next() => {}
        }
    }
    if let Some(done) = done {
        let _ = done.send(());
    }
}

async fn withdraw(core: &Core, requests: &Semaphore, mut withdrawal: Withdrawal) {
    let mut attempt = 0;
    loop {
        let permit = requests.acquire().await;
        let sent = core.clock.now();
        let answer = limited(core, core.engine.withdraw(&withdrawal.claim, Cause::Ours)).await;
        drop(permit);
        // One try is enough for the others of this process: if the store did
        // not take it, they queue behind our own claim for a while.
        drop(withdrawal.turn.take());
        if matches!(answer, Some(Ok(_)))
            && let Some(done) = withdrawal.done.take()
        {
            let _ = done.send(());
        }
        let is_known = match answer {
            Some(Ok(found)) => withdrawal
                .doubt
                .is_none_or(|doubt| doubt.is_over(sent, found)),
            Some(Err(_)) | None => is_forgotten(core, &withdrawal.term),
        };
        if is_known {
            break;
        }
        pause(core, attempt).await;
        attempt += 1;
    }
    if let Some(done) = withdrawal.done {
        let _ = done.send(());
    }
}

/// Whether the store has dropped the lease, and the claim with it, by itself.
fn is_forgotten(core: &Core, term: &Term) -> bool {
    term.is_over(core.clock.now() - term.lease.ttl)
}

/// Ends the lease; gives up after its ttl, when the store has ended it anyway.
async fn close(core: &Core, lease: Lease) {
    let started = core.clock.now();
    let mut attempt = 0;
    while !matches!(limited(core, core.engine.close(&lease)).await, Some(Ok(()))) {
        if core.clock.now().since(started) >= lease.ttl {
            tracing::warn!(?lease, "could not end the lease; its ttl has passed");
            return;
        }
        pause(core, attempt).await;
        attempt += 1;
    }
}

/// The request, or `None` if the store does not answer within a third of the
/// ttl.
pub(crate) async fn limited<T>(
    core: &Core,
    request: impl Future<Output = Result<T>>,
) -> Option<Result<T>> {
    let limit = core.settings.ttl / 3;
    tokio::time::timeout(limit, request).await.ok()
}

async fn pause(core: &Core, attempt: u32) {
    let first = Duration::from_millis(20);
    let pause = backoff::pause(attempt, first, core.settings.ttl / 3, random_u64());
    tokio::time::sleep(pause).await;
}
