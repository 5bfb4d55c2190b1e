//! `leasehold once`: of all machines whose cron starts it, one runs the command.

use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use leasehold::once::{Begun, Missed, OnCrash, Once, Run, Schedule};
use leasehold::{Name, Session};

use crate::args::{self, Common, OnLost};
use crate::child;
use crate::exit::{self, Failure};
use crate::job::{self, Job};
use crate::keeper::Keeper;
use crate::lock;
use crate::message::Message;
use crate::nested::Held;
use crate::print::Console;
use crate::signals::Signals;
use crate::store;
use crate::stuck::{Stuck, StuckArgs};

/// Run a command once per period or per key, whichever machine comes first
///
/// Start it on every machine, from cron or a timer. Each period has a slot, a
/// number that grows; the store has the last one that was run. One machine runs
/// the slot; for the others there is nothing to do, and they exit with 0. A
/// machine whose clock is late asks for an old slot and is refused, and so is one
/// whose clock is ahead by more than a period, where the store has a clock of its
/// own (not etcd).
///
/// A slot is done when the command has ended, whatever its exit code. If
/// leasehold dies, loses the lock or is told to end before that, --on-crash says
/// what happens. While an earlier slot still runs the next one is not run: the
/// exit code is 75, or 0 if --missed makes it up.
///
/// With --key it runs once per key, such as a message's: a key whose command
/// exited with 0 is done and not run again while the store remembers it (--keep);
/// asking for it exits with 0 and runs nothing. Nothing of the output is kept. One
/// that failed, or was cut off, is run again by the next one who asks, as often as
/// --max-attempts allows, then it is given up (exit code 65). While it runs
/// elsewhere the exit code is 75. If leasehold dies after the command has ended and
/// before the store knows, the command is run again: at least once.
///
/// The command finds LEASEHOLD_SLOT, or LEASEHOLD_KEY, and LEASEHOLD_ATTEMPT in its
/// environment, beside what `leasehold run` gives it.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
#[command(group = ArgGroup::new("schedule").required(true).args(["per", "cron", "slot", "key", "reset"]))]
#[command(
    override_usage = "leasehold once [OPTIONS] <NAME> --per <DUR> [--] <COMMAND>...
       leasehold once [OPTIONS] <NAME> --cron <EXPR> [--] <COMMAND>...
       leasehold once [OPTIONS] <NAME> --slot <N> [--] <COMMAND>...
       leasehold once [OPTIONS] --key <KEY> -- <COMMAND>...
       leasehold once [OPTIONS] <NAME> --reset"
)]
pub(crate) struct OnceArgs {
    /// What is done once; not with --key
    name: Option<OsString>,
    /// Once per period, counted from 1970: 15m, 1h, 1day
    #[arg(long, value_name = "DUR", value_parser = args::positive)]
    per: Option<Duration>,
    /// Once per tick of a cron expression, in UTC: "0 2 * * *"
    #[arg(long, value_name = "EXPR")]
    cron: Option<String>,
    /// Once per number, which must grow: a build, a date such as 20261231
    #[arg(long, value_name = "N")]
    slot: Option<u64>,
    /// Once per key, which has no order: a message, an order's number
    #[arg(long, value_name = "KEY", conflicts_with_all = ["missed", "on_crash", "at_least"])]
    key: Option<String>,
    /// Forget which slots were run, for a name whose last one was far beyond the right one
    #[arg(long)]
    reset: bool,
    /// With --key: how long it is remembered after it was last run [default: 1day]
    #[arg(long, value_name = "DUR", value_parser = args::positive)]
    keep: Option<Duration>,
    /// With --key: how often a command that fails is run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: Option<u32>,
    /// What to do about slots that nobody ran in their time
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = MissedArg::Skip)]
    missed: MissedArg,
    /// What to do about a slot whose run was cut off
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = CrashArg::Retry)]
    on_crash: CrashArg,
    /// Keep the lock for at least this long
    #[arg(long, value_name = "DUR", value_parser = leasehold::parse_duration)]
    at_least: Option<Duration>,
    /// Stop the command after this time; the slot is done then
    #[arg(long, value_name = "DUR", value_parser = args::positive)]
    max_runtime: Option<Duration>,
    #[command(flatten)]
    stuck: StuckArgs,
    /// How long the store keeps the lock if we vanish
    #[arg(long, value_name = "DUR", value_parser = args::ttl)]
    ttl: Option<Duration>,
    /// What others see beside host and process
    #[arg(long, value_name = "TEXT", value_parser = args::label)]
    label: Option<String>,
    /// Run this with `sh -c`
    #[arg(short, long, value_name = "STRING")]
    command: Option<OsString>,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    argv: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MissedArg {
    /// Nothing
    Skip,
    /// Run the latest of them before the one of now
    Latest,
    /// Run all of them, in order
    All,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CrashArg {
    /// Run it again if it is asked for, in its time or by --missed: at least once
    Retry,
    /// Do not: at most once
    GiveUp,
}

pub(crate) async fn once(
    common: &Common,
    args: &OnceArgs,
    console: Console,
) -> Result<u8, Failure> {
    let (name, argv) = subject(args)?;
    if let Some(command) = argv.first() {
        child::check(command)?;
    }
    let schedule = schedule(args)?;
    let url = store::url(common)?;
    let mut signals = Signals::catch()?;
    let session = tokio::select! {
        biased;
        signal = signals.end() => return Ok(exit::signalled(signal as i32)),
        session = store::open(&url, args.ttl, args.label.as_deref()) => session?,
    };
    let mut keepers = Vec::new();
    let Some(name) = name else {
        let message = Message {
            key: args.key.as_deref().unwrap_or_default(),
            keep: args.keep,
            max_attempts: args.max_attempts,
            max_runtime: args.max_runtime,
            stuck: &args.stuck,
            argv: &argv,
            url: &url,
            session: &session,
            console,
        };
        let code = message.run(&mut signals, &mut keepers).await;
        lock::leave(session).await;
        keepers.into_iter().for_each(Keeper::see_off);
        return code;
    };
    let once = session.once(&name, schedule);
    if args.reset {
        let code = tokio::select! {
            biased;
            signal = signals.end() => Ok(exit::signalled(signal as i32)),
            code = reset(&once, &name, console) => code,
        };
        lock::leave(session).await;
        return code;
    }
    let once = once
        .missed(args.missed.into())
        .on_crash(args.on_crash.into())
        .at_least(args.at_least.unwrap_or_default());
    let work = Work {
        args,
        name: &name,
        argv: &argv,
        url: &url,
        session: &session,
        console,
    };
    let code = work.all(&once, &mut signals, &mut keepers).await;
    lock::leave(session).await;
    keepers.into_iter().for_each(Keeper::see_off);
    code
}

async fn reset(once: &Once, name: &Name, console: Console) -> Result<u8, Failure> {
    if !once.reset().await? {
        let why = format!("{name} is held elsewhere: nothing was forgotten");
        return Err(Failure::new(exit::HELD, why));
    }
    console.detail(&format!("forgot which slots of {name} were run"));
    Ok(exit::OK)
}

/// What is done once, unless it is a key, and the command, unless there is none.
fn subject(args: &OnceArgs) -> Result<(Option<Name>, Vec<OsString>), Failure> {
    let (mut first, mut name) = (args.name.clone(), None);
    if args.key.is_none() {
        if args.keep.is_some() || args.max_attempts.is_some() {
            return Err(Failure::usage("--keep and --max-attempts go with --key"));
        }
        let text = first.take().unwrap_or_default();
        let Some(text) = text.to_str() else {
            return Err(Failure::usage("the name is not UTF-8"));
        };
        let named = args::name(text).map_err(|why| Failure::usage(format!("NAME: {why}")))?;
        name = Some(named);
    }
    // Without a name the first word is the command's.
    let words: Vec<_> = first.into_iter().chain(args.argv.iter().cloned()).collect();
    match (args.command.is_some(), words.is_empty()) {
        (false, true) if args.reset => Ok((name, Vec::new())),
        _ if args.reset => Err(Failure::usage("--reset runs no command")),
        (true, false) => {
            let why = "a command both after --command and in words; is a -- missing before it?";
            Err(Failure::usage(why))
        }
        (false, true) => Err(Failure::usage("there is no command to run")),
        _ => Ok((name, job::argv(args.command.as_ref(), &words))),
    }
}

struct Work<'a> {
    args: &'a OnceArgs,
    name: &'a Name,
    argv: &'a [OsString],
    url: &'a str,
    session: &'a Session,
    console: Console,
}

impl Work<'_> {
    /// Every slot that is ours, one after the other: the missed ones first.
    async fn all(
        &self,
        once: &Once,
        signals: &mut Signals,
        keepers: &mut Vec<Keeper>,
    ) -> Result<u8, Failure> {
        let (mut code, mut has_run) = (exit::OK, false);
        loop {
            let begin = async {
                match self.args.slot {
                    Some(slot) => once.begin_slot(slot).await,
                    None => once.begin().await,
                }
            };
            let begun = tokio::select! {
                biased;
                signal = signals.end() => return Ok(exit::signalled(signal as i32)),
                begun = begin => begun?,
            };
            let run = match begun {
                Begun::Started(run) => run,
                // Somebody else went on from where we were.
                Begun::Elsewhere
                | Begun::Busy {
                    running: Some(_), ..
                }
                | Begun::Old { .. }
                    if has_run =>
                {
                    return Ok(code);
                }
                other => return self.nothing_to_do(&other, code),
            };
            let (ended, is_last) = self.one(run, signals, keepers).await?;
            // The first that failed is told.
            code = if code == exit::OK { ended } else { code };
            has_run = true;
            if is_last || !self.makes_up() {
                return Ok(code);
            }
        }
    }

    fn makes_up(&self) -> bool {
        !matches!(self.args.missed, MissedArg::Skip)
    }

    /// One slot; its exit code, and whether to stop here.
    async fn one(
        &self,
        mut run: Run,
        signals: &mut Signals,
        keepers: &mut Vec<Keeper>,
    ) -> Result<(u8, bool), Failure> {
        let (slot, attempt) = (run.slot(), run.attempt());
        let (name, console) = (self.name, self.console);
        console.detail(&format!("runs slot {slot} of {name}, attempt {attempt}"));
        let mut environment = Held::new(self.url, self.session, run.guard()).environment();
        environment.push(("LEASEHOLD_SLOT", slot.to_string()));
        environment.push(("LEASEHOLD_ATTEMPT", attempt.to_string()));
        let job = Job {
            argv: self.argv,
            stuck: Stuck::asked(&self.args.stuck, &environment),
            environment,
            on_lost: OnLost::Term,
            notice: job::notice(None, None, self.session)?,
            max_hold: None,
            max_runtime: self.args.max_runtime,
            console,
        };
        let (keeper, ending) = job.run(self.session, run.guard(), signals).await;
        keepers.retain_mut(Keeper::is_there);
        keepers.extend(keeper);
        keepers.iter_mut().for_each(Keeper::dismiss);
        let ending = ending?;
        if let Some(loss) = ending.loss {
            return Err(Failure::new(exit::LOST, loss));
        }
        if ending.is_asked_to_end && ending.change.code() != exit::OK {
            console.say("the command was told to end: the slot counts as cut off");
            return Ok((ending.change.code(), true));
        }
        run.mark_done().await?;
        if ending.is_cut_short() {
            // Nor is the lock kept for whoever is told to end.
            return Ok((ending.change.code(), true));
        }
        if self.args.at_least.is_some() {
            // Only the lock is kept from here on.
            tokio::select! {
                biased;
                completed = run.complete() => completed?,
                signal = signals.end() => return Ok((exit::signalled(signal as i32), true)),
            }
        } else {
            run.complete().await?;
        }
        Ok((ending.change.code(), false))
    }

    /// What may be wrong: the clock, or the number that was given.
    fn hint(&self, clock: &'static str, number: &'static str) -> &'static str {
        match self.args.slot {
            Some(_) => number,
            None => clock,
        }
    }

    fn nothing_to_do(&self, begun: &Begun, code: u8) -> Result<u8, Failure> {
        let name = self.name;
        match begun {
            Begun::Elsewhere => self.console.detail(&format!("{name} runs elsewhere")),
            Begun::Busy { slot, running } => {
                let because = match running {
                    Some(running) => {
                        format!("slot {running} still runs elsewhere, or its lock is kept")
                    }
                    None => "the name is held by somebody who runs no slot of it".to_owned(),
                };
                let why = format!("slot {slot} of {name} is not run: {because}");
                if running.is_none() || !self.makes_up() {
                    return Err(Failure::new(exit::HELD, why));
                }
                self.console.detail(&why);
            }
            Begun::Done { slot } => {
                let done = format!("slot {slot} of {name} is done");
                self.console.detail(&done);
            }
            Begun::Old { slot, last } => {
                let hint = self.hint("is the clock late?", "numbers must grow");
                let late = format!(
                    "slot {slot} of {name} is too old: slot {last} was run already; {hint}"
                );
                return Err(Failure::new(exit::HELD, late));
            }
            Begun::TooFarAhead { slot, latest } => {
                let hint = self.hint("is the clock right?", "is the number right?");
                let ahead = format!(
                    "slot {slot} of {name} is too far ahead: up to {latest} is allowed; {hint}"
                );
                return Err(Failure::new(exit::CONFIG, ahead));
            }
            Begun::Started(_) => {}
        }
        Ok(code)
    }
}

fn schedule(args: &OnceArgs) -> Result<Schedule, Failure> {
    match (args.per, &args.cron) {
        (Some(period), _) => Ok(Schedule::per(period)?),
        (None, Some(expression)) => Ok(Schedule::cron(expression)?),
        (None, None) => Ok(Schedule::numbers()),
    }
}

impl From<MissedArg> for Missed {
    fn from(arg: MissedArg) -> Self {
        match arg {
            MissedArg::Skip => Self::Skip,
            MissedArg::Latest => Self::Latest,
            MissedArg::All => Self::All,
        }
    }
}

impl From<CrashArg> for OnCrash {
    fn from(arg: CrashArg) -> Self {
        match arg {
            CrashArg::Retry => Self::Retry,
            CrashArg::GiveUp => Self::GiveUp,
        }
    }
}
