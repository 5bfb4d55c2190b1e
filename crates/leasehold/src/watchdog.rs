//! The one renewal task of a session. It keeps the lease alive and says when it
//! is lost; it does nothing else.
//!
//! The timer and the renewal run beside each other: a renewal that hangs cannot
//! delay the news that the lease is over.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::backoff;
use crate::clock::{Clock, Moment};
use crate::core::{Core, Settings, Term};
use crate::engine::{Engine, Lease, Renewal};
use crate::error::Result;
use crate::guard::Lost;
use crate::lease::{LeaseClock, Next};
use crate::owner::Owner;
use crate::phase::Phase;
use crate::random::random_u64;
use crate::reaper::Errand;
use crate::telemetry;

pub(crate) async fn watchdog(core: Arc<Core>, mut term: Arc<Term>, mut clock: LeaseClock) {
    loop {
        let Some(lost) = keep(&core, &term, clock).await else {
            return;
        };
        tracing::warn!(%lost, "lease lost; opening a new one");
        term.end();
        core.lose_all(lost);
        // Before the phase: whoever closes the session then finds this lease
        // either in the phase or already with the reaper.
        core.send(Errand::Close(term.lease));
        core.phases.enter(Phase::Between);
        let Some((lease, renewed)) = reopen(&core).await else {
            return;
        };
        clock = renewed;
        term = Term::new(lease, &clock);
        core.phases.enter(Phase::Open(term.clone()));
    }
}

/// Starts a lease and the clock that counts it from when it was asked for.
pub(crate) async fn open(
    engine: &dyn Engine,
    clock: Clock,
    owner: &Owner,
    settings: Settings,
) -> Result<(Lease, LeaseClock)> {
    let sent = clock.now();
    let lease = engine.open(owner, settings.ttl).await?;
    Ok((lease, LeaseClock::granted(sent, lease.ttl, settings.margin)))
}

/// Keeps the lease until it is lost, and says why; `None` if the session is
/// closed.
async fn keep(core: &Core, term: &Arc<Term>, mut clock: LeaseClock) -> Option<Lost> {
    let mut renewal: Option<Pin<Box<dyn Future<Output = Answer> + Send + '_>>> = None;
    let mut is_urgent = false;
    loop {
        let now = core.clock.now();
        let next_limit = core.look_at_timed_holds(now);
        let next = clock.next(now);
        if next == Next::Over {
            return Some(Lost::Deadline);
        }
        if renewal.is_none() && (next == Next::Renew || is_urgent) {
            is_urgent = false;
            clock.tried(now);
            renewal = Some(Box::pin(renew(
                core,
                term.lease,
                now,
                clock.attempt_limit(),
            )));
        }
        let until = match next {
            Next::Sleep(until) if renewal.is_none() => until,
            _ => clock.deadline(),
        };
        let until = next_limit.map_or(until, |limit| limit.min(until));
        let answer = async {
            match &mut renewal {
                Some(renewal) => renewal.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = core.closed() => return None,
            (sent, answer) = answer => {
                renewal = None;
                match answer {
                    Some(Ok(Renewal::Renewed { gone })) => {
                        clock.renewed(sent);
                        term.renewed(&clock);
                        gone.into_iter().for_each(|gone| core.lose_gone(gone));
                    }
                    Some(Ok(Renewal::NotRenewed { gone })) => {
                        gone.into_iter().for_each(|gone| core.lose_gone(gone));
                    }
                    Some(Ok(Renewal::LeaseGone)) => return Some(Lost::Gone),
                    // Unknown is not lost, and not renewed.
                    Some(Err(_)) | None => {}
                }
            }
            () = core.engine.listen(&term.lease) => is_urgent = true,
            () = core.doubt.notified() => is_urgent = true,
            () = core.look.notified() => {}
            () = core.clock.sleep_until(until) => {}
        }
    }
}

/// When the renewal was sent, and the answer if one came in time.
type Answer = (Moment, Option<Result<Renewal>>);

async fn renew(core: &Core, lease: Lease, sent: Moment, limit: Duration) -> Answer {
    let request = core
        .engine
        .renew(&lease)
        .instrument(tracing::debug_span!("renew", ?lease));
    let answer = tokio::time::timeout(limit, request).await.ok();
    let outcome = match &answer {
        Some(Ok(Renewal::Renewed { .. })) => "renewed",
        Some(Ok(Renewal::NotRenewed { .. })) => "failed",
        Some(Ok(Renewal::LeaseGone)) => "gone",
        Some(Err(error)) => {
            tracing::warn!(%error, "renewal failed; trying again");
            "failed"
        }
        None => "timed_out",
    };
    telemetry::renewal(core.scheme, outcome);
    (sent, answer)
}

/// A new lease, however long it takes; `None` if the session is closed.
async fn reopen(core: &Core) -> Option<(Lease, LeaseClock)> {
    let mut attempt = 0;
    loop {
        let opening = open(&*core.engine, core.clock, &core.owner, core.settings);
        let opening = tokio::time::timeout(core.settings.ttl, opening);
        tokio::select! {
            biased;
            () = core.closed() => return None,
            opened = opening => match opened {
                Ok(Ok(opened)) => return Some(opened),
                Ok(Err(error)) => tracing::warn!(%error, "no new lease yet"),
                Err(_) => tracing::warn!("no new lease yet: the store does not answer"),
            }
        }
        let (first, longest) = (Duration::from_millis(20), Duration::from_secs(1));
        let pause = backoff::pause(attempt, first, longest, random_u64());
        attempt += 1;
        tokio::select! {
            biased;
            () = core.closed() => return None,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
