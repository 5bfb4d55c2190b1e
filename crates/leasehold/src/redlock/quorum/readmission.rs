//! How a node that may have forgotten comes back: the *jump*.
//!
//! Copying the highest counter of the others is not enough. An acknowledgement
//! that the node gave before it forgot may still be in a client's hand, and
//! together with one that is yet to come it makes a majority. So the others are
//! raised first, above every token that can be under way: what the client still
//! waits for is then refused. Only after that does the node get the same floor
//! and leave its quarantine.

use super::{END_OF_TOKENS, NodeSet, majority};

/// How far above the highest counter seen the new floor is: further than the
/// attempts under way at that time can have come.
pub const JUMP: u64 = 1 << 24;

/// What to do next for the node that wants back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Plan {
    /// Wait for the next answer.
    Wait,
    /// Raise the floors of these other nodes. Said once.
    Raise {
        /// The new floor.
        floor: u64,
        /// The others that have named their counters.
        nodes: Vec<usize>,
    },
    /// Enough others are raised: give the node this floor and lift its quarantine.
    Admit {
        /// The new floor.
        floor: u64,
    },
    /// The node stays in quarantine.
    Failed(WhyNot),
}

/// Why a node cannot come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WhyNot {
    /// Too few of the other nodes are there and in good standing.
    TooFewOthers,
    /// The new floor would leave no tokens.
    Exhausted,
}

/// One node's way out of quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Readmission {
    nodes: usize,
    pub(super) target: usize,
    jump: u64,
    pub(super) heard: NodeSet,
    /// Those in good standing: they named their counters, later they are raised.
    pub(super) good: NodeSet,
    highest: u64,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Looking,
    /// `heard` and `good` start anew, among `asked` only.
    Raising {
        floor: u64,
        asked: NodeSet,
    },
    Admit {
        floor: u64,
    },
    Failed(WhyNot),
}

impl Readmission {
    /// A plan for the node `target`, one of `nodes`.
    pub fn new(nodes: usize, target: usize) -> Self {
        Self::with_jump(nodes, target, JUMP)
    }

    /// As [`Readmission::new`], with another jump than [`JUMP`].
    pub fn with_jump(nodes: usize, target: usize, jump: u64) -> Self {
        Self {
            nodes,
            target,
            jump,
            heard: NodeSet::default(),
            good: NodeSet::default(),
            highest: 0,
            stage: Stage::Looking,
        }
    }

    /// How many other nodes have to be raised: so many that every majority with
    /// the target in it has one of them.
    pub const fn needed(nodes: usize) -> usize {
        (nodes + 1).saturating_sub(majority(nodes))
    }

    /// How many other nodes have to know of the floor before the first gets it.
    /// Should the readmission break off then and a node with the floor forget
    /// it, whoever readmits that node meets one that knows.
    pub const fn announced(nodes: usize) -> usize {
        Self::needed(nodes) + (nodes + 1) % 2
    }

    /// Another node named the highest counter of all its locks, or its floor if
    /// that is higher; `None` if it is away or itself in quarantine.
    ///
    /// All others are heard before the plan goes on, since the floor should be
    /// above what the best informed of them knows.
    pub fn saw(&mut self, node: usize, highest: Option<u64>) -> Plan {
        if self.stage != Stage::Looking || !self.is_news(node) {
            return self.so_far();
        }
        self.heard.insert(node);
        if let Some(highest) = highest {
            self.good.insert(node);
            self.highest = self.highest.max(highest);
        }
        if self.heard.len() + 1 < self.nodes {
            return self.so_far();
        }
        if self.good.len() < Self::needed(self.nodes) {
            self.stage = Stage::Failed(WhyNot::TooFewOthers);
            return self.so_far();
        }
        let floor = self.highest.saturating_add(self.jump);
        if floor >= END_OF_TOKENS {
            self.stage = Stage::Failed(WhyNot::Exhausted);
            return self.so_far();
        }
        let asked = self.good;
        self.stage = Stage::Raising { floor, asked };
        self.heard = NodeSet::default();
        self.good = NodeSet::default();
        Plan::Raise {
            floor,
            nodes: asked.iter().collect(),
        }
    }

    /// Another node was raised, or it was not: away, or in quarantine by now.
    pub fn raised(&mut self, node: usize, done: bool) -> Plan {
        let Stage::Raising { floor, asked } = self.stage else {
            return self.so_far();
        };
        if !asked.contains(node) || !self.is_news(node) {
            return Plan::Wait;
        }
        self.heard.insert(node);
        if done {
            self.good.insert(node);
        }
        let still_to_come = asked.len() - self.heard.len();
        if self.good.len() >= Self::needed(self.nodes) {
            self.stage = Stage::Admit { floor };
        } else if self.good.len() + still_to_come < Self::needed(self.nodes) {
            self.stage = Stage::Failed(WhyNot::TooFewOthers);
        }
        self.so_far()
    }

    fn so_far(&self) -> Plan {
        match self.stage {
            Stage::Looking | Stage::Raising { .. } => Plan::Wait,
            Stage::Admit { floor } => Plan::Admit { floor },
            Stage::Failed(why) => Plan::Failed(why),
        }
    }

    fn is_news(&self, node: usize) -> bool {
        node < self.nodes && node != self.target && !self.heard.contains(node)
    }
}
