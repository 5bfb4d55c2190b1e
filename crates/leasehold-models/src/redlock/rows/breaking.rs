//! What is known to be wrong, and must be found to be.

use super::super::Property::{self, Monotone, NoInterleaving, NoStaleAccess, OneHolder, Unique};
use super::super::row::{Row, Size, Verdict};
use super::super::{Expiry, Remedy, Renewals, Rules, Scheme};
use super::{EARLY, PLAIN, STRICT, sized};

/// A row whose trace people read, so nodes keep their names.
const fn breaks(
    name: &'static str,
    says: &'static str,
    properties: &'static [Property],
    rules: Rules,
) -> Row {
    Row {
        name,
        says,
        verdict: Verdict::Breaks,
        properties,
        size: Size::N3T2,
        is_long: false,
        rules: Rules {
            symmetry: false,
            ..rules
        },
    }
}

pub(super) const ROWS: &[Row] = &[
    breaks(
        "plain-early",
        "no tokens, one key vanishes early",
        &[OneHolder],
        Rules {
            keys: Expiry::AnyTime,
            ..PLAIN
        },
    ),
    breaks(
        "plain-forgetful",
        "no tokens, good clocks, one node forgets",
        &[OneHolder],
        Rules {
            amnesias: 1,
            ..PLAIN
        },
    ),
    breaks(
        "renewed-by-answers",
        "a renewal by a majority of those that answered",
        &[OneHolder],
        Rules {
            renewals: Renewals::OfAnswers,
            ..PLAIN
        },
    ),
    sized(
        Size::N3T3,
        breaks(
            "count-per-node",
            "each node counts for itself, the token is the highest reply",
            &[Unique],
            Rules {
                first_client_tries_twice: true,
                ..Rules::of(Scheme::CountPerNode)
            },
        ),
    ),
    breaks(
        "loose",
        "round 2 on any node that has the key, counters raised to at least the token",
        &[Unique],
        Rules {
            keys: Expiry::AnyTime,
            ..Rules::of(Scheme::Loose)
        },
    ),
    breaks(
        "guess-loose",
        "a guess is taken up where the counter is not higher",
        &[Unique, Monotone],
        Rules {
            guesses: &[0, 1],
            ..Rules::of(Scheme::LooseGuess)
        },
    ),
    breaks(
        "guess-too-far",
        "a guess that is further above what a majority knows than the jump",
        &[Unique],
        Rules {
            guesses: &[150],
            amnesias: 1,
            remedy: Remedy::Jump,
            ..STRICT
        },
    ),
    breaks(
        "forgetful",
        "a node forgets and takes part at once",
        &[Unique, Monotone, NoInterleaving, NoStaleAccess],
        Rules {
            amnesias: 1,
            accesses: 2,
            ..STRICT
        },
    ),
    breaks(
        "forgetful-delayed",
        "a node forgets and takes part when all attempts of before are over",
        &[Unique, Monotone],
        Rules {
            amnesias: 1,
            remedy: Remedy::Delay,
            ..STRICT
        },
    ),
    breaks(
        "copied",
        "a node forgets and comes back with the highest counter of the others",
        &[Unique],
        Rules {
            amnesias: 1,
            remedy: Remedy::Copy,
            ..EARLY
        },
    ),
    breaks(
        "jump-alone",
        "nodes forget twice and jump, but the others are not raised",
        &[Unique],
        Rules {
            amnesias: 2,
            remedy: Remedy::JumpAlone,
            ..STRICT
        },
    ),
    breaks(
        "jump-too-short",
        "the jump ends at the highest counter seen, below a token under way",
        &[Unique],
        Rules {
            amnesias: 1,
            remedy: Remedy::Jump,
            jump: 0,
            ..STRICT
        },
    ),
    breaks(
        "counters-forgotten",
        "idle counters vanish and nothing stands in",
        &[Unique, Monotone],
        Rules {
            counters_expire: true,
            remembers_high: false,
            ..STRICT
        },
    ),
];
