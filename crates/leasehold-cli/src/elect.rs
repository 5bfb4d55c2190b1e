//! `leasehold elect`: a command that runs on whichever machine leads.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use leasehold::election::{LONGEST_VALUE, Leadership};
use leasehold::{Name, Session};

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

/// How long a command must have run to be started again at once.
const BRIEF: Duration = Duration::from_secs(1);

/// Run a command while leading
///
/// All who name the same election wait; one leads, and its command runs. If the
/// leadership is about to be lost the command gets SIGTERM, and SIGKILL before
/// another can lead. When the command ends, another leads.
///
/// The command finds LEASEHOLD_NAME, LEASEHOLD_TOKEN (greater than that of every
/// leader before), LEASEHOLD_FENCE, LEASEHOLD_OWNER, LEASEHOLD_TTL_MS and
/// LEASEHOLD_TERM (the how-manieth leader it is) in its environment.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
#[command(group = ArgGroup::new("elected").required(true).args(["command", "argv"]))]
#[command(override_usage = "leasehold elect [OPTIONS] <NAME> [--] <COMMAND>...
       leasehold elect [OPTIONS] <NAME> -c <STRING>")]
pub(crate) struct ElectArgs {
    /// The election
    #[arg(value_parser = args::name)]
    name: Name,
    /// What others see of the leader, such as an address [default: host and process]
    #[arg(long, value_name = "TEXT", value_parser = value)]
    value: Option<String>,
    /// When the command ends or the leadership is lost, stand again, until a signal comes
    #[arg(long)]
    forever: bool,
    /// How long the store keeps the leadership if we vanish
    #[arg(long, value_name = "DUR", value_parser = args::ttl)]
    ttl: Option<Duration>,
    /// How long before the loss the command gets SIGTERM [default: 5s or a quarter of the ttl]
    #[arg(long, value_name = "DUR", value_parser = leasehold::parse_duration)]
    kill_after: Option<Duration>,
    #[command(flatten)]
    stuck: StuckArgs,
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

fn value(text: &str) -> Result<String, String> {
    match text.len() {
        0..=LONGEST_VALUE => Ok(text.to_owned()),
        length => Err(format!(
            "{length} bytes; at most {LONGEST_VALUE} are allowed"
        )),
    }
}

/// What comes after one term.
enum Then {
    Again,
    End(u8),
}

pub(crate) async fn elect(
    common: &Common,
    args: &ElectArgs,
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
    let mut keepers = Vec::new();
    let code = loop {
        let term = lead(
            args,
            &argv,
            &url,
            &session,
            &mut signals,
            &mut keepers,
            console,
        );
        match term.await {
            Ok(Then::Again) => {}
            Ok(Then::End(code)) => break Ok(code),
            Err(failure) => break Err(failure),
        }
    };
    lock::leave(session).await;
    keepers.into_iter().for_each(Keeper::see_off);
    code
}

/// One term: waits, leads, resigns.
async fn lead(
    args: &ElectArgs,
    argv: &[OsString],
    url: &str,
    session: &Session,
    signals: &mut Signals,
    keepers: &mut Vec<Keeper>,
    console: Console,
) -> Result<Then, Failure> {
    let notice = job::notice(args.kill_after, None, session)?;
    let owner = session.owner().to_string();
    let election = session.election(&args.name);
    let leadership = tokio::select! {
        biased;
        signal = signals.end() => return Ok(Then::End(exit::signalled(signal as i32))),
        leadership = election.campaign(args.value.as_ref().unwrap_or(&owner)) => leadership?,
    };
    let term = leadership.term().await;
    console.detail(&format!("leads {} as number {term}", args.name));
    let guard = leadership.guard();
    let mut environment = Held::new(url, session, guard).environment();
    environment.push(("LEASEHOLD_TERM", term.to_string()));
    let job = Job {
        argv,
        stuck: Stuck::asked(&args.stuck, &environment),
        environment,
        on_lost: OnLost::Term,
        notice,
        max_hold: None,
        max_runtime: None,
        console,
    };
    let begun = Instant::now();
    let (keeper, ending) = job.run(session, guard, signals).await;
    keepers.retain_mut(Keeper::is_there);
    keepers.extend(keeper);
    keepers.iter_mut().for_each(Keeper::dismiss);
    let loss = resign(leadership, console).await;
    let ending = ending?;
    let loss = ending.loss.clone().or(loss);
    if let Some(loss) = &loss {
        console.failure(&Failure::new(exit::LOST, loss));
    }
    if args.forever && !ending.is_asked_to_end {
        return stand_again(begun, signals, console).await;
    }
    Ok(Then::End(match loss {
        Some(_) => exit::LOST,
        None => ending.change.code(),
    }))
}

/// A command that ends at once is not started over and over. On a terminal somebody may
/// have pressed Ctrl-C, of which only the command knows: it takes a second one to end us.
async fn stand_again(
    begun: Instant,
    signals: &mut Signals,
    console: Console,
) -> Result<Then, Failure> {
    let is_attended = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if is_attended {
        console.say("the command has ended; stands again in a second, unless Ctrl-C is pressed");
    }
    if is_attended || begun.elapsed() < BRIEF {
        tokio::select! {
            biased;
            signal = signals.end() => return Ok(Then::End(exit::signalled(signal as i32))),
            () = tokio::time::sleep(BRIEF) => {}
        }
    }
    Ok(Then::Again)
}

/// Lets another lead. If it turns out that we had lost it, that is returned.
async fn resign(leadership: Leadership, console: Console) -> Option<String> {
    let name = leadership.guard().name().to_owned();
    match leadership.resign().await {
        Ok(()) => None,
        Err(error) if matches!(error.kind(), leasehold::ErrorKind::Lost(_)) => Some(format!(
            "lost {name} while the command ran: {}",
            error.why()
        )),
        Err(error) => {
            console.say(&format!("{error}; another leads when the ttl has passed"));
            None
        }
    }
}
