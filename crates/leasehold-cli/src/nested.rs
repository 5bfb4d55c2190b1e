//! A `leasehold run` inside another. The outer one tells what it holds through
//! the environment; the inner one then runs its command under the same hold
//! instead of waiting for itself.

use leasehold::engine::{Claimant, Queue};
use leasehold::{Fence, Guard, Session};
use serde::{Deserialize, Serialize};

use crate::args::Claim;
use crate::child::Environment;
use crate::exit::{self, Failure};
use crate::lock::Share;
use crate::print::millis;
use crate::store;

/// The variable with everything that the surrounding runs hold.
pub(crate) const HELD: &str = "LEASEHOLD_HELD";

/// One lock that is held, as the command sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Held {
    store: String,
    pub(crate) name: String,
    pub(crate) fence: String,
    pub(crate) owner: String,
    pub(crate) ttl_ms: u64,
}

impl Held {
    pub(crate) fn new(url: &str, session: &Session, guard: &Guard) -> Self {
        Self {
            store: store::identity(url),
            name: guard.name().to_owned(),
            fence: guard.fence().to_string(),
            owner: session.owner().to_string(),
            ttl_ms: millis(session.ttl()),
        }
    }

    /// The fencing token.
    pub(crate) fn token(&self) -> Option<u64> {
        let fence: Fence = self.fence.parse().ok()?;
        Some(fence.token.get())
    }

    /// The environment of a command that runs under this lock.
    pub(crate) fn environment(&self) -> Environment {
        let token = self
            .token()
            .map_or_else(String::new, |token| token.to_string());
        let mut all = surrounding();
        all.retain(|held| held.store != self.store || held.name != self.name);
        all.push(self.clone());
        vec![
            ("LEASEHOLD_NAME", self.name.clone()),
            ("LEASEHOLD_TOKEN", token),
            ("LEASEHOLD_FENCE", self.fence.clone()),
            ("LEASEHOLD_OWNER", self.owner.clone()),
            ("LEASEHOLD_TTL_MS", self.ttl_ms.to_string()),
            (HELD, serde_json::to_string(&all).unwrap_or_default()),
        ]
    }
}

/// The hold of a surrounding run that covers the claim, if there is one.
///
/// # Errors
/// If that hold is lost, or is weaker than what is asked for.
pub(crate) async fn reenter(url: &str, claim: &Claim) -> Result<Option<Held>, Failure> {
    let name = claim.name.as_str();
    let candidates: Vec<_> = surrounding()
        .into_iter()
        .filter(|held| held.name == name)
        .collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    let queue = leasehold::inspect(url).await?.queue(&claim.name).await?;
    for held in &candidates {
        match holder(&queue, held) {
            Some(holder) if covers(&queue, holder, Share::of(claim)) => {
                return Ok(Some(held.clone()));
            }
            Some(_) => return Err(too_weak(name)),
            None => {}
        }
    }
    let store = store::identity(url);
    if candidates.iter().any(|held| held.store == store) {
        let message = format!("{name} was lost by the leasehold run around this one");
        return Err(Failure::new(exit::LOST, message));
    }
    Ok(None)
}

/// The label of a session on this store: what was asked for, and the run around
/// us, so that people, and who looks for deadlocks, see that the two are one.
pub(crate) fn label(url: &str, asked: Option<&str>) -> Option<String> {
    let store = store::identity(url);
    let mut around = surrounding().into_iter().rev();
    let Some(outer) = around.find(|held| held.store == store) else {
        return asked.map(str::to_owned);
    };
    let process = outer.owner.split(" (").next().unwrap_or_default();
    let asked = asked.map(str::to_owned).or_else(|| store::label(url));
    Some(match asked.as_deref() {
        None | Some("") => format!("in {process}"),
        Some(asked) => format!("{asked}, in {process}"),
    })
}

/// The `host:pid` of the run around the one with this label, if it is in one.
pub(crate) fn outer(label: &str) -> Option<&str> {
    let last = label.rsplit_once(", ").map_or(label, |(_, last)| last);
    let process = last.strip_prefix("in ")?;
    let (_, pid) = process.rsplit_once(':')?;
    pid.parse::<u32>().ok().map(|_| process)
}

/// What the surrounding runs hold. Text that we did not write means nothing.
fn surrounding() -> Vec<Held> {
    let text = std::env::var(HELD).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The random part of a fence is enough to know a holder, on any store.
fn holder<'a>(queue: &'a Queue, held: &Held) -> Option<&'a Claimant> {
    let fence: Fence = held.fence.parse().ok()?;
    queue
        .holders()
        .find(|claimant| claimant.holder == fence.holder)
}

/// Whoever has a lock to himself has every share of it.
fn covers(queue: &Queue, holder: &Claimant, asked: Share) -> bool {
    let has_all = holder.weight == queue.capacity;
    has_all || (queue.capacity == asked.capacity && asked.weight <= holder.weight)
}

fn too_weak(name: &str) -> Failure {
    let why = "the leasehold run around this one has only a share of it; take it with -x there";
    Failure::usage(format!("lock {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_tells_the_run_around() {
        assert_eq!(outer("in web-1:17"), Some("web-1:17"));
        assert_eq!(outer("nightly, in web-1:17"), Some("web-1:17"));
        for label in ["", "in a hurry", "web-1:17", "in x:y", "in:7"] {
            assert_eq!(outer(label), None, "{label}");
        }
    }
}
