//! `leasehold stamp`: reading without a lock, and knowing afterwards whether a
//! writer came.

use std::ffi::OsString;

use clap::Args;
use leasehold::{Name, RwLock, StampWord};
use serde_json::json;

use crate::args::{self, Common};
use crate::child::{self, Environment};
use crate::exit::{self, Failure};
use crate::lock;
use crate::print::{self, Console};
use crate::signals::Signals;
use crate::store;

/// Read without a lock, and know whether a writer came meanwhile
///
/// Writers are those who use `leasehold run --exclusive NAME`. With a command, it
/// runs the command without any lock; the exit code is the command's own, or 75 if a
/// writer came meanwhile, or was there before: then read again, or under the lock
/// (`leasehold run --shared NAME`).
///
/// Without a command it prints one word, the stamp; read then, and give the word to
/// --validate: 0 if no writer came since, 1 if one came, or may have. That needs a
/// store whose stamps can be handed on: sqlite:, postgres: or zk:. While a writer is
/// there it prints nothing, and the exit code is 75.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
#[command(override_usage = "leasehold stamp [OPTIONS] <NAME> -- <COMMAND>...
       leasehold stamp [OPTIONS] <NAME>
       leasehold stamp [OPTIONS] <NAME> --validate <WORD>")]
pub(crate) struct StampArgs {
    /// The lock
    #[arg(value_parser = args::name)]
    name: Name,
    /// Say whether the stamp is good: 0 if it is, else 1
    #[arg(long, value_name = "WORD", conflicts_with = "argv")]
    validate: Option<StampWord>,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    argv: Vec<OsString>,
}

/// The exit code of a stamp that is spoilt.
const SPOILT: u8 = 1;

pub(crate) async fn stamp(
    common: &Common,
    args: &StampArgs,
    console: Console,
) -> Result<u8, Failure> {
    if let Some(command) = args.argv.first() {
        child::check(command)?;
    }
    let url = store::url(common)?;
    let mut signals = Signals::catch()?;
    let session = tokio::select! {
        biased;
        signal = signals.end() => return Ok(exit::signalled(signal as i32)),
        session = store::open(&url, None, None) => session?,
    };
    let lock = session.rwlock(&args.name);
    let code = match (&args.validate, args.argv.is_empty()) {
        (Some(word), _) => validate(&lock, args, word, console).await,
        (None, true) => print_word(&lock, args, console).await,
        (None, false) => run(&lock, args, &mut signals).await,
    };
    lock::leave(session).await;
    code
}

async fn print_word(lock: &RwLock, args: &StampArgs, console: Console) -> Result<u8, Failure> {
    let Some(word) = lock.stamp().await?.word()? else {
        return Err(written(&args.name));
    };
    if console.json {
        let word = word.to_string();
        print::json_line(&json!({ "name": args.name.as_str(), "stamp": word }))?;
    } else {
        print::text(&format!("{word}\n"))?;
    }
    Ok(exit::OK)
}

async fn validate(
    lock: &RwLock,
    args: &StampArgs,
    word: &StampWord,
    console: Console,
) -> Result<u8, Failure> {
    let is_good = lock.validate_word(word).await?;
    if console.json {
        print::json_line(&json!({ "name": args.name.as_str(), "good": is_good }))?;
    } else if !is_good {
        console.detail(&format!("a writer came to {}, or may have", args.name));
    }
    Ok(if is_good { exit::OK } else { SPOILT })
}

async fn run(lock: &RwLock, args: &StampArgs, signals: &mut Signals) -> Result<u8, Failure> {
    let stamp = lock.stamp().await?;
    if !stamp.may_be_good() {
        return Err(written(&args.name));
    }
    let ended = child::run_beside(&args.argv, &Environment::new(), signals).await?;
    if lock.validate(&stamp).await? {
        return Ok(ended.code());
    }
    let (name, came) = (
        &args.name,
        "a writer came, or may have, while the command ran",
    );
    Err(Failure::new(
        exit::HELD,
        format!("read {name} without a lock: {came}"),
    ))
}

fn written(name: &Name) -> Failure {
    let why = format!("read {name} without a lock: a writer has it, or waits for it");
    Failure::new(exit::HELD, why)
}
