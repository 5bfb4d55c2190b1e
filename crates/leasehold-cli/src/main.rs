//! The leasehold command line: a lock for a command, and a look at all locks.
#![forbid(unsafe_code)]

mod args;
mod barrier;
mod bench;
mod breaking;
mod child;
mod completions;
mod deadlocks;
mod doctor;
mod elect;
mod exit;
mod fence;
mod gate;
mod hold;
mod job;
mod keeper;
mod latch;
mod lock;
mod ls;
mod man;
mod message;
mod nested;
mod once;
mod print;
#[cfg(feature = "redis")]
mod redlock;
mod run;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod schema;
mod show;
mod signals;
mod stamp;
mod store;
mod stuck;
mod supervise;
mod terminal;
mod view;
mod watch;

use clap::Parser;
use clap::error::ErrorKind;
use nix::sys::signal::SigSet;

use crate::args::{Arguments, Command};
use crate::exit::Failure;
use crate::print::{Console, complain};

fn main() {
    std::panic::set_hook(Box::new(|panic| {
        let panic = panic.to_string().replace("\n", " ");
        complain(&format!("internal error: {panic}; please report it"));
        std::process::exit(exit::BUG.into());
    }));
    let mut arguments = std::env::args_os().skip(1);
    // The helpers are started for every command that is run: no time to lose
    // with reading arguments for people.
    match arguments.next().as_ref().and_then(|word| word.to_str()) {
        Some(child::EXEC) => child::become_command(arguments),
        Some(keeper::KEEPER) => keeper::keeper(),
        _ => {
            let code = for_people();
            // Not a return: a thread may be reading from standard input.
            std::process::exit(code.into());
        }
    }
}

fn for_people() -> u8 {
    // Some parents hand their own mask down. With SIGCHLD blocked we would never
    // hear of the command's end and keep the lock for ever.
    let _ = SigSet::all().thread_unblock();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return no_arguments(&error),
    };
    let console = Console::new(&arguments.common);
    match perform(&arguments, console) {
        Ok(code) => code,
        Err(failure) => {
            console.failure(&failure);
            failure.code
        }
    }
}

fn perform(arguments: &Arguments, console: Console) -> Result<u8, Failure> {
    let common = &arguments.common;
    // One thread: the command's parent-death signal is tied to the thread that
    // starts it, which must therefore live as long as the process.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::system("start", error))?;
    match &arguments.command {
        Command::Run(args) => runtime.block_on(run::run(common, args, console)),
        Command::Hold(args) => runtime.block_on(hold::hold(common, args, console)),
        Command::Elect(args) => runtime.block_on(elect::elect(common, args, console)),
        Command::Once(args) => runtime.block_on(once::once(common, args, console)),
        Command::Latch(args) => runtime.block_on(latch::latch(common, args, console)),
        Command::Barrier(args) => runtime.block_on(barrier::barrier(common, args, console)),
        Command::Stamp(args) => runtime.block_on(stamp::stamp(common, args, console)),
        Command::Ls(args) => runtime.block_on(ls::ls(common, args, console)),
        Command::Show(args) => runtime.block_on(show::show(common, args, console)),
        Command::Watch(args) => runtime.block_on(watch::watch(common, args, console)),
        Command::Break(args) => runtime.block_on(breaking::break_lock(common, args, console)),
        Command::Doctor(args) if args.deadlocks => {
            runtime.block_on(deadlocks::deadlocks(common, console))
        }
        Command::Doctor(_) => runtime.block_on(doctor::doctor(common, console)),
        Command::Bench(args) => {
            let url = common.url.clone();
            runtime.block_on(bench::bench(args, url, common.json))
        }
        #[cfg(feature = "redis")]
        Command::Redlock(args) => runtime.block_on(redlock::redlock(common, args, console)),
        Command::Fence(args) => fence::fence(args, console),
        Command::Gate(args) => {
            // It has a runtime of its own.
            drop(runtime);
            gate::gate(common, args, console)
        }
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        Command::Schema => schema::schema(common),
        Command::Completions(args) => completions::completions(args),
        Command::Man(args) => man::man(args),
    }
}

/// Help was asked for, or the arguments are wrong.
fn no_arguments(error: &clap::Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            exit::OK
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            exit::USAGE
        }
        _ => {
            complain(&args::complaint(error));
            exit::USAGE
        }
    }
}
