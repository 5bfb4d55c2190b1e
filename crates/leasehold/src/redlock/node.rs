//! One node as the scripts make it behave, without a server: the reference the
//! scripts are compared with, and the node the models run.
//!
//! A lock has a key with its owner, and a counter with the highest token the
//! node knows of. Neither is permanent: a key expires, and so does an idle
//! lock's counter. `high` is the highest counter the node has ever had and
//! stands in for one that is gone, so that a counter never goes down. `floor`
//! is what a readmission raised all counters of the node to.
//!
//! A node that restarted since it was admitted is in quarantine: it may have
//! forgotten keys, counters, `high` and `floor`, so it counts as down.
#![cfg_attr(
    not(feature = "conformance"),
    allow(
        unreachable_pub,
        dead_code,
        reason = "the models use this from outside"
    )
)]

use super::quorum::{Raised, Vote, counter_after};

/// Who made an attempt: fresh for each.
pub type Owner = u64;

/// One run of a server: another after each start.
pub type Run = u64;

/// The node restarted since it was admitted, and answers nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quarantined;

/// What a node keeps of one lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// The key: whose it is, if anybody's.
    pub owner: Option<Owner>,
    /// The highest token of this lock here; `None` if it was never written or
    /// has expired.
    pub counter: Option<u64>,
}

/// A node with this many locks, which are named by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node<const LOCKS: usize> {
    /// The run that is there.
    pub run: Run,
    /// The run that was admitted.
    pub admitted: Option<Run>,
    /// No counter counts as lower than this.
    pub floor: u64,
    /// The highest counter there ever was, of any lock.
    pub high: u64,
    /// The locks.
    pub locks: [Lock; LOCKS],
}

impl<const LOCKS: usize> Node<LOCKS> {
    /// An empty server in its first run, admitted by nobody.
    pub fn new(run: Run) -> Self {
        Self {
            run,
            admitted: None,
            floor: 0,
            high: 0,
            locks: [Lock::default(); LOCKS],
        }
    }

    /// Round 1: sets the key if it is absent and reads the counter.
    ///
    /// An absent counter is written, so that other locks of the node do not
    /// move it any more.
    ///
    /// # Errors
    /// If the node is in quarantine.
    pub fn take(&mut self, lock: usize, owner: Owner) -> Result<Vote, Quarantined> {
        self.in_good_standing()?;
        if self.locks[lock].owner.is_some() {
            return Ok(Vote::Refused);
        }
        let counter = self.counter(lock);
        self.locks[lock].owner = Some(owner);
        self.locks[lock].counter.get_or_insert(counter);
        Ok(Vote::Granted { counter })
    }

    /// Round 1 with a guess: the same, and round 2 for that token at once, so
    /// that nothing comes between them.
    ///
    /// # Errors
    /// If the node is in quarantine.
    pub fn take_guessing(
        &mut self,
        lock: usize,
        owner: Owner,
        token: u64,
        width: u64,
    ) -> Result<Vote, Quarantined> {
        let vote = self.take(lock, owner)?;
        let is_granted = matches!(vote, Vote::Granted { .. });
        if is_granted && self.raise(lock, owner, token, width)? == Raised::Done {
            return Ok(Vote::Guessed);
        }
        Ok(vote)
    }

    /// Round 2: raises the counter if the key is the owner's and the counter is
    /// strictly below the token.
    ///
    /// # Errors
    /// If the node is in quarantine.
    pub fn raise(
        &mut self,
        lock: usize,
        owner: Owner,
        token: u64,
        width: u64,
    ) -> Result<Raised, Quarantined> {
        self.in_good_standing()?;
        if self.locks[lock].owner != Some(owner) || self.counter(lock) >= token {
            return Ok(Raised::Refused);
        }
        let counter = counter_after(token, width);
        self.locks[lock].counter = Some(counter);
        self.high = self.high.max(counter);
        Ok(Raised::Done)
    }

    /// Whether the key is still the owner's; if so it lives for another ttl.
    ///
    /// # Errors
    /// If the node is in quarantine.
    pub fn renew(&self, lock: usize, owner: Owner) -> Result<bool, Quarantined> {
        self.in_good_standing()?;
        Ok(self.locks[lock].owner == Some(owner))
    }

    /// Deletes the key if it is the owner's, and says whether it was. Also in
    /// quarantine: a key less does no harm.
    pub fn release(&mut self, lock: usize, owner: Owner) -> bool {
        let is_ours = self.locks[lock].owner == Some(owner);
        if is_ours {
            self.locks[lock].owner = None;
        }
        is_ours
    }

    /// The key's ttl is over, or it was lost in another way.
    pub fn expire(&mut self, lock: usize) {
        self.locks[lock].owner = None;
    }

    /// The ttl of the counter is over.
    pub fn expire_counter(&mut self, lock: usize) {
        self.locks[lock].counter = None;
    }

    /// The server starts anew, with its data or without.
    pub fn restart(&mut self, run: Run, keeps: bool) {
        if keeps {
            self.run = run;
        } else {
            *self = Self::new(run);
        }
    }

    /// The highest counter of all locks, for a readmission of another node.
    ///
    /// # Errors
    /// If the node is in quarantine.
    pub fn highest(&self) -> Result<u64, Quarantined> {
        self.in_good_standing()?;
        Ok(self.high.max(self.floor))
    }

    /// Raises all counters to the floor, for a readmission of another node.
    ///
    /// # Errors
    /// If the node is in quarantine.
    pub fn lift(&mut self, floor: u64) -> Result<(), Quarantined> {
        self.in_good_standing()?;
        self.floor = self.floor.max(floor);
        Ok(())
    }

    /// Ends the quarantine, if the run that was looked at is still the one that
    /// is there; says whether it is.
    pub fn admit(&mut self, floor: u64, run: Run) -> bool {
        let is_the_same = self.run == run;
        if is_the_same {
            self.floor = self.floor.max(floor);
            self.admitted = Some(run);
        }
        is_the_same
    }

    /// Whether the node restarted since it was admitted.
    pub fn is_quarantined(&self) -> bool {
        self.admitted != Some(self.run)
    }

    /// The highest token of the lock that this node may have acknowledged.
    pub fn counter(&self, lock: usize) -> u64 {
        let known = self.locks[lock].counter.unwrap_or(self.high);
        known.max(self.floor)
    }

    fn in_good_standing(&self) -> Result<(), Quarantined> {
        if self.is_quarantined() {
            Err(Quarantined)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Owner = 1;
    const BOB: Owner = 2;

    fn admitted() -> Node<2> {
        let mut node = Node::new(1);
        assert!(node.admit(0, 1));
        node
    }
    fn granted(counter: u64) -> Result<Vote, Quarantined> {
        Ok(Vote::Granted { counter })
    }

    #[test]
    fn a_free_key_is_given_once_and_comes_with_the_counter() {
        let mut node = admitted();
        assert_eq!(node.take(0, ANN), granted(0));
        assert_eq!(node.take(0, BOB), Ok(Vote::Refused));
        assert_eq!(node.take(0, ANN), Ok(Vote::Refused));
        assert_eq!(node.raise(0, ANN, 1, 32), Ok(Raised::Done));
        node.expire(0);
        assert_eq!(node.take(0, BOB), granted(32));
    }

    #[test]
    fn a_raise_needs_the_key_and_a_strictly_lower_counter() {
        let mut node = admitted();
        assert_eq!(node.raise(0, ANN, 1, 1), Ok(Raised::Refused));
        assert_eq!(node.take(0, ANN), granted(0));
        assert_eq!(node.raise(0, BOB, 1, 1), Ok(Raised::Refused));
        assert_eq!(node.raise(0, ANN, 1, 1), Ok(Raised::Done));
        assert_eq!(node.raise(0, ANN, 1, 1), Ok(Raised::Refused));
    }

    #[test]
    fn a_guess_is_taken_up_where_the_key_is_free_and_the_counter_strictly_lower() {
        let mut node = admitted();
        assert_eq!(node.take_guessing(0, ANN, 1, 32), Ok(Vote::Guessed));
        assert_eq!((node.counter(0), node.high), (32, 32));
        assert_eq!(node.take_guessing(0, BOB, 33, 32), Ok(Vote::Refused));
        assert_eq!(node.counter(0), 32);
        node.expire(0);
        assert_eq!(node.take_guessing(0, BOB, 32, 32), granted(32));
        assert_eq!(node.raise(0, BOB, 33, 32), Ok(Raised::Done));
        node.expire(0);
        assert_eq!(node.lift(100), Ok(()));
        assert_eq!(node.take_guessing(0, ANN, 65, 32), granted(100));
        node.restart(2, true);
        assert_eq!(node.take_guessing(1, ANN, 999, 32), Err(Quarantined));
    }

    #[test]
    fn a_release_or_a_renewal_touches_no_key_of_another() {
        let mut node = admitted();
        assert_eq!(node.take(0, ANN), granted(0));
        assert!(!node.release(0, BOB));
        assert_eq!(node.renew(0, BOB), Ok(false));
        assert_eq!(node.renew(0, ANN), Ok(true));
        assert!(node.release(0, ANN));
        assert!(!node.release(0, ANN));
    }

    #[test]
    fn the_highest_counter_of_the_node_stands_in_for_one_that_expired() {
        let mut node = admitted();
        assert_eq!(node.take(0, ANN), granted(0));
        assert_eq!(node.raise(0, ANN, 5, 1), Ok(Raised::Done));
        node.expire_counter(0);
        assert_eq!(node.raise(0, ANN, 5, 1), Ok(Raised::Refused));
        assert_eq!(node.take(1, BOB), granted(5));
        assert_eq!(node.raise(1, BOB, 9, 1), Ok(Raised::Done));
        node.expire(0);
        assert_eq!(node.take(0, ANN), granted(9));
    }

    #[test]
    fn a_counter_that_was_read_is_not_moved_by_other_locks() {
        let mut node = admitted();
        assert_eq!(node.take(0, ANN), granted(0));
        assert_eq!(node.take(1, BOB), granted(0));
        assert_eq!(node.raise(1, BOB, 40, 1), Ok(Raised::Done));
        assert_eq!(node.raise(0, ANN, 1, 1), Ok(Raised::Done));
        assert_eq!(node.high, 40);
    }

    #[test]
    fn a_restarted_node_answers_nothing_until_it_is_admitted() {
        for keeps in [true, false] {
            let mut node = admitted();
            assert_eq!(node.take(0, ANN), granted(0));
            node.restart(2, keeps);
            assert_eq!(node.take(1, ANN), Err(Quarantined));
            assert_eq!(node.raise(0, ANN, 1, 1), Err(Quarantined));
            assert_eq!(node.renew(0, ANN), Err(Quarantined));
            assert_eq!(node.lift(9), Err(Quarantined));
            assert_eq!(node.highest(), Err(Quarantined));
            assert!(!node.admit(100, 1), "that run is over");
            assert_eq!(node.take(1, ANN), Err(Quarantined));
            assert!(node.admit(100, 2));
            assert_eq!(node.take(1, ANN), granted(100));
            assert_eq!(node.release(0, ANN), keeps);
        }
    }

    #[test]
    fn a_lifted_node_refuses_the_raises_that_were_under_way() {
        let mut node = admitted();
        assert_eq!(node.take(0, ANN), granted(0));
        assert_eq!(node.lift(100), Ok(()));
        assert_eq!(node.raise(0, ANN, 1, 1), Ok(Raised::Refused));
        assert_eq!(node.lift(50), Ok(()));
        assert_eq!(node.highest(), Ok(100));
        node.expire(0);
        assert_eq!(node.take(0, BOB), granted(100));
    }
}
