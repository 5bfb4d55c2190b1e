//! The locks as people look at them: those who hold them. Who waits leaves no
//! trace in the store.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::super::answer::strange;
use super::super::fault::fault;
use super::super::inspect::{examine_all, owner, read_eviction};
use super::super::keys::{Hex, field, unhex};
use super::RedissonEngine;
use super::answer::foreign;
use super::keys::{Keys, PATTERN, foreign_id};
use crate::engine::{
    ClaimRef, Claimant, Finding, Inspect, Owner, Queue, Severity, TicketId, Withdrawn,
};
use crate::error::Result;
use crate::fence::Token;
use crate::name::Name;

/// How many keys one step of a scan looks at.
const STEP: u32 = 1000;

/// A lock as `lua/queue.lua` shows it.
#[derive(Debug, Default)]
struct Seen {
    /// Redisson's word for the holder.
    holder: Option<String>,
    queue: Queue,
}

#[async_trait]
impl Inspect for RedissonEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        Ok(self.look_at(name).await?.queue)
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let doing = || "list the locks".to_owned();
        let mut names = BTreeSet::new();
        for link in self.server.links() {
            let mut cursor = 0_u64;
            loop {
                let mut scan = ::redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(PATTERN);
                scan.arg("COUNT").arg(STEP);
                let page = link.ask::<(u64, Vec<Vec<u8>>)>(&scan).await;
                let (next, records) = page.map_err(|error| fault(error, doing(), &link.label))?;
                let records = records
                    .into_iter()
                    .filter_map(|key| String::from_utf8(key).ok());
                let found = records.filter_map(|key| Keys::name(&key));
                let found = found.filter(|name| name.as_str().starts_with(prefix));
                names.extend(self.alive(found.collect()).await?);
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(names.into_iter().collect())
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let links = self.server.links();
        let mut findings = examine_all(&links).await?;
        if !links.iter().all(|link| link.is_greeted()) {
            findings.push(Finding {
                severity: Severity::Warning,
                what: "the server does not tell us of changed keys: a free lock is found by \
                       asking again, and a lost one at its next renewal"
                    .into(),
                remedy: "allow CLIENT TRACKING to this user, or connect past the proxy".into(),
            });
        }
        Ok(findings)
    }
}

impl RedissonEngine {
    async fn look_at(&self, name: &Name) -> Result<Seen> {
        let doing = || format!("look at {name}");
        let keys = self.keys(name, doing)?;
        let answer: Vec<String> = self
            .server
            .run(
                &self.scripts.queue,
                &[&keys.lock, &keys.record, &keys.evictions],
                &[],
                doing,
            )
            .await?;
        if let [word, what] = &answer[..]
            && word == "foreign"
        {
            return Err(foreign(what, doing(), &self.server.label));
        }
        read(&answer).ok_or_else(|| strange(doing(), &self.server.label))
    }

    /// Breaks the hold, Redisson's too, if it is still the one that was meant.
    pub(super) async fn break_hold(
        &self,
        claim: &ClaimRef,
        by: &str,
        reason: &str,
    ) -> Result<Withdrawn> {
        let Seen { holder, queue } = self.look_at(&claim.name).await?;
        let claimant = queue.claims.first();
        let claimant = claimant.filter(|claimant| claimant.id == claim.id);
        let (Some(holder), Some(claimant)) = (holder, claimant) else {
            return Ok(Withdrawn::Absent);
        };
        let line = format!(
            "{} {} {} {} {} {} {}",
            Hex::of(claim.id.0).as_str().to_owned(),
            claimant.token.map_or(0, Token::get),
            claimant.owner.pid(),
            field(claimant.owner.host()),
            field(claimant.owner.label()),
            field(by),
            field(reason)
        );
        self.give_back(&claim.name, &holder, &line).await
    }

    async fn alive(&self, names: Vec<Name>) -> Result<Vec<Name>> {
        let key = |name: &Name| name.as_str().to_owned();
        let batches = self.server.batches(names, STEP as usize, key);
        let batches = batches.into_iter().map(|names| self.alive_batch(names));
        Ok(try_join_all(batches).await?.into_iter().flatten().collect())
    }

    async fn alive_batch(&self, names: Vec<Name>) -> Result<Vec<Name>> {
        let keys: Vec<_> = names.iter().map(Keys::of).collect();
        let keys: Vec<_> = keys
            .iter()
            .flat_map(|keys| [keys.lock.as_str(), &keys.record])
            .collect();
        let doing = || "list the locks".to_owned();
        let script = &self.scripts.alive;
        let alive: Vec<u32> = self.server.run(script, &keys, &[], doing).await?;
        let alive = names.into_iter().zip(alive);
        let alive = alive.filter(|(_, alive)| *alive == 1);
        Ok(alive.map(|(name, _)| name).collect())
    }
}

/// What `lua/queue.lua` answers.
fn read(answer: &[String]) -> Option<Seen> {
    let [now, left, holder, known, last, claim, evictions @ ..] = answer else {
        return None;
    };
    let evictions = evictions.iter().filter_map(|text| read_eviction(text));
    let evictions = evictions.collect();
    if holder.is_empty() {
        let queue = Queue {
            evictions,
            ..Queue::default()
        };
        return Some(Seen {
            holder: None,
            queue,
        });
    }
    let left = left.parse::<i64>().ok()?;
    let mut claimant = Claimant {
        id: foreign_id(holder),
        owner: Owner::seen("?", 0, format!("redisson {holder}")),
        session: None,
        is_holder: true,
        weight: 1,
        token: None,
        holder: 0,
        age: Duration::ZERO,
        time_left: Duration::from_millis(u64::try_from(left).unwrap_or(0)),
    };
    if known == holder
        && let Some(ours) = read_claim(claim, now.parse().ok()?)
    {
        claimant.id = ours.id;
        claimant.owner = ours.owner;
        claimant.holder = ours.fence;
        claimant.age = ours.age;
        claimant.token = last.parse().ok().map(Token::new);
    }
    Some(Seen {
        holder: Some(holder.clone()),
        queue: Queue {
            capacity: 1,
            claims: vec![claimant],
            evictions,
        },
    })
}

struct Ours {
    id: TicketId,
    fence: u64,
    owner: Owner,
    age: Duration,
}

/// `since fence ticket pid host label`
fn read_claim(text: &str, now: u64) -> Option<Ours> {
    let fields: Vec<_> = text.split(' ').collect();
    let [since, fence, ticket, pid, host, label] = fields[..] else {
        return None;
    };
    Some(Ours {
        id: unhex(ticket)?,
        fence: fence.parse().ok()?,
        owner: owner(host, pid, label)?,
        age: Duration::from_millis(now.saturating_sub(since.parse().ok()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(words: [&str; 6]) -> Seen {
        let answer: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        read(&answer).unwrap()
    }

    #[test]
    fn a_holder_of_ours_is_shown_with_its_owner_and_one_of_redisson_by_its_word() {
        let claim = "1000 7 0a 42 my%20host me";
        let ours = seen(["3000", "500", "us:1", "us:1", "64", claim]);
        let claimant = &ours.queue.claims[0];
        assert_eq!(claimant.owner.to_string(), "my host:42 (me)");
        assert_eq!(claimant.token, Some(Token::new(64)));
        assert_eq!(claimant.age, Duration::from_secs(2));
        assert_eq!(ours.holder, Some("us:1".into()));
        // Our record is left over from before.
        let theirs = seen(["3000", "500", "them:1", "us:1", "64", claim]);
        let claimant = &theirs.queue.claims[0];
        assert_eq!(claimant.owner.to_string(), "?:0 (redisson them:1)");
        assert_eq!((claimant.token, claimant.id), (None, foreign_id("them:1")));
        let free = seen(["3000", "-2", "", "us:1", "64", claim]);
        assert!(free.queue.claims.is_empty() && free.holder.is_none());
        assert!(read(&[]).is_none());
    }
}
