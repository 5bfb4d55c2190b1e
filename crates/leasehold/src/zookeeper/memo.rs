//! Memos: a node of their own. A write is refused unless the claim's node is
//! there and the memo has the version that was seen, all in one step.

use super::ZookeeperEngine;
use super::claims::Node;
use super::fault::Refusal;
use super::inspect::Looking;
use super::session::Session;
use super::wire::{Mode, Reply, Request};
use crate::engine::{ClaimRef, Memo, Noted, Reading};
use crate::error::{Error, ErrorKind, Result};
use crate::memo::unreadable;
use crate::name::Name;

/// How often a request is made anew because the memo changed meanwhile.
const ROUNDS: u32 = 20;

/// Writes the memo if the claim is there.
pub(super) async fn write(
    engine: &ZookeeperEngine,
    claim: &ClaimRef,
    memo: &Memo,
) -> Result<Noted> {
    let doing = || format!("write the memo of {}", claim.name);
    let Some(mine) = engine.claims.claim(claim.id).filter(|mine| mine.is_held()) else {
        return Ok(Noted::NotHeld);
    };
    let is_ours = |node: &Node| memo.is_of(node.czxid.unsigned_abs(), 1);
    let Some(node) = mine.node().filter(is_ours) else {
        return Ok(Noted::NotHeld);
    };
    let path = engine.paths.memo(&claim.name);
    for _ in 0..ROUNDS {
        let written = attempt(engine, mine.session(), &node, &path, memo).await;
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

/// `None` if something changed between looking and writing.
async fn attempt(
    engine: &ZookeeperEngine,
    session: &Session,
    node: &Node,
    path: &str,
    memo: &Memo,
) -> Result<Option<Noted>, Refusal> {
    let sync = Request::Sync { path: path.into() };
    let own = Request::Exists {
        path: node.path.clone(),
        watch: false,
    };
    let requests = vec![sync, own, data(path)];
    let mut answered = session.ask(requests).await?.into_iter();
    let [synced, own, found] = [(); 3].map(|()| answered.next().unwrap_or(Err(Refusal::Garbled)));
    synced?;
    let last = read_data(found)?;
    let is_ours = |known: &Memo| known.token == memo.token && known.edition >= memo.edition;
    let known = last.as_ref().and_then(|(data, _)| Memo::from_record(data));
    // The first of two requests wrote it, or a later one of this hold did.
    if known.is_some_and(|known| is_ours(&known)) {
        return Ok(Some(Noted::Written));
    }
    match own {
        Ok(Reply::Stat(stat)) if stat.czxid == node.czxid => {}
        Ok(_) | Err(Refusal::NoNode) => return Ok(Some(Noted::NotHeld)),
        Err(why) => return Err(why),
    }
    let mut requests = vec![Request::Check {
        path: node.path.clone(),
        version: -1,
    }];
    let path = path.to_owned();
    // Also if there are no bytes: a node that is made anew would have the first
    // version again.
    match last {
        Some((_, version)) => requests.push(Request::Write {
            path,
            data: memo.to_record(),
            version,
        }),
        None => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            engine.make_all(session, folder).await?;
            requests.push(Request::Create {
                path,
                data: memo.to_record(),
                mode: Mode::Persistent,
                is_private: engine.config.user.is_some(),
            });
        }
    }
    match session.ask_one(Request::Multi(requests)).await {
        Ok(_) => Ok(Some(Noted::Written)),
        Err(Refusal::NoNode | Refusal::NodeExists | Refusal::OtherVersion) => Ok(None),
        Err(why) => Err(why),
    }
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
    // ZooKeeper tells nobody what time it is.
    let kept = found.map(|(data, _)| {
        Memo::from_record(&data).ok_or_else(|| unreadable(doing()).on(&*engine.label))
    });
    Ok(Reading::of(kept.transpose()?, None))
}

type Found = Option<(Vec<u8>, i32)>;

async fn look(engine: &ZookeeperEngine, name: &Name) -> Result<Found, Refusal> {
    let looking = Looking::with(engine).await?;
    let path = engine.paths.memo(name);
    let sync = Request::Sync { path: path.clone() };
    let answered = looking.session().ask(vec![sync, data(&path)]).await?;
    let mut answered = answered.into_iter();
    let [synced, found] = [(); 2].map(|()| answered.next().unwrap_or(Err(Refusal::Garbled)));
    synced?;
    read_data(found)
}

fn data(path: &str) -> Request {
    Request::Data {
        path: path.to_owned(),
        watch: false,
    }
}

fn read_data(answer: Result<Reply, Refusal>) -> Result<Found, Refusal> {
    match answer {
        Ok(Reply::Data(data, stat)) => Ok(Some((data, stat.version))),
        Ok(_) => Err(Refusal::Garbled),
        Err(Refusal::NoNode) => Ok(None),
        Err(why) => Err(why),
    }
}
