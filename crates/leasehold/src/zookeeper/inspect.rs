//! The ensemble as people look at it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::claims::OpenLease;
use super::dialect::{Child, Place};
use super::fault::Refusal;
use super::holders::Known;
use super::meeting::judge;
use super::record::{self, Broken, Record};
use super::session::Session;
use super::wire::{Mode, Reply, Request, Stat};
use super::{ZookeeperEngine, lease_id, lock, standing, words};
use crate::clock::wall_time;
use crate::engine::{ClaimRef, Claimant, Eviction, Finding, Inspect, Queue, Severity, Withdrawn};
use crate::error::Result;
use crate::fence::Token;
use crate::name::Name;
use crate::rule;

/// How many requests go out in one go.
const AT_ONCE: usize = 500;
/// How long the note on a broken lock is kept.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many of them are shown.
const EVICTIONS: usize = 100;

/// A session to look with: one that is there, or one of its own that nobody
/// keeps. If that is over when it is needed again, there is another.
pub(super) enum Looking {
    Lease(Arc<OpenLease>),
    Own(Arc<Session>),
}

impl Looking {
    pub(super) async fn with(engine: &ZookeeperEngine) -> Result<Self, Refusal> {
        match engine.claims.any_lease() {
            Some(open) => Ok(Self::Lease(open)),
            None => Self::apart(engine).await,
        }
    }

    /// One of its own, so that nobody's lock waits for what is asked over it.
    pub(super) async fn apart(engine: &ZookeeperEngine) -> Result<Self, Refusal> {
        let known = lock(&engine.looking).clone();
        if let Some(session) = known.filter(|session| !session.is_over()) {
            return Ok(Self::Own(session));
        }
        // Long enough for a look at a large store.
        let timeout = engine.facts.shortest.max(Duration::from_secs(10));
        let session = Session::open(&engine.config, timeout).await?;
        let session = Arc::new(session.be_patient());
        *lock(&engine.looking) = Some(session.clone());
        Ok(Self::Own(session))
    }

    pub(super) fn session(&self) -> &Session {
        match self {
            Self::Lease(open) => &open.session,
            Self::Own(session) => session,
        }
    }
}

#[async_trait]
impl Inspect for ZookeeperEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let seen = match self.seen(name).await {
            Err(Refusal::SessionOver) => self.seen(name).await,
            seen => seen,
        };
        let fault = |why: Refusal| why.fault(format!("look at {name}"), &self.label);
        let (claims, mut broken) = seen.map_err(fault)?;
        let (capacity, held) = held(&claims);
        let claims = claims.into_iter().enumerate();
        let claims = claims.map(|(at, (_, stat, record))| as_claimant(at < held, &stat, record));
        broken.sort_unstable_by_key(|broken| std::cmp::Reverse((broken.at, broken.czxid)));
        broken.truncate(EVICTIONS);
        Ok(Queue {
            capacity,
            claims: claims.collect(),
            evictions: broken.into_iter().map(as_eviction).collect(),
        })
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let listed = match self.every_name().await {
            Err(Refusal::SessionOver) => self.every_name().await,
            listed => listed,
        };
        let fault = |why: Refusal| why.fault("list the locks", &self.label);
        let mut names = listed.map_err(fault)?;
        names.retain(|name| name.as_str().starts_with(prefix));
        names.sort_unstable();
        Ok(names)
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let servers = &self.config.servers;
        let said = join_all(servers.iter().map(|server| words::srvr(server))).await;
        let mut findings: Vec<_> = servers
            .iter()
            .zip(said)
            .map(|(server, said)| judge(server, said))
            .collect();
        if self.facts.is_alone {
            findings.push(Finding {
                severity: Severity::Warning,
                what: "one server: while it is down, nothing can be locked".into(),
                remedy: "run three, on three machines, and name them all".into(),
            });
        }
        Ok(findings)
    }
}

/// The capacity of a lock with these claims, and how many hold.
pub(super) fn held(claims: &[Looked]) -> (u32, usize) {
    let capacity = claims.first().map_or(0, |(_, _, record)| record.capacity);
    let places: Vec<Place> = claims.iter().map(|(place, ..)| place.clone()).collect();
    let queue = standing::as_the_rule_sees_it(&places, capacity);
    (capacity, rule::holders(capacity, &queue))
}

fn as_claimant(is_holder: bool, stat: &Stat, record: Record) -> Claimant {
    let since = Duration::from_millis(stat.ctime.unsigned_abs());
    Claimant {
        id: record.id,
        is_holder,
        weight: record.weight,
        token: is_holder.then(|| Token::new(stat.czxid.unsigned_abs())),
        holder: record.holder,
        age: wall_time().saturating_sub(since),
        // The servers do not tell when they last heard of a session.
        time_left: record.ttl,
        owner: record.owner,
        session: (stat.owner != 0).then(|| lease_id(stat.owner)),
    }
}

fn as_eviction(broken: Broken) -> Eviction {
    Eviction {
        owner: broken.owner,
        token: Token::new(broken.czxid),
        by: broken.by,
        reason: broken.reason,
        at: broken.at,
    }
}

pub(super) type Looked = (Place, Stat, Record);

impl ZookeeperEngine {
    /// The claims on a lock and the notes on broken ones.
    async fn seen(&self, name: &Name) -> Result<(Vec<Looked>, Vec<Broken>), Refusal> {
        let looking = Looking::with(self).await?;
        let claims = self.claims_on(looking.session(), name).await?;
        let broken = self.notes(looking.session(), name).await?;
        Ok((claims, broken))
    }

    /// The claims on a lock of any kind, in order.
    async fn claims_on(&self, session: &Session, name: &Name) -> Result<Vec<Looked>, Refusal> {
        self.claims_knowing(session, name, &mut Known::new()).await
    }

    /// The same; those that are known are not read again.
    pub(super) async fn claims_knowing(
        &self,
        session: &Session,
        name: &Name,
        known: &mut Known,
    ) -> Result<Vec<Looked>, Refusal> {
        let parent = self.paths.lock(name);
        let sync = Request::Sync {
            path: parent.clone(),
        };
        let list = Request::Children {
            path: parent.clone(),
            watch: false,
        };
        let mut answered = session.ask(vec![sync, list]).await?.into_iter();
        if let Some(Err(why)) = answered.next() {
            return Err(why);
        }
        let list = match answered.next() {
            Some(Ok(Reply::Children(list))) => list,
            Some(Err(Refusal::NoNode)) => Vec::new(),
            Some(Err(why)) => return Err(why),
            _ => return Err(Refusal::Garbled),
        };
        let layout = self.config.layout;
        let place = |node: &String| match layout.read(node) {
            Child::Claim(place) => Some(place),
            Child::Mixed | Child::Other => None,
        };
        let mut places: Vec<_> = list.iter().filter_map(place).collect();
        Place::sort(&mut places);
        let mut last = std::mem::take(known);
        for place in &places {
            known.extend(last.remove_entry(&place.node));
        }
        let fresh: Vec<_> = places
            .iter()
            .filter(|place| !known.contains_key(&place.node))
            .collect();
        let paths = fresh.iter().map(|place| format!("{parent}/{}", place.node));
        let data = all_data(session, paths.collect()).await?;
        for (place, data) in fresh.into_iter().zip(data) {
            if let Some((data, stat)) = data {
                let record = Record::of(layout, place, &data, &stat);
                known.insert(place.node.clone(), (stat, record));
            }
        }
        let are_ordered = Place::are_ordered(&places);
        let claims = places.into_iter().filter_map(|place| {
            let (stat, record) = known.get(&place.node)?;
            Some((place, *stat, record.clone()))
        });
        let mut claims: Vec<_> = claims.collect();
        if !are_ordered {
            claims.sort_unstable_by_key(|(_, stat, _)| stat.czxid);
        }
        Ok(claims)
    }

    /// The notes on broken claims.
    async fn notes(&self, session: &Session, name: &Name) -> Result<Vec<Broken>, Refusal> {
        let folder = self.paths.broken(name);
        let list = children(session, &folder).await?;
        let paths = list.iter().map(|note| format!("{folder}/{note}"));
        let data = all_data(session, paths.collect()).await?;
        let notes = data.into_iter().flatten();
        Ok(notes.filter_map(|(data, _)| Broken::read(&data)).collect())
    }

    /// Walks over all nodes, level by level.
    async fn every_name(&self) -> Result<Vec<Name>, Refusal> {
        let looking = Looking::with(self).await?;
        let session = looking.session();
        let root = self.paths.root().to_owned();
        let top = children(session, &root).await?;
        let base = root.trim_end_matches('/');
        let open = top.iter().filter(|child| !self.paths.is_closed(child));
        let mut level: Vec<String> = open.map(|child| format!("{base}/{child}")).collect();
        let mut names = Vec::new();
        while !level.is_empty() {
            let mut below = Vec::new();
            for batch in level.chunks(AT_ONCE) {
                let list = |path: &String| Request::Children {
                    path: path.clone(),
                    watch: false,
                };
                let answered = session.ask(batch.iter().map(list).collect()).await?;
                for (path, answer) in batch.iter().zip(answered) {
                    let Ok(Reply::Children(list)) = answer else {
                        continue;
                    };
                    let mut is_claimed = false;
                    for child in list {
                        match self.config.layout.read(&child) {
                            Child::Claim(_) => is_claimed = true,
                            Child::Mixed => {}
                            Child::Other => below.push(format!("{path}/{child}")),
                        }
                    }
                    names.extend(self.paths.name(path).filter(|_| is_claimed));
                }
            }
            level = below;
        }
        Ok(names)
    }
}

pub(super) async fn children(session: &Session, path: &str) -> Result<Vec<String>, Refusal> {
    let request = Request::Children {
        path: path.to_owned(),
        watch: false,
    };
    match session.ask_one(request).await {
        Ok(Reply::Children(list)) => Ok(list),
        Ok(_) => Err(Refusal::Garbled),
        Err(Refusal::NoNode) => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}

/// The data of nodes, of those that are there.
pub(super) async fn all_data(
    session: &Session,
    paths: Vec<String>,
) -> Result<Vec<Option<(Vec<u8>, Stat)>>, Refusal> {
    let mut all = Vec::with_capacity(paths.len());
    for batch in paths.chunks(AT_ONCE) {
        let data = |path: &String| Request::Data {
            path: path.clone(),
            watch: false,
        };
        for answer in session.ask(batch.iter().map(data).collect()).await? {
            all.push(match answer {
                Ok(Reply::Data(data, stat)) => Some((data, stat)),
                Ok(_) | Err(Refusal::NoNode) => None,
                Err(why) => return Err(why),
            });
        }
    }
    Ok(all)
}

/// Takes out a claim that this engine has not made, or has forgotten; leaves a
/// note if it is broken. Its session watches the node.
pub(super) async fn take_out(
    engine: &ZookeeperEngine,
    claim: &ClaimRef,
    broken: Option<(&str, &str)>,
) -> Result<Withdrawn> {
    let taken = match take(engine, claim, broken).await {
        // Nothing was done over it, and the next one is new.
        Err(Refusal::SessionOver) => take(engine, claim, broken).await,
        taken => taken,
    };
    taken.map_err(|why| why.fault(format!("withdraw {}", claim.name), &engine.label))
}

async fn take(
    engine: &ZookeeperEngine,
    claim: &ClaimRef,
    broken: Option<(&str, &str)>,
) -> Result<Withdrawn, Refusal> {
    let looking = Looking::with(engine).await?;
    let session = looking.session();
    let claims = engine.claims_on(session, &claim.name).await?;
    let mut claims = claims.into_iter();
    let Some((place, stat, record)) = claims.find(|(_, _, record)| record.id == claim.id) else {
        return Ok(Withdrawn::Absent);
    };
    let path = format!("{}/{}", engine.paths.lock(&claim.name), place.node);
    let mut requests = vec![Request::Delete { path }];
    if let Some((by, reason)) = broken {
        let folder = engine.paths.broken(&claim.name);
        engine.make_all(session, &folder).await?;
        forget_old(session, &folder).await?;
        requests.push(Request::Create {
            path: engine.paths.broken_claim(&claim.name, stat.czxid),
            data: record::write_broken(&record, stat.czxid, by, reason),
            mode: Mode::Persistent,
            is_private: engine.config.user.is_some(),
        });
    }
    match session.ask_one(Request::Multi(requests)).await {
        Ok(_) => Ok(Withdrawn::Removed),
        Err(Refusal::NoNode) => Ok(Withdrawn::Absent),
        Err(why) => Err(why),
    }
}

/// Nobody else deletes notes.
async fn forget_old(session: &Session, folder: &str) -> Result<(), Refusal> {
    let list = children(session, folder).await?;
    let paths: Vec<_> = list.iter().map(|note| format!("{folder}/{note}")).collect();
    let data = all_data(session, paths.clone()).await?;
    let is_old = |data: &[u8]| {
        let at = Broken::read(data).map(|broken| broken.at);
        at.is_none_or(|at| wall_time().saturating_sub(at) > REMEMBERED)
    };
    let old = paths.into_iter().zip(data).filter_map(|(path, data)| {
        let (data, _) = data?;
        is_old(&data).then_some(Request::Delete { path })
    });
    let old: Vec<_> = old.collect();
    if !old.is_empty() {
        session.ask(old).await?;
    }
    Ok(())
}
