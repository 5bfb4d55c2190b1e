//! `leasehold break`: evicts the holders of a lock.

use std::io::{self, BufRead, IsTerminal, Write};

use leasehold::engine::{Claimant, Queue};
use nix::unistd::{Uid, User, gethostname};
use serde_json::json;

use crate::args::{Break, Common};
use crate::exit::{self, Failure};
use crate::print::{self, Console};
use crate::store;
use crate::view::{ClaimView, LockView};

pub(crate) async fn break_lock(
    common: &Common,
    args: &Break,
    console: Console,
) -> Result<u8, Failure> {
    let name = &args.name;
    let inspector = leasehold::inspect(&store::url(common)?).await?;
    let queue = inspector.queue(name).await?;
    let targets: Vec<_> = queue
        .holders()
        .filter(|holder| is_meant(holder, args))
        .collect();
    if !targets.is_empty() && !args.yes && !confirmed(args, &queue, &targets)? {
        console.say("nothing was broken");
        return Ok(exit::OK);
    }
    let by = ourselves();
    let mut evicted = Vec::new();
    for target in targets {
        // Only those we have seen: whoever holds it by now is not meant.
        if inspector
            .evict_claim(name, target.id, &by, &args.reason)
            .await?
        {
            evicted.push(target);
        }
    }
    if console.json {
        let evicted: Vec<_> = evicted
            .iter()
            .map(|claimant| ClaimView::new(claimant, queue.capacity))
            .collect();
        let (by, reason) = (&by, &args.reason);
        print::json_line(
            &json!({ "name": name.as_str(), "by": by, "reason": reason, "evicted": evicted }),
        )?;
    } else if evicted.is_empty() {
        console.say(&format!("nothing to break: {}", nobody(args, &queue)));
    } else {
        for claimant in evicted {
            console.say(&format!("evicted {}", describe(claimant)));
        }
    }
    Ok(exit::OK)
}

fn is_meant(holder: &Claimant, args: &Break) -> bool {
    args.token
        .is_none_or(|token| holder.token.is_some_and(|its| its.get() == token))
}

fn nobody(args: &Break, queue: &Queue) -> String {
    let name = &args.name;
    match args.token {
        Some(token) if !LockView::new(name, queue).holders.is_empty() => {
            format!("{name} is not held with token {token}")
        }
        _ => format!("{name} is not held"),
    }
}

fn describe(claimant: &Claimant) -> String {
    let token = claimant
        .token
        .map_or_else(String::new, |token| format!(", token {token}"));
    format!("{}{token}", print::owner(claimant))
}

/// Asks, if there is somebody to ask.
fn confirmed(args: &Break, queue: &Queue, targets: &[&Claimant]) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(true);
    }
    let waiting = LockView::new(&args.name, queue).waiting.len();
    let mut err = io::stderr();
    writeln!(err, "{} is held, {waiting} waiting:", args.name)?;
    for target in targets {
        writeln!(err, "  {}", describe(target))?;
    }
    write!(
        err,
        "Whoever is evicted may still be at work. Break the lock? [y/N] "
    )?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Who breaks the lock, for the record.
fn ourselves() -> String {
    let user = User::from_uid(Uid::current()).ok().flatten();
    let user = user.map_or_else(|| Uid::current().to_string(), |user| user.name);
    let host = gethostname().map(|host| host.to_string_lossy().into_owned());
    format!("{user}@{}", host.unwrap_or_default())
}
