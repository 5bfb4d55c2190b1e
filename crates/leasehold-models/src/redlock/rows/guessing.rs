//! What must hold where tokens are guessed.

use super::super::row::{Row, Size};
use super::super::{Expiry, Remedy, Rules};
use super::holding::{FENCED, holds, long};
use super::{STRICT, TOKENS, sized};

/// Ours with guesses: none, two that are right or stale, one that is too high.
const GUESSING: Rules = Rules {
    guesses: &[0, 1, 2, 5],
    ..STRICT
};

pub(super) const ROWS: &[Row] = &[
    holds(
        "guess",
        "tokens that are guessed, keys vanish at any time, holders wake late",
        FENCED,
        Rules {
            accesses: 1,
            keys: Expiry::AnyTime,
            ..GUESSING
        },
    ),
    holds(
        "guess-wide",
        "the same with 32 tokens to a grant, and guesses that overlap",
        TOKENS,
        Rules {
            width: 32,
            guesses: &[0, 1, 20, 150],
            keys: Expiry::AnyTime,
            ..GUESSING
        },
    ),
    holds(
        "guess-twice",
        "guesses, and a request comes twice",
        TOKENS,
        Rules {
            guesses: &[0, 1, 5],
            repeats: 1,
            keys: Expiry::AnyTime,
            ..GUESSING
        },
    ),
    sized(
        Size::N4T2,
        holds(
            "guess-even",
            "good clocks, guesses on four nodes",
            TOKENS,
            GUESSING,
        ),
    ),
    holds(
        "guess-counters-expire",
        "good clocks, guesses, idle counters vanish at any time",
        TOKENS,
        Rules {
            counters_expire: true,
            ..GUESSING
        },
    ),
    holds(
        "guess-jump",
        "good clocks, guesses, a node forgets and comes back by the jump",
        TOKENS,
        Rules {
            guesses: &[0, 5],
            amnesias: 1,
            remedy: Remedy::Jump,
            ..GUESSING
        },
    ),
    long(holds(
        "guess-jump-early",
        "the same with more guesses, keys vanish at any time",
        TOKENS,
        Rules {
            guesses: &[0, 1, 5],
            amnesias: 1,
            remedy: Remedy::Jump,
            keys: Expiry::AnyTime,
            ..GUESSING
        },
    )),
    long(holds(
        "guess-jump-twice",
        "good clocks, guesses, nodes forget twice and come back by the jump",
        TOKENS,
        Rules {
            guesses: &[0, 5],
            amnesias: 2,
            remedy: Remedy::Jump,
            ..GUESSING
        },
    )),
    long(sized(
        Size::N3T3,
        holds(
            "guess-three",
            "good clocks, three clients that guess",
            TOKENS,
            Rules {
                guesses: &[0, 9],
                ..GUESSING
            },
        ),
    )),
];
