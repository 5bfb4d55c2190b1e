//! Sessions that wait for each other, and whom to break. Pure: it goes by the
//! queues of the locks, as an [`Inspector`](crate::Inspector) shows them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
//! # let inspector = leasehold::inspect("memory:").await?;
//! use leasehold::deadlock;
//!
//! let (first, second) = (inspector.locks("").await?, inspector.locks("").await?);
//! for cycle in deadlock::cycles(&deadlock::standing(&first, &second)) {
//!     let worst = cycle.victim();
//!     println!("break {} of {}", worst.name, worst.blocker.owner);
//! }
//! # Ok(()) }
//! ```
//!
//! A session is taken as one: what it holds it keeps while any wait of it lasts.
//! That is so if it is used by one task, or by one command. If several tasks
//! share a session, one may hold while another waits, and what is found here may
//! end by itself. Claims of the session that waits never count against it.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::engine::{Claimant, LeaseId, Queue, TicketId};
use crate::name::Name;

/// A lock and its queue.
#[derive(Debug, Clone)]
pub struct Lock {
    /// Its name.
    pub name: Name,
    /// Who holds it and who waits for it.
    pub queue: Queue,
}

/// Sessions that wait for each other, each for the next one and the last one for
/// the first.
#[derive(Debug, Clone)]
pub struct Cycle {
    waits: Vec<Wait>,
    victim: usize,
}

/// One session waits for another.
#[derive(Debug, Clone)]
pub struct Wait {
    /// The lock it waits for.
    pub name: Name,
    /// Its claim there.
    pub waiter: Claimant,
    /// A claim before it, of the next session of the cycle, that has to leave.
    pub blocker: Claimant,
}

impl Cycle {
    /// Who waits for whom. There are at least two.
    pub fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// The wait whose blocker holds and is best evicted: the one that came last,
    /// so that the least work is lost.
    pub fn victim(&self) -> &Wait {
        &self.waits[self.victim]
    }

    fn new(waits: Vec<Wait>) -> Self {
        let holds = |at: &usize| waits[*at].blocker.is_holder;
        let youngest = |at: &usize| waits[*at].blocker.age;
        let victim = (0..waits.len()).filter(holds).min_by_key(youngest);
        Self {
            victim: victim.unwrap_or(0),
            waits,
        }
    }
}

/// What stood during both looks. A look at several locks is not one moment; but
/// whatever is in two looks was there at the moment between them.
pub fn standing(first: &[Lock], second: &[Lock]) -> Vec<Lock> {
    let before: HashSet<(&Name, TicketId)> = first
        .iter()
        .flat_map(|lock| lock.queue.claims.iter().map(|claim| (&lock.name, claim.id)))
        .collect();
    let mut standing = second.to_vec();
    for Lock { name, queue } in &mut standing {
        queue
            .claims
            .retain(|claim| before.contains(&(&*name, claim.id)));
    }
    standing
}

/// The cycles among those who wait, shortest first; when the victim of each is
/// evicted, none is left.
pub fn cycles(locks: &[Lock]) -> Vec<Cycle> {
    let mut tangle = Tangle::new(locks);
    let mut found = Vec::new();
    while let Some(links) = tangle.shortest() {
        let cycle = Cycle::new(links.iter().map(|link| tangle.wait(link)).collect());
        let victim = &links[cycle.victim];
        tangle.lines[victim.line].claims.remove(victim.blocker);
        found.push(cycle);
    }
    found
}

/// The locks that somebody waits for, with sessions as numbers.
struct Tangle<'a> {
    lines: Vec<Line<'a>>,
    sessions: usize,
}

struct Line<'a> {
    lock: &'a Lock,
    claims: Vec<Place<'a>>,
}

#[derive(Clone, Copy)]
struct Place<'a> {
    session: usize,
    claim: &'a Claimant,
}

/// `from` waits for `to`: two places in a line.
#[derive(Clone, Copy)]
struct Link {
    from: usize,
    to: usize,
    line: usize,
    waiter: usize,
    blocker: usize,
}

/// What holds and waits as one. Where a store does not tell, every claim is by
/// itself, and so in no cycle.
#[derive(PartialEq, Eq, Hash)]
enum Party {
    Session(LeaseId),
    Claim(TicketId),
}

impl<'a> Tangle<'a> {
    fn new(locks: &'a [Lock]) -> Self {
        let mut numbers = HashMap::new();
        let mut place = |claim: &'a Claimant| {
            let party = claim.session.map_or(Party::Claim(claim.id), Party::Session);
            let next = numbers.len();
            let session = *numbers.entry(party).or_insert(next);
            Place { session, claim }
        };
        let is_waited_for = |lock: &&Lock| lock.queue.claims.iter().any(|claim| !claim.is_holder);
        let lines = locks.iter().filter(is_waited_for).map(|lock| Line {
            lock,
            claims: lock.queue.claims.iter().map(&mut place).collect(),
        });
        Self {
            lines: lines.collect(),
            sessions: numbers.len(),
        }
    }

    /// The sessions that will never get what they wait for, if every session
    /// that has all it waits for gives back everything in the end.
    fn stuck(&self) -> Vec<bool> {
        let mut stuck = vec![true; self.sessions];
        loop {
            let mut still = vec![false; self.sessions];
            for line in &self.lines {
                for (at, place) in line.waiting() {
                    still[place.session] |=
                        stuck[place.session] && !line.before(at, &stuck).is_empty();
                }
            }
            if still == stuck {
                return stuck;
            }
            stuck = still;
        }
    }

    /// Who among the stuck waits for whom.
    fn links(&self) -> Vec<Link> {
        let stuck = self.stuck();
        let mut links = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            for (waiter, place) in line.waiting() {
                if !stuck[place.session] {
                    continue;
                }
                let blockers = line.before(waiter, &stuck);
                links.extend(blockers.into_iter().map(|blocker| Link {
                    from: place.session,
                    to: line.claims[blocker].session,
                    line: number,
                    waiter,
                    blocker,
                }));
            }
        }
        links
    }

    /// The shortest cycle in which somebody holds. There is one in every true
    /// deadlock: in a queue alone nobody waits for those behind.
    fn shortest(&self) -> Option<Vec<Link>> {
        let links = waited_for(self.links(), self.sessions);
        let mut from = vec![Vec::new(); self.sessions];
        for link in &links {
            from[link.from].push(*link);
        }
        let holds = |link: &&Link| self.lines[link.line].claims[link.blocker].claim.is_holder;
        let mut best: Option<Vec<Link>> = None;
        for link in links.iter().filter(holds) {
            if best.as_ref().is_some_and(|best| best.len() == 2) {
                break;
            }
            if let Some(back) = path(&from, link.to, link.from)
                && best.as_ref().is_none_or(|best| back.len() + 1 < best.len())
            {
                best = Some([vec![*link], back].concat());
            }
        }
        best
    }

    fn wait(&self, link: &Link) -> Wait {
        let line = &self.lines[link.line];
        Wait {
            name: line.lock.name.clone(),
            waiter: line.claims[link.waiter].claim.clone(),
            blocker: line.claims[link.blocker].claim.clone(),
        }
    }
}

impl Line<'_> {
    fn waiting(&self) -> impl Iterator<Item = (usize, &Place<'_>)> {
        let places = self.claims.iter().enumerate();
        places.filter(|(_, place)| !place.claim.is_holder)
    }

    /// The claims of stuck sessions that keep this one out, none if it gets in:
    /// those beside which it has no room, each of which has to leave; or if
    /// there are none, all, of which some have to.
    fn before(&self, at: usize, stuck: &[bool]) -> Vec<usize> {
        let capacity = u64::from(self.lock.queue.capacity);
        let weight = |at: usize| u64::from(self.claims[at].claim.weight);
        let counts = |other: &usize| {
            let session = self.claims[*other].session;
            stuck[session] && session != self.claims[at].session
        };
        let others: Vec<usize> = (0..at).filter(counts).collect();
        let used: u64 = others.iter().map(|&other| weight(other)).sum();
        if used + weight(at) <= capacity {
            return Vec::new();
        }
        let is_needed = |other: &usize| weight(*other) + weight(at) > capacity;
        let needed: Vec<usize> = others.iter().copied().filter(is_needed).collect();
        if needed.is_empty() { others } else { needed }
    }
}

/// Leaves out those for whom nobody waits, again and again: they are behind a
/// cycle, not in it, and there may be many.
fn waited_for(links: Vec<Link>, sessions: usize) -> Vec<Link> {
    let mut behind = vec![0_usize; sessions];
    let mut from = vec![Vec::new(); sessions];
    for link in &links {
        behind[link.to] += 1;
        from[link.from].push(link.to);
    }
    let mut last: Vec<usize> = (0..sessions).filter(|&at| behind[at] == 0).collect();
    let mut is_out = vec![false; sessions];
    while let Some(session) = last.pop() {
        is_out[session] = true;
        for &to in &from[session] {
            behind[to] -= 1;
            if behind[to] == 0 {
                last.push(to);
            }
        }
    }
    let stays = |link: &Link| !is_out[link.from];
    links.into_iter().filter(stays).collect()
}

/// The shortest way from one session to another.
fn path(from: &[Vec<Link>], begin: usize, end: usize) -> Option<Vec<Link>> {
    let mut came_by: Vec<Option<Link>> = vec![None; from.len()];
    let mut next = VecDeque::from([begin]);
    while let Some(session) = next.pop_front() {
        if session == end {
            let mut way = Vec::new();
            let mut at = end;
            while at != begin {
                let link = came_by[at]?;
                way.push(link);
                at = link.from;
            }
            way.reverse();
            return Some(way);
        }
        for link in &from[session] {
            if link.to != begin && came_by[link.to].is_none() {
                came_by[link.to] = Some(*link);
                next.push_back(link.to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
