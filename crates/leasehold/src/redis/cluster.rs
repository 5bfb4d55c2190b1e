//! A cluster: which of its masters has which slot, and a link to each.
//!
//! Every master gets a link of its own with a subscription of its own, so that
//! a grant comes from the server that made it and not through the bus between
//! the nodes, whose gaps nobody could see from here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{Cmd, ErrorKind as RedisKind, FromRedisValue, RedisError, ServerErrorKind, Value};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::link::{Common, Link};
use super::lock;
use super::place::Host;
use super::server::{Doer, Request};
use super::way::Way;
use crate::clock::{Moment, boot_time};

/// How often one request is sent on to another node.
const REDIRECTIONS: u32 = 8;
/// How long to wait for keys that are just being moved, some here, some there;
/// and how often.
const MOVING: Duration = Duration::from_millis(20);
const MOVES: u32 = 100;
/// How old the map must be before trouble makes us ask for a new one.
const STALE: Duration = Duration::from_millis(100);

pub(super) struct Cluster {
    seeds: Vec<Host>,
    common: Arc<Common>,
    map: Mutex<Map>,
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Map {
    links: HashMap<Host, Arc<Link>>,
    /// By the last slot of each range: its first slot, and who has it.
    ranges: BTreeMap<u16, (u16, Host)>,
    learned: Option<Moment>,
}

impl Cluster {
    /// Asks the first node that answers for all the others.
    pub(super) async fn connect(seeds: Vec<Host>, common: Arc<Common>) -> Result<Self, RedisError> {
        let cluster = Self {
            seeds,
            common,
            map: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        };
        cluster.learn().await?;
        Ok(cluster)
    }

    /// The links to all masters that have slots.
    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        let map = lock(&self.map);
        let hosts: BTreeSet<_> = map.ranges.values().map(|(_, host)| host).collect();
        let links = hosts.into_iter().filter_map(|host| map.links.get(host));
        links.cloned().collect()
    }

    /// The link to the master that has the key, as far as we know; any if we
    /// do not, for it tells us.
    pub(super) fn link(&self, key: &str) -> Option<Arc<Link>> {
        let slot = slot(key);
        let map = lock(&self.map);
        let owner = map.ranges.range(slot..).next();
        let owner = owner.filter(|(_, (first, _))| *first <= slot);
        let owner = owner.and_then(|(_, (_, host))| map.links.get(host));
        owner.or_else(|| map.links.values().next()).cloned()
    }

    /// Sends the request to the master that has the key, wherever that is now.
    pub(super) async fn send<T: FromRedisValue>(
        &self,
        key: &str,
        request: &Request<'_>,
    ) -> Result<(T, Doer), RedisError> {
        let nowhere = || RedisError::from((RedisKind::Io, "no master of the cluster is known"));
        let mut link = self.link(key).ok_or_else(nowhere)?;
        let mut anyway = false;
        let (mut redirections, mut moves) = (0, 0);
        while redirections < REDIRECTIONS && moves < MOVES {
            let error = match request.send::<T>(&link, anyway).await {
                Ok((answer, number)) => return Ok((answer, Doer { link, number })),
                Err(error) => error,
            };
            anyway = false;
            let redirected = error.redirect_node();
            let target = redirected.and_then(|(address, _)| Host::of_address(address));
            match (error.kind(), target) {
                (RedisKind::Server(ServerErrorKind::Moved), target) => {
                    let _ = self.learn_if_stale().await;
                    // A node that has no name for the other says only the port.
                    link = match target {
                        Some(target) => self.link_to(&target),
                        None => self.link(key).unwrap_or(link),
                    };
                    redirections += 1;
                }
                (RedisKind::Server(ServerErrorKind::Ask), Some(target)) => {
                    anyway = true;
                    link = self.link_to(&target);
                    redirections += 1;
                }
                (RedisKind::Server(ServerErrorKind::TryAgain), _) => {
                    tokio::time::sleep(MOVING).await;
                    // The rest may have been moved meanwhile.
                    link = self.link(key).unwrap_or(link);
                    moves += 1;
                }
                _ => {
                    // Its replica may be the master by now. Whoever asked asks
                    // again: what became of the request is not known.
                    let _ = self.learn_if_stale().await;
                    return Err(error);
                }
            }
        }
        let why = "the cluster is moving this lock for too long";
        Err((RedisKind::Io, why).into())
    }

    fn link_to(&self, host: &Host) -> Arc<Link> {
        let mut map = lock(&self.map);
        let number = map.links.len();
        map.links
            .entry(host.clone())
            .or_insert_with(|| self.new_link(number, host))
            .clone()
    }

    fn new_link(&self, number: usize, host: &Host) -> Arc<Link> {
        let label = format!("redis cluster node {host}");
        Link::new(number, Way::Host(host.clone()), label, self.common.clone())
    }

    pub(super) async fn learn_if_stale(&self) -> Result<(), RedisError> {
        let asked = boot_time();
        let _turn = self.asking.lock().await;
        let learned = lock(&self.map).learned;
        if learned.is_some_and(|learned| learned >= asked || boot_time().since(learned) < STALE) {
            return Ok(());
        }
        self.learn().await
    }

    /// Learns who has which slot.
    async fn learn(&self) -> Result<(), RedisError> {
        let known = self.links().into_iter();
        let seeds = self.seeds.iter().map(|seed| self.link_to(seed));
        let mut last = None;
        let mut question = Cmd::new();
        question.arg("CLUSTER").arg("SLOTS");
        // All at once: one that hangs must not use up the time of the others.
        let ask = |link: Arc<Link>| {
            let question = &question;
            async move { (link.ask::<Value>(question).await, link) }
        };
        let mut answers: FuturesUnordered<_> = known.chain(seeds).map(ask).collect();
        while let Some((answer, link)) = answers.next().await {
            match answer {
                Ok(answer) => match read_slots(&answer, link.host()) {
                    Some(ranges) if !ranges.is_empty() => {
                        self.take_over(ranges);
                        return Ok(());
                    }
                    _ => {
                        let why = "CLUSTERDOWN the cluster has no slots".to_owned();
                        last.get_or_insert_with(|| (RedisKind::Io, "no slots", why).into());
                    }
                },
                Err(error) => {
                    last.get_or_insert(error);
                }
            }
        }
        let nowhere = || (RedisKind::Io, "no node of the cluster is known").into();
        Err(last.unwrap_or_else(nowhere))
    }

    fn take_over(&self, ranges: BTreeMap<u16, (u16, Host)>) {
        let mut map = lock(&self.map);
        let is_new = map.ranges != ranges;
        let is_first = map.ranges.is_empty();
        map.ranges = ranges;
        map.learned = Some(boot_time());
        let hosts: Vec<_> = map.ranges.values().map(|(_, host)| host.clone()).collect();
        // Old links stay, so that no number is given twice.
        for host in &hosts {
            let number = map.links.len();
            map.links
                .entry(host.clone())
                .or_insert_with(|| self.new_link(number, host));
        }
        drop(map);
        if is_new && !is_first {
            // Another master may not have what the one before it had.
            self.common.ears.missed();
        }
    }
}

/// The slot of a key: of the part in braces, if there is one.
pub(super) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| {
        let (tag, _) = rest.split_once('}')?;
        (!tag.is_empty()).then_some(tag)
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key).as_bytes()) % 16384
}

/// What `CLUSTER SLOTS` answers. A node that does not know its own name leaves
/// it out; then it is the one we asked.
fn read_slots(answer: &Value, asked: Option<&Host>) -> Option<BTreeMap<u16, (u16, Host)>> {
    let Value::Array(ranges) = answer else {
        return None;
    };
    let read = |range: &Value| {
        let Value::Array(parts) = range else {
            return None;
        };
        let [
            Value::Int(first),
            Value::Int(last),
            Value::Array(master),
            ..,
        ] = &parts[..]
        else {
            return None;
        };
        let [name, Value::Int(port), ..] = &master[..] else {
            return None;
        };
        let name = match name {
            Value::BulkString(name) if !name.is_empty() => String::from_utf8(name.clone()).ok()?,
            _ => asked?.name.clone(),
        };
        let port = u16::try_from(*port).ok()?;
        let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
        Some((last, (first, Host { name, port })))
    };
    ranges.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_that_of_the_part_in_braces() {
        // As `CLUSTER KEYSLOT` says.
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("lh:{foo}:q"), 12182);
        assert_eq!(slot("{}foo"), slot("{}foo"));
        assert_ne!(slot("{}foo"), 12182);
    }

    #[test]
    fn a_nameless_master_is_the_one_that_was_asked() {
        let node = |name: Value| Value::Array(vec![name, Value::Int(7000)]);
        let range =
            |first, last, name| Value::Array(vec![Value::Int(first), Value::Int(last), node(name)]);
        let named = Value::BulkString(b"10.0.0.2".to_vec());
        let answer = Value::Array(vec![range(0, 99, Value::Nil), range(100, 16383, named)]);
        let asked = Host {
            name: "10.0.0.1".into(),
            port: 7000,
        };
        let ranges = read_slots(&answer, Some(&asked)).unwrap();
        assert_eq!(ranges[&99], (0, asked));
        assert_eq!(ranges[&16383].1.name, "10.0.0.2");
    }
}
