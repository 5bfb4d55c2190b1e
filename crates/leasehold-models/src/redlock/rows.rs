//! The table: what must hold, and what must be found to break.

use super::Property::{Monotone, NoInterleaving, NoStaleAccess, OneHolder, Unique};
use super::row::{Row, Size, Verdict};
use super::{Expiry, Property, Remedy, Renewals, Rules, Scheme};

const TOKENS: &[Property] = &[Unique, Monotone];
const FENCED: &[Property] = &[Unique, Monotone, NoInterleaving, NoStaleAccess];

const PLAIN: Rules = Rules::of(Scheme::Plain);
const STRICT: Rules = Rules::of(Scheme::Strict);
/// Ours, with keys that vanish at any time.
const EARLY: Rules = Rules {
    keys: Expiry::AnyTime,
    ..STRICT
};

const fn holds(
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

const fn sized(size: Size, row: Row) -> Row {
    Row { size, ..row }
}

/// A row for the patient.
const fn long(row: Row) -> Row {
    Row {
        is_long: true,
        ..row
    }
}

/// Every row, those that must hold first.
pub const ROWS: &[Row] = &[
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
