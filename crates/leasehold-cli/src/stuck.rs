//! What is done when a hold outlives its time: say so, and run a command of the
//! user's, which the command under the lock does not notice.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use leasehold::Guard;
use serde_json::json;

use crate::args;
use crate::child::Environment;
use crate::nested::HELD;
use crate::print::{self, Console, millis};

#[derive(Debug, Args)]
pub(crate) struct StuckArgs {
    /// Say so when the lock is held for longer than this, which goes on
    #[arg(long, value_name = "DUR", value_parser = args::positive)]
    pub(crate) stuck_after: Option<Duration>,
    /// Run this with `sh -c` then, once, with the LEASEHOLD_ variables of a command
    #[arg(long, value_name = "STRING", requires = "stuck_after")]
    on_stuck: Option<OsString>,
}

/// When a hold has outlived its time, and what to run then.
pub(crate) struct Stuck {
    after: Duration,
    hook: Option<OsString>,
    environment: Environment,
}

impl Stuck {
    /// If it is asked for; with what a command under the lock finds in its
    /// environment.
    pub(crate) fn asked(args: &StuckArgs, environment: &Environment) -> Option<Self> {
        let after = args.stuck_after?;
        let mut environment = environment.clone();
        // It looks at the lock from outside, and does not re-enter it.
        environment.retain(|(key, _)| *key != HELD);
        Some(Self {
            after,
            hook: args.on_stuck.clone(),
            environment,
        })
    }

    /// Counted from now: what came before was waiting for others.
    pub(crate) fn starting_now(self, guard: &Guard) -> Self {
        let after = self.after.saturating_add(guard.held());
        Self { after, ..self }
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
            // It may take its time, and outlive us; a thread sees it off, or it would
            // be a zombie for as long as we live.
            Ok(mut child) => drop(std::thread::Builder::new().spawn(move || child.wait())),
            Err(error) => print::complain(&format!("run --on-stuck: {error}")),
        }
    }
}

/// Waits until the hold has outlived its time; for ever if it has none.
pub(crate) async fn overstayed<'a>(stuck: Option<&'a Stuck>, guard: &Guard) -> &'a Stuck {
    let Some(stuck) = stuck else {
        return std::future::pending().await;
    };
    tokio::time::sleep(stuck.after.saturating_sub(guard.held())).await;
    stuck
}
