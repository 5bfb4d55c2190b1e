//! Getting the lock that the arguments describe, and what to say meanwhile.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold::engine::Queue;
use leasehold::rule::UNBOUNDED;
use leasehold::{ErrorKind, Guard, Session};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::args::Claim;
use crate::exit::{self, Failure};
use crate::print::{self, Console};
use crate::signals::Signals;

/// How long the store may take to forget us when we leave in a hurry.
const FAREWELL: Duration = Duration::from_secs(2);

/// How an attempt to get the lock ended.
#[derive(Debug)]
pub(crate) enum Obtained {
    Held(Guard),
    /// Another holds it: at once with `--nonblock`, else when the wait was over.
    Elsewhere {
        timed_out: bool,
        message: String,
    },
    Signalled(Signal),
}

/// Waits for the lock as long as the claim says, or until a signal comes.
pub(crate) async fn obtain(
    session: &Session,
    claim: &Claim,
    signals: &mut Signals,
    console: Console,
) -> Result<Obtained, Failure> {
    let obtained = tokio::select! {
        biased;
        signal = signals.end() => return Ok(Obtained::Signalled(signal)),
        obtained = acquire(session, claim) => obtained,
        never = report_place(session, claim, console) => match never {},
    };
    let timed_out = match obtained {
        Ok(Some(guard)) => return Ok(Obtained::Held(guard)),
        Ok(None) => false,
        Err(error) if error.kind() == ErrorKind::TimedOut => true,
        Err(error) if error.kind() == ErrorKind::Conflict => {
            return Err(conflict(session, claim, error).await);
        }
        Err(error) => return Err(error.into()),
    };
    let message = elsewhere(session, claim, timed_out).await;
    Ok(Obtained::Elsewhere { timed_out, message })
}

/// Leaves no claim behind, within reason: the store forgets us after the ttl at
/// the latest.
pub(crate) async fn leave(session: Session) {
    let _ = tokio::time::timeout(FAREWELL, session.close()).await;
}

/// Units a lock has and units we take. That is all there is to the kinds of
/// locks, and a semaphore can express every one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
}

impl Share {
    pub(crate) fn of(claim: &Claim) -> Self {
        let (capacity, weight) = match claim.slots {
            Some(slots) => (slots, 1),
            None if claim.shared => (UNBOUNDED, 1),
            None if claim.exclusive => (UNBOUNDED, UNBOUNDED),
            None => (1, 1),
        };
        Self { capacity, weight }
    }
}

/// The guard; `None` if it was only tried.
async fn acquire(session: &Session, claim: &Claim) -> leasehold::Result<Option<Guard>> {
    let Share { capacity, weight } = Share::of(claim);
    let mut lock = session.semaphore(&claim.name, capacity);
    if let Some(longest) = claim.max_hold {
        lock = lock.max_hold(longest);
    }
    match claim.wait {
        // A wait of zero is a try, as with flock.
        Some(Duration::ZERO) => lock.try_acquire_many(weight).await,
        _ if claim.nonblock => lock.try_acquire_many(weight).await,
        Some(longest) => lock.acquire_many_within(weight, longest).await.map(Some),
        None => lock.acquire_many(weight).await.map(Some),
    }
}

/// Tells people who look on, and programs, where we are in the queue.
async fn report_place(session: &Session, claim: &Claim, console: Console) -> Infallible {
    // A lock that is free or nearly so needs no words.
    tokio::time::sleep(Duration::from_millis(150)).await;
    let spinner = spinner(console);
    let mut told = None;
    loop {
        if let Ok(queue) = session.inspector().queue(&claim.name).await {
            let ahead = ahead(&queue, session);
            spinner.set_message(place(claim, &queue, ahead));
            if told != Some(ahead) {
                if spinner.is_hidden() {
                    console.detail(&place(claim, &queue, ahead));
                }
                console.event(
                    &json!({ "event": "waiting", "name": claim.name.as_str(), "ahead": ahead }),
                );
                told = Some(ahead);
            }
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn spinner(console: Console) -> ProgressBar {
    if console.quiet || console.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {wide_msg} {elapsed}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

/// How many claims are before ours.
fn ahead(queue: &Queue, session: &Session) -> usize {
    let me = session.owner();
    let is_mine = |host: &str, pid| host == me.host() && pid == me.pid();
    let mine = queue.claims.iter().position(|claimant| {
        !claimant.is_holder && is_mine(claimant.owner.host(), claimant.owner.pid())
    });
    mine.unwrap_or(queue.claims.len())
}

fn place(claim: &Claim, queue: &Queue, ahead: usize) -> String {
    let holders = holders(queue);
    let waiting = ahead.saturating_sub(queue.holders().count());
    let before = match waiting {
        0 => "next in line".to_owned(),
        1 => "1 before us".to_owned(),
        waiting => format!("{waiting} before us"),
    };
    format!("waiting for {}: {before}; {holders}", claim.name)
}

/// Others use the name as another kind of lock: which, and what to do.
async fn conflict(session: &Session, claim: &Claim, error: leasehold::Error) -> Failure {
    let queue = session.inspector().queue(&claim.name).await;
    let (used, remedy) = match queue.map_or(0, |queue| queue.capacity) {
        0 => return error.into(),
        1 => (
            "a mutex".to_owned(),
            "leave out -s, -x and --slots".to_owned(),
        ),
        UNBOUNDED => (
            "a lock of readers and writers".to_owned(),
            "use -s or -x".to_owned(),
        ),
        slots => (
            format!("a semaphore of {slots}"),
            format!("use --slots {slots}"),
        ),
    };
    let name = &claim.name;
    Failure::usage(format!(
        "{name} is in use as {used}; {remedy}, or choose another name"
    ))
}

async fn elsewhere(session: &Session, claim: &Claim, timed_out: bool) -> String {
    let queue = session.inspector().queue(&claim.name).await;
    let holders = holders(&queue.unwrap_or_default());
    match claim.wait {
        Some(wait) if timed_out => {
            let wait = print::duration(wait);
            format!("{} is {holders}; gave up after {wait}", claim.name)
        }
        _ => format!("{} is {holders}", claim.name),
    }
}

fn holders(queue: &Queue) -> String {
    let mut holders = queue.holders();
    let Some(first) = holders.next() else {
        return "waited for by others".to_owned();
    };
    let owner = print::owner(first);
    let token = first
        .token
        .map_or_else(String::new, |token| format!(", token {token}"));
    let more = match holders.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("held by {owner}{token}{more}")
}

/// The exit code if the lock is held elsewhere.
pub(crate) fn conflict_code(claim: &Claim) -> u8 {
    if claim.skip_ok {
        exit::OK
    } else {
        claim.conflict_exit_code
    }
}
