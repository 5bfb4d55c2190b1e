//! The Redlock engine: one lock on several independent Redis servers, held by
//! whoever has a majority of them.
//!
//! All nodes are asked at once, each with a short limit, and the time counts
//! from before the first is asked. In round 1 each node sets the lock if it is
//! free and names its counter; in round 2 those that did raise it above all
//! others, and that is the token. Who was granted a lock before guesses the token,
//! and if that is right, round 1 is all. `quorum.rs` decides, and a model checks that.
//! Every attempt has an id of its own, so a request that comes late belongs to
//! nobody. What did not work out, and what is given back, is told to every node.
//! A server that restarted counts as down until it is admitted again.
//! The layout and every step are in `docs/stores/redlock.md`.

mod claims;
mod config;
mod fan;
mod fleet;
mod founding;
mod giving;
mod guess;
mod inspect;
mod keys;
mod leftovers;
mod nodes;
mod note;
mod opening;
mod owed;
mod renewal;
mod scripts;
mod taking;
mod upkeep;
mod watching;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use self::claims::{Claims, Mine, OpenLease, Trace};
pub(crate) use self::config::{OPTIONS, RedlockConfig};
pub(crate) use self::fleet::{admit, status};
use self::keys::{Keys, OURS};
use self::nodes::{Call, Nodes};
use self::taking::{Outcome, Taking};
use self::upkeep::Upkeep;
use self::watching::{NodeEars, WAITING};
use super::keys::{Hex, field};
use super::link::Ears;
use super::lock;
use crate::clock::{Moment, boot_time};
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, Owner, Renewal, Standing, Ticket, Watch, Withdrawn,
};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;
use crate::promises::{Grade, Promises, Reach};
use crate::random::random_u128;
use crate::redlock::quorum::{WIDTH, majority};

/// How often notes are renewed, if the locks are renewed more often.
const NOTES_EVERY: Duration = Duration::from_secs(20 * 60);
/// How long a node may take where no session says so.
const UNHURRIED: Duration = Duration::from_secs(1);
/// How often a claim that was granted may be overtaken by a renewal of all the
/// others before we give up.
const OVERTAKEN: u32 = 3;

/// Locks on a majority of Redis servers.
#[derive(Debug)]
pub(crate) struct RedlockEngine {
    config: RedlockConfig,
    nodes: Arc<Nodes>,
    claims: Arc<Claims>,
    upkeep: Upkeep,
    /// When the notes were renewed last.
    noted: Mutex<Moment>,
}

impl RedlockEngine {
    /// Connects to the nodes and looks whether they fit.
    pub(crate) async fn connect(config: &RedlockConfig) -> Result<Self> {
        let claims = Arc::new(Claims::default());
        let nodes = Arc::new(nodes_of(config, &claims)?);
        nodes.connect().await?;
        Ok(Self {
            config: config.clone(),
            upkeep: Upkeep::of(&nodes, config.tokens.then_some(config.quarantine)),
            nodes,
            claims,
            noted: Mutex::new(boot_time()),
        })
    }

    /// An error that had no effect.
    fn refusal(&self, kind: ErrorKind, doing: String, why: impl Into<String>) -> Error {
        Error::new(kind, doing, why).on(&*self.nodes.label)
    }

    /// A name that would be one of our own keys is no lock.
    fn check(&self, name: &Name, doing: impl FnOnce() -> String) -> Result<()> {
        if !name.as_str().starts_with(OURS) {
            return Ok(());
        }
        let why = format!("no name starts with {OURS} here: such keys are ours");
        Err(self.refusal(ErrorKind::Usage, doing(), why))
    }

    /// Gives back what an attempt left that came to nothing.
    async fn clean_up(&self, mine: &Mine, limit: Duration) {
        if let Some(trace) = mine.failed() {
            giving::give_back(&self.nodes, mine, &trace, limit).await;
        }
        mine.has_nothing();
    }

    async fn give_back(&self, mine: &Mine, limit: Duration) -> Result<Withdrawn> {
        let Some(trace) = mine.leaves() else {
            return Ok(Withdrawn::Absent);
        };
        let verdict = giving::give_back(&self.nodes, mine, &trace, limit).await;
        let Some(verdict) = verdict else {
            let doing = format!("withdraw {}", mine.claim.name);
            let why = "a majority of the nodes did not answer";
            let error = self.refusal(ErrorKind::Unavailable, doing, why);
            return Err(error.effect_is(Effect::Unknown));
        };
        mine.has_nothing();
        Ok(verdict)
    }

    /// Asks the nodes once. What does not come to a hold is given back. `None`
    /// if the claim is being withdrawn.
    async fn attempt(
        &self,
        ticket: &Ticket,
        mine: &Arc<Mine>,
        open: &OpenLease,
    ) -> Option<Outcome> {
        // A late request of one attempt must not look like one of another, so
        // each has its own id.
        let (id, sent) = (Hex::of(random_u128()), boot_time());
        if !mine.asked(id.clone(), sent, self.nodes.lines()) {
            return None;
        }
        let label = ticket.label.as_deref();
        let taking = Taking::new(&self.nodes, mine, id.as_str(), open, label);
        let taken = taking.run(sent).await;
        let (over, granted) = (taken.asked_over, taken.granted);
        mine.answered(over.clone(), granted.clone());
        let outcome = match taken.outcome {
            Outcome::Held { token } if !self.hold(open, mine, token).await => Outcome::TooLate,
            Outcome::Held { token } => return Some(Outcome::Held { token }),
            outcome => outcome,
        };
        // Whoever withdrew it meanwhile told the nodes before they were asked, maybe.
        let left = mine.failed().unwrap_or(Trace {
            id,
            sent,
            over,
            granted,
            is_failed: true,
        });
        giving::give_back(&self.nodes, mine, &left, open.limit).await;
        mine.has_nothing();
        Some(outcome)
    }

    /// The claim is held once it lasts as long as the lease does.
    async fn hold(&self, open: &OpenLease, mine: &Arc<Mine>, token: u64) -> bool {
        for _ in 0..OVERTAKEN {
            if self.claims.hold(open, mine, token) {
                return true;
            }
            if !renewal::renew_one(self, open, mine).await {
                return false;
            }
        }
        false
    }

    fn too_few(&self, ticket: &Ticket, away: &[String]) -> Error {
        let (count, majority) = (self.nodes.all.len(), self.nodes.majority());
        let why = format!(
            "{majority} of {count} nodes are needed: {}",
            away.join("; ")
        );
        self.refusal(ErrorKind::Unavailable, doing(ticket), why)
    }

    async fn evict(&self, claim: &ClaimRef, by: &str, reason: &str) -> Result<Withdrawn> {
        let keys = Keys::of(&claim.name);
        let broken = format!("{} {}", field(by), field(reason));
        let id = Hex::of(claim.id.0);
        let call = Call {
            script: &self.nodes.scripts.evict,
            keys: &[&keys.lock, &keys.note, &keys.evictions],
            arguments: &[id.as_str(), &broken],
        };
        let call = &call;
        let answers = self
            .nodes
            .ask_all(UNHURRIED, |node| node.run::<u32>(call))
            .await;
        let heard = answers.iter().flatten().count();
        if heard < self.nodes.majority() {
            let why = "a majority of the nodes did not answer";
            let doing = format!("break {}", claim.name);
            let error = self.refusal(ErrorKind::Unavailable, doing, why);
            return Err(error.effect_is(Effect::Unknown));
        }
        let found = answers.iter().flatten().filter(|found| **found > 0).count();
        Ok(match found {
            0 => Withdrawn::Absent,
            _ => Withdrawn::Removed,
        })
    }
}

#[async_trait]
impl Engine for RedlockEngine {
    fn promises(&self) -> Promises {
        Promises {
            fence: match self.config.tokens {
                true => Grade::Ordered,
                false => Grade::Unique,
            },
            tokens_per_grant: match self.config.tokens {
                true => u32::try_from(WIDTH).unwrap_or(1),
                false => 1,
            },
            ..Promises::least(Reach::Network)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        self.upkeep.beside(self.start(owner, ttl)).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        let Some(open) = self.claims.lease(lease.id) else {
            return Ok(Renewal::LeaseGone);
        };
        let now = boot_time();
        let claims = self.claims.begin_renewal(&open, now);
        if claims.is_empty() {
            self.nodes.learn_times(open.limit).await?;
            return Ok(Renewal::Renewed { gone: Vec::new() });
        }
        let with_notes = now.since(*lock(&self.noted)) >= NOTES_EVERY;
        let (is_known, gone) = renewal::renew(self, &open, &claims, with_notes).await;
        if !is_known {
            return Ok(Renewal::NotRenewed { gone });
        }
        if with_notes {
            *lock(&self.noted) = now;
        }
        Ok(Renewal::Renewed { gone })
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        self.upkeep.beside(self.end(lease)).await
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.claims.lease(lease.id) else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = open.news.notified() => {}
            () = self.upkeep.run() => {}
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        self.check(&ticket.claim.name, || doing(ticket))?;
        if ticket.capacity != 1 {
            let why = "redlock has no readers, writers or permits; redis: on one server has";
            return Err(self.refusal(ErrorKind::Unsupported, doing(ticket), why));
        }
        let Some(open) = self.claims.lease(ticket.lease) else {
            self.claims.forget(ticket.claim.id);
            return Ok(Standing::Gone);
        };
        let mine = self.claims.admit(ticket, open.lease.ttl);
        // Whoever closes the lease from here on finds the claim.
        if self.claims.lease(ticket.lease).is_none() {
            self.claims.forget(ticket.claim.id);
            return Ok(Standing::Gone);
        }
        if let Some(token) = mine.token()
            && renewal::renew_one(self, &open, &mine).await
        {
            let token = Token::new(token);
            return Ok(Standing::Held { token });
        }
        // Asked for before, and nobody knows what became of it.
        self.clean_up(&mine, open.limit).await;
        let mut outcome = self.attempt(ticket, &mine, &open).await;
        if let Some(Outcome::Unanswered(away)) = outcome {
            // A node went away between the rounds; the others may be enough.
            outcome = match self.attempt(ticket, &mine, &open).await {
                // Nobody else need have it: it may be what we left just now.
                Some(Outcome::Busy { .. }) if !ticket.waits => Some(Outcome::Unanswered(away)),
                outcome => outcome,
            };
        }
        let Some(outcome) = outcome else {
            return Ok(Standing::Gone);
        };
        match outcome {
            Outcome::Busy { .. } if !ticket.waits => {
                self.claims.forget(ticket.claim.id);
                Ok(Standing::Busy)
            }
            Outcome::Busy { free_in } => {
                mine.waits(free_in.map(|left| boot_time() + left));
                Ok(WAITING)
            }
            Outcome::TooFew(away) | Outcome::Unanswered(away) => Err(self.too_few(ticket, &away)),
            Outcome::NoLock(kind) => {
                self.claims.forget(ticket.claim.id);
                let why = super::answer::not_a_lock(&kind);
                Err(self.refusal(ErrorKind::Config, doing(ticket), why))
            }
            Outcome::Exhausted => {
                self.claims.forget(ticket.claim.id);
                let why = "the nodes' counters are near 2^53, where tokens end: see docs/stores/redlock.md";
                Err(self.refusal(ErrorKind::Unsupported, doing(ticket), why))
            }
            Outcome::Held { token } => {
                let token = Token::new(token);
                Ok(Standing::Held { token })
            }
            Outcome::TooLate => {
                let why = "a majority granted, but too late: the ttl is too short for these nodes";
                Err(self.refusal(ErrorKind::Unavailable, doing(ticket), why))
            }
        }
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        Ok(watching::wait(self, ticket).await)
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        match cause {
            Cause::Ours => {
                let Some(mine) = self.claims.claim(claim.id) else {
                    return Ok(Withdrawn::Absent);
                };
                let limit = self.config.limit(mine.ttl);
                let found = self.give_back(&mine, limit).await?;
                self.claims.forget(claim.id);
                Ok(found)
            }
            Cause::Evicted { by, reason } => {
                self.check(&claim.name, || format!("break {}", claim.name))?;
                self.evict(claim, by, reason).await
            }
        }
    }
}

/// The nodes, which tell their news to the claims.
fn nodes_of(config: &RedlockConfig, claims: &Arc<Claims>) -> Result<Nodes> {
    let majority = majority(config.nodes.len());
    let ears = |number| -> Arc<dyn Ears> {
        Arc::new(NodeEars {
            number,
            majority,
            claims: claims.clone(),
        })
    };
    Nodes::new(config, ears, watching::GREETING)
}

fn doing(ticket: &Ticket) -> String {
    format!("lock {}", ticket.claim.name)
}
