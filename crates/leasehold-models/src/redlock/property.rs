//! What is looked at in every state.

use std::fmt;

use stateright::Property as Check;

use super::Remedy;
use super::world::{LOCK, Redlock, Stage, World};

/// A property that a row says holds, or breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// At most one client believes that it holds the lock.
    OneHolder,
    /// No two grants have a token in common.
    Unique,
    /// A grant that began after another has higher tokens.
    Monotone,
    /// The resource never takes up a hold again after another's access.
    NoInterleaving,
    /// The resource takes no access after one of a hold that began later.
    NoStaleAccess,
}

/// That the row is not true for want of anything happening.
const REACHED: &str = "reached";

impl Property {
    /// Its letters in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneHolder => "ME",
            Self::Unique => "U",
            Self::Monotone => "M",
            Self::NoInterleaving => "F1",
            Self::NoStaleAccess => "F2",
        }
    }

    pub(super) fn check<const N: usize, const T: usize>(self) -> Check<Redlock<N, T>> {
        let holds: fn(&Redlock<N, T>, &World<N, T>) -> bool = match self {
            Self::OneHolder => |_, world| {
                let holders = world.mask(|it| matches!(it.stage, Stage::Holding(_)));
                holders.count_ones() <= 1
            },
            Self::Unique => |model, world| {
                let is_apart = |one: u64, other: u64| one.abs_diff(other) >= model.rules.width;
                pairs(world).all(|(one, other)| is_apart(one.1, other.1))
            },
            Self::Monotone => |model, world| {
                let is_above = |later: u64, earlier: u64| later >= earlier + model.rules.width;
                pairs(world).all(|((one, first), (other, second))| {
                    let began_after =
                        |one: usize, other: usize| world.tries[one].before >> other & 1 == 1;
                    (!began_after(one, other) || is_above(first, second))
                        && (!began_after(other, one) || is_above(second, first))
                })
            },
            Self::NoInterleaving => |_, world| !world.resource.is_interleaved,
            Self::NoStaleAccess => |_, world| !world.resource.is_stale,
        };
        Check::always(self.name(), holds)
    }

    /// Every attempt was granted, one of them in one round where they may guess,
    /// every fault the row allows has happened, and whoever can come back has:
    /// what holds is not true for want of events.
    pub(super) fn reached<const N: usize, const T: usize>() -> Check<Redlock<N, T>> {
        Check::sometimes(REACHED, |model: &Redlock<N, T>, world: &World<N, T>| {
            let is_back = model.rules.remedy == Remedy::Quarantine
                || !world.nodes.iter().any(super::world::Node::is_quarantined);
            let is_expired =
                |node: &super::world::Node| node.locks[LOCK].counter.is_none() && node.high > 0;
            let has_expired = !model.rules.counters_expire
                || !model.rules.remembers_high
                || world.nodes.iter().any(is_expired);
            let has_tokens = !model.has_tokens() || world.tries.iter().all(|it| it.token > 0);
            // No other way leads to the greatest of them.
            let greatest = model.rules.guesses.iter().copied().max();
            let has_guessed = greatest
                .is_none_or(|guess| guess == 0 || world.tries.iter().any(|it| it.token == guess));
            world.tries.iter().all(|it| it.is_granted)
                && has_tokens
                && has_guessed
                && world.repeats == 0
                && world.amnesias == 0
                && is_back
                && has_expired
        })
    }

    /// The name under which `reached` is found.
    pub const fn reached_name() -> &'static str {
        REACHED
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every two attempts that were granted, with their first tokens.
fn pairs<const N: usize, const T: usize>(
    world: &World<N, T>,
) -> impl Iterator<Item = ((usize, u64), (usize, u64))> {
    let granted = |at: usize| {
        world.tries[at]
            .is_granted
            .then_some((at, world.tries[at].token))
    };
    (0..T).flat_map(move |one| {
        (0..one).filter_map(move |other| Some((granted(one)?, granted(other)?)))
    })
}
