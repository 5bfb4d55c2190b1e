//! The cluster as people look at it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::fault::CONNECT;
use super::keys::{self, Range};
use super::members::{Answered, Members};
use super::record::{self, Broken, Record};
use super::request::{all, created_at, delete, look, one, put};
use super::wire::{
    KeyValue, LeaseGrantRequest, LeaseGrantResponse, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse,
    TxnRequest, TxnResponse,
};
use super::{EtcdEngine, TXN, is_lease_gone, mutex, random_number, seconds};
use crate::clock::wall_time;
use crate::engine::{
    ClaimRef, Claimant, Eviction, Finding, Inspect, LeaseId, Queue, Severity, Withdrawn,
};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;
use crate::rule;

const STATUS: &str = "/etcdserverpb.Maintenance/Status";
/// How many keys one step of a listing reads.
const STEP: i64 = 5000;
/// How long the note on a broken lock is kept.
const REMEMBERED: i64 = 7 * 24 * 60 * 60;
/// How many of them are shown.
const EVICTIONS: usize = 100;

#[async_trait]
impl Inspect for EtcdEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let doing = || format!("look at {name}");
        let (kvs, broken) = self.read(name, doing).await?;
        let (claims, capacity, held) = in_order(&kvs);
        let left = self
            .time_left(claims.iter().map(|(kv, _)| kv.lease))
            .await?;
        let claims = claims.into_iter().enumerate().map(|(at, (kv, record))| {
            let order = kv.create_revision.unsigned_abs();
            Claimant {
                id: record.id,
                is_holder: at < held,
                weight: record.weight,
                token: (at < held).then(|| Token::new(order)),
                holder: record.holder,
                age: match record.is_foreign {
                    true => Duration::ZERO,
                    false => wall_time().saturating_sub(record.since),
                },
                time_left: left.get(&kv.lease).copied().unwrap_or_default(),
                owner: record.owner,
                // A claim of others may have none.
                session: (kv.lease != 0).then(|| LeaseId(kv.lease.unsigned_abs().into())),
            }
        });
        let mut broken: Vec<_> = broken
            .iter()
            .filter_map(|kv| Broken::read(&kv.value))
            .collect();
        broken.sort_unstable_by_key(|broken| std::cmp::Reverse((broken.at, broken.revision)));
        broken.truncate(EVICTIONS);
        Ok(Queue {
            capacity,
            claims: claims.collect(),
            evictions: broken.into_iter().map(as_eviction).collect(),
        })
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let mut names = BTreeSet::new();
        self.each_key(Range::below(prefix), |kv| {
            names.extend(keys::read_mutex(&kv.key, kv.lease));
        })
        .await?;
        self.each_key(keys::shared_names(prefix), |kv| {
            names.extend(keys::read_shared(&kv.key).map(|(name, _)| name));
        })
        .await?;
        let fits = |name: &Name| name.as_str().starts_with(prefix);
        Ok(names.into_iter().filter(fits).collect())
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let ask = |member| self.members.ask_member(member, STATUS, StatusRequest {});
        let answers = join_all((0..self.members.count()).map(ask)).await;
        let mut findings = Vec::new();
        for (member, answer) in answers.into_iter().enumerate() {
            let label = self.members.label_of(member);
            match answer {
                Ok(status) => findings.extend(judge(label, &status)),
                Err(status) => findings.push(Finding {
                    severity: Severity::Warning,
                    what: format!("{label} does not answer: {}", status.message()),
                    remedy: "look after it: one more, and the rest may be too few".into(),
                }),
            }
        }
        if self.members.count() == 1 {
            findings.push(Finding {
                severity: Severity::Warning,
                what: "one member is named: while it is down, nothing can be locked".into(),
                remedy: "name three, on three machines".into(),
            });
        }
        Ok(findings)
    }
}

/// Who holds the lock. The leases are not looked at: a claim goes with its own.
pub(super) async fn holders(engine: &EtcdEngine, name: &Name) -> Result<Vec<u64>> {
    let doing = || format!("see who holds {name}");
    let (kvs, _) = engine.read(name, doing).await?;
    let (claims, _, held) = in_order(&kvs);
    Ok(claims[..held]
        .iter()
        .map(|(_, record)| record.holder)
        .collect())
}

/// The claims in order, the capacity, and how many hold.
fn in_order(kvs: &[KeyValue]) -> (Vec<(&KeyValue, Record)>, u32, usize) {
    let mut claims: Vec<_> = kvs.iter().map(|kv| (kv, Record::of(kv))).collect();
    claims.sort_unstable_by_key(|(kv, _)| kv.create_revision);
    let capacity = claims.first().map_or(0, |(_, record)| record.capacity);
    let queue: Vec<_> = claims.iter().map(as_the_rule_sees_it).collect();
    let held = rule::holders(capacity, &queue);
    (claims, capacity, held)
}

fn as_the_rule_sees_it((kv, record): &(&KeyValue, Record)) -> rule::Claim {
    rule::Claim {
        order: kv.create_revision.unsigned_abs(),
        weight: record.weight,
    }
}

fn as_eviction(broken: Broken) -> Eviction {
    Eviction {
        owner: broken.owner,
        token: Token::new(broken.revision),
        by: broken.by,
        reason: broken.reason,
        at: broken.at,
    }
}

fn judge(label: &str, status: &StatusResponse) -> Vec<Finding> {
    let finding = |severity, what: String, remedy: &str| Finding {
        severity,
        what,
        remedy: remedy.to_owned(),
    };
    let what = format!("{label}: etcd {}", status.version);
    let mut findings = vec![finding(Severity::Fine, what, "")];
    if status.leader == 0 {
        let what = format!("{label} has no leader: nothing can be locked through it");
        findings.push(finding(
            Severity::Unfit,
            what,
            "start a majority of the members",
        ));
    }
    if status.is_learner {
        let what = format!("{label} is a learner: it takes no requests");
        findings.push(finding(Severity::Warning, what, "name the voting members"));
    }
    for error in &status.errors {
        let what = format!("{label} says: {error}");
        let remedy = "until this is mended it may refuse every write";
        findings.push(finding(Severity::Unfit, what, remedy));
    }
    findings
}

/// Refuses a server that is too old, or that does not let us look at our own
/// keys.
pub(super) async fn must_fit(members: &Members) -> Result<()> {
    let doing = || CONNECT.to_owned();
    let probe = look([one(&keys::inbox(0))]);
    let (status, probed) = tokio::join!(
        members.ask(STATUS, &StatusRequest {}, doing),
        members.ask(TXN, &probe, doing),
    );
    let (status, TxnResponse { .. }): (StatusResponse, _) = (status?, probed?);
    if is_too_old(&status.version) {
        let why = format!("etcd {}; 3.4 or newer is needed", status.version);
        return Err(Error::new(ErrorKind::Config, CONNECT, why).on(&*members.label));
    }
    Ok(())
}

/// Whether this version lacks what we need. One that we cannot read is not old.
fn is_too_old(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (3, 4),
        _ => false,
    }
}

impl EtcdEngine {
    /// The claims on a lock of any kind, and the notes on broken ones.
    async fn read(
        &self,
        name: &Name,
        doing: impl Fn() -> String,
    ) -> Result<(Vec<KeyValue>, Vec<KeyValue>)> {
        let range = keys::mutex(name);
        let reads = [
            all(&range, 0),
            all(&keys::shared(name), 0),
            all(&keys::broken(name), 0),
        ];
        let answer = self.transact(&look(reads), doing).await?;
        let mut reads = answer.into_reads().map(|read| read.kvs);
        let [mut claims, shared, broken] = [(); 3].map(|()| reads.next().unwrap_or_default());
        claims.retain(|kv| mutex::is_claim(&range, kv));
        claims.extend(shared);
        Ok((claims, broken))
    }

    /// How long these leases still run unless they are renewed.
    async fn time_left(&self, leases: impl Iterator<Item = i64>) -> Result<HashMap<i64, Duration>> {
        let leases: BTreeSet<_> = leases.collect();
        let ask = async |id: i64| {
            let path = "/etcdserverpb.Lease/LeaseTimeToLive";
            let request = LeaseTimeToLiveRequest { id };
            let doing = || "look at a lease".to_owned();
            let answer: LeaseTimeToLiveResponse = self.members.ask(path, &request, doing).await?;
            Ok((id, seconds(answer.ttl.max(0))))
        };
        let answers = join_all(leases.into_iter().map(ask)).await;
        answers.into_iter().collect()
    }

    async fn each_key(&self, range: Range, mut see: impl FnMut(&KeyValue)) -> Result<()> {
        let mut start = range.start;
        // No key is empty, but a range that starts nowhere must say so.
        if start.is_empty() {
            start.push(0);
        }
        loop {
            let request = RangeRequest {
                key: start,
                range_end: range.end.clone(),
                limit: STEP,
                keys_only: true,
                ..RangeRequest::default()
            };
            let doing = || "list the locks".to_owned();
            let path = "/etcdserverpb.KV/Range";
            let page: RangeResponse = self.members.ask(path, &request, doing).await?;
            page.kvs.iter().for_each(&mut see);
            match page.kvs.last() {
                Some(last) if page.more => {
                    start = last.key.clone();
                    start.push(0);
                }
                _ => return Ok(()),
            }
        }
    }
}

/// Takes out a claim that this engine has not made, or has forgotten; leaves a
/// note if it is broken, and tells its session.
pub(super) async fn take_out(
    engine: &EtcdEngine,
    claim: &ClaimRef,
    broken: Option<(&str, &str)>,
) -> Result<Withdrawn> {
    let doing = || format!("withdraw {}", claim.name);
    let (kvs, _) = engine.read(&claim.name, doing).await?;
    let mut claims = kvs.iter().map(|kv| (kv, Record::of(kv)));
    let Some((kv, record)) = claims.find(|(_, record)| record.id == claim.id) else {
        return Ok(Withdrawn::Absent);
    };
    let mut success = vec![delete(&kv.key)];
    if let Some((by, reason)) = broken {
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let request = LeaseGrantRequest {
            ttl: REMEMBERED,
            id: random_number(),
        };
        let lease: LeaseGrantResponse = engine.members.ask(path, &request, doing).await?;
        let note = record::write_broken(&record, kv.create_revision, by, reason);
        let key = keys::broken_claim(&claim.name, kv.create_revision);
        success.push(put(&key, &note, lease.id));
        if !record.is_foreign {
            success.push(put(&keys::inbox(kv.lease), b"", kv.lease));
        }
    }
    let request = TxnRequest {
        compare: vec![created_at(&kv.key, kv.create_revision)],
        success,
        failure: Vec::new(),
    };
    let answered: Result<Answered<TxnResponse>> =
        engine.members.ask_noting(TXN, &request, doing).await;
    match answered {
        // What the first of two requests took out, the second does not find.
        Ok(answered) if answered.answer.succeeded || answered.is_repeated => Ok(Withdrawn::Removed),
        Ok(_) => Ok(Withdrawn::Absent),
        Err(error) if is_lease_gone(&error) => Ok(Withdrawn::Absent),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_3_4_are_too_old() {
        for old in ["2.3.8", "3.0.0", "3.3.27", "3.3.0-rc.1"] {
            assert!(is_too_old(old), "{old}");
        }
        for good in ["3.4.0", "3.4.23", "3.5.1", "3.10.0", "4.0.0-alpha.1", "?"] {
            assert!(!is_too_old(good), "{good}");
        }
    }

    #[test]
    fn a_learner_and_a_member_without_a_leader_are_told_of() {
        let status = StatusResponse {
            version: "3.5.1".into(),
            is_learner: true,
            ..StatusResponse::default()
        };
        let findings = judge("etcd a:1", &status);
        let severities: Vec<_> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(
            severities,
            [Severity::Fine, Severity::Unfit, Severity::Warning]
        );
    }
}
