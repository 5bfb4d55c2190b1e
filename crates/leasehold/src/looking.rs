//! Waiting for something that no store tells of: looking now and then.

use std::time::Duration;

use crate::backoff;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::random::random_u64;
use crate::reaper::limited;

/// The pause after the first look; it doubles.
const FIRST: Duration = Duration::from_millis(5);

/// Looks until there is something to see. The pauses grow to a twentieth of the
/// ttl, at most a second. A store that is away is put up with for as long as the
/// session puts up with it.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub(crate) async fn until_seen<T, F: Future<Output = Result<Option<T>>>>(
    core: &Core,
    doing: &str,
    look: impl Fn() -> F,
) -> Result<T> {
    let most = core.settings.ttl / 20;
    let longest = most.clamp(Duration::from_millis(20), Duration::from_secs(1));
    let mut heard = core.clock.now();
    for attempt in 0.. {
        let looked = tokio::select! {
            biased;
            () = core.closed() => break,
            looked = limited(core, look()) => looked,
        };
        let silence = || {
            let why = "the store does not answer";
            Err(Error::new(ErrorKind::Unavailable, doing, why))
        };
        match looked.unwrap_or_else(silence) {
            Ok(Some(seen)) => return Ok(seen),
            Ok(None) => heard = core.clock.now(),
            Err(error) => {
                let is_over = core.clock.now().since(heard) >= core.settings.patience;
                if !error.is_passing() || is_over {
                    return Err(error);
                }
            }
        }
        let pause = backoff::pause(attempt, FIRST, longest, random_u64());
        tokio::select! {
            biased;
            () = core.closed() => break,
            () = core.clock.sleep_until(core.clock.now() + pause) => {}
        }
    }
    Err(core.closed_error(doing.to_owned()))
}

/// At most this long.
pub(crate) async fn within<T>(
    longest: Duration,
    doing: impl Fn() -> String,
    waiting: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(longest, waiting).await {
        Ok(result) => result,
        Err(_) => {
            let why = format!("not after {longest:?}");
            Err(Error::new(ErrorKind::TimedOut, doing(), why))
        }
    }
}
