//! `leasehold hold`: a lock for as long as standard input is open.

use std::io::{self, Read};

use leasehold::{Guard, Session};
use serde::Serialize;
use serde_json::json;
use tokio::sync::oneshot;

use crate::args::{Common, Hold};
use crate::exit::{self, Failure};
use crate::lock::{self, Obtained};
use crate::nested::{self, Held};
use crate::print::{self, Console, millis};
use crate::signals::Signals;
use crate::store;
use crate::stuck::{self, Stuck};
use crate::terminal;

/// The line that says that the lock is held.
#[derive(Serialize)]
struct Grant<'a> {
    name: &'a str,
    token: u64,
    fence: String,
    owner: String,
    ttl_ms: u64,
    waited_ms: u64,
}

pub(crate) async fn hold(common: &Common, args: &Hold, console: Console) -> Result<u8, Failure> {
    let claim = &args.claim;
    let url = store::url(common)?;
    let mut signals = Signals::catch()?;
    if nested::reenter(&url, claim).await?.is_some() {
        let why = "the leasehold run around this one holds it already";
        return Err(Failure::usage(format!("lock {}: {why}", claim.name)));
    }
    let mut closed = input_closed();
    let session = tokio::select! {
        biased;
        signal = signals.end() => return Ok(exit::signalled(signal as i32)),
        session = store::connect(&url, claim) => session?,
    };
    let obtained = tokio::select! {
        biased;
        obtained = lock::obtain(&session, claim, &mut signals, console) => obtained,
        // Whoever wanted the lock is gone.
        _ = &mut closed, if claim.wait != Some(std::time::Duration::ZERO) && !claim.nonblock => {
            let message = format!("{} is held elsewhere, and standard input has closed", claim.name);
            Ok(Obtained::Elsewhere { timed_out: true, message })
        }
    };
    let ended = match obtained {
        Ok(Obtained::Held(guard)) => {
            let environment = Held::new(&url, &session, &guard).environment();
            let stuck = Stuck::asked(&args.stuck, &environment);
            keep(&session, guard, stuck, closed, &mut signals, console).await
        }
        Ok(Obtained::Signalled(signal)) => Ok(exit::signalled(signal as i32)),
        Ok(Obtained::Elsewhere { message, .. }) => {
            console.say(&message);
            Ok(lock::conflict_code(claim))
        }
        Err(failure) => Err(failure),
    };
    lock::leave(session).await;
    ended
}

async fn keep(
    session: &Session,
    guard: Guard,
    stuck: Option<Stuck>,
    mut closed: oneshot::Receiver<()>,
    signals: &mut Signals,
    console: Console,
) -> Result<u8, Failure> {
    print::json_line(&Grant {
        name: guard.name(),
        token: guard.token().get(),
        fence: guard.fence().to_string(),
        owner: session.owner().to_string(),
        ttl_ms: millis(session.ttl()),
        waited_ms: millis(guard.waited()),
    })?;
    let mut stuck = stuck.as_ref();
    loop {
        tokio::select! {
            biased;
            _ = guard.lost() => break,
            _ = &mut closed => break,
            _ = signals.end() => break,
            overstayed = stuck::overstayed(stuck, &guard) => {
                overstayed.tell(&guard, console);
                stuck = None;
            }
        }
    }
    let (name, token) = (guard.name().to_owned(), guard.token().get());
    let released = guard.release().await;
    let Err(error) = released else {
        return Ok(exit::OK);
    };
    let failure = Failure::from(error);
    if failure.code == exit::LOST {
        // The exit code says it too, also if nobody reads this any more.
        let _ = print::json_line(&json!({ "name": name, "token": token, "lost": failure.message }));
    }
    Err(failure)
}

/// Told when standard input ends. Reading blocks, so a thread does it; it dies
/// with the process. A job in the background would be stopped for reading the
/// terminal, so there only signals count.
fn input_closed() -> oneshot::Receiver<()> {
    let (tell, closed) = oneshot::channel();
    let wait = move || {
        if !terminal::may_read_stdin() {
            loop {
                std::thread::park();
            }
        }
        let mut buffer = [0; 4096];
        while io::stdin().read(&mut buffer).is_ok_and(|read| read > 0) {}
        let _ = tell.send(());
    };
    std::thread::spawn(wait);
    closed
}
