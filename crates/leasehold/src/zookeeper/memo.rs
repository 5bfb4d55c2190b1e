//! Memos: a node of their own. A write is refused unless the claim's node is
//! there and the memo has the version that was seen, all in one step.

use std::time::Duration;

use super::ZookeeperEngine;
use super::claims::Node;
use super::fault::Refusal;
use super::inspect::Looking;
use super::keeping::{as_millis, folder_for, note_name, written};
use super::session::Session;
use super::wire::{Mode, Reply, Request, Stat};
use crate::clock::{Moment, boot_time};
use crate::engine::{ClaimRef, Memo, Noted, Reading};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::memo::unreadable;
use crate::name::Name;

/// How often a request is made anew because the memo changed meanwhile.
const ROUNDS: u32 = 20;

/// Writes the memo if the claim is there.
pub(super) async fn write(
    engine: &ZookeeperEngine,
    claim: &ClaimRef,
    memo: &Memo,
    keep: Option<Duration>,
) -> Result<Noted> {
    let doing = || format!("write the memo of {}", claim.name);
    let Some(mine) = engine.claims.claim(claim.id).filter(|mine| mine.is_held()) else {
        return Ok(Noted::NotHeld);
    };
    let is_ours = |node: &Node| memo.is_of(node.czxid.unsigned_abs(), 1);
    let Some(node) = mine.node().filter(is_ours) else {
        return Ok(Noted::NotHeld);
    };
    let writing = Writing {
        engine,
        session: mine.session(),
        node: &node,
        path: engine.paths.memo(&claim.name),
        memo,
        keep: keep.map(as_millis),
    };
    for round in 0..ROUNDS {
        let written = writing.attempt(round > 0).await;
        match written {
            Ok(Some(noted)) => return Ok(noted),
            Ok(None) => {}
            // The claim's node goes with its session.
            Err(Refusal::SessionOver) => return Ok(Noted::NotHeld),
            Err(why) => return Err(why.fault(doing(), &engine.label)),
        }
    }
    let why = "the memo changes faster than it can be read";
    Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*engine.label))
}

struct Writing<'a> {
    engine: &'a ZookeeperEngine,
    session: &'a Session,
    /// The claim's.
    node: &'a Node,
    path: String,
    memo: &'a Memo,
    /// In milliseconds; none if it is for good.
    keep: Option<u64>,
}

impl Writing<'_> {
    /// `None` if something changed between looking and writing, or a folder is missing.
    async fn attempt(&self, is_again: bool) -> Result<Option<Noted>, Refusal> {
        let (engine, session, memo) = (self.engine, self.session, self.memo);
        let sync = Request::Sync {
            path: self.path.clone(),
        };
        let own = exists(&self.node.path);
        let mut requests = vec![sync, own, data(&self.path)];
        let about_now = engine.latest_time();
        let kept = self.keep.zip(about_now);
        requests.extend(kept.map(|(keep, now)| exists(&folder_for(engine, now, keep, None))));
        let mut answered = session.ask(requests).await?.into_iter();
        let [synced, own, found] =
            [(); 3].map(|()| answered.next().unwrap_or(Err(Refusal::Garbled)));
        synced?;
        let last = read_data(found)?;
        let is_ours = |known: &Memo| known.token == memo.token && known.edition >= memo.edition;
        let known = last
            .as_ref()
            .and_then(|(data, stat)| Kept::read(data, *stat));
        // The first of two requests wrote it, or a later one of this hold did.
        if known.is_some_and(|known| is_ours(&known.memo)) {
            return Ok(Some(Noted::Written));
        }
        let claimed = match own {
            Ok(Reply::Stat(stat)) if stat.czxid == self.node.czxid => stat.ctime.unsigned_abs(),
            Ok(_) | Err(Refusal::NoNode) => return Ok(Some(Noted::NotHeld)),
            Err(why) => return Err(why),
        };
        let mut requests = vec![Request::Check {
            path: self.node.path.clone(),
            version: -1,
        }];
        let record = write_record(memo, self.keep);
        let (folder, name) = self.path.rsplit_once('/').unwrap_or_default();
        // Also if there are no bytes: a node that is made anew would have the first
        // version again.
        match last {
            Some((_, stat)) => requests.push(Request::Write {
                path: self.path.clone(),
                data: record,
                version: stat.version,
            }),
            None => {
                engine.make_all(session, folder).await?;
                requests.push(Request::Create {
                    path: self.path.clone(),
                    data: record,
                    mode: Mode::Persistent,
                    is_private: engine.config.user.is_some(),
                });
            }
        }
        if let Some(keep) = self.keep {
            let known = match answered.next() {
                Some(Ok(Reply::Stat(stat))) => Some(stat),
                _ => None,
            };
            // About now is good enough: the end goes by when it is written.
            let now = about_now.unwrap_or(claimed);
            let folder = folder_for(engine, now, keep, known);
            // Mostly another one has made it.
            if is_again {
                engine.make_all(session, &folder).await?;
            }
            requests.push(engine.note(format!("{folder}/{}", note_name(memo, name))));
        }
        let sent = boot_time();
        match session.ask_one(Request::Multi(requests)).await {
            Ok(_) => {}
            Err(Refusal::NoNode | Refusal::NodeExists | Refusal::OtherVersion) => return Ok(None),
            Err(why) => return Err(why),
        }
        if self.keep.is_some() {
            self.sweep(sent).await;
        }
        Ok(Some(Noted::Written))
    }

    /// It is written, whatever comes of this.
    async fn sweep(&self, sent: Moment) {
        if let Ok(Reply::Stat(stat)) = self.session.ask_one(exists(&self.path)).await {
            self.engine.hears_time(&stat, sent);
            self.engine.sweep_seldom(written(&stat)).await;
        }
    }
}

/// A memo as its node has it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) memo: Memo,
    /// When it ends by the leader's clock, in milliseconds since 1970.
    pub(super) end: Option<u64>,
}

impl Kept {
    /// `TOKEN EDITION BYTES`, with `+KEEP` behind the edition if it ends so many
    /// milliseconds after it was written.
    pub(super) fn read(data: &[u8], stat: Stat) -> Option<Self> {
        if let Some(memo) = Memo::from_record(data) {
            return Some(Self { memo, end: None });
        }
        let mut parts = data.splitn(3, |&byte| byte == b' ');
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        let (token, (edition, keep)) = (text()?, text()?.split_once('+')?);
        let memo = Memo {
            token: Token::new(token.parse().ok()?),
            edition: edition.parse().ok()?,
            bytes: parts.next()?.to_vec(),
        };
        let end = written(&stat).saturating_add(keep.parse().ok()?);
        let end = Some(end);
        Some(Self { memo, end })
    }
}

fn write_record(memo: &Memo, keep: Option<u64>) -> Vec<u8> {
    let Some(keep) = keep else {
        return memo.to_record();
    };
    let mut record = format!("{} {}+{keep} ", memo.token, memo.edition).into_bytes();
    record.extend(&memo.bytes);
    record
}

pub(super) async fn read(engine: &ZookeeperEngine, name: &Name) -> Result<Reading> {
    // A session to look with that nobody used for long is over, which shows only
    // once another connection is made for it.
    let mut found = look(engine, name).await;
    for _ in 0..2 {
        if matches!(&found, Err(why) if why.is_of_the_connection()) {
            found = look(engine, name).await;
        }
    }
    let doing = || format!("read the memo of {name}");
    let found = found.map_err(|why| why.fault(doing(), &engine.label))?;
    let kept = match found {
        Seen::Nothing => None,
        Seen::Kept(kept) => Some(kept.memo),
        Seen::Strange => return Err(unreadable(doing()).on(&*engine.label)),
    };
    // The servers tell no time but that of a write. Who holds the lock has made one, so
    // it knows what the leader's clock shows at most.
    let time = engine.latest_time().map(Duration::from_millis);
    Ok(Reading::of(kept, time))
}

enum Seen {
    Nothing,
    Kept(Kept),
    /// Something else is in its place.
    Strange,
}

async fn look(engine: &ZookeeperEngine, name: &Name) -> Result<Seen, Refusal> {
    let looking = Looking::with(engine).await?;
    let (session, path) = (looking.session(), engine.paths.memo(name));
    let seen = look_now(session, &path).await?;
    let Seen::Kept(Kept { end: Some(end), .. }) = &seen else {
        return Ok(seen);
    };
    // What we know of the time is enough to say that nobody was told that it has ended,
    // not that it has.
    if engine.latest_time().is_some_and(|now| now < *end) {
        return Ok(seen);
    }
    let now = engine.ask_leader_time(session).await?;
    // Once more: it may have been written again before that.
    Ok(match look_now(session, &path).await? {
        Seen::Kept(Kept { end: Some(end), .. }) if end <= now => Seen::Nothing,
        seen => seen,
    })
}

async fn look_now(session: &Session, path: &str) -> Result<Seen, Refusal> {
    let sync = Request::Sync { path: path.into() };
    let mut answered = session.ask(vec![sync, data(path)]).await?.into_iter();
    let [synced, found] = [(); 2].map(|()| answered.next().unwrap_or(Err(Refusal::Garbled)));
    synced?;
    Ok(match read_data(found)? {
        None => Seen::Nothing,
        Some((data, stat)) => Kept::read(&data, stat).map_or(Seen::Strange, Seen::Kept),
    })
}

type Found = Option<(Vec<u8>, Stat)>;

fn exists(path: &str) -> Request {
    Request::Exists {
        path: path.to_owned(),
        watch: false,
    }
}

fn data(path: &str) -> Request {
    Request::Data {
        path: path.to_owned(),
        watch: false,
    }
}

fn read_data(answer: Result<Reply, Refusal>) -> Result<Found, Refusal> {
    match answer {
        Ok(Reply::Data(data, stat)) => Ok(Some((data, stat))),
        Ok(_) => Err(Refusal::Garbled),
        Err(Refusal::NoNode) => Ok(None),
        Err(why) => Err(why),
    }
}
