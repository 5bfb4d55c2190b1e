//! `leasehold show`: one lock with its queue, and what was broken of late.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use leasehold::Name;
use leasehold::engine::Queue;
use serde::Serialize;

use crate::args::{Common, Show};
use crate::exit::{self, Failure};
use crate::print::{self, Console, HEADING};
use crate::store;
use crate::view::{self, EvictionView, LockView};

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    lock: LockView,
    evictions: Vec<EvictionView>,
}

pub(crate) async fn show(common: &Common, args: &Show, console: Console) -> Result<u8, Failure> {
    let inspector = leasehold::inspect(&store::url(common)?).await?;
    let queue = inspector.queue(&args.name).await?;
    if console.json {
        let lock = LockView::new(&args.name, &queue);
        let evictions = queue.evictions.iter().map(EvictionView::new).collect();
        print::json_line(&Shown { lock, evictions })?;
    } else {
        print::text(&describe(&args.name, &queue))?;
    }
    Ok(exit::OK)
}

fn describe(name: &Name, queue: &Queue) -> String {
    let view = LockView::new(name, queue);
    let state = match (view.kind, view.slots) {
        (None, _) => "free".to_owned(),
        (Some(kind), None) => format!("{kind}, {} waiting", view.waiting.len()),
        (Some(kind), Some(slots)) => {
            let (held, waiting) = (view.holders.len(), view.waiting.len());
            format!("{kind}, {held} of {slots} slots held, {waiting} waiting")
        }
    };
    let mut text = format!("{HEADING}{name}{HEADING:#}: {state}\n");
    let rows: Vec<_> = queue
        .claims
        .iter()
        .map(|claimant| {
            let token = claimant
                .token
                .map_or_else(|| "-".to_owned(), |token| token.to_string());
            [
                if claimant.is_holder { "holds" } else { "waits" }.to_owned(),
                view::mode(claimant, queue.capacity).to_owned(),
                print::duration(claimant.age),
                print::duration(claimant.time_left),
                token,
                print::owner(claimant),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let heading = ["STATE", "MODE", "AGE", "TTL LEFT", "TOKEN", "OWNER"];
        text.push_str(&print::table(heading, &rows));
    }
    for eviction in &queue.evictions {
        let (at, owner) = (time(eviction.at), eviction.owner.to_string());
        let (by, reason) = (&eviction.by, &eviction.reason);
        let line = format!(
            "broken {at} by {by}: {reason} (token {}, {owner})",
            eviction.token
        );
        let _ = writeln!(text, "{}", print::clean(&line));
    }
    text
}

/// A wall-clock time, in UTC.
pub(crate) fn time(since_1970: Duration) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(since_1970);
    time.map_or_else(
        || "-".to_owned(),
        |time| humantime::format_rfc3339_seconds(time).to_string(),
    )
}
