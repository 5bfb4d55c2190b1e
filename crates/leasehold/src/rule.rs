//! Who holds a lock, and whom a waiting claim must watch. Pure: this is the
//! whole locking semantics, for mutex, reader-writer lock and semaphore alike.
//!
//! A lock is a queue of claims in order of arrival and a capacity. The holders
//! are the longest prefix of the queue that fits in the capacity. A mutex has
//! capacity 1; a semaphore of n has capacity n; a reader-writer lock has
//! [`UNBOUNDED`] capacity, of which a reader takes one unit and a writer all.
//!
//! The rule asks one thing of a store: a new claim is never placed before an
//! existing one. Everything else, also that tokens may simply be the orders,
//! follows from holders being a prefix.

/// The capacity of a reader-writer lock, and the weight of its writers.
pub const UNBOUNDED: u32 = u32::MAX;

/// One place in a lock's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Where the store put the claim; later claims have greater orders.
    pub order: u64,
    /// Units of the capacity the claim takes while it holds.
    pub weight: u32,
}

/// A claim's standing in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The claim is inside the granted prefix.
    Held,
    /// The claim waits, and this is what it has to watch.
    Waiting(Watch),
}

/// What a waiting claim has to watch to miss nothing and to wake for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// The claim cannot be granted while the claim of this order stands.
    One(u64),
    /// Any earlier claim that leaves may let this one in.
    Any,
}

/// Whether nobody else can hold while this claim does, on a lock that several can.
pub fn is_writer(capacity: u32, weight: u32) -> bool {
    capacity > 1 && weight >= capacity
}

/// How many claims at the head of the queue hold the lock.
///
/// `queue` is in order of arrival and contains live claims only.
pub fn holders(capacity: u32, queue: &[Claim]) -> usize {
    let mut used = 0_u64;
    queue
        .iter()
        .take_while(|claim| {
            used += u64::from(claim.weight);
            used <= u64::from(capacity)
        })
        .count()
}

/// The standing of the claim with this order, `None` if it is not in the queue.
pub fn verdict(capacity: u32, queue: &[Claim], order: u64) -> Option<Verdict> {
    let mine = queue.iter().position(|claim| claim.order == order)?;
    if mine < holders(capacity, queue) {
        return Some(Verdict::Held);
    }
    Some(Verdict::Waiting(watch(
        capacity,
        &queue[..mine],
        queue[mine].weight,
    )))
}

/// The earlier claim that alone keeps us out, if there is one.
///
/// A claim is indispensable if we would not fit even when it is the only one
/// left before us. Watching the latest such claim is enough: while it stands,
/// nothing that happens to the others can let us in.
fn watch(capacity: u32, before: &[Claim], weight: u32) -> Watch {
    let blocks = |claim: &&Claim| u64::from(claim.weight) + u64::from(weight) > u64::from(capacity);
    match before.iter().rev().find(blocks) {
        Some(claim) => Watch::One(claim.order),
        None => Watch::Any,
    }
}

/// Why a claim is refused whose lock is in use with another capacity.
pub fn mismatch(asked: u32, used: u32) -> String {
    let kind = |capacity| match capacity {
        1 => "a mutex".to_owned(),
        UNBOUNDED => "a reader-writer lock".to_owned(),
        permits => format!("a semaphore of {permits}"),
    };
    format!("asked for as {}, in use as {}", kind(asked), kind(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(weights: &[u32]) -> Vec<Claim> {
        (1..)
            .zip(weights)
            .map(|(order, &weight)| Claim { order, weight })
            .collect()
    }

    /// Every queue of up to `length` claims with weights from 1 to `heaviest`.
    fn all_queues(length: usize, heaviest: u32) -> Vec<Vec<Claim>> {
        let mut all = vec![vec![]];
        let mut last = vec![vec![]];
        for _ in 0..length {
            last = last
                .iter()
                .flat_map(|weights: &Vec<u32>| {
                    (1..=heaviest).map(move |weight| [weights.clone(), vec![weight]].concat())
                })
                .collect();
            all.extend(last.clone());
        }
        all.iter().map(|weights| queue(weights)).collect()
    }

    /// All ways in which earlier claims can leave: every subset of them stays.
    fn subsets(claims: &[Claim]) -> impl Iterator<Item = Vec<Claim>> + '_ {
        (0..1_u32 << claims.len()).map(|mask| {
            claims
                .iter()
                .enumerate()
                .filter(|(index, _)| mask & (1 << index) != 0)
                .map(|(_, claim)| *claim)
                .collect()
        })
    }

    #[test]
    fn holders_never_exceed_the_capacity_and_no_fitting_claim_waits() {
        for capacity in 1..=3 {
            for queue in all_queues(7, 3) {
                let held = holders(capacity, &queue);
                let weight = |claims: &[Claim]| claims.iter().map(|c| c.weight).sum::<u32>();
                assert!(weight(&queue[..held]) <= capacity);
                if held < queue.len() {
                    assert!(weight(&queue[..=held]) > capacity, "{capacity} {queue:?}");
                }
            }
        }
    }

    #[test]
    fn a_watched_claim_keeps_its_watcher_out_whatever_else_leaves() {
        for capacity in 1..=3 {
            for queue in all_queues(6, 3) {
                let Some(mine) = queue.last().copied() else {
                    continue;
                };
                let before = &queue[..queue.len() - 1];
                let Some(Verdict::Waiting(watch)) = verdict(capacity, &queue, mine.order) else {
                    continue;
                };
                for mut left in subsets(before) {
                    let stands = left.iter().any(|c| Watch::One(c.order) == watch);
                    left.push(mine);
                    let held = verdict(capacity, &left, mine.order) == Some(Verdict::Held);
                    assert!(!(stands && held), "{capacity} {queue:?} {left:?}");
                }
            }
        }
    }

    #[test]
    fn a_waiter_that_can_be_let_in_by_any_one_leaving_watches_any() {
        for capacity in 1..=3 {
            for queue in all_queues(6, 3) {
                let Some(mine) = queue.last().copied() else {
                    continue;
                };
                if mine.weight > capacity {
                    continue;
                }
                let before = &queue[..queue.len() - 1];
                if verdict(capacity, &queue, mine.order) != Some(Verdict::Waiting(Watch::Any)) {
                    continue;
                }
                // Alone with any single earlier claim it fits, so no single
                // claim is worth watching.
                for claim in before {
                    let pair = [*claim, mine];
                    assert_eq!(verdict(capacity, &pair, mine.order), Some(Verdict::Held));
                }
            }
        }
    }

    #[test]
    fn a_mutex_claim_watches_its_predecessor() {
        let queue = queue(&[1, 1, 1]);
        assert_eq!(verdict(1, &queue, 1), Some(Verdict::Held));
        assert_eq!(verdict(1, &queue, 2), Some(Verdict::Waiting(Watch::One(1))));
        assert_eq!(verdict(1, &queue, 3), Some(Verdict::Waiting(Watch::One(2))));
    }

    #[test]
    fn a_reader_watches_the_last_writer_and_a_writer_the_claim_before_it() {
        let queue = queue(&[1, UNBOUNDED, 1, 1, UNBOUNDED]);
        let verdict = |order| verdict(UNBOUNDED, &queue, order);
        assert_eq!(verdict(1), Some(Verdict::Held));
        assert_eq!(verdict(2), Some(Verdict::Waiting(Watch::One(1))));
        assert_eq!(verdict(3), Some(Verdict::Waiting(Watch::One(2))));
        assert_eq!(verdict(4), Some(Verdict::Waiting(Watch::One(2))));
        assert_eq!(verdict(5), Some(Verdict::Waiting(Watch::One(4))));
    }

    #[test]
    fn an_absent_claim_has_no_verdict() {
        assert_eq!(verdict(1, &queue(&[1]), 2), None);
        assert_eq!(verdict(1, &[], 1), None);
    }
}
