//! A command under a hold that we have: whatever gets the hold, this runs the
//! command, watches both, and stops it before anybody else can hold.

use std::ffi::OsString;
use std::time::Duration;

use leasehold::{ErrorKind, Guard, Session};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::args::OnLost;
use crate::child::{Change, Child, Environment};
use crate::exit::Failure;
use crate::keeper::Keeper;
use crate::print::{self, Console, millis};
use crate::signals::Signals;
use crate::stuck::Stuck;
use crate::supervise::{Ending, Supervision};
use crate::terminal::Terminal;

/// A command, and how it is to be run.
pub(crate) struct Job<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) environment: Environment,
    pub(crate) on_lost: OnLost,
    /// How long before a loss the command is told.
    pub(crate) notice: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// When the command is stopped although the hold goes on.
    pub(crate) max_runtime: Option<Duration>,
    /// What to do when the hold outlives its time.
    pub(crate) stuck: Option<Stuck>,
    pub(crate) console: Console,
}

impl Job<'_> {
    /// Runs the command to its end. The keeper of its children is still there:
    /// it is to be dismissed before the lock is given back, and seen off after.
    pub(crate) async fn run(
        &self,
        session: &Session,
        guard: &Guard,
        signals: &mut Signals,
    ) -> (Option<Keeper>, Result<Ending, Failure>) {
        let console = self.console;
        announce(guard, console);
        // Without a keeper the command still dies with us, only its children may
        // not.
        let alone =
            |error| console.detail(&format!("no keeper for the command's children: {error}"));
        let mut keeper = Keeper::start(session).map_err(alone).ok();
        let ending = self.supervise(&mut keeper, guard, signals).await;
        (keeper, ending)
    }

    async fn supervise(
        &self,
        keeper: &mut Option<Keeper>,
        guard: &Guard,
        signals: &mut Signals,
    ) -> Result<Ending, Failure> {
        let terminal = Terminal::open();
        let gets_terminal = terminal
            .as_ref()
            .is_some_and(|terminal| terminal.is_ours_alone);
        let mut child = Child::start(self.argv, &self.environment, gets_terminal)?;
        match child.change().await {
            Change::Stopped(_) => {}
            ended => return Ok(Ending::of(ended)),
        }
        if let Some(told) = keeper.as_mut().map(|keeper| keeper.keep(child.group))
            && told.is_err()
        {
            *keeper = None;
            self.console
                .detail("the keeper of the command's children is gone");
        }
        // If the lock is lost already, the command is killed before its first
        // step.
        if guard.check().is_ok() || self.on_lost == OnLost::Ignore {
            child.signal(Signal::SIGCONT);
        }
        let supervision = Supervision {
            child: &mut child,
            guard,
            signals,
            terminal,
            on_lost: self.on_lost,
            notice: self.notice,
            max_hold: self.max_hold,
            max_runtime: self.max_runtime,
            stuck: self.stuck.as_ref(),
            console: self.console,
        };
        Ok(supervision.run().await)
    }
}

/// The command, or the shell that runs it.
pub(crate) fn argv(command: Option<&OsString>, argv: &[OsString]) -> Vec<OsString> {
    match command {
        Some(command) => vec!["sh".into(), "-c".into(), command.clone()],
        None => argv.to_vec(),
    }
}

/// How long before a loss the command is told. A renewal must have had its
/// chance by then, or the command would be told in fair weather.
pub(crate) fn notice(
    asked: Option<Duration>,
    limit: Option<Duration>,
    session: &Session,
) -> Result<Duration, Failure> {
    let ttl = session.ttl();
    let longest = (ttl / 2).saturating_sub(session.margin());
    let limit = limit.unwrap_or(Duration::MAX);
    let Some(asked) = asked else {
        return Ok(Duration::from_secs(5)
            .min(ttl / 4)
            .min(longest)
            .min(limit / 4));
    };
    let refuse = |why: String| {
        let asked = print::duration(asked);
        Err(Failure::usage(format!(
            "--kill-after {asked} is too long: {why}"
        )))
    };
    if asked > longest {
        let (longest, ttl) = (print::duration(longest), print::duration(ttl));
        return refuse(format!(
            "with a ttl of {ttl} at most {longest} are possible; raise --ttl"
        ));
    }
    if asked >= limit {
        return refuse(format!("--max-hold is {}", print::duration(limit)));
    }
    Ok(asked)
}

/// Gives the lock back. If it turns out that we had lost it, that is what is
/// returned.
pub(crate) async fn give_back(
    guard: Guard,
    signals: &mut Signals,
    console: Console,
) -> Option<String> {
    let name = guard.name().to_owned();
    let released = tokio::select! {
        biased;
        released = guard.release() => released,
        _ = signals.end() => return None,
    };
    match released {
        Ok(()) => None,
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Some(format!(
            "lost {name} while the command ran: {}",
            error.why()
        )),
        Err(error) => {
            console.say(&format!(
                "{error}; the lock is free when its ttl has passed"
            ));
            None
        }
    }
}

fn announce(guard: &Guard, console: Console) {
    let (waited, token) = (guard.waited(), guard.token());
    console.detail(&format!(
        "got the lock in {:.3} s, token {token}",
        waited.as_secs_f64()
    ));
    console.event(&json!({
        "event": "held",
        "name": guard.name(),
        "token": token.get(),
        "fence": guard.fence().to_string(),
        "waited_ms": millis(waited),
    }));
}
