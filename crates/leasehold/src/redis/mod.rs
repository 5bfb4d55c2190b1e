//! The Redis engine: one server, every machine that reaches it.
//!
//! A lock with one claim is a hash that has it, released by one plain command;
//! a second claim brings a queue: a sorted set, with the claims in a hash beside
//! it. One script makes each change in one step, on the server's clock. Whoever
//! takes a claim out of the queue grants what fits then and tells those
//! sessions, each through its own channel; nobody else wakes, and a hand-over
//! is two commands. A claim's order is the server's time in microseconds, or 32
//! more than the last, and so a token too, which grows even over the loss of all
//! keys. Every claim has its own expiry and no key is permanent,
//! but for a memo.
//! The layout and every step are in `docs/stores/redis.md`.

mod answer;
mod cluster;
mod company;
mod config;
mod fault;
mod fit;
mod inbox;
mod inspect;
mod keys;
mod link;
mod memo;
mod place;
mod plain;
mod redisson;
pub(crate) mod redlock;
mod renewal;
mod scripts;
mod server;
mod stamp;
mod switches;
mod together;
mod waiting;
mod way;
mod witness;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::Value;
use async_trait::async_trait;
use futures_util::future::join_all;

use self::answer::{Answer, strange};
use self::company::{Company, Enqueue, Question, Went};
use self::config::Layout;
pub(crate) use self::config::{OPTIONS, RedisConfig, Refusal, SCHEMES};
use self::fault::fault;
use self::inbox::{Inbox, Mine, OpenLease};
use self::keys::{Hex, Keys, field, inbox};
use self::plain::PlainEngine;
use self::redisson::RedissonEngine;
use self::scripts::Scripts;
use self::server::{Doer, Server};
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, LeaseId, Mark, Memo, Noted, Owner, Reading, Renewal, Standing,
    Ticket, Together, Watch, Withdrawn,
};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::promises::{Grade, Promises, Reach};
use crate::random::random_u128;
use crate::rule;

/// How many tokens one grant may be split into; `lua/enqueue.lua` knows it too.
const TOKENS_PER_GRANT: u32 = 32;
/// Connects an engine for the layout that is asked for.
pub(crate) async fn connect(config: &RedisConfig) -> Result<Arc<dyn Engine>> {
    Ok(match config.layout {
        Layout::Queue => Arc::new(RedisEngine::connect(config).await?),
        Layout::Plain => Arc::new(PlainEngine::connect(config).await?),
        Layout::Redisson => Arc::new(RedissonEngine::connect(config).await?),
    })
}

/// Locks on a Redis server.
#[derive(Debug)]
pub(crate) struct RedisEngine {
    server: Server,
    scripts: Arc<Scripts>,
    inbox: Arc<Inbox>,
    /// Where one script may work on any keys.
    company: Option<Arc<Company>>,
}

impl RedisEngine {
    /// Connects and looks whether the server fits.
    pub(crate) async fn connect(config: &RedisConfig) -> Result<Self> {
        let inbox = Arc::new(Inbox::default());
        let server = Server::connect(config, inbox.clone(), &[]).await?;
        let scripts = Arc::new(Scripts::new());
        let company = server
            .only_link()
            .map(|link| Company::new(link, scripts.clone(), inbox.clone()));
        Ok(Self {
            server,
            scripts,
            inbox,
            company,
        })
    }

    async fn ask_for(
        &self,
        ticket: &Ticket,
        mine: &Arc<Mine>,
        open: &OpenLease,
    ) -> Result<(Answer, Doer)> {
        let enqueue = || self.enqueue_of(ticket, mine, open);
        let _way = match self
            .go(|| Question::Enqueue(enqueue()), || doing(ticket))
            .await?
        {
            Went::Told(answer, doer) => return Ok((Answer::read(answer), doer)),
            Went::Alone(way) => way,
        };
        // Nothing is asked for once the lease is closed: who would take it out? So
        // that is looked at when nothing is to be waited for any more. A cluster has
        // its own way to a server that can be reached.
        if let Some(link) = self.server.only_link()
            && !link.is_connected()
        {
            let connected = link.connect().await;
            connected.map_err(|error| fault(error, doing(ticket), &self.server.label))?;
        }
        if self.inbox.lease(ticket.lease).is_none() {
            let why = "the session is closed";
            return Err(Error::new(ErrorKind::Unavailable, doing(ticket), why));
        }
        let one = enqueue();
        let (not_after, ttl) = (one.not_after.to_string(), one.ttl.to_string());
        let waits = if one.waits { "1" } else { "0" };
        let ticket_id = mine.ticket.as_str();
        let (answer, doer) = self
            .server
            .run_noting(
                &self.scripts.enqueue,
                &mine.keys.three(),
                &[ticket_id, &not_after, &ttl, &one.rest, waits],
                || doing(ticket),
            )
            .await?;
        Ok((Answer::read(answer), doer))
    }

    fn enqueue_of(&self, ticket: &Ticket, mine: &Arc<Mine>, open: &OpenLease) -> Enqueue {
        let not_after = self.server.time_in(mine.keys.lock(), open.lease.ttl);
        Enqueue {
            mine: mine.clone(),
            not_after: not_after.unwrap_or(0),
            ttl: whole_millis(open.lease.ttl),
            rest: open.rest_of(ticket),
            waits: ticket.waits,
        }
    }

    /// Asks in company, if others are on their way and that can be.
    async fn go(
        &self,
        question: impl FnOnce() -> Question,
        doing: impl FnOnce() -> String,
    ) -> Result<Went> {
        let Some(company) = &self.company else {
            return Ok(Went::Alone(None));
        };
        let went = company.ask(question).await;
        went.map_err(|error| fault(error, doing(), &self.server.label))
    }

    /// Takes out a claim that may be the only one on its lock. Then there is
    /// nobody to grant anything to, and a script is not needed.
    async fn leave(&self, mine: &Arc<Mine>) -> Result<Withdrawn> {
        if mine.leaves() && self.is_out(mine).await? {
            return Ok(Withdrawn::Removed);
        }
        self.take_out(&mine.claim, &mine.keys, "").await
    }

    /// Whether it was alone on its lock and is out now.
    async fn is_out(&self, mine: &Arc<Mine>) -> Result<bool> {
        let doing = || format!("withdraw {}", mine.claim.name);
        let _way = match self.go(|| Question::Leave(mine.clone()), doing).await? {
            Went::Told(answer, _) => return Ok(answer == Value::Int(1)),
            Went::Alone(way) => way,
        };
        let mut delete = ::redis::cmd("HDEL");
        delete.arg(mine.keys.lock()).arg(mine.ticket.as_str());
        let found: u32 = self.server.ask(mine.keys.lock(), &delete, doing).await?;
        Ok(found == 1)
    }

    async fn take_out(&self, claim: &ClaimRef, keys: &Keys, broken: &str) -> Result<Withdrawn> {
        let found: u32 = self
            .server
            .run(
                &self.scripts.withdraw,
                &keys.all(),
                &[Hex::of(claim.id.0).as_str(), broken],
                || format!("withdraw {}", claim.name),
            )
            .await?;
        Ok(if found == 1 {
            Withdrawn::Removed
        } else {
            Withdrawn::Absent
        })
    }
}

#[async_trait]
impl Engine for RedisEngine {
    fn promises(&self) -> Promises {
        Promises {
            fair: true,
            rwlock: true,
            semaphore: true,
            fence: Grade::OrderedByClock,
            tokens_per_grant: TOKENS_PER_GRANT,
            memo: true,
            retention: true,
            stamp: true,
            holders: true,
            ..Promises::least(Reach::Network)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let id = LeaseId(random_u128());
        let lease = Lease { id, ttl };
        self.server.subscribe(&inbox(id)).await?;
        // Else all the first renewals, which leave at once, would find the
        // script missing.
        let renewal = self.server.teach(&self.scripts.renew_alone);
        let company = self.server.teach(&self.scripts.together);
        let teaching = async { tokio::join!(renewal, company) };
        let (learned, ((), ())) = tokio::join!(self.server.learn_times("open a session"), teaching);
        learned?;
        self.inbox.add_lease(lease, owner);
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        if self.inbox.lease(lease.id).is_none() {
            return Ok(Renewal::LeaseGone);
        }
        let claims = self.inbox.kept_by(lease.id);
        if claims.is_empty() {
            self.server.learn_times("renew").await?;
            return Ok(Renewal::Renewed { gone: Vec::new() });
        }
        let gone = renewal::renew(self, lease.ttl, claims).await?;
        Ok(Renewal::Renewed { gone })
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        self.inbox.close_lease(lease.id);
        if let Some(company) = &self.company {
            company.seal();
        }
        let claims = self.inbox.claims_of(lease.id);
        // A server that is down must not hold up what others have.
        let leaving = claims.iter().map(|mine| async {
            self.leave(mine).await?;
            self.inbox.forget(mine.claim.id);
            Ok(())
        });
        let left: Vec<Result<()>> = join_all(leaving).await;
        left.into_iter().collect::<Result<()>>()?;
        self.server.unsubscribe(&inbox(lease.id)).await
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.inbox.lease(lease.id) else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = open.news.notified() => {}
            () = waiting::prove(self, lease) => {}
            () = self.server.mend() => {}
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let mine = self.inbox.admit(ticket);
        let Some(open) = self.inbox.lease(ticket.lease) else {
            self.inbox.forget(ticket.claim.id);
            return Ok(Standing::Gone);
        };
        mine.asked();
        let (mut answer, mut doer) = self.ask_for(ticket, &mine, &open).await?;
        if let Answer::Late { now } = answer {
            // Either the server's clock was moved or the request was stuck for
            // a ttl; the former mends itself now.
            self.server.learn_time(mine.keys.lock(), now);
            (answer, doer) = Box::pin(self.ask_for(ticket, &mine, &open)).await?;
        }
        match answer {
            Answer::Conflict { used } => {
                self.inbox.forget(ticket.claim.id);
                let why = rule::mismatch(ticket.capacity, used);
                Err(Error::new(ErrorKind::Conflict, doing(ticket), why).on(&*self.server.label))
            }
            Answer::Late { .. } => {
                let why = "the request took longer than the ttl";
                Err(Error::new(ErrorKind::Unavailable, doing(ticket), why).on(&*self.server.label))
            }
            answer => {
                if answer == Answer::Busy {
                    self.inbox.forget(ticket.claim.id);
                } else {
                    // Once others have the claim in the queue, nobody behind it
                    // can be granted before it; so its grant needs no more.
                    let key = mine.keys.lock();
                    self.server.confirm(&doer, key, || doing(ticket)).await?;
                }
                let standing = answer.into_standing(&mine);
                if mine.is_doubtful() {
                    open.news.notify_one();
                }
                standing.ok_or_else(|| strange(doing(ticket), &self.server.label))
            }
        }
    }

    async fn enqueue_all(&self, tickets: &[Ticket]) -> Result<Together> {
        together::enqueue_all(self, tickets).await
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        waiting::wait(self, ticket).await
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        match cause {
            Cause::Ours => {
                // It is known until it is surely out, so that closing does not
                // overlook it.
                let found = match self.inbox.claim(claim.id) {
                    Some(mine) => self.leave(&mine).await?,
                    None => self.take_out(claim, &Keys::of(&claim.name), "").await?,
                };
                self.inbox.forget(claim.id);
                Ok(found)
            }
            Cause::Evicted { by, reason } => {
                let broken = format!("{} {}", field(by), field(reason));
                self.take_out(claim, &Keys::of(&claim.name), &broken).await
            }
        }
    }

    async fn write_memo(&self, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
        memo::write(self, claim, memo, None).await
    }

    async fn write_memo_for(&self, claim: &ClaimRef, memo: &Memo, keep: Duration) -> Result<Noted> {
        memo::write(self, claim, memo, Some(keep)).await
    }

    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        memo::read(self, name).await
    }

    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        inspect::holders(self, name).await
    }

    async fn stamp(&self, _lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        stamp::stamp(self, name).await
    }
}

fn doing(ticket: &Ticket) -> String {
    format!("lock {}", ticket.claim.name)
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What is behind these locks is whole after any panic: no code that could
/// panic runs while one is taken.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
