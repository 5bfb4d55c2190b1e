//! `leasehold run`: a command under a lock.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Guard, Session};
use nix::sys::signal::Signal;
use serde::Serialize;
use serde_json::json;

use crate::args::{Claim, Common, OnLost, Run};
use crate::child::{self, Change, Child};
use crate::exit::{self, Failure};
use crate::keeper::Keeper;
use crate::lock::{self, Obtained};
use crate::nested::{self, Held};
use crate::print::{self, Console, millis};
use crate::signals::Signals;
use crate::store;
use crate::supervise::{Ending, Supervision};
use crate::terminal::Terminal;

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
        match change {
            Change::Exited(code) => Self::new(Outcome::ChildExit, code),
            Change::Killed(signal) => Self::new(Outcome::Signal, exit::signalled(signal)),
            Change::Stopped(signal) => Self::signalled(signal),
        }
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
    let argv = argv(args);
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
    let notice = notice(args, &session)?;
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
    announce(&guard, console);
    let held = Held::new(&url, &session, &guard);
    // Without a keeper the command still dies with us, only its children may not.
    let alone = |error| console.detail(&format!("no keeper for the command's children: {error}"));
    let mut keeper = Keeper::start(&session).map_err(alone).ok();
    let ending = with_lock(
        args,
        &argv,
        &held,
        notice,
        &mut keeper,
        &guard,
        &mut signals,
        console,
    )
    .await;
    keeper.iter_mut().for_each(Keeper::dismiss);
    let (token, waited, time) = (guard.token().get(), guard.waited(), guard.held());
    let loss = give_back(guard, &mut signals, console).await;
    lock::leave(session).await;
    keeper.into_iter().for_each(Keeper::see_off);
    let Ending {
        change,
        loss: earlier,
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

fn argv(args: &Run) -> Vec<OsString> {
    match &args.command {
        Some(command) => vec!["sh".into(), "-c".into(), command.clone()],
        None => args.argv.clone(),
    }
}

/// How long before a loss the command is told. A renewal must have had its
/// chance by then, or the command would be told in fair weather.
fn notice(args: &Run, session: &Session) -> Result<Duration, Failure> {
    let ttl = session.ttl();
    let longest = (ttl / 2).saturating_sub(session.margin());
    let limit = args.claim.max_hold.unwrap_or(Duration::MAX);
    let Some(asked) = args.kill_after else {
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

#[expect(
    clippy::too_many_arguments,
    reason = "called from one place, each with its own type"
)]
async fn with_lock(
    args: &Run,
    argv: &[OsString],
    held: &Held,
    notice: Duration,
    keeper: &mut Option<Keeper>,
    guard: &Guard,
    signals: &mut Signals,
    console: Console,
) -> Result<Ending, Failure> {
    let terminal = Terminal::open();
    let gets_terminal = terminal
        .as_ref()
        .is_some_and(|terminal| terminal.is_ours_alone);
    let mut child = Child::start(argv, &held.environment(), gets_terminal)?;
    match child.change().await {
        Change::Stopped(_) => {}
        ended => {
            return Ok(Ending {
                change: ended,
                loss: None,
            });
        }
    }
    if let Some(told) = keeper.as_mut().map(|keeper| keeper.keep(child.group))
        && told.is_err()
    {
        *keeper = None;
        console.detail("the keeper of the command's children is gone");
    }
    // If the lock is lost already, the command is killed before its first step.
    if guard.check().is_ok() || args.on_lost == OnLost::Ignore {
        child.signal(Signal::SIGCONT);
    }
    let supervision = Supervision {
        child: &mut child,
        guard,
        signals,
        terminal,
        on_lost: args.on_lost,
        notice,
        max_hold: args.claim.max_hold,
        console,
    };
    Ok(supervision.run().await)
}

/// Gives the lock back. If it turns out that we had lost it, that is what is
/// returned.
async fn give_back(guard: Guard, signals: &mut Signals, console: Console) -> Option<String> {
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

/// The command under the hold of the run around us: no new group and no keeper,
/// because the outer run has both.
async fn inside(
    args: &Run,
    argv: &[OsString],
    held: &Held,
    mut signals: Signals,
    console: Console,
) -> Result<Report, Failure> {
    if args.claim.max_hold.is_some() {
        return Err(Failure::usage(format!(
            "{} is held by the leasehold run around this one: give --max-hold to that one",
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
    let mut child = Child::start_beside(argv, &environment)?;
    let change = loop {
        tokio::select! {
            change = child.change() => match change {
                Change::Stopped(_) => {}
                ended => break ended,
            },
            signal = signals.next() => child.signal(signal),
        }
    };
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
