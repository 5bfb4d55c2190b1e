//! `leasehold latch`: scripts that wait until so many others have come so far.

use std::time::Duration;

use clap::{ArgGroup, Args};
use leasehold::{Latch, Name};
use serde_json::json;

use crate::args::{self, Common};
use crate::exit::{self, Failure};
use crate::lock;
use crate::print::{self, Console};
use crate::signals::Signals;
use crate::store;

/// Count parts, and wait until all are counted
///
/// A latch opens when N parts are counted, by whomever, and stays open until it is
/// reset. All who use it name the same N. Prints how many parts are left; --wait
/// prints nothing.
///
/// A script that may be started again should count its part by name (--part), which
/// counts once however often it is asked.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
#[command(group = ArgGroup::new("latched").args(["wait", "down", "part", "reset"]))]
pub(crate) struct LatchArgs {
    /// The latch
    #[arg(value_parser = args::name)]
    name: Name,
    /// How many parts there are in all
    #[arg(long, value_name = "N")]
    count: u32,
    /// Wait until it is open
    #[arg(long)]
    wait: bool,
    /// Count K parts, each anew
    #[arg(long, value_name = "K", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    down: Option<u32>,
    /// Count the part of this name, once however often it is asked
    #[arg(long, value_name = "TEXT")]
    part: Option<String>,
    /// Close it: nothing is counted any more
    #[arg(long)]
    reset: bool,
    /// Wait at most this long, then exit with 75
    #[arg(long, value_name = "DUR", requires = "wait", value_parser = args::positive)]
    timeout: Option<Duration>,
    /// Have the store forget the latch this long after the last count [default: never]
    #[arg(long, value_name = "DUR", value_parser = args::positive)]
    keep: Option<Duration>,
    /// How long others cannot count if we vanish while we count
    #[arg(long, value_name = "DUR", value_parser = args::ttl)]
    ttl: Option<Duration>,
    /// What others see beside host and process
    #[arg(long, value_name = "TEXT", value_parser = args::label)]
    label: Option<String>,
}

pub(crate) async fn latch(
    common: &Common,
    args: &LatchArgs,
    console: Console,
) -> Result<u8, Failure> {
    let url = store::url(common)?;
    let mut signals = Signals::catch()?;
    let session = tokio::select! {
        biased;
        signal = signals.end() => return Ok(exit::signalled(signal as i32)),
        session = store::open(&url, args.ttl, args.label.as_deref()) => session?,
    };
    let mut latch = session.latch(&args.name, args.count);
    if let Some(keep) = args.keep {
        latch = latch.keep(keep);
    }
    let left = tokio::select! {
        biased;
        signal = signals.end() => Err(signal),
        left = left(args, &latch) => Ok(left),
    };
    lock::leave(session).await;
    let left = match left {
        Ok(left) => left?,
        Err(signal) => return Ok(exit::signalled(signal as i32)),
    };
    if console.json {
        print::json_line(
            &json!({ "name": args.name.as_str(), "count": args.count, "left": left }),
        )?;
    } else if !args.wait {
        print::text(&format!("{left}\n"))?;
    }
    Ok(exit::OK)
}

/// Does what is asked; how many parts are left then.
async fn left(args: &LatchArgs, latch: &Latch) -> leasehold::Result<u32> {
    if args.wait {
        match args.timeout {
            Some(longest) => latch.wait_within(longest).await?,
            None => latch.wait().await?,
        }
        return Ok(0);
    }
    if let Some(part) = &args.part {
        return latch.count_down_as(part).await;
    }
    if args.reset {
        latch.reset().await?;
    }
    match args.down {
        Some(parts) => latch.count_down_by(parts).await,
        None => latch.left().await,
    }
}
