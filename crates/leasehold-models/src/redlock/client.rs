//! What clients do: they follow `quorum.rs`, in the broken variants up to the
//! point where those part from it.

use leasehold::redlock::quorum::{
    Attempt, Kept, NodeSet, Raised, Step, Vote, counter_after, majority, renewed,
};

use super::action::Action;
use super::world::{LOCK, Node, Redlock, Renewal, Stage, World};
use super::{Renewals, Scheme};

impl<const N: usize, const T: usize> Redlock<N, T> {
    pub(super) fn client_actions(
        &self,
        world: &World<N, T>,
        attempt: usize,
        actions: &mut Vec<Action>,
    ) {
        let it = &world.tries[attempt];
        if it.stage == Stage::Idle {
            let waits = self.rules.first_client_tries_twice && attempt == 1;
            if !waits || world.tries[0].is_over() {
                let guesses = self.rules.guesses.iter();
                actions.extend(guesses.map(|&guess| Action::Start { attempt, guess }));
            }
            return;
        }
        for node in it.taking.iter() {
            let take = |is_heard| Action::Take {
                attempt,
                node,
                is_heard,
            };
            // A lost reply matters only to a client that goes on without it.
            if matches!(it.stage, Stage::Asking(_)) {
                actions.push(take(true));
            }
            actions.push(take(false));
        }
        for node in it.raising.iter() {
            actions.push(Action::Raise { attempt, node });
        }
        for node in it.releasing.iter() {
            actions.push(Action::Release { attempt, node });
        }
        if world.repeats > 0 {
            let taken = (0..N).filter(|&node| !it.taking.contains(node));
            actions.extend(taken.map(|node| Action::RepeatTake { attempt, node }));
            let raised = it.raised.iter().filter(|&node| !it.raising.contains(node));
            actions.extend(raised.map(|node| Action::RepeatRaise { attempt, node }));
        }
        match it.stage {
            Stage::Asking(_) | Stage::Loosely { .. } => actions.push(Action::GiveUp(attempt)),
            Stage::Holding(renewal) => {
                actions.push(Action::Deadline(attempt));
                for node in renewal.asking.iter() {
                    actions.push(Action::Renew { attempt, node });
                }
            }
            Stage::Idle | Stage::Over => {}
        }
        if it.is_granted && it.accesses < self.rules.accesses {
            actions.push(Action::Access(attempt));
        }
    }

    pub(super) fn start(&self, world: &mut World<N, T>, attempt: usize, guess: u64) {
        let before = world.mask(|other| other.is_granted);
        let width = match self.rules.scheme {
            Scheme::Plain | Scheme::CountPerNode => None,
            Scheme::Loose | Scheme::LooseGuess | Scheme::Strict => Some(self.rules.width),
        };
        let it = &mut world.tries[attempt];
        it.before = before;
        it.taking = (0..N).collect();
        it.guess = guess;
        let quorum = Attempt::of_width(N, width);
        it.stage = Stage::Asking(quorum.guessing((guess > 0).then_some(guess)));
    }

    pub(super) fn take(
        &self,
        world: &mut World<N, T>,
        attempt: usize,
        node: usize,
        is_heard: bool,
    ) {
        world.tries[attempt].taking.remove(node);
        let guess = world.tries[attempt].guess;
        let vote = self.vote(&mut world.nodes[node], attempt, guess);
        if let Stage::Asking(quorum) = &mut world.tries[attempt].stage
            && is_heard
        {
            let step = quorum.voted(node, vote);
            self.follow(world, attempt, step);
        }
    }

    fn vote(&self, server: &mut Node, attempt: usize, guess: u64) -> Vote {
        let owner = u64::try_from(attempt).expect("a small number");
        let vote = match (self.rules.scheme, guess) {
            (Scheme::Strict, 1..) => server.take_guessing(LOCK, owner, guess, self.rules.width),
            _ => server.take(LOCK, owner),
        };
        let mut vote = vote.unwrap_or(Vote::Away);
        if let Vote::Granted { counter } = &mut vote {
            match self.rules.scheme {
                Scheme::CountPerNode => {
                    *counter += 1;
                    server.locks[LOCK].counter = Some(*counter);
                }
                Scheme::LooseGuess if *counter <= guess => {
                    server.locks[LOCK].counter = Some(counter_after(guess, self.rules.width));
                    vote = Vote::Guessed;
                }
                _ => {}
            }
        }
        vote
    }

    pub(super) fn raise(&self, world: &mut World<N, T>, attempt: usize, node: usize) {
        world.tries[attempt].raising.remove(node);
        let owner = u64::try_from(attempt).expect("a small number");
        let token = world.tries[attempt].token;
        let server = &mut world.nodes[node];
        if self.rules.scheme == Scheme::Loose {
            let is_ours = server.locks[LOCK].owner == Some(owner) && !server.is_quarantined();
            if is_ours {
                let counter = server.counter(LOCK).max(token);
                server.locks[LOCK].counter = Some(counter);
            }
            self.hear_loosely(world, attempt, node, is_ours);
            return;
        }
        let raised = server.raise(LOCK, owner, token, self.rules.width);
        if let Stage::Asking(quorum) = &mut world.tries[attempt].stage {
            let step = quorum.raised(node, raised.unwrap_or(Raised::Away));
            self.follow(world, attempt, step);
        }
    }

    pub(super) fn give_up(&self, world: &mut World<N, T>, attempt: usize) {
        if let Stage::Asking(quorum) = &mut world.tries[attempt].stage {
            let silence = (0..N).map(|node| {
                quorum.voted(node, Vote::Away);
                quorum.raised(node, Raised::Away)
            });
            let step = silence.last().expect("there are nodes");
            assert!(matches!(step, Step::Failed(_)), "silent nodes: {step:?}");
        }
        self.end(world, attempt);
    }

    pub(super) fn deadline(&self, world: &mut World<N, T>, attempt: usize) {
        match &mut world.tries[attempt].stage {
            Stage::Holding(renewal) if renewal.is_kept && !renewal.is_late => {
                renewal.is_late = true;
            }
            _ => self.end(world, attempt),
        }
    }

    pub(super) fn renew(&self, world: &mut World<N, T>, attempt: usize, node: usize) {
        let owner = u64::try_from(attempt).expect("a small number");
        let answer = world.nodes[node].renew(LOCK, owner);
        let Stage::Holding(renewal) = &mut world.tries[attempt].stage else {
            return;
        };
        renewal.asking.remove(node);
        match answer {
            Ok(true) => renewal.yes.insert(node),
            Ok(false) => renewal.no.insert(node),
            Err(_) => {}
        }
        let (yes, no) = (renewal.yes.len(), renewal.no.len());
        let nodes = match self.rules.renewals {
            Renewals::OfAnswers => yes + no,
            Renewals::OfAll | Renewals::None => N,
        };
        match renewed(nodes, yes, no) {
            Kept::Yes => renewal.is_kept = true,
            Kept::No => self.end(world, attempt),
            Kept::Unknown => {}
        }
    }

    pub(super) fn release(&self, world: &mut World<N, T>, attempt: usize, node: usize) {
        let owner = u64::try_from(attempt).expect("a small number");
        world.tries[attempt].releasing.remove(node);
        world.nodes[node].release(LOCK, owner);
    }

    fn follow(&self, world: &mut World<N, T>, attempt: usize, step: Step) {
        let it = &mut world.tries[attempt];
        match step {
            Step::Wait => {}
            Step::Raise { token, .. } if self.rules.scheme == Scheme::Loose => {
                it.token = token;
                it.raising = (0..N).collect();
                it.raised = it.raising;
                it.stage = Stage::Loosely {
                    acknowledged: NodeSet::default(),
                };
            }
            Step::Raise { token, nodes } => {
                it.token = token;
                it.raising = nodes.into_iter().collect();
                it.raised = it.raising;
            }
            Step::Held { token } => self.hold(world, attempt, token),
            Step::Failed(_) => self.end(world, attempt),
        }
    }

    fn hear_loosely(&self, world: &mut World<N, T>, attempt: usize, node: usize, done: bool) {
        let it = &mut world.tries[attempt];
        if let Stage::Loosely { acknowledged } = &mut it.stage
            && done
        {
            acknowledged.insert(node);
            if acknowledged.len() >= majority(N) {
                let token = it.token;
                self.hold(world, attempt, token);
            }
        }
    }

    fn hold(&self, world: &mut World<N, T>, attempt: usize, token: u64) {
        let it = &mut world.tries[attempt];
        let mut renewal = Renewal::default();
        if self.rules.renewals != Renewals::None {
            renewal.asking = (0..N).collect();
        }
        it.token = token;
        it.is_granted = true;
        it.stage = Stage::Holding(renewal);
    }

    fn end(&self, world: &mut World<N, T>, attempt: usize) {
        let it = &mut world.tries[attempt];
        it.stage = Stage::Over;
        if self.rules.releases {
            it.releasing = (0..N).collect();
        }
    }
}
