use proptest::prelude::*;

use super::*;

const GRANTED: Vote = Vote::Granted { counter: 0 };
const VOTES: [Vote; 3] = [GRANTED, Vote::Refused, Vote::Away];

/// Every way in which `nodes` nodes can vote.
fn masks(nodes: usize) -> impl Iterator<Item = Vec<Vote>> {
    let ways = 3_usize.pow(u32::try_from(nodes).unwrap());
    (0..ways).map(move |way| {
        (0..nodes)
            .map(|node| VOTES[way / 3_usize.pow(u32::try_from(node).unwrap()) % 3])
            .collect()
    })
}

/// Feeds votes in this order until the attempt says more than "wait".
fn vote(attempt: &mut Attempt, votes: &[Vote], order: impl IntoIterator<Item = usize>) -> Step {
    for node in order {
        let step = attempt.voted(node, votes[node]);
        if step != Step::Wait {
            return step;
        }
    }
    Step::Wait
}

fn grants(votes: &[Vote]) -> usize {
    votes.iter().filter(|vote| **vote == GRANTED).count()
}

#[test]
fn majorities_of_even_numbers_overlap_too() {
    assert_eq!([1, 2, 3, 4, 5, 6].map(majority), [1, 2, 2, 3, 3, 4]);
}

#[test]
fn without_tokens_it_is_held_exactly_when_a_majority_grants_in_any_order() {
    for nodes in 1..=5 {
        for votes in masks(nodes) {
            let expected = grants(&votes) >= majority(nodes);
            for start in 0..nodes {
                let order = (0..nodes).map(|node| (node + start) % nodes);
                let mut forwards = Attempt::new(nodes, false);
                let step = vote(&mut forwards, &votes, order.clone());
                assert_eq!(matches!(step, Step::Held { .. }), expected, "{votes:?}");
                assert_eq!(matches!(step, Step::Failed(_)), !expected, "{votes:?}");
                let mut backwards = Attempt::new(nodes, false);
                let step = vote(&mut backwards, &votes, order.rev());
                assert_eq!(matches!(step, Step::Held { .. }), expected, "{votes:?}");
            }
        }
    }
}

#[test]
fn with_tokens_round_2_begins_exactly_when_a_majority_grants() {
    for votes in masks(5) {
        let mut attempt = Attempt::new(5, true);
        match vote(&mut attempt, &votes, 0..5) {
            Step::Raise { token, nodes } => {
                let first_three: Vec<_> = (0..5).filter(|&node| votes[node] == GRANTED).collect();
                assert_eq!((token, &nodes[..]), (1, &first_three[..3]));
            }
            Step::Failed(_) => assert!(grants(&votes) < 3),
            other => panic!("{votes:?}: {other:?}"),
        }
    }
}

#[test]
fn round_2_needs_every_node_of_the_majority_it_was_sent_to() {
    for acks in 0..8_usize {
        let mut attempt = Attempt::new(5, true);
        assert_eq!(vote(&mut attempt, &[GRANTED; 5], 1..4).token(), Some(1));
        let mut step = Step::Wait;
        for node in 1..4 {
            let done = acks >> (node - 1) & 1 == 1;
            step = attempt.raised(node, if done { Raised::Done } else { Raised::Refused });
        }
        let expected = if acks == 7 {
            Step::Held { token: 1 }
        } else {
            Step::Failed(Why::Overtaken)
        };
        assert_eq!(step, expected);
    }
}

#[test]
fn a_node_that_voted_too_late_is_not_heard_in_round_2() {
    let mut attempt = Attempt::new(3, true);
    vote(&mut attempt, &[GRANTED; 3], 0..2);
    assert_eq!(attempt.voted(2, GRANTED), Step::Wait);
    assert_eq!(attempt.raised(0, Raised::Done), Step::Wait);
    assert_eq!(attempt.raised(2, Raised::Done), Step::Wait);
    assert_eq!(attempt.raised(1, Raised::Done), Step::Held { token: 1 });
}

#[test]
fn a_node_is_heard_once_per_round() {
    let mut attempt = Attempt::new(3, true);
    assert_eq!(attempt.voted(0, GRANTED), Step::Wait);
    assert_eq!(attempt.voted(0, GRANTED), Step::Wait);
    assert_eq!(attempt.voted(1, GRANTED).token(), Some(1));
    assert_eq!(attempt.raised(0, Raised::Done), Step::Wait);
    assert_eq!(attempt.raised(0, Raised::Done), Step::Wait);
    assert_eq!(attempt.raised(1, Raised::Done), Step::Held { token: 1 });
}

#[test]
fn the_decision_stands_whatever_comes_after_it() {
    let mut attempt = Attempt::new(3, false);
    vote(&mut attempt, &[Vote::Refused; 3], 0..2);
    assert_eq!(attempt.voted(2, GRANTED), Step::Failed(Why::Taken));
    assert_eq!(attempt.raised(2, Raised::Done), Step::Failed(Why::Taken));
    let mut attempt = Attempt::new(3, false);
    vote(&mut attempt, &[GRANTED; 3], 0..2);
    assert_eq!(attempt.voted(2, Vote::Refused), Step::Held { token: 0 });
}

#[test]
fn a_failure_says_whether_others_hold_it_or_nodes_are_away() {
    let mut attempt = Attempt::new(5, true);
    let two_away = [Vote::Away, Vote::Away, Vote::Refused, GRANTED, GRANTED];
    assert_eq!(
        vote(&mut attempt, &two_away, 0..5),
        Step::Failed(Why::Taken)
    );
    let mut attempt = Attempt::new(5, true);
    assert_eq!(
        vote(&mut attempt, &[Vote::Away; 5], 0..5),
        Step::Failed(Why::Away)
    );
    let mut attempt = Attempt::new(3, true);
    vote(&mut attempt, &[GRANTED; 3], 0..2);
    assert_eq!(
        attempt.raised(1, Raised::Away),
        Step::Failed(Why::Unanswered)
    );
}

#[test]
fn a_grant_ends_below_the_end_of_tokens_or_is_none() {
    let fits = END_OF_TOKENS - 1 - WIDTH;
    for (counter, token) in [(fits, Some(fits + 1)), (fits + 1, None), (u64::MAX, None)] {
        let mut attempt = Attempt::new(1, true);
        let step = attempt.voted(0, Vote::Granted { counter });
        assert_eq!(step.token(), token);
        match token {
            Some(token) => assert_eq!(counter_after(token, WIDTH), END_OF_TOKENS - 1),
            None => assert_eq!(step, Step::Failed(Why::Exhausted)),
        }
    }
}

#[test]
fn nodes_beyond_the_room_of_a_set_count_as_away() {
    let mut attempt = Attempt::new(200, false);
    assert_eq!(attempt.voted(150, GRANTED), Step::Wait);
    assert_eq!(attempt.voted(0, GRANTED), Step::Failed(Why::Away));
}

#[test]
fn a_renewal_is_kept_or_lost_only_by_a_majority_of_all_nodes() {
    assert_eq!(renewed(5, 3, 2), Kept::Yes);
    assert_eq!(renewed(5, 2, 2), Kept::Unknown);
    assert_eq!(renewed(5, 2, 3), Kept::No);
    assert_eq!(renewed(4, 2, 1), Kept::Unknown);
    assert_eq!(renewed(4, 2, 2), Kept::No);
    assert_eq!(renewed(1, 0, 0), Kept::Unknown);
}

#[test]
fn validity_is_the_ttl_less_the_time_since_sending_and_a_margin() {
    let at = |millis: u64| Moment::from_nanos(millis * 1_000_000);
    let ttl = Duration::from_secs(10);
    let left = validity(at(1000), at(1500), ttl);
    assert_eq!(left, Some(Duration::from_millis(10_000 - 500 - 100 - 2)));
    assert_eq!(
        validity(at(1000), at(10_897), ttl),
        Some(Duration::from_millis(1))
    );
    assert_eq!(validity(at(1000), at(10_898), ttl), None);
    assert_eq!(validity(at(1000), at(99_000), ttl), None);
}

#[test]
fn a_jump_raises_enough_others_before_the_node_itself() {
    let mut readmission = Readmission::new(5, 2);
    assert_eq!(readmission.saw(2, Some(1 << 40)), Plan::Wait);
    assert_eq!(readmission.saw(0, Some(7)), Plan::Wait);
    assert_eq!(readmission.saw(1, Some(9)), Plan::Wait);
    assert_eq!(readmission.saw(3, None), Plan::Wait);
    let (floor, nodes) = (JUMP + 9, vec![0, 1, 4]);
    assert_eq!(readmission.saw(4, Some(8)), Plan::Raise { floor, nodes });
    assert_eq!(readmission.raised(0, true), Plan::Wait);
    assert_eq!(readmission.raised(0, true), Plan::Wait);
    assert_eq!(readmission.raised(3, true), Plan::Wait);
    assert_eq!(readmission.raised(1, true), Plan::Wait);
    assert_eq!(readmission.raised(4, true), Plan::Admit { floor });
}

#[test]
fn a_jump_fails_closed_when_too_few_others_are_in_good_standing() {
    let too_few = Plan::Failed(WhyNot::TooFewOthers);
    let mut readmission = Readmission::new(3, 0);
    assert_eq!(readmission.saw(1, Some(1)), Plan::Wait);
    assert_eq!(readmission.saw(2, None), too_few);
    assert_eq!(readmission.saw(2, Some(1)), too_few);
    let mut readmission = Readmission::new(3, 0);
    readmission.saw(1, Some(1));
    readmission.saw(2, Some(1));
    assert_eq!(readmission.raised(1, false), too_few);
    assert_eq!(readmission.raised(2, true), too_few);
    let mut readmission = Readmission::new(2, 0);
    let exhausted = Plan::Failed(WhyNot::Exhausted);
    assert_eq!(readmission.saw(1, Some(END_OF_TOKENS - 1)), exhausted);
}

#[test]
fn every_majority_with_the_node_in_it_has_one_that_was_raised() {
    for nodes in 2..=9 {
        let others_of_the_majority = majority(nodes) - 1;
        assert_eq!(others_of_the_majority + Readmission::needed(nodes), nodes);
    }
}

proptest! {
    #[test]
    fn the_token_is_above_every_counter_that_was_read(
        counters in prop::collection::vec(0_u64..1 << 40, 1..8), first in 0_usize..8,
    ) {
        let nodes = counters.len();
        let mut attempt = Attempt::new(nodes, true);
        let mut read = Vec::new();
        for node in (0..nodes).map(|node| (node + first) % nodes) {
            read.push(counters[node]);
            if let Step::Raise { token, nodes: asked } = attempt.voted(node, Vote::Granted { counter: counters[node] }) {
                prop_assert_eq!(token, read.iter().max().unwrap() + 1);
                prop_assert_eq!(asked.len(), majority(nodes));
                prop_assert_eq!(read.len(), majority(nodes));
            }
        }
    }

    #[test]
    fn whether_it_is_held_does_not_depend_on_the_order_of_votes(
        mask in prop::collection::vec(0_usize..3, 1..10), shuffled in any::<prop::sample::Index>(), step in 1_usize..10,
    ) {
        let votes: Vec<Vote> = mask.iter().map(|&which| VOTES[which]).collect();
        let nodes = votes.len();
        let start = shuffled.index(nodes);
        // A stride of any length, then whoever was left out.
        let order = (0..nodes).map(|at| (start + at * step) % nodes).chain(0..nodes);
        let mut attempt = Attempt::new(nodes, false);
        let held = matches!(vote(&mut attempt, &votes, order), Step::Held { .. });
        prop_assert_eq!(held, grants(&votes) >= majority(nodes));
    }
}

impl Step {
    fn token(&self) -> Option<u64> {
        match self {
            Self::Raise { token, .. } => Some(*token),
            _ => None,
        }
    }
}

/// Those who know of a floor, and those whom the next readmission hears at least,
/// share a node, whichever node with the floor forgot it.
#[test]
fn a_floor_that_some_nodes_have_is_met_by_every_later_readmission() {
    for nodes in 3..=9_usize {
        let (knowing, heard) = (Readmission::announced(nodes), Readmission::needed(nodes));
        let others = nodes - 1;
        assert!(knowing <= others, "{nodes}");
        assert!(knowing - 1 + heard > others, "{nodes}");
    }
}
