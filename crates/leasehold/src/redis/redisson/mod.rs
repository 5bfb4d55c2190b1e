//! The Redisson layout: one lock with the processes that use Redisson's `RLock`.
//!
//! The lock is Redisson's hash with one field, the holder, and an expiry; a
//! script takes it and another gives it back and publishes what Redisson's
//! waiters wait for. We ourselves wait for the server's word that the key
//! changed (client tracking), which comes whoever changed it and on the one
//! connection that we have. Tokens and what people want to see lie in a record
//! of our own beside the lock. The layout and every step are in
//! `docs/stores/redis.md`.

mod answer;
mod checking;
mod claims;
mod inspect;
mod keys;
mod scripts;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};

use self::answer::{Answer, foreign};
use self::claims::{Claims, Mine, OpenLease};
use self::keys::Keys;
use self::scripts::Scripts;
use super::answer::strange;
use super::config::RedisConfig;
use super::fit::version;
use super::keys::{Hex, field, unfield};
use super::place::Place;
use super::server::{Doer, Server};
use super::whole_millis;
use crate::clock::boot_time;
use crate::engine::{
    Cause, ClaimRef, Engine, GoneClaim, Lease, LeaseId, Owner, Renewal, Standing, Ticket, Watch,
    Withdrawn,
};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::guard::Lost;
use crate::name::Name;
use crate::promises::{Grade, Promises, Reach};
use crate::random::random_u128;

/// How many tokens one grant may be split into; `lua/lock.lua` knows it too.
const TOKENS_PER_GRANT: u32 = 32;
/// How many claims one request renews.
const BATCH: usize = 500;
/// The server tells us when a key changes that we have read, unless we did it.
const GREETING: &[&[&str]] = &[&["CLIENT", "TRACKING", "ON", "NOLOOP"]];

/// Locks shared with Redisson.
#[derive(Debug)]
pub(crate) struct RedissonEngine {
    server: Server,
    scripts: Scripts,
    claims: Arc<Claims>,
    is_cluster: bool,
    /// Redisson listens to sharded channels where there are some.
    publish: &'static str,
}

impl RedissonEngine {
    /// Connects and looks whether the server fits.
    pub(super) async fn connect(config: &RedisConfig) -> Result<Self> {
        let claims = Arc::new(Claims::new(random_u128()));
        let server = Server::connect(config, claims.clone(), GREETING).await?;
        let is_cluster = matches!(config.place, Place::Cluster(_));
        let publish = match is_cluster && has_shards(&server).await? {
            true => "SPUBLISH",
            false => "PUBLISH",
        };
        Ok(Self {
            server,
            scripts: Scripts::new(),
            claims,
            is_cluster,
            publish,
        })
    }

    /// The keys of a lock that this layout can have.
    fn keys(&self, name: &Name, doing: impl Fn() -> String) -> Result<Keys> {
        let keys = Keys::of(name);
        let why = if Keys::is_taken(name) {
            "the name is that of a key that leasehold keeps beside another lock"
        } else if self.is_cluster && !keys.is_for_cluster() {
            "a cluster cannot keep the name's keys together, nor can Redisson: its braces are not a pair"
        } else {
            return Ok(keys);
        };
        Err(Error::new(ErrorKind::Usage, doing(), why).on(&*self.server.label))
    }

    async fn ask_for(
        &self,
        ticket: &Ticket,
        mine: &Mine,
        keys: &Keys,
        open: &OpenLease,
    ) -> Result<(Answer, Doer)> {
        let label = ticket.label.as_deref().unwrap_or(open.owner.label());
        let shown = format!(
            "{} {} {} {} {}",
            ticket.holder,
            Hex::of(ticket.claim.id.0).as_str().to_owned(),
            open.owner.pid(),
            field(open.owner.host()),
            field(label)
        );
        let not_after = self.server.time_in(&keys.lock, open.lease.ttl).unwrap_or(0);
        let (answer, doer): (Vec<String>, _) = self
            .server
            .run_noting(
                &self.scripts.lock,
                &[&keys.lock, &keys.record, &keys.counter],
                &[
                    &mine.holder,
                    &whole_millis(open.lease.ttl).to_string(),
                    &not_after.to_string(),
                    &shown,
                ],
                || doing(ticket),
            )
            .await?;
        let answer = Answer::read(&answer);
        let answer = answer.ok_or_else(|| strange(doing(ticket), &self.server.label))?;
        Ok((answer, doer))
    }

    /// Renews these claims; those that the store does not have are returned,
    /// with a note if they were broken.
    async fn renew_batch(&self, ttl: Duration, claims: &[Arc<Mine>]) -> Result<Vec<GoneClaim>> {
        let keys: Vec<_> = claims
            .iter()
            .map(|mine| Keys::of(&mine.claim.name))
            .collect();
        let keys: Vec<_> = keys
            .iter()
            .flat_map(|keys| [keys.lock.as_str(), &keys.record, &keys.evictions])
            .collect();
        let mut arguments = vec![whole_millis(ttl).to_string()];
        for mine in claims {
            arguments.push(mine.holder.clone());
            arguments.push(Hex::of(mine.claim.id.0).as_str().to_owned());
        }
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        // A grant may be answered sooner than a renewal that was done before it.
        let were_held: Vec<_> = claims.iter().map(|mine| mine.was_held()).collect();
        let doing = || "renew".to_owned();
        let (answer, doer): (Vec<String>, _) = self
            .server
            .run_noting(&self.scripts.renew, &keys, &arguments, doing)
            .await?;
        let strange = || strange(doing(), &self.server.label);
        let (now, missing) = answer.split_first().ok_or_else(strange)?;
        self.server
            .learn_time(keys[0], now.parse().map_err(|_| strange())?);
        let mut gone = Vec::new();
        for pair in missing.chunks_exact(2) {
            let number: usize = pair[0].parse().map_err(|_| strange())?;
            let number = number.wrapping_sub(1);
            let mine = claims.get(number).ok_or_else(strange)?;
            // One that was still asked for may not have arrived yet. It is not
            // missing before it was there.
            if were_held[number] && mine.was_held() {
                gone.push(missed(mine, &pair[1]));
            }
        }
        self.server.confirm(&doer, keys[1], doing).await?;
        Ok(gone)
    }

    /// Ends the hold; `broken` is the line for the evictions, if it is broken.
    async fn give_back(&self, name: &Name, holder: &str, broken: &str) -> Result<Withdrawn> {
        let keys = Keys::of(name);
        let found: u32 = self
            .server
            .run(
                &self.scripts.unlock,
                &[&keys.lock, &keys.channel, &keys.record, &keys.evictions],
                &[holder, self.publish, broken],
                || format!("withdraw {name}"),
            )
            .await?;
        if found == 0 {
            return Ok(Withdrawn::Absent);
        }
        // The server does not tell us of what we did ourselves.
        self.claims.stir(name.as_str());
        Ok(Withdrawn::Removed)
    }
}

#[async_trait]
impl Engine for RedissonEngine {
    fn promises(&self) -> Promises {
        Promises {
            fence: Grade::OrderedByClock,
            tokens_per_grant: TOKENS_PER_GRANT,
            ..Promises::least(Reach::Network)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let id = LeaseId(random_u128());
        let lease = Lease { id, ttl };
        self.server.learn_times("open a session").await?;
        self.claims.add_lease(lease, owner.clone());
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        if self.claims.lease(lease.id).is_none() {
            return Ok(Renewal::LeaseGone);
        }
        let claims = self.claims.kept_by(lease.id);
        if claims.is_empty() {
            self.server.learn_times("renew").await?;
            return Ok(Renewal::Renewed { gone: Vec::new() });
        }
        let key = |mine: &Arc<Mine>| mine.claim.name.as_str().to_owned();
        let batches = self.server.batches(claims, BATCH, key);
        let renewals = batches
            .iter()
            .map(|batch| self.renew_batch(lease.ttl, batch));
        let gone = try_join_all(renewals).await?;
        let gone = gone.into_iter().flatten().collect();
        Ok(Renewal::Renewed { gone })
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        self.claims.close_lease(lease.id);
        let claims = self.claims.of_lease(lease.id);
        // A server that is down must not hold up what others have.
        let leaving = claims.iter().map(|mine| async {
            self.give_back(&mine.claim.name, &mine.holder, "").await?;
            self.claims.forget(&mine.claim);
            Ok(())
        });
        let left: Vec<Result<()>> = join_all(leaving).await;
        left.into_iter().collect()
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.claims.lease(lease.id) else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = checking::until_one_is_gone(self, &open) => {}
            () = waiting::prove(self, lease) => {}
            () = self.server.mend() => {}
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let keys = self.keys(&ticket.claim.name, || doing(ticket))?;
        if ticket.capacity != 1 {
            let why = "layout=redisson has mutexes only; use layout=queue";
            let error = Error::new(ErrorKind::Unsupported, doing(ticket), why);
            return Err(error.on(&*self.server.label));
        }
        let mine = self.claims.admit(ticket);
        let Some(open) = self.claims.lease(ticket.lease) else {
            self.claims.forget(&ticket.claim);
            return Ok(Standing::Gone);
        };
        mine.is_asked();
        let (mut answer, mut doer) = self.ask_for(ticket, &mine, &keys, &open).await?;
        if let Answer::Late { now } = answer {
            // Either the server's clock was moved or the request was stuck for
            // a ttl; the former mends itself now.
            self.server.learn_time(&keys.lock, now);
            (answer, doer) = self.ask_for(ticket, &mine, &keys, &open).await?;
        }
        match answer {
            Answer::Held { token } => {
                let confirming = self.server.confirm(&doer, &keys.record, || doing(ticket));
                confirming.await?;
                if mine.is_held() {
                    open.news.notify_one();
                }
                let token = Token::new(token);
                Ok(Standing::Held { token })
            }
            Answer::Busy { holder, left } if ticket.waits => {
                mine.waits(holder, left, boot_time());
                Ok(waiting::WAITING)
            }
            Answer::Busy { .. } => {
                self.claims.forget(&ticket.claim);
                Ok(Standing::Busy)
            }
            Answer::Foreign { what } => {
                self.claims.forget(&ticket.claim);
                Err(foreign(&what, doing(ticket), &self.server.label))
            }
            Answer::Late { .. } => {
                let why = "the request took longer than the ttl";
                let error = Error::new(ErrorKind::Unavailable, doing(ticket), why);
                Err(error.on(&*self.server.label))
            }
        }
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        Ok(waiting::wait(self, ticket).await)
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        let Cause::Evicted { by, reason } = cause else {
            // From here on it is neither renewed nor missed. It is known until
            // it is surely out, so that closing does not overlook it.
            if let Some(mine) = self.claims.claim(claim) {
                mine.leaves();
            }
            let holder = self.claims.holder(claim.id);
            let found = self.give_back(&claim.name, &holder, "").await?;
            self.claims.forget(claim);
            return Ok(found);
        };
        self.break_hold(claim, by, reason).await
    }
}

fn doing(ticket: &Ticket) -> String {
    format!("lock {}", ticket.claim.name)
}

/// Whether the cluster has sharded channels.
async fn has_shards(server: &Server) -> Result<bool> {
    let doing = || "connect".to_owned();
    let info: String = server.ask("", &::redis::cmd("INFO"), doing).await?;
    Ok(version(&info) >= (7, 0))
}

/// A claim that a renewal did not find; the note is `by reason` if it was
/// broken.
fn missed(mine: &Mine, note: &str) -> GoneClaim {
    let note = note.split_once(' ');
    GoneClaim {
        id: mine.claim.id,
        lost: match note {
            Some(_) => Lost::Evicted,
            None => Lost::Gone,
        },
        note: note.map(|(by, reason)| format!("by {}: {}", unfield(by), unfield(reason))),
    }
}
