//! Cycles in queues that are written down, and in random ones, against a checker
//! that tries every order in which sessions could finish.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::owner::Owner;
use crate::rule::{self, UNBOUNDED};

/// A lock whose queue has these sessions with these weights; who holds is by the
/// rule. A claim is named after the lock and its place.
fn lock(name: &str, capacity: u32, claims: &[(u8, u32)]) -> Lock {
    let queue: Vec<_> = (1..)
        .zip(claims)
        .map(|(order, &(_, weight))| rule::Claim { order, weight })
        .collect();
    let held = rule::holders(capacity, &queue);
    let number = |at: usize| u128::from(name.as_bytes()[0]) * 1000 + at as u128;
    let claimant = |(at, &(session, weight)): (usize, &(u8, u32))| Claimant {
        id: TicketId(number(at)),
        owner: Owner::seen("host", session.into(), ""),
        session: Some(LeaseId(session.into())),
        is_holder: at < held,
        weight,
        token: None,
        holder: 0,
        age: Duration::from_secs(100 - at as u64),
        time_left: Duration::from_secs(10),
    };
    Lock {
        name: Name::new(name).unwrap(),
        queue: Queue {
            capacity,
            claims: claims.iter().enumerate().map(claimant).collect(),
            evictions: Vec::new(),
        },
    }
}

/// The cycles, as `waiter-lock-blocker`, each beginning with its least.
fn found(locks: &[Lock]) -> Vec<Vec<String>> {
    let wait = |wait: &Wait| {
        let (waiter, blocker) = (wait.waiter.owner.pid(), wait.blocker.owner.pid());
        format!("{waiter}-{}-{blocker}", wait.name)
    };
    let turned = |cycle: &Cycle| {
        let mut waits: Vec<_> = cycle.waits().iter().map(wait).collect();
        let least = (0..waits.len()).min_by_key(|&at| waits[at].clone());
        waits.rotate_left(least.unwrap_or(0));
        waits
    };
    cycles(locks).iter().map(turned).collect()
}

const ALL: u32 = UNBOUNDED;

#[test]
fn two_that_wait_for_each_other_are_a_cycle() {
    let locks = [
        lock("a", 1, &[(1, 1), (2, 1)]),
        lock("b", 1, &[(2, 1), (1, 1)]),
    ];
    assert_eq!(found(&locks), [["1-b-2", "2-a-1"]]);
}

#[test]
fn those_who_wait_in_vain_behind_a_cycle_are_not_in_it() {
    let locks = [
        lock("a", 1, &[(1, 1), (3, 1), (2, 1), (4, 1)]),
        lock("b", 1, &[(2, 1), (1, 1), (5, 1)]),
    ];
    assert_eq!(found(&locks), [["1-b-2", "2-a-1"]]);
}

#[test]
fn a_long_queue_and_a_chain_are_no_cycle() {
    let locks = [
        lock("a", 1, &[(1, 1), (2, 1), (3, 1)]),
        lock("b", 1, &[(2, 1), (3, 1), (4, 1)]),
        lock("c", 1, &[(4, 1), (5, 1)]),
    ];
    assert!(found(&locks).is_empty());
}

#[test]
fn a_ring_of_three_is_one_cycle() {
    let locks = [
        lock("a", 1, &[(1, 1), (3, 1)]),
        lock("b", 1, &[(2, 1), (1, 1)]),
        lock("c", 1, &[(3, 1), (2, 1)]),
    ];
    assert_eq!(found(&locks), [["1-b-2", "2-c-3", "3-a-1"]]);
}

#[test]
fn two_readers_that_both_want_to_write_wait_for_each_other() {
    let locks = [lock("a", ALL, &[(1, 1), (2, 1), (1, ALL), (2, ALL)])];
    assert_eq!(found(&locks), [["1-a-2", "2-a-1"]]);
}

#[test]
fn a_reader_waits_for_the_writer_before_it_and_not_for_other_readers() {
    let readers = lock("a", ALL, &[(1, 1), (2, ALL), (3, 1)]);
    let other = lock("b", 1, &[(3, 1), (1, 1)]);
    assert_eq!(
        found(&[readers, other.clone()]),
        [["1-b-3", "3-a-2", "2-a-1"]]
    );
    assert!(found(&[lock("a", ALL, &[(1, 1), (3, 1)]), other]).is_empty());
}

#[test]
fn a_permit_is_waited_for_in_vain_only_if_no_holder_can_leave() {
    let back = |session| lock("z", 1, &[(3, 1), (session, 1)]);
    // The second holder is free to leave.
    assert!(found(&[lock("a", 2, &[(1, 1), (2, 1), (3, 1)]), back(1)]).is_empty());
    // Both wait for the third.
    let both = lock("z", 1, &[(3, 1), (1, 1), (2, 1)]);
    let locks = [lock("a", 2, &[(1, 1), (2, 1), (3, 1)]), both];
    assert_eq!(found(&locks), [["1-z-3", "3-a-1"]]);
}

#[test]
fn a_session_does_not_wait_for_itself() {
    let locks = [
        lock("a", 2, &[(1, 1), (1, 1), (1, 1), (2, 1)]),
        lock("b", ALL, &[(1, 1), (1, ALL)]),
    ];
    assert!(found(&locks).is_empty());
}

#[test]
fn the_youngest_hold_is_broken_and_nobody_is_left_waiting_in_vain() {
    let mut locks = [
        lock("a", 1, &[(1, 1), (2, 1), (3, 1)]),
        lock("b", 1, &[(2, 1), (1, 1)]),
        lock("c", 1, &[(3, 1), (1, 1)]),
    ];
    locks[1].queue.claims[0].age = Duration::from_secs(1);
    locks[2].queue.claims[0].age = Duration::from_secs(2);
    let names: Vec<_> = cycles(&locks)
        .iter()
        .map(|cycle| cycle.victim().name.to_string())
        .collect();
    assert_eq!(names, ["b", "c"]);
}

#[test]
fn a_claim_of_an_unknown_session_is_in_no_cycle() {
    let mut locks = [
        lock("a", 1, &[(1, 1), (2, 1)]),
        lock("b", 1, &[(2, 1), (1, 1)]),
    ];
    locks[0].queue.claims[1].session = None;
    assert!(found(&locks).is_empty());
}

#[test]
fn only_what_is_in_both_looks_stands() {
    let cycle = [
        lock("a", 1, &[(1, 1), (2, 1)]),
        lock("b", 1, &[(2, 1), (1, 1)]),
    ];
    let mut later = cycle.clone();
    // The same party at the same place, but by another claim.
    later[1].queue.claims[1].id = TicketId(7);
    assert_eq!(found(&standing(&cycle, &cycle)).len(), 1);
    assert!(found(&standing(&cycle, &later)).is_empty());
    assert!(found(&standing(&later, &cycle)).is_empty());
    assert!(found(&standing(&[], &cycle)).is_empty());
}

/// The sessions that do not finish in any order, by trying all orders. A session
/// finishes when it has all it waits for, and takes its claims along.
fn never_done(locks: &[Lock], sessions: u8) -> HashSet<u8> {
    let of = |claim: &Claimant| u8::try_from(claim.owner.pid()).unwrap();
    let can_finish = |session: u8, gone: u8| {
        locks.iter().all(|lock| {
            let queue = &lock.queue;
            (0..queue.claims.len()).all(|at| {
                let claim = &queue.claims[at];
                if of(claim) != session || claim.is_holder {
                    return true;
                }
                let before = queue.claims[..at].iter();
                let others =
                    before.filter(|other| of(other) != session && gone & 1 << of(other) == 0);
                let used: u64 = others.map(|other| u64::from(other.weight)).sum();
                used + u64::from(claim.weight) <= u64::from(queue.capacity)
            })
        })
    };
    let (mut seen, mut next) = (HashSet::from([0_u8]), vec![0_u8]);
    let mut most = 0_u8;
    while let Some(gone) = next.pop() {
        if gone.count_ones() > most.count_ones() {
            most = gone;
        }
        for session in (0..sessions).filter(|session| gone & 1 << session == 0) {
            if can_finish(session, gone) && seen.insert(gone | 1 << session) {
                next.push(gone | 1 << session);
            }
        }
    }
    let waits = |session: &u8| {
        let mut claims = locks.iter().flat_map(|lock| &lock.queue.claims);
        claims.any(|claim| of(claim) == *session)
    };
    (0..sessions)
        .filter(|session| most & 1 << session == 0 && waits(session))
        .collect()
}

const SESSIONS: u8 = 6;

fn some_lock(name: &'static str) -> impl Strategy<Value = (&'static str, u32, Vec<(u8, u32)>)> {
    let capacity = prop_oneof![3 => Just(1_u32), 1 => Just(2), 1 => Just(3), 2 => Just(ALL)];
    capacity.prop_flat_map(move |capacity| {
        let weight = match capacity {
            ALL => prop_oneof![Just(1), Just(ALL)].boxed(),
            capacity => (1..=capacity).boxed(),
        };
        let claims = prop::collection::vec((0..SESSIONS, weight), 0..6);
        claims.prop_map(move |claims| (name, capacity, claims))
    })
}

/// Locks in which sessions hold and wait as they like.
fn some_locks() -> impl Strategy<Value = Vec<Lock>> {
    let four = ("a", "b", "c", "d");
    let four = (
        some_lock(four.0),
        some_lock(four.1),
        some_lock(four.2),
        some_lock(four.3),
    );
    four.prop_map(|(a, b, c, d)| {
        let made = |(name, capacity, claims): (&str, u32, Vec<_>)| lock(name, capacity, &claims);
        vec![made(a), made(b), made(c), made(d)]
    })
}

/// The same, but every session waits for one lock at most, as one task does.
fn one_wait_each(mut locks: Vec<Lock>) -> Vec<Lock> {
    let mut waiting = HashSet::new();
    for lock in &mut locks {
        let stays = |claim: &Claimant| claim.is_holder || waiting.insert(claim.owner.pid());
        lock.queue.claims.retain(stays);
    }
    locks
}

fn without_victims(mut locks: Vec<Lock>, found: &[Cycle]) -> Vec<Lock> {
    for wait in found.iter().map(Cycle::victim) {
        for lock in locks.iter_mut().filter(|lock| lock.name == wait.name) {
            lock.queue
                .claims
                .retain(|claim| claim.id != wait.blocker.id);
        }
    }
    locks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_cycle_is_of_sessions_that_never_finish(locks in some_locks()) {
        let never = never_done(&locks, SESSIONS);
        for cycle in cycles(&locks) {
            let waits = cycle.waits();
            prop_assert!(waits.len() >= 2);
            prop_assert!(cycle.victim().blocker.is_holder);
            for (at, wait) in waits.iter().enumerate() {
                let next = &waits[(at + 1) % waits.len()];
                prop_assert_eq!(wait.blocker.session, next.waiter.session);
                prop_assert!(never.contains(&u8::try_from(wait.waiter.owner.pid()).unwrap()));
                let lock = locks.iter().find(|lock| lock.name == wait.name).unwrap();
                let place = |id| lock.queue.claims.iter().position(|claim| claim.id == id);
                prop_assert!(!wait.waiter.is_holder);
                prop_assert!(place(wait.blocker.id) < place(wait.waiter.id));
            }
        }
    }

    #[test]
    fn a_cycle_is_found_exactly_where_tasks_never_finish(locks in some_locks()) {
        let locks = one_wait_each(locks);
        let never = never_done(&locks, SESSIONS);
        let found = cycles(&locks);
        prop_assert_eq!(found.is_empty(), never.is_empty(), "{:?}", never);
        prop_assert!(never_done(&without_victims(locks, &found), SESSIONS).is_empty());
    }
}
