//! On a terminal: who has it, what its keys do, and what is drawn on it.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::pty::{Winsize, openpty};

use crate::world::{Running, World, until};

/// A terminal with a process on it that leads its own session.
struct Screen {
    keys: File,
    text: Arc<Mutex<String>>,
    running: Running,
}

impl Screen {
    fn start(world: &World, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = Winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).unwrap();
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", env!("CARGO_BIN_EXE_leasehold")])
            .args(arguments);
        command
            .env("LEASEHOLD_URL", world.url())
            .env("TERM", "xterm")
            .env_remove("NO_COLOR");
        command
            .envs(environment.iter().copied())
            .current_dir(world.path(""));
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        let running = Running::as_it_is(&mut command);
        drop(command);
        let keys = File::from(pty.master);
        let text = Arc::new(Mutex::new(String::new()));
        let (mut output, shown) = (keys.try_clone().unwrap(), text.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                shown
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self {
            keys,
            text,
            running,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn until_shown(&self, text: &str) {
        until(&format!("{text:?} on the screen"), || {
            self.shown().contains(text).then_some(())
        });
    }

    fn shown(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    fn code(self) -> i32 {
        self.running.done().code
    }
}

#[testbed::test]
fn a_command_on_a_terminal_has_the_terminal() {
    let world = World::new();
    let script = "test $(cut -d ' ' -f 8 /proc/$$/stat) = $$ && read line && echo got $line";
    let mut screen = Screen::start(&world, &["run", "x", "sh", "-c", script], &[]);
    screen.press("typed\n");
    screen.until_shown("got typed");
    assert_eq!(screen.code(), 0);
}

#[testbed::test]
fn a_command_beside_a_pipe_gets_the_terminal_when_it_asks() {
    let world = World::new();
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let inner =
        format!("{leasehold} run -w 5s y sh -c 'read line </dev/tty; echo got $line' | cat");
    let mut screen = Screen::start(&world, &["run", "x", "sh", "-c", &inner], &[]);
    screen.press("typed\n");
    screen.until_shown("got typed");
    assert_eq!(screen.code(), 0);
}

#[testbed::test]
fn the_interrupt_key_reaches_the_command() {
    let world = World::new();
    let script = "trap 'echo tidy; exit 9' INT; echo ready; while :; do sleep 0.02; done";
    let mut screen = Screen::start(&world, &["run", "x", "sh", "-c", script], &[]);
    screen.until_shown("ready");
    screen.press("\u{3}");
    screen.until_shown("tidy");
    assert_eq!(screen.code(), 9);
}

/// Whatever holds for it: the command ends, the lock is free, and the code says why.
#[testbed::test]
fn the_interrupt_key_ends_the_command_and_gives_the_lock_back() {
    let script = "echo ready; exec sleep 1000";
    for words in [
        &["run", "x"][..],
        &["elect", "x"],
        &["elect", "x", "--forever"],
        &["once", "x", "--slot", "5"],
        &["once", "--key", "x"],
        &["barrier", "x", "--members", "1"],
    ] {
        let world = World::new();
        let arguments = [words, &["-c", script]].concat();
        let mut screen = Screen::start(&world, &arguments, &[]);
        screen.until_shown("ready");
        screen.press("\u{3}");
        assert_eq!(screen.code(), 130, "{words:?}");
        let name = if words.contains(&"--key") {
            "dedupe/x"
        } else {
            "x"
        };
        world.until_claims(name, 0, 0);
        if words[0] == "once" {
            // It was cut off, so it is begun again.
            let again = [words, &["--", "printenv", "LEASEHOLD_ATTEMPT"]].concat();
            assert_eq!(world.run(&again).stdout, "2\n", "{words:?}");
        }
    }
}

/// A command that tidies up and ends well tells nobody that a key was pressed.
#[testbed::test]
fn the_interrupt_key_pressed_twice_ends_one_that_stands_forever() {
    let world = World::new();
    let tidy = "trap 'exit 0' INT; echo ready; while :; do sleep 0.02; done";
    let mut screen = Screen::start(&world, &["elect", "x", "--forever", "-c", tidy], &[]);
    screen.until_shown("ready");
    screen.press("\u{3}");
    screen.until_shown("unless Ctrl-C is pressed");
    screen.press("\u{3}");
    assert_eq!(screen.code(), 130);
    world.until_claims("x", 0, 0);
}

#[testbed::test]
fn the_stop_key_does_not_hang_where_nobody_can_continue_us() {
    let world = World::new();
    let script = "echo ready; read line; echo got $line";
    let mut screen = Screen::start(&world, &["run", "x", "sh", "-c", script], &[]);
    screen.until_shown("ready");
    screen.press("\u{1a}");
    screen.until_shown("stopped; x is lost unless continued within");
    screen.press("typed\n");
    screen.until_shown("got typed");
    assert_eq!(screen.code(), 0);
}

#[testbed::test]
fn a_terminal_that_a_killed_command_left_dumb_is_restored() {
    let world = World::new();
    let script = "stty -echo raw; kill -9 $$";
    let inner = format!(
        "{} run y sh -c '{script}'; echo mode:$(stty -a | tr ' ' '\\n' | grep -x -e echo -e -echo)",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let screen = Screen::start(&world, &["run", "x", "sh", "-c", &inner], &[]);
    screen.until_shown("mode:echo");
    assert_eq!(screen.code(), 0);
}

#[testbed::test]
fn a_wait_shows_the_place_in_the_queue() {
    let world = World::new();
    let _holder = world.start(&["run", "--label", "nightly", "x", "sleep", "60"]);
    world.until_held("x");
    let mut screen = Screen::start(&world, &["run", "x", "true"], &[]);
    screen.until_shown("waiting for x: next in line; held by");
    screen.until_shown("(nightly)");
    screen.press("\u{3}");
    assert_eq!(screen.code(), 130);
    world.until_claims("x", 1, 0);
}

#[testbed::test]
fn colours_are_for_terminals_that_want_them() {
    let world = World::new();
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let colourful = Screen::start(&world, &["ls"], &[]);
    colourful.until_shown("\u{1b}[1mNAME");
    let plain = Screen::start(&world, &["ls"], &[("NO_COLOR", "1")]);
    plain.until_shown("OWNER");
    assert!(!plain.shown().contains('\u{1b}'), "{:?}", plain.shown());
    let waiting = Screen::start(&world, &["run", "x", "true"], &[("NO_COLOR", "1")]);
    waiting.until_shown("waiting for x");
    assert!(
        !waiting.shown().contains("\u{1b}[36m"),
        "{:?}",
        waiting.shown()
    );
}

#[testbed::test]
fn an_empty_list_says_so_to_people() {
    let world = World::new();
    let screen = Screen::start(&world, &["ls"], &[]);
    screen.until_shown("no locks are held");
    assert_eq!(screen.code(), 0);
}

#[testbed::test]
fn breaking_a_lock_asks_first() {
    let world = World::new();
    let holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let mut screen = Screen::start(&world, &["break", "x", "--reason", "test"], &[]);
    screen.until_shown("Break the lock? [y/N]");
    screen.press("n\n");
    screen.until_shown("nothing was broken");
    assert_eq!(screen.code(), 0);
    world.until_held("x");
    let screen = Screen::start(&world, &["break", "--yes", "x", "--reason", "test"], &[]);
    screen.until_shown("evicted");
    assert_eq!(holder.done().code, 76);
}
