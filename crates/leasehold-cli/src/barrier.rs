//! `leasehold barrier`: commands that begin together and are done together.

use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgGroup, Args};
use leasehold::{Entered, Name, Session};
use nix::sys::signal::Signal;

use crate::args::{self, Common, OnLost};
use crate::child;
use crate::exit::{self, Failure};
use crate::job::{self, Job};
use crate::keeper::Keeper;
use crate::lock;
use crate::nested::Held;
use crate::print::Console;
use crate::signals::Signals;
use crate::store;
use crate::stuck::{Stuck, StuckArgs};

/// Run a command when so many others are ready too, and end when all have
///
/// Waits until N members are here, runs the command, and then waits until the
/// commands of all members have ended, whatever their exit codes. A member that
/// dies holds the others up for its ttl at most. Who comes beyond N waits for the
/// next time.
///
/// If this member does not count any more, because its lease is lost, its command
/// gets SIGTERM, then SIGKILL, and the exit code is 76. NAME.gate is used too.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
#[command(group = ArgGroup::new("together").required(true).args(["command", "argv"]))]
#[command(
    override_usage = "leasehold barrier [OPTIONS] <NAME> --members <N> [--] <COMMAND>...
       leasehold barrier [OPTIONS] <NAME> --members <N> -c <STRING>"
)]
pub(crate) struct BarrierArgs {
    /// The barrier
    #[arg(value_parser = args::name)]
    name: Name,
    /// How many go in together
    #[arg(long, value_name = "N")]
    members: u32,
    /// Wait for the others to come at most this long, then exit with 75
    #[arg(long, value_name = "DUR", value_parser = args::positive)]
    timeout: Option<Duration>,
    /// Have the store forget this long after all have left who went in [default: never]
    #[arg(long, value_name = "DUR", value_parser = args::positive)]
    keep: Option<Duration>,
    #[command(flatten)]
    stuck: StuckArgs,
    /// How long the others wait for us if we vanish
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

pub(crate) async fn barrier(
    common: &Common,
    args: &BarrierArgs,
    console: Console,
) -> Result<u8, Failure> {
    let argv = job::argv(args.command.as_ref(), &args.argv);
    child::check(&argv[0])?;
    let url = store::url(common)?;
    let mut signals = Signals::catch()?;
    let session = tokio::select! {
        biased;
        signal = signals.end() => return Ok(exit::signalled(signal as i32)),
        session = store::open(&url, args.ttl, args.label.as_deref()) => session?,
    };
    let mut barrier = session.barrier(&args.name, args.members);
    if let Some(keep) = args.keep {
        barrier = barrier.keep(keep);
    }
    let entering = async {
        match args.timeout {
            Some(longest) => barrier.enter_within(longest).await,
            None => barrier.enter().await,
        }
    };
    let entered = tokio::select! {
        biased;
        signal = signals.end() => Ok(Err(signal)),
        entered = entering => entered.map(Ok),
    };
    let code = match entered {
        Ok(Ok(entered)) => {
            console.detail(&format!("all {} are at {}", args.members, args.name));
            let place = Place {
                args,
                argv: &argv,
                url: &url,
                session: &session,
                console,
            };
            place.inside(entered, &mut signals).await
        }
        Ok(Err(signal)) => Ok(exit::signalled(signal as i32)),
        Err(error) => Err(error.into()),
    };
    lock::leave(session).await;
    code
}

struct Place<'a> {
    args: &'a BarrierArgs,
    argv: &'a [OsString],
    url: &'a str,
    session: &'a Session,
    console: Console,
}

impl Place<'_> {
    /// All are here: runs the command, and waits for the others to end theirs.
    async fn inside(&self, entered: Entered, signals: &mut Signals) -> Result<u8, Failure> {
        let session = self.session;
        let environment = Held::new(self.url, session, entered.guard()).environment();
        let job = Job {
            argv: self.argv,
            stuck: Stuck::asked(&self.args.stuck, &environment)
                .map(|stuck| stuck.starting_now(entered.guard())),
            environment,
            on_lost: OnLost::Term,
            notice: job::notice(None, None, session)?,
            max_hold: None,
            max_runtime: None,
            console: self.console,
        };
        let (mut keeper, ending) = job.run(session, entered.guard(), signals).await;
        keeper.iter_mut().for_each(Keeper::dismiss);
        let leaving = async {
            match &ending {
                // Whoever is told to end waits for nobody; the session's end takes us out.
                Ok(ending) if ending.is_cut_short() => Ok(()),
                _ => entered.leave().await,
            }
        };
        let left = tokio::select! {
            biased;
            signal = signals.end() => Err(signal),
            left = leaving => Ok(left),
        };
        keeper.into_iter().for_each(Keeper::see_off);
        let ending = ending?;
        if let Some(loss) = ending.loss {
            return Err(Failure::new(exit::LOST, loss));
        }
        match left {
            // It says so: whoever goes on by our code must not take the others for gone.
            Ok(_) if ending.is_cut_short() && ending.change.code() == exit::OK => {
                Ok(exit::signalled(Signal::SIGTERM as i32))
            }
            Ok(left) => left.map(|()| ending.change.code()).map_err(Failure::from),
            Err(signal) => Ok(exit::signalled(signal as i32)),
        }
    }
}
