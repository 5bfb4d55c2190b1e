//! The locks as people look at them: what a majority of the nodes says.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::keys::{Keys, NOTES};
use super::nodes::{Call, Node};
use super::{RedlockEngine, UNHURRIED, fleet, note};
use crate::clock::wall_time;
use crate::engine::{Claimant, Eviction, Finding, Inspect, Owner, Queue};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::redis::inspect::read_eviction;
use crate::redis::keys::unhex;

/// How many keys one step of a scan looks at.
const STEP: u32 = 1000;
/// How long a lock is shown to last that never expires: a century.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

#[async_trait]
impl Inspect for RedlockEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let doing = || format!("look at {name}");
        self.check(name, doing)?;
        let keys = Keys::of(name);
        let call = Call {
            script: &self.nodes.scripts.look,
            keys: &[&keys.lock, &keys.note, &keys.evictions],
            arguments: &[],
        };
        let call = &call;
        let answers = self
            .nodes
            .ask_all(UNHURRIED, |node| node.run::<Vec<String>>(call))
            .await;
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        self.enough(answers.len(), doing())?;
        if let Some([_, kind]) = answers.iter().find_map(|answer| match &answer[..] {
            [word, kind] if word == "type" => Some([word, kind]),
            _ => None,
        }) {
            let why = crate::redis::answer::not_a_lock(kind);
            return Err(self.refusal(ErrorKind::Config, doing(), why));
        }
        Ok(read_queue(&answers, self.nodes.majority()))
    }

    /// Foreign locks cannot be told from other keys: these are the locks that
    /// have a note of ours, and are held now, by whomever.
    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let scans = self.nodes.all.iter().map(|node| {
            let scan = held_on(node, prefix);
            async { tokio::time::timeout(10 * UNHURRIED, scan).await.ok()?.ok() }
        });
        let found: Vec<_> = join_all(scans).await.into_iter().flatten().collect();
        self.enough(found.len(), "list the locks".to_owned())?;
        let mut names = BTreeMap::<Name, usize>::new();
        for name in found.into_iter().flatten() {
            *names.entry(name).or_default() += 1;
        }
        names.retain(|_, count| *count >= self.nodes.majority());
        Ok(names.into_keys().collect())
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        fleet::examine(&self.nodes).await
    }
}

impl RedlockEngine {
    fn enough(&self, answered: usize, doing: String) -> Result<()> {
        let (majority, count) = (self.nodes.majority(), self.nodes.all.len());
        if answered >= majority {
            return Ok(());
        }
        let why = format!("{answered} of {count} nodes answered and {majority} are needed");
        Err(Error::new(ErrorKind::Unavailable, doing, why).on(&*self.nodes.label))
    }
}

/// The locks that are held on this node and have a note.
async fn held_on(node: &Node, prefix: &str) -> Result<Vec<Name>, ::redis::RedisError> {
    let (mut names, mut cursor) = (std::collections::BTreeSet::new(), 0_u64);
    loop {
        let mut scan = ::redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(NOTES);
        scan.arg("COUNT").arg(STEP);
        let (next, notes) = node.link.ask::<(u64, Vec<Vec<u8>>)>(&scan).await?;
        let notes = notes
            .into_iter()
            .filter_map(|key| String::from_utf8(key).ok());
        let found = notes.filter_map(|note| Keys::name(&note));
        for name in found.filter(|name| name.as_str().starts_with(prefix)) {
            let mut exists = ::redis::cmd("EXISTS");
            exists.arg(name.as_str());
            if node.link.ask::<bool>(&exists).await? {
                names.insert(name);
            }
        }
        cursor = next;
        if cursor == 0 {
            return Ok(names.into_iter().collect());
        }
    }
}

/// Puts together what `lua/look.lua` answered on the nodes.
fn read_queue(answers: &[Vec<String>], majority: usize) -> Queue {
    let mut holders = BTreeMap::<&str, Vec<&[String]>>::new();
    let mut evictions = BTreeMap::<&str, Eviction>::new();
    for answer in answers {
        let [_, who, _, _, broken @ ..] = &answer[..] else {
            continue;
        };
        if !who.is_empty() {
            holders.entry(who).or_default().push(&answer[..4]);
        }
        for record in broken {
            // Every node wrote it down, but not every one knew whom.
            let id = record.split(' ').nth(1).unwrap_or_default();
            if let Some(eviction) = read_eviction(record) {
                let known = evictions.entry(id).or_insert_with(|| eviction.clone());
                if known.token < eviction.token {
                    *known = eviction;
                }
            }
        }
    }
    let mut evictions: Vec<_> = evictions.into_values().collect();
    evictions.sort_by_key(|eviction| std::cmp::Reverse(eviction.at));
    // Whoever has fewer nodes is trying, or was cut off, and holds nothing.
    let holder = holders.into_values().find(|seen| seen.len() >= majority);
    let claims: Vec<_> = holder
        .and_then(|seen| read_holder(&seen))
        .into_iter()
        .collect();
    Queue {
        capacity: claims.len().try_into().unwrap_or(1),
        claims,
        evictions,
    }
}

fn read_holder(seen: &[&[String]]) -> Option<Claimant> {
    let left = seen.iter().map(|answer| answer[0].parse::<i64>().ok());
    let left = left.map(|left| match left? {
        ..0 => Some(FOR_EVER),
        left => Some(Duration::from_millis(left.unsigned_abs())),
    });
    let [_, who, start, _] = seen.first()? else {
        return None;
    };
    let claimant = Claimant {
        id: unhex(who)?,
        owner: Owner::seen("?", 0, format!("foreign {start}..")),
        session: None,
        is_holder: true,
        weight: 1,
        token: None,
        holder: 0,
        age: Duration::ZERO,
        time_left: left.flatten().max()?,
    };
    // The notes are of this holder, but one may name a token that was guessed, and a
    // greater one was granted by others.
    let read = |answer: &&[String]| {
        let mut claimant = claimant.clone();
        note::read(&answer[3], wall_time(), &mut claimant)?;
        Some(claimant)
    };
    let told = seen.iter().filter_map(read);
    let told = told.max_by_key(|claimant| claimant.token);
    Some(told.unwrap_or(claimant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Token;

    fn answer(parts: &[&str]) -> Vec<String> {
        parts.iter().map(|&part| part.to_owned()).collect()
    }

    #[test]
    fn a_majority_says_who_holds() {
        let (one, other) = (format!("{:032x}", 7), format!("{:032x}", 8));
        let note = format!("64 {one} 33 9 1000 42 my%20host me {:032x}", 1);
        let free = answer(&["0", "", "", ""]);
        let ours = answer(&["2000", &one, "00000000", &note]);
        let late = answer(&["1500", &one, "00000000", ""]);
        let theirs = answer(&["9000", &other, "00000000", ""]);
        let queue = read_queue(
            &[theirs.clone(), late.clone(), ours.clone(), late.clone()],
            3,
        );
        let claim = &queue.claims[0];
        assert_eq!(claim.owner.to_string(), "my host:42 (me)");
        assert_eq!(claim.token, Some(Token::new(33)));
        assert_eq!(claim.time_left, Duration::from_secs(2));
        // A node that came too late to be counted may know of a guess only.
        let note = note.replacen("64", "128", 1).replacen(" 33 ", " 97 ", 1);
        let granted = answer(&["2000", &one, "00000000", &note]);
        let queue = read_queue(&[ours.clone(), granted.clone(), ours.clone()], 3);
        assert_eq!(queue.claims[0].token, Some(Token::new(97)));
        let queue = read_queue(&[theirs, late, ours, free.clone(), free], 3);
        assert!(queue.claims.is_empty(), "two of five are not enough");
    }

    #[test]
    fn what_every_node_wrote_down_is_shown_once() {
        let broken = "1500 01 33 9 host me ann too%20long";
        let later = "1501 01 0 0 ? foreign ann too%20long";
        let answers = [
            answer(&["0", "", "", "", later]),
            answer(&["0", "", "", "", broken]),
        ];
        let evictions = read_queue(&answers, 2).evictions;
        assert_eq!(evictions.len(), 1);
        assert_eq!(evictions[0].token, Token::new(33));
    }
}
