//! The state of the model, and how it moves.

use leasehold::redlock::node::{self, Run};
use leasehold::redlock::quorum::{Attempt, NodeSet, Readmission};
use stateright::Model;

use super::access::Resource;
use super::action::Action;
use super::{Expiry, Property, Remedy, Renewals, Rules};

/// The one lock all of them want.
pub(super) const LOCK: usize = 0;

/// The run every node is in at first.
const FIRST_RUN: Run = 1;

/// A node with the one lock.
pub(super) type Node = node::Node<1>;

/// `N` nodes and `T` attempts to take the lock.
#[derive(Debug, Clone)]
pub struct Redlock<const N: usize, const T: usize> {
    /// What the row assumes.
    pub rules: Rules,
    /// What is looked at in every state.
    pub properties: &'static [Property],
    /// Whether it is also looked for that anything happens at all.
    pub must_be_reached: bool,
}

/// One state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World<const N: usize, const T: usize> {
    pub(super) nodes: [Node; N],
    /// For each node that restarted with a delay: the attempts it waits for.
    pub(super) waits_for: [u8; N],
    pub(super) tries: [Try; T],
    pub(super) resource: Resource,
    pub(super) repeats: u8,
    pub(super) amnesias: u8,
    pub(super) readmission: Option<Readmitting>,
}

/// One attempt to take the lock, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Try {
    pub(super) stage: Stage,
    /// What round 1 guesses, while it may still come; 0 for nothing.
    pub(super) guess: u64,
    pub(super) token: u64,
    pub(super) is_granted: bool,
    /// The attempts that had been granted when this one began.
    pub(super) before: u8,
    pub(super) accesses: u8,
    /// Requests under way, by round.
    pub(super) taking: NodeSet,
    pub(super) raising: NodeSet,
    pub(super) releasing: NodeSet,
    /// Where round 2 was ever sent, while it may still come twice.
    pub(super) raised: NodeSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Asking(Attempt),
    /// Round 2 of the broken, loose scheme.
    Loosely {
        acknowledged: NodeSet,
    },
    Holding(Renewal),
    Over,
}

/// The one renewal of a hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    pub(super) asking: NodeSet,
    pub(super) yes: NodeSet,
    pub(super) no: NodeSet,
    /// The client knows that it was renewed.
    pub(super) is_kept: bool,
    /// The first ttl is over.
    pub(super) is_late: bool,
}

/// A node's readmission in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Readmitting {
    pub(super) plan: Readmission,
    pub(super) target: usize,
    pub(super) run: Run,
    pub(super) looking: NodeSet,
    pub(super) lifting: NodeSet,
    pub(super) floor: u64,
    pub(super) may_end: bool,
}

impl<const N: usize, const T: usize> World<N, T> {
    fn new(rules: &Rules) -> Self {
        let mut node = Node::new(FIRST_RUN);
        assert!(node.admit(0, FIRST_RUN), "this is its run");
        let idle = Try {
            stage: Stage::Idle,
            guess: 0,
            token: 0,
            is_granted: false,
            before: 0,
            accesses: 0,
            taking: NodeSet::default(),
            raising: NodeSet::default(),
            releasing: NodeSet::default(),
            raised: NodeSet::default(),
        };
        Self {
            nodes: [node; N],
            waits_for: [0; N],
            tries: [idle; T],
            resource: Resource::default(),
            repeats: rules.repeats,
            amnesias: rules.amnesias,
            readmission: None,
        }
    }

    /// The attempts for which this is so, as a mask.
    pub(super) fn mask(&self, holds: impl Fn(&Try) -> bool) -> u8 {
        (0..T).fold(0, |mask, at| {
            mask | (u8::from(holds(&self.tries[at])) << at)
        })
    }
}

impl Try {
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Forgets what can no longer matter, so that equal states are equal.
    fn tidy(&mut self, may_repeat: bool) {
        if !may_repeat {
            self.raised = NodeSet::default();
            if self.taking.is_empty() {
                self.guess = 0;
            }
        }
        if self.is_over() && !self.is_granted {
            self.before = 0;
            if self.raising.is_empty() && self.raised.is_empty() {
                self.token = 0;
            }
        }
    }
}

impl<const N: usize, const T: usize> Model for Redlock<N, T> {
    type State = World<N, T>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![World::new(&self.rules)]
    }

    fn actions(&self, world: &Self::State, actions: &mut Vec<Action>) {
        for attempt in 0..T {
            self.client_actions(world, attempt, actions);
        }
        for node in 0..N {
            self.server_actions(world, node, actions);
        }
        self.readmission_actions(world, actions);
    }

    fn next_state(&self, before: &Self::State, action: Action) -> Option<Self::State> {
        let mut world = *before;
        match action {
            Action::Start { attempt, guess } => self.start(&mut world, attempt, guess),
            Action::Take {
                attempt,
                node,
                is_heard,
            } => self.take(&mut world, attempt, node, is_heard),
            Action::Raise { attempt, node } => self.raise(&mut world, attempt, node),
            Action::Release { attempt, node } => self.release(&mut world, attempt, node),
            Action::Renew { attempt, node } => self.renew(&mut world, attempt, node),
            Action::RepeatTake { attempt, node } => {
                world.repeats -= 1;
                world.tries[attempt].taking.insert(node);
            }
            Action::RepeatRaise { attempt, node } => {
                world.repeats -= 1;
                world.tries[attempt].raising.insert(node);
            }
            Action::GiveUp(attempt) => self.give_up(&mut world, attempt),
            Action::Deadline(attempt) => self.deadline(&mut world, attempt),
            Action::Access(attempt) => world.access(attempt, self.rules.width),
            Action::Expire(node) => world.nodes[node].expire(LOCK),
            Action::ExpireCounter(node) => world.nodes[node].expire_counter(LOCK),
            Action::Forget(node) => self.forget(&mut world, node),
            Action::Copy(node) => {
                let jumps = self.rules.remedy == Remedy::JumpAlone;
                world.copy(node, if jumps { self.rules.jump } else { 0 });
            }
            Action::Readmit(node) => world.readmit(node, self.rules.jump),
            Action::Look(node) => world.look(node),
            Action::Lift(node) => world.lift(node),
            Action::Admit => world.admit(),
        }
        self.settle(&mut world);
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        let mut properties: Vec<_> = self.properties.iter().map(|it| it.check()).collect();
        properties.extend(self.must_be_reached.then(Property::reached));
        properties
    }

    fn format_action(&self, action: &Action) -> String {
        action.to_string()
    }
}

impl<const N: usize, const T: usize> Redlock<N, T> {
    /// What happens by itself after each step.
    fn settle(&self, world: &mut World<N, T>) {
        let may_repeat = world.repeats > 0;
        world.tries.iter_mut().for_each(|it| it.tidy(may_repeat));
        if self.rules.remedy == Remedy::Delay {
            let over = world.mask(Try::is_over);
            for node in 0..N {
                world.waits_for[node] &= !over;
                let run = world.nodes[node].run;
                if world.waits_for[node] == 0 && world.nodes[node].is_quarantined() {
                    assert!(world.nodes[node].admit(0, run), "this is its run");
                }
            }
        }
        if !self.rules.remembers_high {
            world.nodes.iter_mut().for_each(|node| node.high = 0);
        }
        if self.rules.symmetry {
            *world = world.in_order();
        }
    }

    /// Whether the key on this node may vanish now.
    pub(super) fn may_expire(&self, world: &World<N, T>, node: usize) -> bool {
        let Some(owner) = world.nodes[node].locks[LOCK].owner else {
            return false;
        };
        if self.rules.keys == Expiry::AnyTime {
            return true;
        }
        let attempt = &world.tries[usize::try_from(owner).expect("a small number")];
        match attempt.stage {
            Stage::Over => true,
            // A key that was renewed lives as long as its holder believes.
            Stage::Holding(renewal) if self.rules.renewals != Renewals::None => {
                renewal.is_late && !renewal.yes.contains(node)
            }
            _ => false,
        }
    }
}
