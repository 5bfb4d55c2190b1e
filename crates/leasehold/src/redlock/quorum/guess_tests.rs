//! Attempts that guess their token.

use proptest::prelude::*;

use super::*;
use crate::redlock::node::Node;

const GUESS: u64 = 33;

fn guessing(nodes: usize) -> Attempt {
    Attempt::new(nodes, true).guessing(Some(GUESS))
}

#[test]
fn one_round_is_enough_exactly_when_every_node_of_the_majority_was_raised() {
    for raised in 0..8_usize {
        let mut attempt = guessing(5);
        let mut step = Step::Wait;
        for node in 0..3 {
            assert_eq!(step, Step::Wait);
            step = attempt.voted(
                node,
                match raised >> node & 1 {
                    1 => Vote::Guessed,
                    _ => Vote::Granted { counter: 7 },
                },
            );
        }
        let last = match raised {
            0 => 7,
            // What was raised for the guess is used up.
            _ => counter_after(GUESS, WIDTH),
        };
        let expected = match raised {
            7 => Step::Held { token: GUESS },
            _ => Step::Raise {
                token: last + 1,
                nodes: vec![0, 1, 2],
            },
        };
        assert_eq!(step, expected);
    }
}

#[test]
fn a_node_that_is_away_or_refuses_does_not_spoil_the_guess() {
    let mut attempt = guessing(5);
    assert_eq!(attempt.voted(0, Vote::Away), Step::Wait);
    assert_eq!(attempt.voted(1, Vote::Refused), Step::Wait);
    assert_eq!(attempt.voted(2, Vote::Guessed), Step::Wait);
    assert_eq!(attempt.voted(2, Vote::Guessed), Step::Wait);
    assert_eq!(attempt.voted(3, Vote::Guessed), Step::Wait);
    let held = Step::Held { token: GUESS };
    assert_eq!(attempt.voted(4, Vote::Guessed), held);
    assert_eq!(attempt.raised(4, Raised::Refused), held);
}

#[test]
fn a_failed_guess_is_followed_by_a_round_2_like_any_other() {
    let mut attempt = guessing(3);
    assert_eq!(attempt.guess(), Some(GUESS));
    assert_eq!(attempt.voted(0, Vote::Guessed), Step::Wait);
    let (token, nodes) = (501, vec![0, 2]);
    let step = attempt.voted(2, Vote::Granted { counter: 500 });
    assert_eq!(step, Step::Raise { token, nodes });
    assert_eq!(attempt.voted(1, Vote::Guessed), Step::Wait);
    assert_eq!(attempt.raised(1, Raised::Done), Step::Wait);
    assert_eq!(attempt.raised(0, Raised::Done), Step::Wait);
    assert_eq!(attempt.raised(2, Raised::Done), Step::Held { token });
}

#[test]
fn nobody_can_agree_to_a_guess_that_was_not_made() {
    let mut attempt = Attempt::new(3, true);
    assert_eq!(attempt.voted(0, Vote::Guessed), Step::Wait);
    assert_eq!(attempt.voted(1, Vote::Guessed), Step::Failed(Why::Away));
    let without_tokens = Attempt::new(3, false).guessing(Some(GUESS));
    assert_eq!(without_tokens.guess(), None);
}

#[test]
fn a_guess_ends_below_the_end_of_tokens_or_is_none() {
    let fits = END_OF_TOKENS - WIDTH;
    let guesses = [
        (0, None),
        (1, Some(1)),
        (fits, Some(fits)),
        (fits + 1, None),
        (u64::MAX, None),
    ];
    for (guess, expected) in guesses {
        let attempt = Attempt::new(3, true).guessing(Some(guess));
        assert_eq!(attempt.guess(), expected);
    }
    // A guess that still fits, on nodes that are beyond it.
    let mut attempt = Attempt::new(1, true).guessing(Some(fits));
    let counter = END_OF_TOKENS - 1;
    let step = attempt.voted(0, Vote::Granted { counter });
    assert_eq!(step, Step::Failed(Why::Exhausted));
}

proptest! {
    /// Whatever the counters and the guess are, the token is above every counter
    /// of the nodes that granted, as they were before.
    #[test]
    fn a_guessed_token_is_above_every_counter_it_replaces(
        counters in prop::collection::vec(0_u64..300, 1..8), guess in 0_u64..300, first in 0_usize..8,
    ) {
        let count = counters.len();
        let mut attempt = Attempt::new(count, true).guessing(Some(guess));
        let mut nodes: Vec<Node<1>> = counters.iter().map(|&counter| {
            let mut node = Node::new(1);
            assert!(node.admit(counter, 1));
            node
        }).collect();
        let mut read = Vec::new();
        for at in (0..count).map(|at| (at + first) % count) {
            let node = &mut nodes[at];
            let vote = match attempt.guess() {
                Some(guess) => node.take_guessing(0, 1, guess, WIDTH),
                None => node.take(0, 1),
            };
            read.push(counters[at]);
            let highest = read.iter().max().copied().unwrap_or(0);
            match attempt.voted(at, vote.unwrap()) {
                Step::Wait => continue,
                Step::Held { token } => prop_assert!(token == guess && token > highest),
                Step::Raise { token, nodes: asked } => {
                    prop_assert!(token > highest);
                    for at in asked {
                        let raised = nodes[at].raise(0, 1, token, WIDTH);
                        prop_assert_eq!(raised, Ok(Raised::Done));
                    }
                }
                step => prop_assert!(false, "{:?}", step),
            }
            break;
        }
        prop_assert_eq!(read.len(), majority(count));
    }
}
