//! `leasehold run`: a command under a lock.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::Serialize;

use crate::args::{Claim, Common, Run};
use crate::child::{self, Change};
use crate::exit::{self, Failure};
use crate::job::{self, Job};
use crate::keeper::Keeper;
use crate::lock::{self, Obtained};
use crate::nested::{self, Held};
use crate::print::{self, Console, millis};
use crate::signals::Signals;
use crate::store;
use crate::stuck::Stuck;
use crate::supervise::Ending;

/// What became of it: the line of `--report`.
#[derive(Debug, Serialize)]
struct Report {
    outcome: Outcome,
    code: u8,
    token: Option<u64>,
    waited_ms: Option<u64>,
    held_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    ChildExit,
    /// Held elsewhere, and we did not want to wait.
    Held,
    Timeout,
    Lost,
    /// A signal ended the command, or us while we waited.
    Signal,
    Error,
}

impl Report {
    fn new(outcome: Outcome, code: u8) -> Self {
        Self {
            outcome,
            code,
            token: None,
            waited_ms: None,
            held_ms: None,
        }
    }

    fn of(change: Change) -> Self {
        let outcome = match change {
            Change::Exited(_) => Outcome::ChildExit,
            Change::Killed(_) | Change::Stopped(_) => Outcome::Signal,
        };
        Self::new(outcome, change.code())
    }

    fn signalled(signal: Signal) -> Self {
        Self::new(Outcome::Signal, exit::signalled(signal as i32))
    }
}

/// Runs the command and returns the exit code.
pub(crate) async fn run(common: &Common, args: &Run, console: Console) -> Result<u8, Failure> {
    let file = args.report.as_deref().map(create).transpose()?;
    let report = match under_lock(common, args, console).await {
        Ok(report) => report,
        Err(failure) => {
            console.failure(&failure);
            let outcome = if failure.code == exit::LOST {
                Outcome::Lost
            } else {
                Outcome::Error
            };
            Report::new(outcome, failure.code)
        }
    };
    console.event(&report);
    if let Some(mut file) = file {
        let written = serde_json::to_string(&report).map(|line| writeln!(file, "{line}"));
        if !matches!(written, Ok(Ok(()))) {
            print::complain("the report could not be written");
        }
    }
    Ok(report.code)
}

/// Made before anything happens: a report that cannot be written is a mistake
/// to be told at once.
fn create(path: &Path) -> Result<File, Failure> {
    let failed = |error| Failure::usage(format!("create the report {}: {error}", path.display()));
    File::create(path).map_err(failed)
}

async fn under_lock(common: &Common, args: &Run, console: Console) -> Result<Report, Failure> {
    let argv = job::argv(args.command.as_ref(), &args.argv);
    child::check(&argv[0])?;
    let url = store::url(common)?;
    let mut signals = Signals::catch()?;
    let begun = Instant::now();
    let opened = async {
        match nested::reenter(&url, &args.claim).await? {
            Some(held) => Ok(Err(held)),
            None => store::connect(&url, &args.claim).await.map(Ok),
        }
    };
    let opened = tokio::select! {
        biased;
        signal = signals.end() => return Ok(Report::signalled(signal)),
        opened = opened => opened,
    };
    let session = match opened? {
        Ok(session) => session,
        Err(held) => return inside(args, &argv, &held, signals, console).await,
    };
    let notice = job::notice(args.kill_after, args.claim.max_hold, &session)?;
    let guard = match lock::obtain(&session, &args.claim, &mut signals, console).await {
        Ok(Obtained::Held(guard)) => guard,
        Ok(other) => {
            lock::leave(session).await;
            return Ok(without_lock(other, &args.claim, begun.elapsed(), console));
        }
        Err(failure) => {
            lock::leave(session).await;
            return Err(failure);
        }
    };
    let environment = Held::new(&url, &session, &guard).environment();
    let job = Job {
        argv: &argv,
        stuck: Stuck::asked(&args.stuck, &environment),
        environment,
        on_lost: args.on_lost,
        notice,
        max_hold: args.claim.max_hold,
        max_runtime: None,
        console,
    };
    let (mut keeper, ending) = job.run(&session, &guard, &mut signals).await;
    keeper.iter_mut().for_each(Keeper::dismiss);
    let (token, waited, time) = (guard.token().get(), guard.waited(), guard.held());
    let loss = job::give_back(guard, &mut signals, console).await;
    lock::leave(session).await;
    keeper.into_iter().for_each(Keeper::see_off);
    let Ending {
        change,
        loss: earlier,
        ..
    } = ending?;
    let mut report = Report::of(change);
    if let Some(message) = earlier.or(loss) {
        report = Report::new(Outcome::Lost, exit::LOST);
        console.failure(&Failure::new(exit::LOST, message));
    }
    let (waited_ms, held_ms) = (Some(millis(waited)), Some(millis(time)));
    Ok(Report {
        token: Some(token),
        waited_ms,
        held_ms,
        ..report
    })
}

/// The command under the hold of the run around us: no new group and no keeper,
/// because the outer run has both.
async fn inside(
    args: &Run,
    argv: &[OsString],
    held: &Held,
    mut signals: Signals,
    console: Console,
) -> Result<Report, Failure> {
    let outer = [
        (args.claim.max_hold.is_some(), "--max-hold"),
        (args.stuck.stuck_after.is_some(), "--stuck-after"),
    ];
    if let Some((_, option)) = outer.iter().find(|(is_given, _)| *is_given) {
        return Err(Failure::usage(format!(
            "{} is held by the leasehold run around this one: give {option} to that one",
            held.name
        )));
    }
    console.detail(&format!(
        "{} is held by the leasehold run around this one",
        held.name
    ));
    let environment = held.environment();
    if args.report.is_none() && !console.json {
        return Err(child::replace_us(
            &argv[0],
            argv[1..].iter().cloned(),
            &environment,
        ));
    }
    let change = child::run_beside(argv, &environment, &mut signals).await?;
    Ok(Report {
        token: held.token(),
        ..Report::of(change)
    })
}

fn without_lock(obtained: Obtained, claim: &Claim, waited: Duration, console: Console) -> Report {
    let (outcome, code) = match obtained {
        Obtained::Held(_) => (Outcome::Error, exit::BUG),
        Obtained::Signalled(signal) => (Outcome::Signal, exit::signalled(signal as i32)),
        Obtained::Elsewhere { timed_out, message } => {
            let code = lock::conflict_code(claim);
            if code != exit::OK || console.verbose {
                console.say(&message);
            }
            let outcome = if timed_out {
                Outcome::Timeout
            } else {
                Outcome::Held
            };
            (outcome, code)
        }
    };
    Report {
        waited_ms: Some(millis(waited)),
        ..Report::new(outcome, code)
    }
}
