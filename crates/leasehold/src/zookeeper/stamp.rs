//! Whether a writer came: by what the server itself counts of a lock's children,
//! which every claim that comes or goes changes.

use super::ZookeeperEngine;
use super::dialect::Child;
use super::fault::Refusal;
use super::inspect::Looking;
use super::session::Session;
use super::wire::{Mode, Reply, Request};
use crate::engine::Mark;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::rule::{UNBOUNDED, is_writer};

/// How often it is tried anew because the lock's node had to be made first.
const ROUNDS: u32 = 5;

/// The lock's mark; none if there is a writer.
pub(super) async fn stamp(engine: &ZookeeperEngine, name: &Name) -> Result<Option<Mark>> {
    let doing = || format!("read {name} without a lock");
    if let Some(why) = engine.paths.refusal(name) {
        return Err(Error::new(ErrorKind::Usage, doing(), why).on(&*engine.label));
    }
    let mut seen = look(engine, name).await;
    for _ in 0..2 {
        if matches!(&seen, Err(why) if why.is_of_the_connection()) {
            seen = look(engine, name).await;
        }
    }
    seen.map_err(|why| why.fault(doing(), &engine.label))
}

async fn look(engine: &ZookeeperEngine, name: &Name) -> Result<Option<Mark>, Refusal> {
    let looking = Looking::with(engine).await?;
    let path = engine.paths.lock(name);
    for _ in 0..ROUNDS {
        let requests = vec![
            Request::Sync { path: path.clone() },
            // Before the list: whoever comes between the two is in the list, or
            // has changed the count by the next time.
            Request::Exists {
                path: path.clone(),
                watch: false,
            },
            Request::Children {
                path: path.clone(),
                watch: false,
            },
        ];
        let mut answered = looking.session().ask(requests).await?.into_iter();
        let [synced, node, list] =
            [(); 3].map(|()| answered.next().unwrap_or(Err(Refusal::Garbled)));
        synced?;
        match (node, list) {
            (Ok(Reply::Stat(stat)), Ok(Reply::Children(list))) => {
                let writes = |node: &String| has_writer(engine, node);
                let (made, last, count) = (stat.czxid, stat.pzxid, stat.child_changes);
                let mark = Mark(format!("{made} {last} {count}"));
                return Ok((!list.iter().any(writes)).then_some(mark));
            }
            // Where there is no node nothing counts.
            (Err(Refusal::NoNode), _) | (_, Err(Refusal::NoNode)) => {
                engine.make_all(looking.session(), &path).await?;
                be_used(engine, looking.session(), &path).await?;
            }
            (Err(why), _) | (_, Err(why)) => return Err(why),
            _ => return Err(Refusal::Garbled),
        }
    }
    Ok(None)
}

/// Makes a child and deletes it, in one step that nobody sees: the server deletes an
/// empty container only if it ever had one.
async fn be_used(engine: &ZookeeperEngine, session: &Session, path: &str) -> Result<(), Refusal> {
    let child = format!("{path}/stamp");
    let make = Request::Create {
        path: child.clone(),
        data: Vec::new(),
        mode: Mode::Persistent,
        is_private: engine.config.user.is_some(),
    };
    let request = Request::Multi(vec![make, Request::Delete { path: child }]);
    match session.ask_one(request).await {
        // It was deleted before that; or a lock of that name lies below, and so it has one.
        Ok(_) | Err(Refusal::NoNode | Refusal::NodeExists) => Ok(()),
        Err(why) => Err(why),
    }
}

fn has_writer(engine: &ZookeeperEngine, node: &str) -> bool {
    match engine.config.layout.read(node) {
        Child::Claim(place) => is_writer(UNBOUNDED, place.sort.weight(UNBOUNDED)),
        // Nobody knows what it would let in.
        Child::Mixed => true,
        Child::Other => false,
    }
}
