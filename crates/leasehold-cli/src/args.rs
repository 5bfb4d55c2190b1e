//! The arguments.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use leasehold::Name;

use crate::barrier::BarrierArgs;
use crate::bench::BenchArgs;
use crate::elect::ElectArgs;
use crate::exit;
use crate::fence::FenceArgs;
use crate::gate::GateArgs;
use crate::latch::LatchArgs;
use crate::once::OnceArgs;
#[cfg(feature = "redis")]
use crate::redlock::RedlockArgs;
use crate::stamp::StampArgs;
use crate::stuck::StuckArgs;

/// Distributed locks: run a command under a lock, see who holds what, break
/// what is stuck.
///
/// With no --url, locks live in $LEASEHOLD_URL, else in a file in your state
/// directory that all your processes on this machine share. Put a URL with a
/// password into $LEASEHOLD_URL: everybody on the machine can read arguments.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_help = exit::TABLE, max_term_width = 100)]
#[command(disable_help_subcommand = true, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Common {
    /// The store, such as sqlite:/var/lib/app/locks.db [default: $LEASEHOLD_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Write JSON instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what happens
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Hold(Hold),
    Elect(ElectArgs),
    Once(OnceArgs),
    Latch(LatchArgs),
    Barrier(BarrierArgs),
    Stamp(StampArgs),
    /// List the locks that are held or waited for
    Ls(Ls),
    /// Show one lock: holders, queue, and what was broken of late
    Show(Show),
    /// Print a line for every event: held, released, waiting, left, lost, evicted
    Watch(Watch),
    /// Break a lock: evict its holders, and record who did it and why
    Break(Break),
    /// Check whether the store is fit for locks, and say what to do if not
    Doctor(Doctor),
    Bench(BenchArgs),
    #[cfg(feature = "redis")]
    Redlock(RedlockArgs),
    Fence(FenceArgs),
    Gate(GateArgs),
    /// Print the SQL that makes the tables, for a role that may not make them
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    Schema,
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual
    Man(Man),
}

/// Run a command while holding a lock
///
/// The command runs in a process group of its own, with the terminal if there
/// is one. Signals are passed on to the group. It finds the lock in its
/// environment: LEASEHOLD_NAME, LEASEHOLD_TOKEN (the fencing token, a number
/// that grows with every grant), LEASEHOLD_FENCE (token and holder),
/// LEASEHOLD_OWNER and LEASEHOLD_TTL_MS. A `leasehold run` of the same name
/// inside the command re-enters the lock.
///
/// If the lock is about to be lost the group gets SIGTERM, and SIGKILL before
/// anyone else can hold the lock. If leasehold itself is killed, the group is
/// killed too. If leasehold is stopped (SIGSTOP) for longer than the ttl,
/// nothing can stop the command in time: pass the token on to what you protect.
///
/// A name is a plain lock (a mutex), or a lock of readers and writers (-s and
/// -x), or has a number of slots (--slots). All who use a name must agree.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
#[command(group = ArgGroup::new("what").required(true).args(["command", "argv"]))]
#[command(override_usage = "leasehold run [OPTIONS] <NAME> [--] <COMMAND>...
       leasehold run [OPTIONS] <NAME> -c <STRING>")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) claim: Claim,
    /// What to do with the command when the lock is lost
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,
    /// How long before the loss the command gets SIGTERM [default: 5s or a quarter of the ttl]
    #[arg(long, value_name = "DUR", value_parser = leasehold::parse_duration)]
    pub(crate) kill_after: Option<Duration>,
    #[command(flatten)]
    pub(crate) stuck: StuckArgs,
    /// Write what became of it as one line of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Run this with `sh -c`
    #[arg(short, long, value_name = "STRING")]
    pub(crate) command: Option<OsString>,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) argv: Vec<OsString>,
}

/// Hold a lock until standard input closes or a signal comes
///
/// Prints one line of JSON when it has the lock, and a second one if it loses it.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) claim: Claim,
    #[command(flatten)]
    pub(crate) stuck: StuckArgs,
}

/// Which lock, and how to get it.
#[derive(Debug, Args)]
pub(crate) struct Claim {
    /// The lock
    #[arg(value_parser = name)]
    pub(crate) name: Name,
    /// Wait for the lock at most this long: 500ms, 5s, 1h30m
    #[arg(short, long, value_name = "DUR", visible_alias = "timeout")]
    #[arg(value_parser = leasehold::parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait if the lock is held
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Share the lock with others that use -s; exclude those that use -x
    #[arg(short, long, conflicts_with_all = ["exclusive", "slots"])]
    pub(crate) shared: bool,
    /// Exclude others that use -s or -x; does not mix with plain locks
    #[arg(short = 'x', long, conflicts_with = "slots")]
    pub(crate) exclusive: bool,
    /// Take one of so many slots
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..i64::from(u32::MAX)))]
    pub(crate) slots: Option<u32>,
    /// How long the store keeps the lock if we vanish
    #[arg(long, value_name = "DUR", value_parser = ttl)]
    pub(crate) ttl: Option<Duration>,
    /// Give the lock up after this time, as if it were lost
    #[arg(long, value_name = "DUR", value_parser = positive)]
    pub(crate) max_hold: Option<Duration>,
    /// What others see beside host and process
    #[arg(long, value_name = "TEXT", value_parser = label)]
    pub(crate) label: Option<String>,
    /// The exit code if the lock is held elsewhere
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::HELD)]
    pub(crate) conflict_exit_code: u8,
    /// Exit with 0 if the lock is held elsewhere
    #[arg(long, conflicts_with = "conflict_exit_code")]
    pub(crate) skip_ok: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM when the loss is near, SIGKILL when it comes
    Term,
    /// SIGKILL when it comes
    Kill,
    /// Let it run, and exit with 76 when it ends
    Ignore,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Names that start with this; with * or ? a pattern for the whole name
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) pattern: String,
    /// Only those with a holder that asked for the lock at least this long ago
    #[arg(long, value_name = "DUR", value_parser = leasehold::parse_duration)]
    pub(crate) held_over: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The lock
    #[arg(value_parser = name)]
    pub(crate) name: Name,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Names that start with this; with * or ? a pattern for the whole name
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) pattern: String,
    /// Stop after this time
    #[arg(long = "for", value_name = "DUR", value_parser = leasehold::parse_duration)]
    pub(crate) duration: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Break {
    /// The lock
    #[arg(value_parser = name)]
    pub(crate) name: Name,
    /// Why; the holder is told and the store records it
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: String,
    /// Evict only the holder with this token
    #[arg(long, value_name = "N")]
    pub(crate) token: Option<u64>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Find those who wait for each other, and say whom to break; exits with 75 if there are any
    #[arg(long)]
    pub(crate) deadlocks: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write a page for every command into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) all: Option<PathBuf>,
}

pub(crate) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.why().to_owned())
}

pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = leasehold::parse_duration(text)?;
    let (shortest, longest) = (
        Duration::from_millis(100),
        Duration::from_secs(24 * 60 * 60),
    );
    if !(shortest..=longest).contains(&ttl) {
        return Err("allowed is 100ms to 1day".into());
    }
    Ok(ttl)
}

pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    match leasehold::parse_duration(text)? {
        Duration::ZERO => Err("must be more than zero".into()),
        duration => Ok(duration),
    }
}

pub(crate) fn label(text: &str) -> Result<String, String> {
    plain(text, 200)
}

fn reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("say why, for whoever finds the lock broken".into());
    }
    plain(text, 1000)
}

/// Text that ends up on other people's terminals.
fn plain(text: &str, most: usize) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("control characters are not allowed".into());
    }
    if text.len() > most {
        return Err(format!("{} bytes; at most {most} are allowed", text.len()));
    }
    Ok(text.to_owned())
}

/// What is wrong with the arguments, in one line.
pub(crate) fn complaint(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut parts = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        parts.push(
            line.trim_start_matches("error: ")
                .trim_start_matches("tip: "),
        );
    }
    let joined = parts.join("; ").replace(":; ", ": ");
    format!("{joined}; see --help")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn wrong(arguments: &[&str]) -> String {
        let arguments = [&["leasehold"], arguments].concat();
        complaint(&Arguments::try_parse_from(arguments).unwrap_err())
    }

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_complaint_is_one_line_that_names_the_thing_and_the_remedy() {
        for arguments in [
            &["run", "x"][..],
            &["run", "--ttl", "0", "x", "true"],
            &["run", "--tll", "5s", "x", "true"],
            &["run", "", "true"],
            &["run", "-n", "-w", "5s", "x", "true"],
            &["rnu"],
        ] {
            let line = wrong(arguments);
            assert_eq!(line.lines().count(), 1, "{line}");
            assert!(line.ends_with("see --help"), "{line}");
        }
        assert!(wrong(&["run", "--ttl", "0", "x", "true"]).contains("allowed is 100ms to 1day"));
        assert!(wrong(&["run", "--tll", "5s", "x", "true"]).contains("'--ttl'"));
        assert!(wrong(&["run", "", "true"]).contains("the name is empty"));
    }

    #[test]
    fn options_after_the_command_belong_to_the_command() {
        let parsed =
            Arguments::try_parse_from(["leasehold", "run", "-q", "x", "ls", "-n", "--url"]);
        let Command::Run(run) = parsed.unwrap().command else {
            panic!("not a run");
        };
        assert_eq!(run.argv, ["ls", "-n", "--url"]);
        assert!(!run.claim.nonblock);
    }
}
