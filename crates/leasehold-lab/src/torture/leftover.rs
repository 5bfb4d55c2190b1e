//! Whether a run leaves behind more than one lock that was taken and given back.

use std::time::{Duration, Instant};

use super::{LOCK, Plan};
use crate::ground::{Contents, Ground};
use crate::story::Error;

/// Takes the lock of a run once and gives it back; gives what is in the store
/// after that.
pub(super) fn contents_of_one(ground: &dyn Ground, plan: &Plan) -> Result<Contents, Error> {
    let runtime = runtime()?;
    let url = ground.url(&ground.ports(), plan.ttl_millis);
    runtime.block_on(come_and_go(&url, plan))?;
    Ok(ground.contents()?)
}

/// What there is more of when nobody is left and their time is over: whoever
/// comes next may have tidied up.
pub(super) fn left_behind(
    ground: &dyn Ground,
    plan: &Plan,
    before: &Contents,
) -> Result<Vec<String>, Error> {
    let runtime = runtime()?;
    let url = ground.url(&ground.ports(), plan.ttl_millis);
    let longest = Duration::from_millis(4 * plan.ttl_millis) + Duration::from_secs(3);
    let deadline = Instant::now() + longest;
    loop {
        let left = runtime.block_on(async {
            let left = tokio::time::timeout(longest, count_claims(&url)).await??;
            tokio::time::timeout(longest, come_and_go(&url, plan)).await??;
            let claims = (left > 0).then(|| format!("{left} claims in the queue"));
            let more = ground.contents()?.beyond(before);
            Ok::<_, Error>(claims.into_iter().chain(more).collect::<Vec<_>>())
        });
        if matches!(&left, Ok(left) if left.is_empty()) || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

async fn come_and_go(url: &str, plan: &Plan) -> Result<(), Error> {
    let session = leasehold::connect(url).await?;
    let patience = Duration::from_millis(plan.ttl_millis);
    let guard = match plan.permits {
        1 => session.mutex(LOCK).lock_within(patience).await,
        permits => {
            let semaphore = session.semaphore(LOCK, permits);
            semaphore.acquire_within(patience).await
        }
    };
    guard?.release().await?;
    session.close().await;
    Ok(())
}

async fn count_claims(url: &str) -> Result<usize, Error> {
    let inspector = leasehold::inspect(url).await?;
    Ok(inspector.queue(LOCK).await?.claims.len())
}
