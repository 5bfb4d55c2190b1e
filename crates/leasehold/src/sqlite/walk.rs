//! Who has to be told when claims leave a queue. Pure: one pass over what is
//! left, from the head to the first claim that waits.

use super::queue::Row;
use crate::rule;

/// Where a walk put a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    Holding,
    FirstWaiting,
}

/// The arithmetic of a walk: how much of the capacity the claims up to here
/// took before some of them left, and take now.
#[derive(Debug)]
pub(super) struct Walk {
    /// Those that left, by order; those the walk has passed are taken out.
    left: Vec<rule::Claim>,
    used_before: u64,
    used_now: u64,
    /// Claims that left, with the greatest weight that stands behind them.
    gaps: Vec<(rule::Claim, u32)>,
    pub(super) told: Vec<Row>,
    pub(super) first_waiting: Option<u64>,
}

impl Walk {
    pub(super) fn new(left: &[rule::Claim]) -> Self {
        let mut left = left.to_vec();
        left.sort_unstable_by_key(|claim| std::cmp::Reverse(claim.order));
        Self {
            left,
            used_before: 0,
            used_now: 0,
            gaps: Vec::new(),
            told: Vec::new(),
            first_waiting: None,
        }
    }

    pub(super) fn would_grant(&self, row: &Row) -> bool {
        let weight = u64::from(row.claim.weight);
        let gone = self.left.iter().filter(|left| left.order < row.claim.order);
        let gone: u64 = gone.map(|left| u64::from(left.weight)).sum();
        let capacity = u64::from(row.capacity);
        self.used_now + weight <= capacity && self.used_before + gone + weight > capacity
    }

    pub(super) fn pass_dead(&mut self, claim: rule::Claim) {
        self.pass_left(claim.order);
        self.used_before += u64::from(claim.weight);
        self.gaps.push((claim, 0));
    }

    pub(super) fn pass(&mut self, row: &Row) -> Passed {
        self.pass_left(row.claim.order);
        let (weight, capacity) = (u64::from(row.claim.weight), u64::from(row.capacity));
        self.used_before += weight;
        self.used_now += weight;
        if self.used_now <= capacity {
            if self.used_before > capacity {
                self.told.push(*row);
            }
            for (_, greatest) in &mut self.gaps {
                *greatest = row.claim.weight.max(*greatest);
            }
            return Passed::Holding;
        }
        // The first to wait watched the last claim that alone kept it out; if
        // that one left, it has to look for another.
        let blocks = |other: u32| u64::from(other) + weight > capacity;
        let watched =
            |(left, greatest): &(rule::Claim, u32)| blocks(left.weight) && !blocks(*greatest);
        if self.gaps.iter().any(watched) {
            self.told.push(*row);
        }
        self.first_waiting = Some(row.claim.order);
        Passed::FirstWaiting
    }

    fn pass_left(&mut self, order: u64) {
        while let Some(left) = self.left.pop_if(|left| left.order < order) {
            self.used_before += u64::from(left.weight);
            self.gaps.push((left, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::engine::{LeaseId, TicketId};

    fn row(order: u64, weight: u32, capacity: u32) -> Row {
        Row {
            claim: rule::Claim { order, weight },
            capacity,
            ticket: TicketId(order.into()),
            session: LeaseId(order.into()),
            expires: Some(Moment::from_nanos(u64::MAX)),
        }
    }

    /// Whom the walk tells when the claims with these orders leave.
    fn told(capacity: u32, weights: &[u32], leaving: &[u64]) -> Vec<u64> {
        let rows: Vec<_> = (1..)
            .zip(weights)
            .map(|(order, &w)| row(order, w, capacity))
            .collect();
        let (left, rest): (Vec<_>, Vec<_>) = rows
            .into_iter()
            .partition(|row| leaving.contains(&row.claim.order));
        let left: Vec<_> = left.iter().map(|row| row.claim).collect();
        let mut walk = Walk::new(&left);
        for row in &rest {
            let granted = walk.would_grant(row);
            let before = walk.told.len();
            let passed = walk.pass(row);
            assert_eq!(
                granted,
                passed == Passed::Holding && walk.told.len() > before
            );
            if passed == Passed::FirstWaiting {
                break;
            }
        }
        walk.told.iter().map(|row| row.claim.order).collect()
    }

    #[test]
    fn a_release_tells_the_next_and_nobody_else() {
        assert_eq!(told(1, &[1, 1, 1], &[1]), [2]);
        assert_eq!(told(1, &[1], &[1]), [] as [u64; 0]);
    }

    #[test]
    fn a_leaving_writer_tells_all_readers_behind_it() {
        let all = rule::UNBOUNDED;
        assert_eq!(told(all, &[all, 1, 1, all, 1], &[1]), [2, 3]);
    }

    #[test]
    fn a_waiting_writer_is_told_only_by_the_reader_it_watches() {
        let all = rule::UNBOUNDED;
        assert_eq!(told(all, &[1, 1, 1, all], &[1]), [] as [u64; 0]);
        assert_eq!(told(all, &[1, 1, 1, all], &[3]), [4]);
    }

    #[test]
    fn a_leaving_waiter_can_let_in_the_one_behind_it() {
        assert_eq!(told(3, &[2, 2, 1], &[2]), [3]);
    }

    /// Compared with the rule itself, on every small queue and every departure.
    #[test]
    fn whoever_holds_now_and_did_not_before_is_told() {
        for capacity in 1..=3_u32 {
            for code in 0..4_u32.pow(5) {
                let weights: Vec<_> = (0..5).map(|digit| code / 4_u32.pow(digit) % 4).collect();
                let weights: Vec<_> = weights
                    .into_iter()
                    .take_while(|&w| w > 0 && w <= capacity)
                    .collect();
                for leaving in 1..=weights.len() as u64 {
                    let claims: Vec<_> = (1..)
                        .zip(&weights)
                        .map(|(order, &weight)| rule::Claim { order, weight })
                        .collect();
                    let rest: Vec<_> = claims
                        .iter()
                        .copied()
                        .filter(|claim| claim.order != leaving)
                        .collect();
                    let before = rule::holders(capacity, &claims);
                    let held: Vec<_> = claims[..before].iter().map(|claim| claim.order).collect();
                    let told = told(capacity, &weights, &[leaving]);
                    for claim in &rest[..rule::holders(capacity, &rest)] {
                        let is_new = !held.contains(&claim.order);
                        assert_eq!(
                            told.contains(&claim.order),
                            is_new,
                            "{capacity} {weights:?} {leaving}"
                        );
                    }
                    // The first to wait is told if and only if what it watched
                    // is what left.
                    if let Some(first) = rest.get(rule::holders(capacity, &rest)) {
                        let watched = rule::verdict(capacity, &claims, first.order);
                        let watched =
                            watched == Some(rule::Verdict::Waiting(rule::Watch::One(leaving)));
                        assert_eq!(
                            told.contains(&first.order),
                            watched,
                            "{capacity} {weights:?} {leaving}"
                        );
                    }
                }
            }
        }
    }
}
