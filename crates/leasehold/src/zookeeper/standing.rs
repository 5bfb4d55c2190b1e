//! What a list of a lock's children says: who is in the queue, in which order,
//! and whether we hold.

use super::claims::Mine;
use super::dialect::{Child, Place};
use super::fault::Refusal;
use super::wire::{Reply, Request};
use super::{ZookeeperEngine, conflict, doing};
use crate::engine::Watch;
use crate::error::Result;
use crate::rule::{self, Verdict};

/// What a look at the queue says.
pub(super) enum Seen {
    Held,
    /// The node to watch, if one alone is in the way.
    Waiting(Watch, Option<String>, u32),
    Gone,
}

/// Where a claim stands by a list that was read with it.
pub(super) async fn judge(engine: &ZookeeperEngine, mine: &Mine, list: &[String]) -> Result<Seen> {
    let places = in_order(engine, mine, list).await?;
    let own = mine.node().map(|node| node.path).unwrap_or_default();
    let is_own = |place: &Place| own.rsplit('/').next() == Some(place.node.as_str());
    let Some(at) = places.iter().position(is_own) else {
        return Ok(Seen::Gone);
    };
    if at > 0 {
        must_agree(engine, mine, &places)?;
    }
    let queue = as_the_rule_sees_it(&places, mine.capacity);
    let verdict = rule::verdict(mine.capacity, &queue, queue[at].order);
    Ok(match verdict {
        None => Seen::Gone,
        Some(Verdict::Held) => Seen::Held,
        Some(Verdict::Waiting(watch)) => {
            let one = match watch {
                Watch::One(order) => queue.iter().position(|claim| claim.order == order),
                Watch::Any => None,
            };
            let node = one.map(|one| places[one].node.clone());
            Seen::Waiting(watch, node, u32::try_from(at).unwrap_or(u32::MAX))
        }
    })
}

/// The claims in order. The rule only compares orders, so places in the list
/// will do.
pub(super) fn as_the_rule_sees_it(places: &[Place], capacity: u32) -> Vec<rule::Claim> {
    let claim = |(order, place): (u64, &Place)| rule::Claim {
        order,
        weight: place.sort.weight(capacity),
    };
    (1..).zip(places).map(claim).collect()
}

/// The claims among a lock's children, in order of arrival.
pub(super) async fn in_order(
    engine: &ZookeeperEngine,
    mine: &Mine,
    list: &[String],
) -> Result<Vec<Place>> {
    let mut places = places(engine, mine, list)?;
    if Place::are_ordered(&places) {
        Place::sort(&mut places);
        return Ok(places);
    }
    let request = |place: &Place| Request::Exists {
        path: format!("{}/{}", mine.parent, place.node),
        watch: false,
    };
    let answered = mine.session().ask(places.iter().map(request).collect());
    let answered = answered
        .await
        .map_err(|why| why.fault(doing(&mine.claim), &engine.label))?;
    let mut made = Vec::with_capacity(places.len());
    for (place, answer) in places.into_iter().zip(answered) {
        match answer {
            Ok(Reply::Stat(stat)) => made.push((stat.czxid, place)),
            Ok(_) | Err(Refusal::NoNode) => {}
            Err(why) => return Err(why.fault(doing(&mine.claim), &engine.label)),
        }
    }
    made.sort_unstable_by_key(|(czxid, _)| *czxid);
    Ok(made.into_iter().map(|(_, place)| place).collect())
}

/// The claims among a lock's children, in no order. Some that another
/// program would not see, or that would not see ours, are told of.
fn places(engine: &ZookeeperEngine, mine: &Mine, list: &[String]) -> Result<Vec<Place>> {
    let layout = engine.config.layout;
    let (mut places, mut mixed) = (Vec::with_capacity(list.len()), Vec::new());
    for node in list {
        match layout.read(node) {
            Child::Claim(place) => places.push(place),
            Child::Mixed => mixed.push(node.as_str()),
            Child::Other => {}
        }
    }
    if !mixed.is_empty() {
        let more = mixed.len().saturating_sub(3);
        mixed.truncate(3);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let nodes = mixed.join(", ");
        let why = format!(
            "mixed dialects: {nodes}{more} below {} would not see our claim, nor we theirs; use \
             one layout, or another name",
            mine.parent
        );
        return Err(conflict(engine, mine, why));
    }
    Ok(places)
}

/// Whoever is first says what kind of lock it is.
pub(super) fn must_agree(engine: &ZookeeperEngine, mine: &Mine, places: &[Place]) -> Result<()> {
    let Some(first) = places.first() else {
        return Ok(());
    };
    let used = first.sort.capacity(engine.config.layout, mine.capacity);
    if used == mine.capacity {
        return Ok(());
    }
    let why = rule::mismatch(mine.capacity, used);
    Err(conflict(engine, mine, why))
}
