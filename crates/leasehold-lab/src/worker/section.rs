//! What is done under a lock: read, work, write.

use std::time::Duration;

use leasehold::Fence;

use super::{Accident, Worker, die, stand_still, tell};
use crate::history::{Access, Event, Outcome};
use crate::resource::{Answer, Client, Wanted};

/// How a section ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// The resource took the write.
    Written,
    /// The resource refused.
    Refused,
    /// There is nothing left.
    Empty,
    /// Nobody knows what the resource did.
    Unknown,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// One section. `may_write` is asked for the last time just before the write.
pub(super) async fn section(
    worker: &Worker,
    by: &str,
    hold: u64,
    client: &mut Client,
    fence: Option<Fence>,
    may_write: impl Fn() -> bool,
) -> Result<Option<Done>> {
    if worker.job.permits > 1 {
        take_time(worker, hold).await;
        return Ok(may_write().then_some(Done::Written));
    }
    let first = match fence {
        Some(_) => Access::Claim,
        None => Access::Read,
    };
    let Some(read) = send(by, client, first, fence)? else {
        return Ok(Some(Done::Unknown));
    };
    let work = worker.job.work;
    if !read.accepted {
        return Ok(Some(Done::Refused));
    }
    let next = match work.counts_down {
        true => match read.value.checked_sub(1) {
            Some(less) => less,
            None => return Ok(Some(Done::Empty)),
        },
        false => read.value + 1,
    };
    if worker.has(hold, &Accident::DiesInWork) {
        die(by);
    }
    take_time(worker, hold).await;
    if !may_write() {
        return Ok(None);
    }
    if worker.has(hold, &Accident::StopsBeforeWrite) || worker.is_to_stop() {
        stand_still();
    }
    let written = send(by, client, Access::Write(next), fence)?;
    Ok(Some(match written.map(|answer| answer.accepted) {
        Some(true) => Done::Written,
        Some(false) => Done::Refused,
        None => Done::Unknown,
    }))
}

/// The work itself: nothing but time.
async fn take_time(worker: &Worker, hold: u64) {
    let accident = worker.job.accident.as_ref().filter(|_| hold == 0);
    let takes = match accident {
        Some(Accident::Slow { millis }) => *millis,
        Some(Accident::WorksUntil { file }) => {
            while !file.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            return;
        }
        Some(Accident::Hangs) => return std::future::pending().await,
        _ => worker.takes_millis(hold),
    };
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(takes)) => {}
        () = worker.is_hurried() => {}
    }
}

/// One access, told before and after. Without an answer nobody knows if it was
/// done: then there is nothing to do but to say so and to connect anew.
fn send(
    by: &str,
    client: &mut Client,
    access: Access,
    fence: Option<Fence>,
) -> Result<Option<Answer>> {
    let token = fence.map(|fence| fence.token.get());
    let holder = fence.map(|fence| fence.holder);
    let sends = Event::Sends {
        access,
        token,
        holder,
    };
    tell(by, sends);
    let answer = client.ask(Wanted::Access(access), fence).ok();
    let outcome = match answer.map(|answer| answer.accepted) {
        Some(true) => Outcome::Ok,
        Some(false) => Outcome::No,
        None => Outcome::Unknown,
    };
    let value = answer.map(|answer| answer.value);
    tell(by, Event::Answered { outcome, value });
    if answer.is_none() {
        client.connect_again()?;
    }
    Ok(answer)
}
