//! `leasehold stamp`: what is read without a lock is good if no writer came.

use std::process::Stdio;

use crate::world::{Done, Running, World, until};

const SELF: &str = env!("CARGO_BIN_EXE_leasehold");

fn word(world: &World) -> String {
    let done = world.run(&["stamp", "x"]);
    assert_eq!((done.code, &*done.stderr), (0, ""), "{done:?}");
    done.stdout.strip_suffix('\n').unwrap().to_owned()
}

fn validate(world: &World, word: &str) -> Done {
    world.run(&["stamp", "x", "--validate", word])
}

/// On a store that has words.
pub(crate) fn a_word_tells_of_a_writer(world: &World) {
    let before = word(world);
    assert!(before.chars().all(|c| c.is_ascii_graphic()), "{before}");
    let good = validate(world, &before);
    assert_eq!((good.code, &*good.stdout, &*good.stderr), (0, "", ""));
    assert_eq!(word(world), before);
    assert_eq!(world.run(&["run", "--exclusive", "x", "true"]).code, 0);
    let spoilt = validate(world, &before);
    assert_eq!((spoilt.code, &*spoilt.stdout, &*spoilt.stderr), (1, "", ""));
    // ZooKeeper now and then removes the node of a lock that nobody uses any more.
    until("a new one is good", || {
        (validate(world, &word(world)).code == 0).then_some(())
    });
    assert_eq!(validate(world, &before).code, 1);
    world.until_claims("x", 0, 0);
}

/// On a store that has none.
pub(crate) fn a_word_is_refused(world: &World) {
    let says = "good for the session that made it only";
    world.refuses(&["stamp", "x"], 64, says);
    let whole = word(&World::new());
    world.refuses(&["stamp", "x", "--validate", &whole], 64, says);
}

#[testbed::test]
fn a_word_is_good_until_a_writer_comes() {
    let world = World::new();
    a_word_tells_of_a_writer(&world);
    let before = word(&world);
    assert_eq!(world.run(&["run", "--shared", "x", "true"]).code, 0);
    assert_eq!(validate(&world, &before).code, 0, "readers are no harm");
}

#[testbed::test]
fn while_a_writer_is_there_nothing_is_read() {
    let world = World::new();
    let before = word(&world);
    let mut hold = world.leasehold(["hold", "--exclusive", "x"]);
    let _hold = Running::of(hold.stdin(Stdio::piped()));
    world.until_held("x");
    world.refuses(&["stamp", "x"], 75, "a writer has it");
    world.refuses(&["stamp", "x", "--", "echo", "torn"], 75, "a writer has it");
    assert_eq!(validate(&world, &before).code, 1);
}

/// On any store: the session that made the stamp validates it.
pub(crate) fn a_command_is_good_if_no_writer_came_meanwhile(world: &World) {
    let alone = world.run(&["stamp", "c", "--", "sh", "-c", "echo whole; exit 3"]);
    assert_eq!(
        (alone.code, &*alone.stdout, &*alone.stderr),
        (3, "whole\n", "")
    );
    let meanwhile = format!("{SELF} run --exclusive c true && echo torn");
    let torn = world.run(&["stamp", "c", "--", "sh", "-c", &meanwhile]);
    assert_eq!((torn.code, &*torn.stdout), (75, "torn\n"), "{torn:?}");
    assert!(torn.complaint().contains("a writer came"), "{torn:?}");
}

#[testbed::test]
fn a_command_on_a_file_is_good_if_no_writer_came_meanwhile() {
    a_command_is_good_if_no_writer_came_meanwhile(&World::new());
}

#[testbed::test]
fn a_stamp_has_a_json_form() {
    let world = World::new();
    let told = world.run(&["stamp", "x", "--json"]).json();
    assert_eq!(
        (&told["name"], &told["stamp"]),
        (&"x".into(), &word(&world).into())
    );
    let good = validate_as_json(&world, &word(&world));
    assert_eq!(
        good.json(),
        serde_json::json!({ "name": "x", "good": true })
    );
    let before = word(&world);
    assert_eq!(world.run(&["run", "-x", "x", "true"]).code, 0);
    let spoilt = validate_as_json(&world, &before);
    assert_eq!(spoilt.code, 1);
    assert_eq!(
        spoilt.json(),
        serde_json::json!({ "name": "x", "good": false })
    );
}

fn validate_as_json(world: &World, word: &str) -> Done {
    world.run(&["stamp", "x", "--json", "--validate", word])
}

#[testbed::test]
fn bad_input_is_one_line() {
    let world = World::new();
    let whole = word(&world);
    let cut = &whole[..whole.len() - 1];
    for (word, says) in [
        ("", "not a stamp"),
        ("nonsense", "not a stamp"),
        ("17", "not a stamp"),
        (cut, "of another lock, or not whole"),
    ] {
        world.refuses(&["stamp", "x", "--validate", word], 64, says);
    }
    world.refuses(&["stamp", "y", "--validate", &whole], 64, "another lock");
    world.refuses(&["stamp", ""], 64, "the name is empty");
    world.refuses(&["stamp", "x", "--", "/nowhere"], 127, "/nowhere");
    let both = ["stamp", "x", "--validate", &whole, "--", "true"];
    world.refuses(&both, 64, "--validate");
}
