//! What must hold.

use super::super::Property::{self, Monotone, NoInterleaving, NoStaleAccess, OneHolder, Unique};
use super::super::row::{Row, Size, Verdict};
use super::super::{Remedy, Renewals, Rules};
use super::{EARLY, PLAIN, STRICT, TOKENS, sized};

/// Tokens, and a resource that refuses lower ones.
pub(super) const FENCED: &[Property] = &[Unique, Monotone, NoInterleaving, NoStaleAccess];

pub(super) const fn holds(
    name: &'static str,
    says: &'static str,
    properties: &'static [Property],
    rules: Rules,
) -> Row {
    Row {
        name,
        says,
        verdict: Verdict::Holds,
        properties,
        size: Size::N3T2,
        is_long: false,
        rules,
    }
}

/// A row for the patient.
pub(super) const fn long(row: Row) -> Row {
    Row {
        is_long: true,
        ..row
    }
}

pub(super) const ROWS: &[Row] = &[
    holds(
        "plain",
        "no tokens, good clocks, releases that come late or twice",
        &[OneHolder],
        Rules {
            releases: true,
            repeats: 1,
            ..PLAIN
        },
    ),
    sized(
        Size::N4T2,
        holds(
            "plain-even",
            "the same on four nodes, without releases",
            &[OneHolder],
            PLAIN,
        ),
    ),
    holds(
        "renewed",
        "no tokens, good clocks, a renewal by a majority of all nodes",
        &[OneHolder],
        Rules {
            renewals: Renewals::OfAll,
            ..PLAIN
        },
    ),
    holds(
        "strict",
        "tokens, keys vanish at any time, holders wake late",
        FENCED,
        Rules {
            accesses: 2,
            ..EARLY
        },
    ),
    holds(
        "strict-wide",
        "the same with 32 tokens to a grant",
        FENCED,
        Rules {
            accesses: 2,
            width: 32,
            ..EARLY
        },
    ),
    holds(
        "strict-twice",
        "the same, and a request comes twice",
        FENCED,
        Rules {
            accesses: 1,
            repeats: 1,
            ..EARLY
        },
    ),
    sized(
        Size::N4T2,
        holds("strict-even", "the same on four nodes", TOKENS, EARLY),
    ),
    holds(
        "counters-expire",
        "idle counters vanish at any time, the node's highest stands in",
        FENCED,
        Rules {
            accesses: 1,
            counters_expire: true,
            ..EARLY
        },
    ),
    holds(
        "quarantine",
        "a node forgets and stays out",
        FENCED,
        Rules {
            accesses: 1,
            amnesias: 1,
            remedy: Remedy::Quarantine,
            ..EARLY
        },
    ),
    holds(
        "jump",
        "a node forgets and comes back by the jump",
        FENCED,
        Rules {
            accesses: 1,
            amnesias: 1,
            remedy: Remedy::Jump,
            ..EARLY
        },
    ),
    holds(
        "jump-twice",
        "good clocks, nodes forget twice and come back by the jump",
        TOKENS,
        Rules {
            amnesias: 2,
            remedy: Remedy::Jump,
            ..STRICT
        },
    ),
    long(holds(
        "jump-repeated",
        "good clocks, the jump, and a request comes twice",
        TOKENS,
        Rules {
            amnesias: 1,
            remedy: Remedy::Jump,
            repeats: 1,
            ..STRICT
        },
    )),
    holds(
        "jump-counters-expire",
        "good clocks, the jump, and idle counters vanish",
        TOKENS,
        Rules {
            amnesias: 1,
            remedy: Remedy::Jump,
            counters_expire: true,
            ..STRICT
        },
    ),
    sized(
        Size::N3T3,
        holds("strict-three", "good clocks, three clients", TOKENS, STRICT),
    ),
    long(holds(
        "jump-twice-early",
        "as jump-twice, keys vanish at any time",
        TOKENS,
        Rules {
            amnesias: 2,
            remedy: Remedy::Jump,
            ..EARLY
        },
    )),
    long(sized(
        Size::N4T2,
        holds(
            "jump-even",
            "good clocks, four nodes, one forgets and comes back by the jump",
            TOKENS,
            Rules {
                amnesias: 1,
                remedy: Remedy::Jump,
                ..STRICT
            },
        ),
    )),
];
