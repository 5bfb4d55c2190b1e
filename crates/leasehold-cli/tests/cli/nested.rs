//! A run inside another.

use crate::world::World;

const SELF: &str = env!("CARGO_BIN_EXE_leasehold");

#[testbed::test]
fn a_nested_run_of_the_same_name_re_enters() {
    let world = World::new();
    let script =
        format!("echo $LEASEHOLD_FENCE; {SELF} run -w 5s x printenv LEASEHOLD_FENCE; exit 3");
    let done = world.run(&["run", "x", "sh", "-c", &script]);
    assert_eq!(done.code, 3, "{done:?}");
    let fences: Vec<_> = done.stdout.lines().collect();
    assert_eq!(fences.len(), 2, "{done:?}");
    assert_eq!(fences[0], fences[1]);
}

#[testbed::test]
fn a_run_nested_through_another_name_re_enters_and_sees_its_own_lock() {
    let world = World::new();
    let inner = format!("{SELF} run -w 5s x -c 'echo $LEASEHOLD_NAME'; echo $LEASEHOLD_NAME");
    let done = world.run(&["run", "x", SELF, "run", "y", "sh", "-c", &inner]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "x\ny\n"), "{done:?}");
}

#[testbed::test]
fn a_nested_run_knows_the_store_however_it_is_spelled() {
    let world = World::new();
    let done = world.run(&[
        "run",
        "x",
        SELF,
        "run",
        "--url",
        "sqlite:./locks.db?ttl=3s",
        "-n",
        "x",
        "true",
    ]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[testbed::test]
fn a_nested_run_cannot_limit_the_hold_of_the_outer_one() {
    let world = World::new();
    let done = world.run(&["run", "x", SELF, "run", "--max-hold", "5s", "x", "true"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(
        done.stderr.contains("give --max-hold to that one"),
        "{done:?}"
    );
}

#[testbed::test]
fn a_nested_run_on_another_store_takes_another_lock() {
    let world = World::new();
    let fence = format!(
        "echo $LEASEHOLD_FENCE; {SELF} run --url sqlite:other.db -n x printenv LEASEHOLD_FENCE"
    );
    let done = world.run(&["run", "x", "sh", "-c", &fence]);
    assert_eq!(done.code, 0, "{done:?}");
    let fences: Vec<_> = done.stdout.lines().collect();
    assert_ne!(fences[0], fences[1]);
}

#[testbed::test]
fn a_nested_run_whose_outer_lock_is_lost_is_76() {
    let world = World::new();
    let script = format!("{SELF} break x --reason test; {SELF} run x true; echo $?");
    let done = world.run(&["run", "--on-lost", "ignore", "x", "sh", "-c", &script]);
    assert_eq!((done.code, done.stdout.trim()), (76, "76"), "{done:?}");
}

#[testbed::test]
fn a_share_is_not_enough_for_a_nested_exclusive_run() {
    let world = World::new();
    let done = world.run(&["run", "-s", "x", SELF, "run", "-x", "x", "true"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.complaint().contains("only a share"), "{done:?}");
    assert_eq!(
        world
            .run(&["run", "-x", "x", SELF, "run", "-s", "x", "true"])
            .code,
        0
    );
    assert_eq!(
        world
            .run(&["run", "-s", "x", SELF, "run", "-s", "x", "true"])
            .code,
        0
    );
}

#[testbed::test]
fn a_nested_run_can_report() {
    let world = World::new();
    let done = world.run(&[
        "run", "x", SELF, "run", "--report", "report", "x", "-c", "exit 4",
    ]);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(
        world
            .line("report")
            .contains(r#""outcome":"child_exit","code":4"#)
    );
}

#[testbed::test]
fn text_in_the_environment_that_is_not_ours_means_nothing() {
    let world = World::new();
    for text in ["", "x", "[]", "[1]", r#"[{"name":"x"}]"#] {
        let done = crate::world::Done::of(
            world
                .leasehold(["run", "x", "true"])
                .env("LEASEHOLD_HELD", text),
        );
        assert_eq!(done.code, 0, "{text}: {done:?}");
    }
}
