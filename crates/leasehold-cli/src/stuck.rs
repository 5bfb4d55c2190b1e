//! What `run` does when a hold outlives its time: say so, and run a command of
//! the user's, which the command under the lock does not notice.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::Guard;
use serde_json::json;

use crate::args::Run;
use crate::child::Environment;
use crate::nested::{HELD, Held};
use crate::print::{self, Console, millis};

/// When a hold has outlived its time, and what to run then.
pub(crate) struct Stuck {
    pub(crate) after: Duration,
    hook: Option<OsString>,
    environment: Environment,
}

impl Stuck {
    pub(crate) fn asked(args: &Run, held: &Held) -> Option<Self> {
        let mut environment = held.environment();
        // It looks at the lock from outside, and does not re-enter it.
        environment.retain(|(key, _)| *key != HELD);
        Some(Self {
            after: args.stuck_after?,
            hook: args.on_stuck.clone(),
            environment,
        })
    }

    pub(crate) fn tell(&self, guard: &Guard, console: Console) {
        let (name, held) = (guard.name(), guard.held());
        console.event(&json!({ "event": "stuck", "name": name, "held_ms": millis(held) }));
        let held_for = print::duration(held);
        console.say(&format!("{name} has been held for {held_for}"));
        let Some(hook) = &self.hook else {
            return;
        };
        let mut command = Command::new("sh");
        command.arg("-c").arg(hook).env_remove(HELD);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.env("LEASEHOLD_HELD_MS", millis(held).to_string());
        // Standard output is the command's.
        command.stdin(Stdio::null()).stdout(std::io::stderr());
        match command.spawn() {
            // Nobody waits for it: it may take its time, and outlive us.
            Ok(child) => drop(child),
            Err(error) => print::complain(&format!("run --on-stuck: {error}")),
        }
    }
}
