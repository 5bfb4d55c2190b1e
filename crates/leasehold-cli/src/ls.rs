//! `leasehold ls`: the locks that are held or waited for.

use std::io::IsTerminal;
use std::time::Duration;

use leasehold::Name;
use leasehold::engine::Queue;

use crate::args::{Common, Ls};
use crate::exit::{self, Failure};
use crate::print::{self, Console};
use crate::store;
use crate::view::{self, LockView};

pub(crate) async fn ls(common: &Common, args: &Ls, console: Console) -> Result<u8, Failure> {
    let inspector = leasehold::inspect(&store::url(common)?).await?;
    let mut locks = Vec::new();
    for name in view::names(&inspector, &args.pattern).await? {
        let queue = inspector.queue(&name).await?;
        // It may have been released since the names were listed.
        if !queue.claims.is_empty() && is_meant(&queue, args.held_over) {
            locks.push((name, queue));
        }
    }
    if console.json {
        let views: Vec<_> = locks
            .iter()
            .map(|(name, queue)| LockView::new(name, queue))
            .collect();
        print::json_line(&views)?;
    } else if !locks.is_empty() {
        let rows: Vec<_> = locks.iter().map(|(name, queue)| row(name, queue)).collect();
        let heading = [
            "NAME", "KIND", "HELD", "WAITING", "AGE", "TTL LEFT", "TOKEN", "OWNER",
        ];
        print::text(&print::table(heading, &rows))?;
    } else if std::io::stdout().is_terminal() {
        console.say(match args.held_over {
            None => "no locks are held or waited for",
            Some(_) => "no locks are held for that long",
        });
    }
    Ok(exit::OK)
}

/// How long ago a holder asked is all that every store knows; when it was
/// granted, the rule says, and nobody writes it down.
fn is_meant(queue: &Queue, held_over: Option<Duration>) -> bool {
    held_over.is_none_or(|least| queue.holders().any(|holder| holder.age >= least))
}

fn row(name: &Name, queue: &Queue) -> [String; 8] {
    let nothing = || "-".to_owned();
    let view = LockView::new(name, queue);
    let held = match view.slots {
        Some(slots) => format!("{}/{slots}", view.holders.len()),
        None => view.holders.len().to_string(),
    };
    let waiting = match view.waiting.len() {
        0 => nothing(),
        waiting => waiting.to_string(),
    };
    let first = queue.holders().next();
    let owner = match (first, view.holders.len()) {
        (None, _) => nothing(),
        (Some(first), 1) => print::owner(first),
        (Some(first), count) => format!("{} and {} more", print::owner(first), count - 1),
    };
    [
        name.to_string(),
        view.kind.unwrap_or("-").to_owned(),
        held,
        waiting,
        first.map_or_else(nothing, |first| print::duration(first.age)),
        first.map_or_else(nothing, |first| print::duration(first.time_left)),
        first
            .and_then(|first| first.token)
            .map_or_else(nothing, |token| token.to_string()),
        owner,
    ]
}
