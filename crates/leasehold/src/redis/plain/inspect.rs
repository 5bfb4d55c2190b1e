//! These locks as people look at them.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::answer::time_left;
use super::keys::{Keys, NOTES};
use super::{PlainEngine, strange};
use crate::engine::{Claimant, Finding, Inspect, Owner, Queue, Severity};
use crate::error::{ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;
use crate::redis::answer::not_a_lock;
use crate::redis::fault::fault;
use crate::redis::inspect::{examine_all, owner, read_eviction};
use crate::redis::keys::unhex;

/// How many keys one step of a scan looks at.
const STEP: u32 = 1000;
/// How long a lock is shown to last that never expires: a century.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

#[async_trait]
impl Inspect for PlainEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let doing = || format!("look at {name}");
        self.check(name, doing)?;
        let keys = Keys::of(name);
        let answer: Vec<String> = self
            .server
            .run(
                &self.scripts.queue,
                &[&keys.lock, &keys.note, &keys.evictions],
                &[],
                doing,
            )
            .await?;
        if let [word, kind] = &answer[..]
            && word == "type"
        {
            return Err(self.refusal(ErrorKind::Config, doing(), not_a_lock(kind)));
        }
        read_queue(&answer).ok_or_else(|| strange(doing(), &self.server.label))
    }

    /// Foreign locks cannot be told from other keys: these are the locks that
    /// have a note of ours, and are held now, by whomever.
    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let doing = || "list the locks".to_owned();
        let mut names = BTreeSet::new();
        for link in self.server.links() {
            let mut cursor = 0_u64;
            loop {
                let mut scan = ::redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(NOTES);
                scan.arg("COUNT").arg(STEP);
                let page = link.ask::<(u64, Vec<Vec<u8>>)>(&scan).await;
                let (next, notes) = page.map_err(|error| fault(error, doing(), &link.label))?;
                let notes = notes
                    .into_iter()
                    .filter_map(|key| String::from_utf8(key).ok());
                let found = notes.filter_map(|note| Keys::name(&note));
                let found = found.filter(|name| name.as_str().starts_with(prefix));
                let looks = found.map(|name| self.held_now(name));
                names.extend(try_join_all(looks).await?.into_iter().flatten());
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

impl PlainEngine {
    async fn held_now(&self, name: Name) -> Result<Option<Name>> {
        let mut exists = ::redis::cmd("EXISTS");
        exists.arg(name.as_str());
        let doing = || "list the locks".to_owned();
        let is_held: bool = self.server.ask(name.as_str(), &exists, doing).await?;
        Ok(is_held.then_some(name))
    }
}

/// What `lua/queue.lua` answers.
fn read_queue(answer: &[String]) -> Option<Queue> {
    let [now, left, who, start, note, evictions @ ..] = answer else {
        return None;
    };
    let evictions = evictions.iter().filter_map(|text| read_eviction(text));
    let evictions = evictions.collect();
    if who.is_empty() {
        return Some(Queue {
            evictions,
            ..Queue::default()
        });
    }
    let mut claimant = Claimant {
        id: unhex(who)?,
        owner: Owner::seen("?", 0, format!("foreign {start}..")),
        session: None,
        is_holder: true,
        weight: 1,
        token: None,
        holder: 0,
        age: Duration::ZERO,
        time_left: time_left(left)?.unwrap_or(FOR_EVER),
    };
    if !note.is_empty() {
        read_note(note, now.parse().ok()?, &mut claimant)?;
    }
    Some(Queue {
        capacity: 1,
        claims: vec![claimant],
        evictions,
    })
}

/// `token ticket holder pid host label`. The token is the time of the grant in
/// microseconds, unless the clock was set back since the one before.
fn read_note(note: &str, now: u64, claimant: &mut Claimant) -> Option<()> {
    let fields: Vec<_> = note.split(' ').collect();
    let [token, _ticket, holder, pid, host, label] = fields[..] else {
        return None;
    };
    let token: u64 = token.parse().ok()?;
    claimant.token = Some(Token::new(token));
    claimant.holder = holder.parse().ok()?;
    claimant.owner = owner(host, pid, label)?;
    claimant.age = Duration::from_millis(now.saturating_sub(token / 1000));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &[&str]) -> Option<Queue> {
        let answer: Vec<_> = answer.iter().map(|&part| part.to_owned()).collect();
        read_queue(&answer)
    }

    #[test]
    fn a_holder_is_read_back() {
        let id = format!("{:032x}", 7);
        let note = format!("1000000 {id} 9 42 my%20host me");
        let queue = read(&["3000", "2000", &id, "00000000", &note]).unwrap();
        let claim = &queue.claims[0];
        assert_eq!(claim.owner.to_string(), "my host:42 (me)");
        assert_eq!(claim.token, Some(Token::new(1_000_000)));
        assert_eq!(claim.age, Duration::from_secs(2));
        assert_eq!(claim.time_left, Duration::from_secs(2));
    }

    #[test]
    fn a_foreign_holder_is_shown_as_far_as_it_is_known() {
        let id = format!("{:032x}", 7);
        let broken = "1500 01 0 0 ? foreign ann too%20long";
        let queue = read(&["3000", "-1", &id, "aGVsbG8?", "", broken]).unwrap();
        let claim = &queue.claims[0];
        assert_eq!(claim.owner.label(), "foreign aGVsbG8?..");
        assert_eq!((claim.token, claim.time_left), (None, FOR_EVER));
        assert_eq!(queue.evictions[0].reason, "too long");
        assert!(read(&["3000", "0", "", "", ""]).unwrap().claims.is_empty());
        assert!(read(&["3000"]).is_none());
    }
}
