//! The benchmark measures and says what it measured; how fast it is, no test
//! asks.

use serde_json::Value;

use crate::world::World;

#[testbed::test]
fn a_benchmark_gives_figures_beside_the_raw_floor() {
    let world = World::new();
    let done = world.run(&["bench", "--json", "--for", "100ms", "--only", "one task"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let figures: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    let value = |name: &str| {
        let figure = figures.iter().find(|figure| figure["figure"] == name);
        figure.and_then(|figure| figure["value"].as_f64()).unwrap()
    };
    assert!(value("lock + unlock, p50") > 0.0);
    assert!(value("raw floor, p50") > 0.0);
    assert!(value("speed against the raw floor") > 0.0);
}

#[testbed::test]
fn processes_that_contend_in_a_benchmark_never_overlap() {
    let world = World::new();
    let done = world.run(&["bench", "--json", "--for", "300ms", "--only", "8 processes"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let figures: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    let of = |name: &str| -> Vec<f64> {
        let figures = figures.iter().filter(|figure| figure["figure"] == name);
        figures
            .map(|figure| figure["value"].as_f64().unwrap())
            .collect()
    };
    assert_eq!(of("overlapping holds"), [0.0, 0.0]);
    assert!(of("grants").iter().all(|&grants| grants > 0.0));
}

#[testbed::test]
fn a_benchmark_of_the_gate_gives_figures_beside_nginx() {
    let world = World::new();
    let done = world.run(&["bench", "--json", "--for", "2s", "--only", "gate"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let figures: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    testbed::need(figures[0]["note"].as_str());
    let of = |name: &str| {
        let figure = figures.iter().find(|figure| figure["figure"] == name);
        figure.and_then(|figure| figure["value"].as_f64()).unwrap()
    };
    assert!(of("against nginx") > 0.0);
    assert!(of("a new token adds, p50") > 0.0);
}
