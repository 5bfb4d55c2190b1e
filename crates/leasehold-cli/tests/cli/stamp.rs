//! `leasehold stamp`: what is read without a lock is good if no writer came.

use std::process::Stdio;

use crate::world::{Done, Running, World};

const SELF: &str = env!("CARGO_BIN_EXE_leasehold");

fn word(world: &World) -> String {
    let done = world.run(&["stamp", "x"]);
    assert_eq!((done.code, &*done.stderr), (0, ""), "{done:?}");
    done.stdout.strip_suffix('\n').unwrap().to_owned()
}

fn validate(world: &World, word: &str) -> Done {
    world.run(&["stamp", "x", "--validate", word])
}

#[test]
fn a_word_is_good_until_a_writer_comes() {
    let world = World::new();
    let before = word(&world);
    assert!(before.chars().all(|c| c.is_ascii_graphic()), "{before}");
    assert_eq!(world.run(&["run", "--shared", "x", "true"]).code, 0);
    let good = validate(&world, &before);
    assert_eq!((good.code, &*good.stdout, &*good.stderr), (0, "", ""));
    assert_eq!(word(&world), before);
    assert_eq!(world.run(&["run", "--exclusive", "x", "true"]).code, 0);
    let spoilt = validate(&world, &before);
    assert_eq!((spoilt.code, &*spoilt.stdout, &*spoilt.stderr), (1, "", ""));
    assert_eq!(validate(&world, &word(&world)).code, 0);
    assert_eq!(validate(&world, &before).code, 1);
    world.until_claims("x", 0, 0);
}

#[test]
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
    let alone = world.run(&["stamp", "x", "--", "sh", "-c", "echo whole; exit 3"]);
    assert_eq!(
        (alone.code, &*alone.stdout, &*alone.stderr),
        (3, "whole\n", "")
    );
    let meanwhile = format!("{SELF} run --exclusive x true && echo torn");
    let torn = world.run(&["stamp", "x", "--", "sh", "-c", &meanwhile]);
    assert_eq!((torn.code, &*torn.stdout), (75, "torn\n"), "{torn:?}");
    assert!(torn.complaint().contains("a writer came"), "{torn:?}");
}

#[test]
fn a_command_on_a_file_is_good_if_no_writer_came_meanwhile() {
    a_command_is_good_if_no_writer_came_meanwhile(&World::new());
}

#[cfg(feature = "redis")]
#[test]
fn a_store_without_words_runs_commands() {
    let Some(server) = crate::redis_server::Server::start() else {
        return;
    };
    let world = server.world();
    a_command_is_good_if_no_writer_came_meanwhile(&world);
    world.refuses(
        &["stamp", "x"],
        64,
        "good for the session that made it only",
    );
    let whole = word(&World::new());
    let validate = ["stamp", "x", "--validate", &whole];
    world.refuses(&validate, 64, "good for the session that made it only");
}

#[test]
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

#[test]
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
