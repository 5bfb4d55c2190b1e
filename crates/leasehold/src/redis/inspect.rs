//! The server as people look at it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::RedisEngine;
use super::answer::strange;
use super::fault::fault;
use super::fit::value;
use super::keys::{Keys, pattern, unfield, unhex};
use super::link::Link;
use crate::clock::wall_time;
use crate::engine::{Claimant, Eviction, Finding, Inspect, LeaseId, Owner, Queue, Severity};
use crate::error::Result;
use crate::fence::Token;
use crate::name::Name;
use crate::rule;

/// How many keys one step of a scan looks at.
const STEP: u32 = 1000;
/// How far the server's clock may be off before we say so.
const OFF: Duration = Duration::from_secs(1);

#[async_trait]
impl Inspect for RedisEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let keys = Keys::of(name);
        let doing = || format!("look at {name}");
        let answer: Vec<String> = self
            .server
            .run(&self.scripts.queue, &keys.all(), &[], doing)
            .await?;
        read_queue(&answer).ok_or_else(|| strange(doing(), &self.server.label))
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let doing = || "list the locks".to_owned();
        let (pattern, mut names) = (pattern(prefix), BTreeSet::new());
        for link in self.server.links() {
            let mut cursor = 0_u64;
            loop {
                let mut scan = ::redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern);
                scan.arg("COUNT").arg(STEP);
                let page = link.ask::<(u64, Vec<Vec<u8>>)>(&scan).await;
                let (next, locks) = page.map_err(|error| fault(error, doing(), &link.label))?;
                let locks = locks
                    .into_iter()
                    .filter_map(|key| String::from_utf8(key).ok());
                let locks = locks.filter_map(|key| Keys::name(&key));
                let found: Vec<_> = locks
                    .filter(|name| name.as_str().starts_with(prefix))
                    .collect();
                names.extend(self.alive(found).await?);
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(names.into_iter().collect())
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        examine_all(&self.server.links()).await
    }
}

/// Who holds the lock, by a master that has its witnesses.
pub(super) async fn holders(engine: &RedisEngine, name: &Name) -> Result<Vec<u64>> {
    let keys = Keys::of(name);
    let doing = || format!("see who holds {name}");
    let (answer, doer): (Vec<String>, _) = engine
        .server
        .run_noting(&engine.scripts.holders, &keys.all(), &[], doing)
        .await?;
    engine.server.confirm(&doer, keys.lock(), doing).await?;
    let queue = read_queue(&answer).ok_or_else(|| strange(doing(), &engine.server.label))?;
    Ok(queue.holder_ids())
}

/// Whether these servers are fit for locks.
pub(super) async fn examine_all(links: &[Arc<Link>]) -> Result<Vec<Finding>> {
    let mut all = Vec::new();
    for link in links {
        for mut finding in examine(link).await? {
            if links.len() > 1 {
                finding.what = format!("{}: {}", link.label, finding.what);
            }
            all.push(finding);
        }
    }
    Ok(all)
}

async fn examine(link: &Link) -> Result<Vec<Finding>> {
    let wrong = |error| fault(error, "examine".into(), &link.label);
    let info: String = link.ask(&::redis::cmd("INFO")).await.map_err(wrong)?;
    let time = link.ask::<(u64, u32)>(&::redis::cmd("TIME")).await;
    let (seconds, micros) = time.map_err(wrong)?;
    let theirs = Duration::new(seconds, micros.saturating_mul(1000));
    Ok(findings(&info, wall_time(), theirs))
}

impl RedisEngine {
    async fn alive(&self, names: Vec<Name>) -> Result<Vec<Name>> {
        let key = |name: &Name| Keys::of(name).lock().to_owned();
        let batches = self.server.batches(names, STEP as usize, key);
        let batches = batches.into_iter().map(|names| self.alive_batch(names));
        Ok(try_join_all(batches).await?.into_iter().flatten().collect())
    }

    async fn alive_batch(&self, names: Vec<Name>) -> Result<Vec<Name>> {
        let keys: Vec<_> = names.iter().map(Keys::of).collect();
        let keys: Vec<_> = keys.iter().flat_map(Keys::three).collect();
        let doing = || "list the locks".to_owned();
        let script = &self.scripts.alive;
        let alive: Vec<u32> = self.server.run(script, &keys, &[], doing).await?;
        let alive = names
            .into_iter()
            .zip(alive)
            .filter(|(_, alive)| *alive == 1);
        Ok(alive.map(|(name, _)| name).collect())
    }
}

/// What `lua/queue.lua` answers.
fn read_queue(answer: &[String]) -> Option<Queue> {
    let [now, capacity, count, rest @ ..] = answer else {
        return None;
    };
    let (now, count) = (now.parse().ok()?, count.parse::<usize>().ok()?);
    let (claims, evictions) = rest.split_at_checked(count.checked_mul(2)?)?;
    let capacity = match count {
        0 => 0,
        _ => capacity.parse().ok()?,
    };
    let claims: Option<Vec<_>> = claims
        .chunks_exact(2)
        .map(|pair| read_claim(&pair[0], &pair[1], now))
        .collect();
    let mut claims = claims?;
    let queue: Vec<_> = claims.iter().map(|(claim, _)| *claim).collect();
    for (claim, claimant) in &mut claims[..rule::holders(capacity, &queue)] {
        claimant.is_holder = true;
        claimant.token = Some(Token::new(claim.order));
    }
    Some(Queue {
        capacity,
        claims: claims.into_iter().map(|(_, claimant)| claimant).collect(),
        evictions: evictions
            .iter()
            .filter_map(|text| read_eviction(text))
            .collect(),
    })
}

/// `order expires since lease capacity weight holder pid host label`
fn read_claim(ticket: &str, record: &str, now: u64) -> Option<(rule::Claim, Claimant)> {
    let fields: Vec<_> = record.split(' ').collect();
    let [
        order,
        expires,
        since,
        lease,
        _capacity,
        weight,
        holder,
        pid,
        host,
        label,
    ] = fields[..]
    else {
        return None;
    };
    let expires: u64 = expires.parse().ok()?;
    let since = since.parse::<u64>().ok()? / 1000;
    let weight = weight.parse().ok()?;
    let order = order.parse().ok()?;
    let claimant = Claimant {
        id: unhex(ticket)?,
        owner: owner(host, pid, label)?,
        session: unhex(lease).map(|id| LeaseId(id.0)),
        is_holder: false,
        weight,
        token: None,
        holder: holder.parse().ok()?,
        age: Duration::from_millis(now.saturating_sub(since)),
        time_left: Duration::from_millis(expires.saturating_sub(now)),
    };
    Some((rule::Claim { order, weight }, claimant))
}

/// `at ticket order pid host label by reason`
pub(super) fn read_eviction(text: &str) -> Option<Eviction> {
    let fields: Vec<_> = text.split(' ').collect();
    let [at, _ticket, order, pid, host, label, by, reason] = fields[..] else {
        return None;
    };
    Some(Eviction {
        owner: owner(host, pid, label)?,
        token: Token::new(order.parse().ok()?),
        by: unfield(by),
        reason: unfield(reason),
        at: Duration::from_millis(at.parse().ok()?),
    })
}

pub(super) fn owner(host: &str, pid: &str, label: &str) -> Option<Owner> {
    Some(Owner::seen(
        unfield(host),
        pid.parse().ok()?,
        unfield(label),
    ))
}

/// Whether the server is fit for locks.
fn findings(info: &str, ours: Duration, theirs: Duration) -> Vec<Finding> {
    let finding = |severity, what: String, remedy: &str| Finding {
        severity,
        what,
        remedy: remedy.to_owned(),
    };
    let version = value(info, "redis_version").unwrap_or("of an unknown version");
    let mut findings = vec![finding(Severity::Fine, format!("Redis {version}"), "")];
    let policy = value(info, "maxmemory_policy").unwrap_or("noeviction");
    let is_bounded = value(info, "maxmemory").is_some_and(|bytes| bytes != "0");
    if policy != "noeviction" {
        // Every key of ours has a time to live, so the volatile policies too
        // may choose it.
        let severity = if is_bounded {
            Severity::Unfit
        } else {
            Severity::Warning
        };
        let what = format!("maxmemory-policy is {policy}: the server may drop locks that are held");
        findings.push(finding(
            severity,
            what,
            "set maxmemory-policy to noeviction",
        ));
    }
    if value(info, "aof_enabled") == Some("0") {
        let what = "no append-only file: a restart of the server frees all locks, held ones too";
        findings.push(finding(
            Severity::Warning,
            what.into(),
            "set appendonly to yes, and appendfsync to always to survive a power loss; or check tokens at the resource",
        ));
    }
    let replicas = value(info, "connected_slaves").unwrap_or("0");
    if replicas != "0" {
        let what =
            format!("{replicas} replicas: a failover can forget the last claims, and two may hold");
        findings.push(finding(
            Severity::Warning,
            what,
            "check tokens at the resource",
        ));
    }
    let off = ours.abs_diff(theirs);
    if off > OFF {
        let what = format!("the server's clock and ours are {} s apart", off.as_secs());
        findings.push(finding(
            Severity::Warning,
            what,
            "locks do not mind; tokens after a loss of all keys go by the server's clock",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_read_back_with_its_holders() {
        let claim = |order: u32| format!("{order:016} 9000 1000000 ab 1 1 7 42 my%20host me");
        let ticket = |number: u32| format!("{number:032x}");
        let answer = ["2000", "1", "2"].map(String::from);
        let claims = [ticket(1), claim(32), ticket(2), claim(64)];
        let broken = ["1500 01 16 9 host  ann too%20long".to_owned()];
        let queue = read_queue(&[&answer[..], &claims, &broken].concat()).unwrap();
        assert_eq!(queue.holders().count(), 1);
        assert_eq!(queue.claims[0].token, Some(Token::new(32)));
        assert_eq!(queue.claims[1].owner.to_string(), "my host:42 (me)");
        assert_eq!(queue.claims[1].time_left, Duration::from_secs(7));
        assert_eq!(queue.evictions[0].reason, "too long");
        assert!(read_queue(&answer).is_none());
    }

    #[test]
    fn dangerous_settings_are_named() {
        let info = "redis_version:7.0.15\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:0\r\nconnected_slaves:2\r\n";
        let hour = Duration::from_secs(3600);
        let found = findings(info, hour, hour * 2);
        let texts: Vec<_> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(found[1].severity, Severity::Unfit);
        for (text, part) in texts.iter().zip([
            "7.0.15",
            "allkeys-lru",
            "append-only",
            "2 replicas",
            "3600 s",
        ]) {
            assert!(text.contains(part), "{text}");
        }
        let good = "maxmemory_policy:noeviction\r\naof_enabled:1\r\nconnected_slaves:0\r\n";
        assert_eq!(findings(good, hour, hour).len(), 1);
    }
}
