//! The layout that others share: one string per lock, `SET name ticket NX PX`,
//! deleted and renewed only by whoever finds its own value in it.
//!
//! The key is the lock's name as it is, so that it is the same lock for the
//! many libraries that do so. Beside it is a note of ours, with the token and
//! the owner, that lives a little longer. There is no queue: whoever waits has
//! read the key, is told by the server when it changes, and asks again. The
//! same tells a holder at once when somebody else takes its lock away.
//! The layout and every step are in `docs/stores/redis-plain.md`.

mod answer;
mod checking;
mod claims;
mod inspect;
mod keys;
mod scripts;
mod waiting;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};

use self::answer::Answer;
use self::claims::{Claims, Mine, OpenLease};
use self::keys::{Keys, OURS, hex};
use self::scripts::Scripts;
use super::answer::{not_a_lock, strange};
use super::config::RedisConfig;
use super::keys::{field, unfield};
use super::link::Ears;
use super::server::{Doer, Server};
use super::{lock, whole_millis};
use crate::clock::{Moment, boot_time};
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

/// The server tells this connection when a key that it read was changed by
/// another.
const GREETING: &[&[&str]] = &[&["CLIENT", "TRACKING", "ON", "NOLOOP"]];
/// How many tokens one grant may be split into; `lua/acquire.lua` knows it too.
const TOKENS_PER_GRANT: u32 = 32;
/// How many claims one request renews.
const BATCH: usize = 500;
/// How much longer than the lock a note lives; `lua/renew.lua` knows it too.
const NOTE_LIVES_ON: Duration = Duration::from_secs(60);
/// How often notes are renewed, if the locks are renewed more often.
const NOTES_EVERY: Duration = Duration::from_secs(20);

/// Locks on a Redis server that other libraries share.
#[derive(Debug)]
pub(super) struct PlainEngine {
    server: Server,
    scripts: Scripts,
    claims: Arc<Claims>,
    /// When the notes were renewed last.
    noted: Mutex<Moment>,
}

impl PlainEngine {
    /// Connects and looks whether the server fits.
    pub(super) async fn connect(config: &RedisConfig) -> Result<Self> {
        let claims = Arc::new(Claims::default());
        let server = Server::connect(config, claims.clone(), GREETING).await?;
        Ok(Self {
            server,
            scripts: Scripts::new(),
            claims,
            noted: Mutex::new(boot_time()),
        })
    }

    /// An error that had no effect.
    fn refusal(&self, kind: ErrorKind, doing: String, why: impl Into<String>) -> Error {
        Error::new(kind, doing, why).on(&*self.server.label)
    }

    /// A name that would be one of our own keys is no lock.
    fn check(&self, name: &Name, doing: impl FnOnce() -> String) -> Result<()> {
        if !name.as_str().starts_with(OURS) {
            return Ok(());
        }
        let why = format!("in layout=plain no name starts with {OURS}: such keys are ours");
        Err(self.refusal(ErrorKind::Usage, doing(), why))
    }

    async fn ask_for(&self, ticket: &Ticket, open: &OpenLease) -> Result<(Answer, Doer)> {
        let (keys, id) = (Keys::of(&ticket.claim.name), hex(ticket.claim.id));
        let label = ticket.label.as_deref().unwrap_or(open.owner.label());
        let note = format!(
            " {id} {} {} {} {}",
            ticket.holder,
            open.owner.pid(),
            field(open.owner.host()),
            field(label)
        );
        let ttl = open.lease.ttl;
        let not_after = self.server.time_in(&keys.lock, ttl).unwrap_or(0);
        let (answer, doer): (Vec<String>, _) = self
            .server
            .run_noting(
                &self.scripts.acquire,
                &[&keys.lock, &keys.note],
                &[
                    &id,
                    &whole_millis(ttl).to_string(),
                    &whole_millis(ttl + NOTE_LIVES_ON).to_string(),
                    &note,
                    &not_after.to_string(),
                ],
                || doing(ticket),
            )
            .await?;
        Ok((Answer::read(&answer), doer))
    }

    async fn held(
        &self,
        doer: &Doer,
        ticket: &Ticket,
        mine: &Mine,
        open: &OpenLease,
    ) -> Result<()> {
        // Beside the note: a key beside the lock could be somebody else's.
        let key = Keys::of(&ticket.claim.name).note;
        self.server.confirm(doer, &key, || doing(ticket)).await?;
        if mine.is_held() {
            // Somebody else changed it before we knew that we hold it.
            open.news.notify_one();
        }
        Ok(())
    }

    async fn give_back(&self, claim: &ClaimRef) -> Result<Withdrawn> {
        let script = &self.scripts.release;
        let doing = || format!("withdraw {}", claim.name);
        let (keys, arguments) = ([claim.name.as_str()], hex(claim.id));
        let found: u32 = self.server.run(script, &keys, &[&arguments], doing).await?;
        Ok(withdrawn(found))
    }

    async fn evict(&self, claim: &ClaimRef, by: &str, reason: &str) -> Result<Withdrawn> {
        let keys = Keys::of(&claim.name);
        let broken = format!("{} {}", field(by), field(reason));
        let found: u32 = self
            .server
            .run(
                &self.scripts.evict,
                &[&keys.lock, &keys.note, &keys.evictions],
                &[&hex(claim.id), &broken],
                || format!("break {}", claim.name),
            )
            .await?;
        Ok(withdrawn(found))
    }

    /// Renews these claims, perhaps with their notes, and says which are not
    /// ours any more.
    async fn renew_batch(
        &self,
        ttl: Duration,
        with_notes: bool,
        claims: &[Arc<Mine>],
    ) -> Result<Vec<GoneClaim>> {
        let keys: Vec<_> = claims
            .iter()
            .map(|mine| Keys::of(&mine.claim.name))
            .collect();
        let first_note = keys[0].note.as_str();
        let locks = keys.iter().map(|keys| keys.lock.as_str());
        let notes = keys.iter().map(|keys| keys.note.as_str());
        let notes = notes.filter(|_| with_notes);
        let keys: Vec<_> = locks.chain(notes).collect();
        let tickets = claims.iter().map(|mine| hex(mine.claim.id));
        let arguments: Vec<_> = std::iter::once(whole_millis(ttl).to_string())
            .chain(tickets)
            .collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        // A grant may be answered sooner than a renewal that was done before it.
        let were_held: Vec<_> = claims.iter().map(|mine| mine.is_missed()).collect();
        let doing = || "renew".to_owned();
        let script = &self.scripts.renew;
        let asking = self.server.run_noting(script, &keys, &arguments, doing);
        let (answer, doer): (Vec<u64>, _) = asking.await?;
        let strange = || strange(doing(), &self.server.label);
        let (now, missing) = answer.split_first().ok_or_else(strange)?;
        self.server.learn_time(keys[0], *now);
        let mut gone = Vec::new();
        for number in missing {
            let number = usize::try_from(*number).map_err(|_| strange())?;
            let number = number.wrapping_sub(1);
            let mine = claims.get(number).ok_or_else(strange)?;
            if were_held[number] && mine.is_missed() {
                gone.push(self.gone(&mine.claim).await?);
            }
        }
        self.server.confirm(&doer, first_note, doing).await?;
        Ok(gone)
    }

    /// A claim that is not there any more, and who broke it if that was so.
    async fn gone(&self, claim: &ClaimRef) -> Result<GoneClaim> {
        let note = self.eviction_of(claim).await?;
        Ok(GoneClaim {
            id: claim.id,
            lost: match note {
                Some(_) => Lost::Evicted,
                None => Lost::Gone,
            },
            note,
        })
    }

    /// `by NAME: REASON`, if the claim was broken.
    async fn eviction_of(&self, claim: &ClaimRef) -> Result<Option<String>> {
        let keys = Keys::of(&claim.name);
        let mut range = ::redis::cmd("LRANGE");
        range.arg(&keys.evictions).arg(0).arg(-1);
        let doing = || "renew".to_owned();
        let broken: Vec<String> = self.server.ask(&keys.evictions, &range, doing).await?;
        let id = hex(claim.id);
        Ok(broken.iter().find_map(|record| {
            let fields: Vec<_> = record.split(' ').collect();
            match fields[..] {
                [_, ticket, .., by, reason] if ticket == id => {
                    Some(format!("by {}: {}", unfield(by), unfield(reason)))
                }
                _ => None,
            }
        }))
    }
}

#[async_trait]
impl Engine for PlainEngine {
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
        let now = boot_time();
        let with_notes = now.since(*lock(&self.noted)) >= NOTES_EVERY;
        let renewals = batches
            .iter()
            .map(|batch| self.renew_batch(lease.ttl, with_notes, batch));
        let gone = try_join_all(renewals).await?;
        if with_notes {
            *lock(&self.noted) = now;
        }
        let gone = gone.into_iter().flatten().collect();
        Ok(Renewal::Renewed { gone })
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        self.claims.close_lease(lease.id);
        let claims = self.claims.of(lease.id);
        // A server that is down must not hold up what others have.
        let leaving = claims.iter().map(|mine| async {
            self.give_back(&mine.claim).await?;
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
        self.check(&ticket.claim.name, || doing(ticket))?;
        if ticket.capacity != 1 {
            let why = "layout=plain has no readers, writers or permits; layout=queue has";
            return Err(self.refusal(ErrorKind::Unsupported, doing(ticket), why));
        }
        let mine = self.claims.admit(ticket);
        let Some(open) = self.claims.lease(ticket.lease) else {
            self.claims.forget(&ticket.claim);
            return Ok(Standing::Gone);
        };
        mine.asked();
        let (mut answer, mut doer) = self.ask_for(ticket, &open).await?;
        if let Answer::Late { now } = answer {
            // Either the server's clock was moved or the request was stuck for
            // a ttl; the former mends itself now.
            self.server.learn_time(ticket.claim.name.as_str(), now);
            (answer, doer) = self.ask_for(ticket, &open).await?;
        }
        match answer {
            Answer::Held { token } => {
                self.held(&doer, ticket, &mine, &open).await?;
                let token = Token::new(token);
                Ok(Standing::Held { token })
            }
            Answer::Busy { left, holder } if ticket.waits => {
                // What is left is told in whole milliseconds.
                let left = left.map(|left| left + Duration::from_millis(1));
                mine.waits(left.map(|left| boot_time() + left), holder);
                Ok(waiting::WAITING)
            }
            Answer::Busy { .. } => {
                self.claims.forget(&ticket.claim);
                Ok(Standing::Busy)
            }
            Answer::Late { .. } => {
                let why = "the request took longer than the ttl";
                Err(self.refusal(ErrorKind::Unavailable, doing(ticket), why))
            }
            Answer::Type(kind) => {
                self.claims.forget(&ticket.claim);
                Err(self.refusal(ErrorKind::Config, doing(ticket), not_a_lock(&kind)))
            }
            Answer::Strange => Err(strange(doing(ticket), &self.server.label)),
        }
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        Ok(waiting::wait(self, ticket).await)
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        match cause {
            Cause::Ours => {
                // From here on it is neither renewed nor missed. It is known
                // until it is surely out, so that closing does not overlook it.
                if let Some(mine) = self.claims.claim(claim) {
                    mine.leaves();
                }
                let found = self.give_back(claim).await?;
                self.claims.forget(claim);
                Ok(found)
            }
            Cause::Evicted { by, reason } => {
                self.check(&claim.name, || format!("break {}", claim.name))?;
                let found = self.evict(claim, by, reason).await?;
                // The server does not tell us what we did ourselves, and the
                // claim may be one of this session.
                self.claims
                    .changed(Some(vec![claim.name.as_str().to_owned()]));
                Ok(found)
            }
        }
    }
}

fn doing(ticket: &Ticket) -> String {
    format!("lock {}", ticket.claim.name)
}

fn withdrawn(found: u32) -> Withdrawn {
    match found {
        0 => Withdrawn::Absent,
        _ => Withdrawn::Removed,
    }
}
