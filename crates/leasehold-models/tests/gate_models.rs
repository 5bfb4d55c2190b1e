//! The door before services that cannot check fences: what holds in every
//! state, and what breaks if a part of it is left out.

use leasehold_models::gate::{Gate, Sabotage};
use stateright::{Checker, Model};

fn gate(sabotage: Sabotage, crashes: u8, breaks: u8) -> Gate {
    Gate {
        // Two requests of the first holder, and two newer holders.
        tokens: &[1, 1, 2, 3],
        crashes,
        breaks,
        sabotage,
    }
}

/// Looks at every state; what must come about does.
fn holds(crashes: u8, breaks: u8) {
    let checker = gate(Sabotage::None, crashes, breaks).checker();
    let checker = checker.threads(2).spawn_bfs().join();
    assert!(checker.is_done());
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// A stale request acts after a newer one.
fn breaks(sabotage: Sabotage, crashes: u8, breaks: u8) {
    let checker = gate(sabotage, crashes, breaks).checker();
    let checker = checker.threads(2).spawn_bfs().join();
    let steps = checker.assert_any_discovery("order").into_actions();
    println!("{} steps: {steps:?}", steps.len());
}

#[test]
fn the_door_keeps_the_order_in_fair_weather() {
    holds(0, 0);
}

#[test]
fn the_door_keeps_the_order_if_connections_break() {
    holds(0, 2);
}

#[test]
fn the_door_keeps_the_order_if_it_dies_twice() {
    holds(2, 0);
}

#[test]
fn the_door_keeps_the_order_if_it_dies_and_connections_break() {
    holds(1, 1);
}

#[test]
fn comparing_tokens_alone_lets_a_stale_request_act() {
    breaks(Sabotage::CompareOnly, 0, 0);
}

#[test]
fn a_mark_in_memory_lets_a_stale_request_act() {
    breaks(Sabotage::MarkInMemory, 1, 0);
}

#[test]
fn without_the_delay_after_a_restart_a_stale_request_acts() {
    breaks(Sabotage::NoRestartDelay, 1, 0);
}

#[test]
fn giving_up_on_the_drain_lets_a_stale_request_act() {
    breaks(Sabotage::GivesUp, 0, 0);
}

#[test]
fn taking_a_broken_connection_for_an_answer_lets_a_stale_request_act() {
    breaks(Sabotage::UnknownIsAnswered, 0, 1);
}

#[test]
fn two_doors_with_marks_of_their_own_let_a_stale_request_act() {
    breaks(Sabotage::TwoDoors, 0, 0);
}

#[test]
fn two_doors_with_one_mark_let_a_stale_request_act() {
    breaks(Sabotage::TwoDoorsOneMark, 0, 0);
}
