//! What a majority of nodes means. Pure: no I/O, no clock, no randomness.
//!
//! An [`Attempt`] is fed with what each node says and answers what to do next.
//! Round 1 sets the key where it is absent and reads the node's counter. The
//! token is one above the highest counter read. Round 2 goes only to the nodes
//! whose counters were read, and raises them if the key is still ours and the
//! counter is strictly lower. That a late key on another node must not count in
//! round 2 is not obvious; `docs/proofs/redlock.md` shows what happens otherwise.
//!
//! Who guesses the token asks for both at once: a node that grants and whose
//! counter is strictly lower than the guess is raised in the same step. If the
//! majority that granted was raised, there is nothing left for round 2 to do.
#![cfg_attr(
    not(feature = "conformance"),
    allow(
        unreachable_pub,
        dead_code,
        reason = "the models use more of this, from outside, than the engine does"
    )
)]

use std::time::Duration;

use crate::clock::Moment;
use crate::lease::LeaseClock;

#[cfg(test)]
mod guess_tests;
mod readmission;
#[cfg(feature = "conformance")]
mod renamed;
mod set;
#[cfg(test)]
mod tests;

pub use readmission::{JUMP, Plan, Readmission, WhyNot};
pub use set::NodeSet;

/// How many tokens one grant is worth, so that tasks of one process can hand
/// the lock to each other under tokens of their own.
pub const WIDTH: u64 = 32;

/// Tokens stay below this: Lua's numbers are exact up to here.
pub const END_OF_TOKENS: u64 = 1 << 53;

/// How many nodes make a majority. Two majorities share a node, for even
/// numbers of nodes too.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// What a node said in round 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The key is ours, and this was the node's counter.
    Granted {
        /// The highest token this node knows of.
        counter: u64,
    },
    /// The key is ours, and the counter was lower than our guess and covers it now.
    Guessed,
    /// The key is another's.
    Refused,
    /// Down, silent, in quarantine, or not making sense.
    Away,
}

/// What a node said in round 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Raised {
    /// The counter covers our token now.
    Done,
    /// The key is no longer ours, or the counter was not lower.
    Refused,
    /// Down, silent, in quarantine, or not making sense.
    Away,
}

/// What to do after a node has spoken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// Wait for the next answer.
    Wait,
    /// Send round 2 to these nodes and to no other. Said once.
    Raise {
        /// The first token of the grant.
        token: u64,
        /// Those whose counters were read.
        nodes: Vec<usize>,
    },
    /// The lock is ours, if `validity` leaves time.
    Held {
        /// The first token of the grant. Without tokens it means nothing.
        token: u64,
    },
    /// It is not, and every node has to be told.
    Failed(Why),
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// Others have the key on too many nodes.
    Taken,
    /// Too many nodes are away for any majority.
    Away,
    /// Between the rounds a node went to somebody else.
    Overtaken,
    /// A node that took part in round 1 did not answer in round 2.
    Unanswered,
    /// No token is left below [`END_OF_TOKENS`].
    Exhausted,
}

/// The nodes' votes in one attempt to take a lock.
///
/// Decides as soon as the votes allow. A node is heard once per round, and after
/// the decision every further answer is met with the same decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempt {
    nodes: usize,
    /// Tokens per grant; `None` without tokens.
    width: Option<u64>,
    heard: NodeSet,
    granted: NodeSet,
    away: usize,
    highest: u64,
    /// The token that round 1 asks for, if any.
    guess: Option<u64>,
    /// Every node that granted so far was raised for the guess.
    is_guessed: bool,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Voting,
    /// `heard` and `granted` start anew and count round 2, among `asked` only.
    Raising {
        token: u64,
        asked: NodeSet,
    },
    Held {
        token: u64,
    },
    Failed(Why),
}

impl Attempt {
    /// An attempt on this many nodes, in two rounds with tokens, in one without.
    ///
    /// A [`NodeSet`] has room for 64 nodes; any beyond count as away.
    pub fn new(nodes: usize, uses_tokens: bool) -> Self {
        Self::of_width(nodes, uses_tokens.then_some(WIDTH))
    }

    /// As [`Attempt::new`], with this many tokens per grant. Models use one, to
    /// have fewer states.
    pub fn of_width(nodes: usize, width: Option<u64>) -> Self {
        Self {
            nodes,
            width,
            heard: NodeSet::default(),
            granted: NodeSet::default(),
            away: nodes.saturating_sub(NodeSet::ROOM),
            highest: 0,
            guess: None,
            is_guessed: false,
            stage: Stage::Voting,
        }
    }

    /// The same with a token that round 1 asks for, if there is room for it below
    /// [`END_OF_TOKENS`].
    ///
    /// Any guess is safe where no node forgets. Where nodes do, it must be at most
    /// one above what a majority has acknowledged: a readmission jumps above what
    /// the others know, and has to end above every token under way.
    #[must_use]
    pub fn guessing(self, guess: Option<u64>) -> Self {
        let fits = |token: &u64| {
            let last = self.width.map(|width| token.saturating_add(width - 1));
            *token > 0 && last.is_some_and(|last| last < END_OF_TOKENS)
        };
        let guess = guess.filter(fits);
        Self {
            guess,
            is_guessed: guess.is_some(),
            ..self
        }
    }

    /// The token that round 1 asks for, if any; none in round 2.
    pub fn guess(&self) -> Option<u64> {
        self.guess
    }

    /// A node answered in round 1.
    pub fn voted(&mut self, node: usize, vote: Vote) -> Step {
        // A late key must not take part in round 2: its counter came too late
        // for the token.
        if self.stage != Stage::Voting || !self.is_news(node) {
            return self.so_far();
        }
        self.heard.insert(node);
        match (vote, self.guess, self.width) {
            (Vote::Granted { counter }, ..) => {
                self.granted.insert(node);
                self.highest = self.highest.max(counter);
                self.is_guessed = false;
            }
            (Vote::Guessed, Some(guess), Some(width)) => {
                self.granted.insert(node);
                self.highest = self.highest.max(counter_after(guess, width));
            }
            (Vote::Refused, ..) => {}
            // Nobody guessed: that makes no sense.
            (Vote::Guessed | Vote::Away, ..) => self.away += 1,
        }
        if self.granted.len() >= majority(self.nodes) {
            return self.end_of_round_1();
        }
        if self.missing() > self.spare() {
            self.stage = Stage::Failed(if self.away > self.spare() {
                Why::Away
            } else {
                Why::Taken
            });
        }
        self.so_far()
    }

    /// A node answered in round 2.
    pub fn raised(&mut self, node: usize, raised: Raised) -> Step {
        let Stage::Raising { token, asked } = self.stage else {
            return self.so_far();
        };
        if !asked.contains(node) || !self.is_news(node) {
            return Step::Wait;
        }
        self.heard.insert(node);
        let why = match raised {
            Raised::Done => {
                self.granted.insert(node);
                None
            }
            Raised::Refused => Some(Why::Overtaken),
            Raised::Away => Some(Why::Unanswered),
        };
        let still_to_come = asked.len() - self.heard.len();
        if self.granted.len() >= majority(self.nodes) {
            self.stage = Stage::Held { token };
        } else if let Some(why) = why
            && self.granted.len() + still_to_come < majority(self.nodes)
        {
            self.stage = Stage::Failed(why);
        }
        self.so_far()
    }

    fn end_of_round_1(&mut self) -> Step {
        let Some(width) = self.width else {
            self.stage = Stage::Held {
                token: self.highest,
            };
            return self.so_far();
        };
        // Those still to come might agree with the guess where one of these did
        // not, but to wait for them takes longer than to ask again.
        if let Some(token) = self.guess
            && self.is_guessed
        {
            self.stage = Stage::Held { token };
            return self.so_far();
        }
        let last = self.highest.saturating_add(width);
        if last >= END_OF_TOKENS {
            self.stage = Stage::Failed(Why::Exhausted);
            return self.so_far();
        }
        let (token, asked) = (self.highest + 1, self.granted);
        self.stage = Stage::Raising { token, asked };
        self.heard = NodeSet::default();
        self.granted = NodeSet::default();
        (self.guess, self.is_guessed) = (None, false);
        Step::Raise {
            token,
            nodes: asked.iter().collect(),
        }
    }

    fn so_far(&self) -> Step {
        match self.stage {
            Stage::Voting | Stage::Raising { .. } => Step::Wait,
            Stage::Held { token } => Step::Held { token },
            Stage::Failed(why) => Step::Failed(why),
        }
    }

    fn is_news(&self, node: usize) -> bool {
        node < self.nodes.min(NodeSet::ROOM) && !self.heard.contains(node)
    }

    /// How many nodes will certainly not grant.
    fn missing(&self) -> usize {
        let unheard_for_ever = self.nodes.saturating_sub(NodeSet::ROOM);
        self.heard.len() - self.granted.len() + unheard_for_ever
    }

    /// How many nodes a majority can do without.
    fn spare(&self) -> usize {
        self.nodes - majority(self.nodes).min(self.nodes)
    }
}

/// The nodes' counters after a grant: the last of its tokens.
pub const fn counter_after(token: u64, width: u64) -> u64 {
    token + width - 1
}

/// Whether a renewal kept the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// A majority of all nodes renewed it.
    Yes,
    /// So many no longer have it that no majority can.
    No,
    /// Neither is known yet: not lost, and not renewed.
    Unknown,
}

/// What a renewal came to when `yes` nodes have renewed and `no` nodes have said
/// that the key is not ours, of `nodes` in all. Silence is neither.
pub fn renewed(nodes: usize, yes: usize, no: usize) -> Kept {
    if yes >= majority(nodes) {
        Kept::Yes
    } else if no > nodes - majority(nodes).min(nodes) {
        Kept::No
    } else {
        Kept::Unknown
    }
}

/// How long a lock that was asked for at `sent` may be used from `now` on:
/// what is left of the ttl, less 1 % for clocks that run apart and 2 ms for
/// nodes that expire keys late or early. `None` if nothing is.
#[allow(dead_code, reason = "a build without Redis has no engine for it")]
pub(crate) fn validity(sent: Moment, now: Moment, ttl: Duration) -> Option<Duration> {
    let margin = ttl / 100 + Duration::from_millis(2);
    let left = LeaseClock::granted(sent, ttl, margin).deadline().since(now);
    (!left.is_zero()).then_some(left)
}
