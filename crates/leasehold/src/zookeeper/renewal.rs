//! Keeping the session, and seeing whether its claims are still there.
//!
//! Any request keeps a session, as far as the server goes that took it. But it
//! is the leader that ends sessions, and followers tell it of theirs only with
//! their answers to its pings, every half tick. So an answer proves nothing by
//! itself, not even one to a `sync`, which goes to the leader and back: the news
//! of us may still lie with the follower when the two lose each other.
//!
//! Between a follower and the leader everything is in order. So after a first
//! `sync` all pings that the leader sent before it are answered, and after a
//! second one those answers have arrived; and with them the news of whatever we
//! sent at least half a tick earlier. That is what a renewal proves, and it
//! counts from there: the lease's ttl is the session's timeout less this lag.
//!
//! A leader that has lost its followers answers until it steps down, which may
//! be more than a tick after the next one has begun to count. So the lag is one
//! and a half ticks at least.

use std::sync::Arc;
use std::time::Duration;

use super::claims::Mine;
use super::fault::Refusal;
use super::record::Broken;
use super::session::Answered;
use super::wire::{Reply, Request};
use super::{ZookeeperEngine, claims::OpenLease};
use crate::clock::boot_time;
use crate::engine::{GoneClaim, Lease, Renewal};
use crate::error::Result;
use crate::guard::Lost;

/// How many requests go out in one go.
const AT_ONCE: usize = 500;

/// By how much the leader's knowledge may lag behind, where followers report
/// twice a tick, `flush` apart. A renewal has a sixth of the timeout.
pub(super) fn lag(flush: Duration, timeout: Duration) -> Duration {
    (flush * 3).max(flush + timeout / 6)
}

/// Keeps the lease for another ttl and says which claims are gone.
pub(super) async fn renew(engine: &ZookeeperEngine, lease: &Lease) -> Result<Renewal> {
    let Some(open) = engine.claims.lease(lease.id) else {
        return Ok(Renewal::LeaseGone);
    };
    match keep(engine, &open).await {
        Ok(renewal) => Ok(renewal),
        Err(Refusal::SessionOver) => Ok(Renewal::LeaseGone),
        Err(why) => Err(why.fault("renew", &engine.label)),
    }
}

async fn keep(engine: &ZookeeperEngine, open: &OpenLease) -> Result<Renewal, Refusal> {
    let asked = boot_time();
    let session = &open.session;
    let link = session.link().await?;
    let sync = || Request::Sync {
        path: engine.paths.root().to_owned(),
    };
    all_done(session.ask_over(&link, vec![sync()]).await?)?;
    let claims = engine.claims.of(open.lease.id);
    let mut gone = Vec::new();
    for batch in claims.chunks(AT_ONCE) {
        gone.extend(missing(open, batch).await?);
    }
    if engine.facts.is_alone {
        session.prove(asked);
    } else {
        all_done(session.ask_over(&link, vec![sync()]).await?)?;
        if let Some(touch) = link.last_touch(asked, engine.facts.flush) {
            session.prove(touch);
        }
    }
    // Who waits looks for itself.
    let (held, waiting): (Vec<_>, Vec<_>) = gone.into_iter().partition(|mine| mine.is_held());
    waiting.iter().for_each(|mine| mine.bell.notify_one());
    let mut reports = Vec::new();
    for mine in held {
        reports.push(report(engine, &mine).await?);
    }
    Ok(match session.proven() + open.lag >= asked {
        true => Renewal::Renewed { gone: reports },
        false => Renewal::NotRenewed { gone: reports },
    })
}

/// A server that has too much to do refuses; that proves nothing.
fn all_done(answered: Answered) -> Result<(), Refusal> {
    answered.into_iter().try_for_each(|answer| answer.map(drop))
}

/// The claims that the store does not have any more.
async fn missing(open: &OpenLease, claims: &[Arc<Mine>]) -> Result<Vec<Arc<Mine>>, Refusal> {
    let placed: Vec<_> = claims
        .iter()
        .filter(|mine| !mine.is_leaving())
        .filter_map(|mine| mine.node().map(|node| (mine, node)))
        .collect();
    if placed.is_empty() {
        return Ok(Vec::new());
    }
    let request = |path: &String| Request::Exists {
        path: path.clone(),
        watch: false,
    };
    let requests = placed.iter().map(|(_, node)| request(&node.path)).collect();
    let answered = open.session.ask(requests).await?;
    let mut gone = Vec::new();
    for ((mine, node), answer) in placed.into_iter().zip(answered) {
        match answer {
            Ok(Reply::Stat(stat)) if stat.czxid == node.czxid => {}
            Ok(_) | Err(Refusal::NoNode) if !mine.is_leaving() => gone.push(mine.clone()),
            Ok(_) | Err(Refusal::NoNode) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(gone)
}

/// Why a claim is gone: somebody broke it, and left a note, or it just is.
async fn report(engine: &ZookeeperEngine, mine: &Mine) -> Result<GoneClaim, Refusal> {
    let czxid = mine.node().map_or(0, |node| node.czxid);
    let path = engine.paths.broken_claim(&mine.claim.name, czxid);
    let broken = match mine
        .session()
        .ask_one(Request::Data { path, watch: false })
        .await
    {
        Ok(Reply::Data(data, _)) => Broken::read(&data),
        Err(why) if why.is_of_the_connection() => return Err(why),
        // A note that we may not read is none. The claim is gone all the same.
        Ok(_) | Err(_) => None,
    };
    let (lost, note) = match broken {
        Some(broken) => {
            let note = format!("by {}: {}", broken.by, broken.reason);
            (Lost::Evicted, Some(note))
        }
        None => (Lost::Gone, None),
    };
    let id = mine.claim.id;
    Ok(GoneClaim { id, lost, note })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_over_before_a_deposed_leaders_word_could_matter() {
        let tick = Duration::from_secs(2);
        let flush = tick / 2;
        for ticks in 2..=20 {
            let timeout = tick * ticks;
            let lag = lag(flush, timeout);
            assert!(lag >= tick * 3 / 2 && lag < timeout, "{ticks}: {lag:?}");
            assert!(lag >= flush + timeout / 6, "{ticks}: a renewal has time");
        }
    }
}
