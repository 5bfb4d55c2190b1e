//! The Redlock engine: one lock on several independent Redis servers, held by
//! whoever has a majority of them.
//!
//! All nodes are asked at once, each with a short limit, and the time counts
//! from before the first is asked. In round 1 each node sets the lock if it is
//! free and names its counter; in round 2 those that did raise it above all
//! others, and that is the token. `quorum.rs` decides, and a model checks that.
//! Every attempt has an id of its own, so a request that comes late belongs to
//! nobody. What did not work out, and what is given back, is told to every node.
//! A server that restarted counts as down until it is admitted again.
//! The layout and every step are in `docs/stores/redlock.md`.

mod chores;
mod claims;
mod config;
mod fleet;
mod founding;
mod giving;
mod inspect;
mod keys;
mod nodes;
mod note;
mod renewal;
mod scripts;
mod taking;
mod watching;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use self::chores::Chores;
use self::claims::{Claims, Mine, OpenLease};
pub(crate) use self::config::{OPTIONS, RedlockConfig};
pub(crate) use self::fleet::{admit, status};
use self::giving::{Gift, Tally};
use self::keys::{Keys, OURS};
use self::nodes::{Call, Nodes};
use self::taking::{Outcome, Taken, Taking};
use self::watching::{NodeEars, WAITING};
use super::keys::{Hex, field, inbox};
use super::link::Ears;
use super::lock;
use crate::backoff;
use crate::clock::{Moment, boot_time};
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, LeaseId, Owner, Renewal, Standing, Ticket, Watch, Withdrawn,
};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;
use crate::promises::{Grade, Promises, Reach};
use crate::random::{random_u64, random_u128};
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
    /// What is still to be told to nodes.
    chores: Chores,
    /// What never ends.
    upkeep: Chores,
    /// When the notes were renewed last.
    noted: Mutex<Moment>,
}

impl RedlockEngine {
    /// Connects to the nodes and looks whether they fit.
    pub(crate) async fn connect(config: &RedlockConfig) -> Result<Self> {
        let claims = Arc::new(Claims::default());
        let nodes = Arc::new(nodes_of(config, &claims)?);
        nodes.connect().await?;
        let engine = Self {
            config: config.clone(),
            nodes,
            claims,
            chores: Chores::default(),
            upkeep: Chores::default(),
            noted: Mutex::new(boot_time()),
        };
        engine.keep_connected();
        Ok(engine)
    }

    /// A node that is away is not waited for, so somebody has to look whether
    /// it is back, and whether one that says nothing is still there.
    fn keep_connected(&self) {
        for number in 0..self.nodes.all.len() {
            let nodes = self.nodes.clone();
            self.upkeep.add(async move {
                let mut pauses = 0;
                loop {
                    let (first, longest) = (Duration::from_millis(50), Duration::from_secs(1));
                    let pause = backoff::pause(pauses, first, longest, random_u64());
                    tokio::time::sleep(pause).await;
                    let link = &nodes.all[number].link;
                    let was_lost = link.is_lost();
                    link.ping().await;
                    pauses = if was_lost && !link.is_lost() {
                        0
                    } else {
                        pauses + 1
                    };
                }
            });
        }
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

    /// Gives back what an attempt left on the nodes. Waits for those that are
    /// known to have it; the others are seen to in the background.
    async fn clean_up(&self, keys: &Keys, id: Hex, granted: &[usize], open: &OpenLease) {
        let gift = Gift {
            keys: keys.clone(),
            id,
        };
        // From here on it is seen to even if nobody waits for us any more.
        let rest = RestOf {
            engine: self,
            gift: Some(gift.clone()),
            unheard: (0..self.nodes.all.len()).collect(),
            ttl: open.lease.ttl,
        };
        let wanted = (!granted.is_empty()).then_some(granted);
        let tally = gift.give(&self.nodes, wanted, open.limit).await;
        rest.is_heard(&tally);
    }

    async fn give_back(&self, mine: &Mine, limit: Duration, ttl: Duration) -> Result<Withdrawn> {
        let Some(id) = mine.leaves() else {
            return Ok(Withdrawn::Absent);
        };
        let keys = mine.keys.clone();
        let gift = Gift { keys, id };
        let tally = gift.give(&self.nodes, None, limit).await;
        let Some(verdict) = tally.verdict(self.nodes.majority()) else {
            let doing = format!("withdraw {}", mine.claim.name);
            let why = "a majority of the nodes did not answer";
            let error = self.refusal(ErrorKind::Unavailable, doing, why);
            return Err(error.effect_is(Effect::Unknown));
        };
        self.see_to(&gift, &tally.unheard, ttl);
        mine.has_nothing();
        Ok(verdict)
    }

    fn see_to(&self, gift: &Gift, nodes: &[usize], ttl: Duration) {
        for &node in nodes {
            let gift = gift.clone();
            self.chores.add(gift.see_to(self.nodes.clone(), node, ttl));
        }
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

/// What is left to give back if nobody waits for it any more.
struct RestOf<'a> {
    engine: &'a RedlockEngine,
    gift: Option<Gift>,
    unheard: Vec<usize>,
    ttl: Duration,
}

impl RestOf<'_> {
    fn is_heard(mut self, tally: &Tally) {
        self.unheard.clone_from(&tally.unheard);
    }
}

impl Drop for RestOf<'_> {
    fn drop(&mut self) {
        if let Some(gift) = self.gift.take() {
            self.engine.see_to(&gift, &self.unheard, self.ttl);
        }
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
        let lease = Lease {
            id: LeaseId(random_u128()),
            ttl,
        };
        let limit = self.config.limit(ttl);
        if self.config.tokens {
            founding::settle(
                &self.nodes,
                self.config.quarantine,
                limit.max(UNHURRIED / 2),
            )
            .await;
        }
        self.nodes.learn_times(limit).await?;
        self.nodes.subscribe(&inbox(lease.id), limit).await;
        self.claims.add_lease(OpenLease::new(lease, owner, limit));
        Ok(lease)
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
        let gone = renewal::renew(self, &open, &claims, with_notes).await?;
        if with_notes {
            *lock(&self.noted) = now;
        }
        Ok(Renewal::Renewed { gone })
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let open = self.claims.close_lease(lease.id);
        let limit = self.config.limit(lease.ttl);
        let claims = self.claims.of(lease.id);
        let leaving = claims.iter().map(|mine| async {
            self.give_back(mine, limit, lease.ttl).await?;
            self.claims.forget(mine.claim.id);
            Ok(())
        });
        let left: Vec<Result<()>> = join_all(leaving).await;
        left.into_iter().collect::<Result<()>>()?;
        if open.is_some() {
            self.nodes.unsubscribe(&inbox(lease.id), limit).await;
        }
        // Nobody runs them any more: one last time, for those that are there.
        let _ = tokio::time::timeout(limit, self.chores.finish()).await;
        Ok(())
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.claims.lease(lease.id) else {
            return std::future::pending().await;
        };
        let settle = async {
            loop {
                open.nodes_to_settle.notified().await;
                founding::settle(&self.nodes, self.config.quarantine, UNHURRIED).await;
                tokio::time::sleep(UNHURRIED / 4).await;
            }
        };
        tokio::select! {
            () = open.news.notified() => {}
            () = self.chores.run() => {}
            () = self.upkeep.run() => {}
            () = settle => {}
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        self.check(&ticket.claim.name, || doing(ticket))?;
        if ticket.capacity != 1 {
            let why = "redlock has no readers, writers or permits; redis: on one server has";
            return Err(self.refusal(ErrorKind::Unsupported, doing(ticket), why));
        }
        let mine = self.claims.admit(ticket);
        let Some(open) = self.claims.lease(ticket.lease) else {
            self.claims.forget(ticket.claim.id);
            return Ok(Standing::Gone);
        };
        if let Some(token) = mine.token()
            && renewal::renew_one(self, &open, &mine).await
        {
            let token = Token::new(token);
            return Ok(Standing::Held { token });
        }
        if let Some(former) = mine.id() {
            // Asked for before, and nobody knows what became of it.
            self.clean_up(&mine.keys, former, &[], &open).await;
        }
        // A late request of one attempt must not look like one of another, so
        // each has its own id.
        let (id, sent) = (Hex::of(random_u128()), boot_time());
        mine.asked(id.clone(), sent);
        let taking = Taking::new(
            &self.nodes,
            &mine,
            id.as_str(),
            &open,
            ticket.label.as_deref(),
        );
        let Taken { outcome, granted } = taking.run(sent).await;
        if let Outcome::Held { token } = outcome
            && self.hold(&open, &mine, token).await
        {
            let token = Token::new(token);
            return Ok(Standing::Held { token });
        }
        self.clean_up(&mine.keys, id, &granted, &open).await;
        mine.has_nothing();
        match outcome {
            Outcome::Busy { .. } if !ticket.waits => {
                self.claims.forget(ticket.claim.id);
                Ok(Standing::Busy)
            }
            Outcome::Busy { free_in } => {
                mine.waits(free_in.map(|left| boot_time() + left));
                Ok(WAITING)
            }
            Outcome::TooFew(away) => Err(self.too_few(ticket, &away)),
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
            Outcome::TooLate | Outcome::Held { .. } => {
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
                let open = self.claims.lease(mine.lease);
                let ttl = open.as_ref().map_or(UNHURRIED, |open| open.lease.ttl);
                let limit = open.map_or(UNHURRIED, |open| open.limit);
                let found = self.give_back(&mine, limit, ttl).await?;
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
