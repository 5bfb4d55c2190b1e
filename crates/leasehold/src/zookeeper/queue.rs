//! A place in a lock's queue: taking it, looking at it, leaving it.

use super::claims::{Mine, Node};
use super::dialect::Child;
use super::fault::Refusal;
use super::session::Answered;
use super::standing::{Seen, as_the_rule_sees_it, in_order, judge, must_agree};
use super::wire::{Mode, Reply, Request};
use super::{ZookeeperEngine, doing};
use crate::clock::boot_time;
use crate::engine::{Standing, Withdrawn};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::rule;

/// How often something is tried anew because something changed meanwhile.
const ROUNDS: u32 = 20;

/// Puts the claim at the end of the queue.
pub(super) async fn enqueue(
    engine: &ZookeeperEngine,
    mine: &Mine,
    waits: bool,
) -> Result<Standing> {
    for _ in 0..ROUNDS {
        if mine.is_in_doubt() {
            find(engine, mine).await?;
        }
        if mine.node().is_some() {
            return look(engine, mine, waits).await;
        }
        // A try in vain writes nothing.
        if !waits && is_claimed(engine, mine).await? {
            return Ok(Standing::Busy);
        }
        // The list is sent behind the request for a place, without waiting for
        // its answer: the server works on them in this order.
        let requests = vec![placing(engine, mine), children(mine, false)];
        let link = mine.session().link().await;
        let link = link.map_err(|why| fault(engine, mine, why))?;
        mine.asked();
        let sent = boot_time();
        let answered = mine.session().ask_over(&link, requests).await;
        if let Err(Refusal::Unreachable(_)) = answered {
            // Nothing was sent.
            mine.stands_nowhere();
        }
        let [placed, list] = two(answered.map_err(|why| fault(engine, mine, why))?);
        match placed {
            Ok(Reply::Created { path, stat }) => {
                engine.hears_time(&stat, sent);
                mine.stands_at(Node {
                    path,
                    czxid: stat.czxid,
                });
                if stat.owner != mine.session().id {
                    return Ok(Standing::Gone);
                }
            }
            Err(Refusal::NoNode) => {
                mine.stands_nowhere();
                make_parents(engine, mine).await?;
                continue;
            }
            Err(why) => {
                mine.stands_nowhere();
                return Err(fault(engine, mine, why));
            }
            Ok(_) => return Err(fault(engine, mine, Refusal::Garbled)),
        }
        let list = read_list(list).map_err(|why| fault(engine, mine, why))?;
        return settle(engine, mine, waits, list).await;
    }
    Err(lively(engine, mine))
}

/// Says where a claim stands that is in the queue. Alive and first: one round
/// trip says both.
pub(super) async fn look(engine: &ZookeeperEngine, mine: &Mine, waits: bool) -> Result<Standing> {
    match read(engine, mine).await? {
        Some(list) => settle(engine, mine, waits, list).await,
        None => Ok(Standing::Gone),
    }
}

/// Takes a claim out of its queue.
pub(super) async fn leave(engine: &ZookeeperEngine, mine: &Mine) -> Result<Withdrawn> {
    mine.leave();
    let doing = || format!("withdraw {}", mine.claim.name);
    let left = async {
        if mine.is_in_doubt() {
            search(mine).await?;
        }
        let Some(node) = mine.node() else {
            return Ok(Withdrawn::Absent);
        };
        let was_asked = mine.deletes();
        let request = Request::Delete { path: node.path };
        match mine.session().ask_one(request).await {
            Ok(_) => Ok(Withdrawn::Removed),
            // What the first of two requests took out, the second does not find.
            Err(Refusal::NoNode) if was_asked => Ok(Withdrawn::Removed),
            Err(Refusal::NoNode) => Ok(Withdrawn::Absent),
            Err(why) => Err(why),
        }
    };
    match left.await {
        Ok(withdrawn) => {
            mine.stands_nowhere();
            Ok(withdrawn)
        }
        // Its claims went with it.
        Err(Refusal::SessionOver) => Ok(Withdrawn::Absent),
        Err(why) => Err(why.fault(doing(), &engine.label)),
    }
}

/// The claim's node, if it is there and ours, and with it the queue.
async fn read(engine: &ZookeeperEngine, mine: &Mine) -> Result<Option<Vec<String>>> {
    let Some(node) = mine.node() else {
        return Ok(None);
    };
    let own = Request::Exists {
        path: node.path,
        watch: false,
    };
    let requests = vec![own, children(mine, false)];
    let [own, list] = match mine.session().ask(requests).await {
        Ok(answered) => two(answered),
        Err(Refusal::SessionOver) => return Ok(None),
        Err(why) => return Err(fault(engine, mine, why)),
    };
    match own {
        Ok(Reply::Stat(stat)) if stat.czxid == node.czxid && stat.owner == mine.session().id => {}
        Ok(_) | Err(Refusal::NoNode) => return Ok(None),
        Err(why) => return Err(fault(engine, mine, why)),
    }
    let list = read_list(list).map_err(|why| fault(engine, mine, why))?;
    Ok(Some(list))
}

/// Acts on a list that was read with the claim in it: holds, watches what is in
/// the way, or goes.
async fn settle(
    engine: &ZookeeperEngine,
    mine: &Mine,
    waits: bool,
    mut list: Vec<String>,
) -> Result<Standing> {
    // Whether the server tells of changes to the list.
    let mut is_watched = false;
    let mut round = 1;
    loop {
        let seen = match judge(engine, mine, &list).await {
            Ok(seen) => seen,
            Err(error) if error.kind() == ErrorKind::Conflict => {
                // Nobody waits in a queue that is not for it.
                leave(engine, mine).await?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let (watch, node, ahead) = match seen {
            Seen::Held => {
                mine.hold();
                let czxid = mine.node().map_or(0, |node| node.czxid);
                let token = Token::new(czxid.unsigned_abs());
                return Ok(Standing::Held { token });
            }
            Seen::Gone => return Ok(Standing::Gone),
            Seen::Waiting(..) if !waits => {
                leave(engine, mine).await?;
                return Ok(Standing::Busy);
            }
            Seen::Waiting(watch, node, ahead) => (watch, node, ahead),
        };
        let waiting = Standing::Waiting { watch, ahead };
        if is_watched && node.is_none() {
            return Ok(waiting);
        }
        is_watched = match watch_for(engine, mine, node).await? {
            Watched::Node => return Ok(waiting),
            Watched::List(newer) => {
                list = newer;
                true
            }
            Watched::Nothing => match read(engine, mine).await? {
                Some(newer) => {
                    list = newer;
                    false
                }
                None => return Ok(Standing::Gone),
            },
        };
        if round == ROUNDS {
            // It keeps its place, and looks again at once.
            mine.bell.notify_one();
            return Ok(waiting);
        }
        round += 1;
    }
}

/// What the server will tell of.
enum Watched {
    /// The one node that is in the way.
    Node,
    /// The lock's children, which were these.
    List(Vec<String>),
    /// What was in the way is gone.
    Nothing,
}

/// Has the server tell us of a change.
async fn watch_for(engine: &ZookeeperEngine, mine: &Mine, node: Option<String>) -> Result<Watched> {
    let request = match node {
        Some(node) => {
            let path = format!("{}/{node}", mine.parent);
            mine.wait_for(&path);
            // Reading leaves no watch if the node is gone.
            Request::Data { path, watch: true }
        }
        None => {
            mine.wait_for(&mine.parent);
            children(mine, true)
        }
    };
    match mine.session().ask_one(request).await {
        Ok(Reply::Children(newer)) => Ok(Watched::List(newer)),
        Ok(_) => Ok(Watched::Node),
        Err(Refusal::NoNode | Refusal::SessionOver) => Ok(Watched::Nothing),
        // Another user's node: we are not told of it, and look now and then.
        Err(Refusal::NotAllowed) => {
            mine.wait_blindly();
            Ok(Watched::Node)
        }
        Err(why) => Err(fault(engine, mine, why)),
    }
}

/// Whether a claim that does not wait would not be granted. A follower may be
/// behind; after a `sync` it knows of every release that was answered before.
async fn is_claimed(engine: &ZookeeperEngine, mine: &Mine) -> Result<bool> {
    let list = newest_list(mine).await;
    let list = list.map_err(|why| fault(engine, mine, why))?;
    let mut places = in_order(engine, mine, &list).await?;
    must_agree(engine, mine, &places)?;
    let ours = mine.prefix.rsplit('/').next().unwrap_or_default();
    let node = format!("{ours}0000000000");
    if let Child::Claim(place) = engine.config.layout.read(&node) {
        places.push(place);
    }
    let queue = as_the_rule_sees_it(&places, mine.capacity);
    Ok(rule::holders(mine.capacity, &queue) < queue.len())
}

/// Looks for the node of a request that went unanswered.
async fn find(engine: &ZookeeperEngine, mine: &Mine) -> Result<()> {
    match search(mine).await {
        Ok(()) => Ok(()),
        Err(why) => Err(fault(engine, mine, why)),
    }
}

/// By the ticket in its name, and by the session that it goes with. A request
/// that another connection left behind is done or refused by now, since the
/// session has moved; what is done the `sync` makes this server know.
async fn search(mine: &Mine) -> Result<(), Refusal> {
    let list = newest_list(mine).await?;
    let start = mine.prefix.rsplit('/').next().unwrap_or_default();
    let Some(node) = list.iter().find(|node| node.starts_with(start)) else {
        mine.stands_nowhere();
        return Ok(());
    };
    let path = format!("{}/{node}", mine.parent);
    let request = Request::Exists {
        path: path.clone(),
        watch: false,
    };
    match mine.session().ask_one(request).await {
        Ok(Reply::Stat(stat)) if stat.owner == mine.session().id => {
            let czxid = stat.czxid;
            mine.stands_at(Node { path, czxid });
        }
        Ok(_) | Err(Refusal::NoNode) => mine.stands_nowhere(),
        Err(why) => return Err(why),
    }
    Ok(())
}

/// The queue as it is at least now.
async fn newest_list(mine: &Mine) -> Result<Vec<String>, Refusal> {
    let sync = Request::Sync {
        path: mine.parent.clone(),
    };
    let requests = vec![sync, children(mine, false)];
    let [synced, list] = two(mine.session().ask(requests).await?);
    synced?;
    match read_list(list) {
        Err(Refusal::NoNode) => Ok(Vec::new()),
        list => list,
    }
}

/// Makes the nodes above the claims, in one go from the top.
async fn make_parents(engine: &ZookeeperEngine, mine: &Mine) -> Result<()> {
    let made = engine.make_all(mine.session(), &mine.parent).await;
    match made {
        // Another server deleted one that was empty: the next round makes it.
        Ok(()) | Err(Refusal::NoNode) => Ok(()),
        Err(why) => Err(fault(engine, mine, why)),
    }
}

fn placing(engine: &ZookeeperEngine, mine: &Mine) -> Request {
    Request::Create {
        path: mine.prefix.clone(),
        data: mine.data.clone(),
        mode: Mode::EphemeralSequential,
        is_private: engine.config.user.is_some(),
    }
}

fn children(mine: &Mine, watch: bool) -> Request {
    Request::Children {
        path: mine.parent.clone(),
        watch,
    }
}

fn read_list(answer: std::result::Result<Reply, Refusal>) -> Result<Vec<String>, Refusal> {
    match answer? {
        Reply::Children(list) => Ok(list),
        _ => Err(Refusal::Garbled),
    }
}

fn two(answered: Answered) -> [Result<Reply, Refusal>; 2] {
    let mut answered = answered.into_iter();
    [(); 2].map(|()| answered.next().unwrap_or(Err(Refusal::Garbled)))
}

fn fault(engine: &ZookeeperEngine, mine: &Mine, why: Refusal) -> Error {
    why.fault(doing(&mine.claim), &engine.label)
}

/// Somebody always came between.
fn lively(engine: &ZookeeperEngine, mine: &Mine) -> Error {
    let why = "the lock's queue changes faster than it can be read";
    Error::new(ErrorKind::Unavailable, doing(&mine.claim), why).on(&*engine.label)
}
