//! A worker that locks with this library.

use std::sync::Arc;
use std::time::Duration;

use leasehold::conformance::Bench;
use leasehold::{Effect, Guard, Session};

use super::observed::observed;
use super::section::{Done, section};
use super::{Job, Strategy, Worker, tell};
use crate::history::{Event, Moment, Outcome, now};
use crate::resource::Client;

/// How often a holder looks how long it may go on.
const LOOK: Duration = Duration::from_millis(20);

/// What is less is no renewal, in nanoseconds.
const JITTER: Moment = 5_000_000;

/// How long one that hears of nothing believes on, in nanoseconds.
const DEAF: Moment = 60_000_000_000;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub(super) async fn connect(job: &Job) -> Result<Arc<Session>> {
    if job.sabotage.is_none() && !job.tells_answers {
        return Ok(Arc::new(leasehold::connect(&job.url).await?));
    }
    // The store's URL without its options: the engine has no say in them.
    let url = job.url.split('?').next().unwrap_or_default();
    let mut engine = Bench::new(url).await?.try_engine().await?;
    if let Some(sabotage) = job.sabotage {
        engine = sabotage.on(engine);
    }
    if job.tells_answers {
        engine = observed(engine, &job.name);
    }
    let ttl = Duration::from_millis(job.ttl_millis);
    Ok(Arc::new(Session::with_engine(engine, ttl).await?))
}

/// Connects, and tries again for as long as the worker waits for a lock: its
/// store may be away just now.
pub(super) async fn connect_patiently(job: &Job) -> Result<Arc<Session>> {
    let longest = Duration::from_millis(job.patience_millis).max(LOOK) * 4;
    let deadline = tokio::time::Instant::now() + longest;
    loop {
        let error = match tokio::time::timeout(longest, connect(job)).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error)) => error,
            Err(_) => "the store does not answer".into(),
        };
        if tokio::time::Instant::now() > deadline {
            return Err(error);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Locks and works until the work is done. A session that is lost is replaced.
pub(super) async fn run(worker: &Worker, by: &str, mut session: Arc<Session>) -> Result<()> {
    let ended = rounds(worker, by, &mut session).await;
    // The last task that has it closes it.
    if let Some(session) = Arc::into_inner(session) {
        // A store that is away has it end by itself. When the worker is told to
        // end, none is away any more.
        let patience = Duration::from_millis(worker.job.patience_millis);
        let closed = tokio::time::timeout(patience, session.close()).await;
        let is_told = worker
            .job
            .ends_with
            .as_ref()
            .is_some_and(|file| file.exists());
        if closed.is_err() && is_told {
            return Err(format!("its session did not close within {patience:?}").into());
        }
    }
    ended
}

async fn rounds(worker: &Worker, by: &str, session: &mut Arc<Session>) -> Result<()> {
    let mut client = Client::connect(worker.job.resource, by)?;
    let patience = Duration::from_millis(worker.job.patience_millis);
    loop {
        worker.rest(by).await;
        tell(
            by,
            Event::Asks {
                name: worker.job.lock.clone(),
            },
        );
        let guard = match lock(&worker.job, session, patience).await {
            Ok(guard) => guard,
            Err(error) => {
                let unknown = error.effect() == Effect::Unknown;
                tell(
                    by,
                    Event::Refused {
                        why: error.to_string(),
                        unknown,
                    },
                );
                if worker.is_done(0) {
                    return Ok(());
                }
                // A session that is over stays so; a store that is away may be
                // back soon.
                tokio::time::sleep(LOOK).await;
                if let Ok(Ok(next)) = tokio::time::timeout(patience, connect(&worker.job)).await {
                    *session = next;
                }
                continue;
            }
        };
        let token = Some(guard.token().get());
        let name = worker.job.lock.clone();
        // One that is over by now was never believed in.
        let told = believes(worker, &guard).unwrap_or_else(now);
        tell(
            by,
            Event::Granted {
                name,
                token,
                until: Some(told),
            },
        );
        let hold = worker.next_hold();
        let fence = (worker.job.strategy == Strategy::Fenced).then(|| guard.fence());
        // A worker that is as careful as one can be without a fence: it looks
        // at the lock before it writes.
        let holds = || worker.is_deaf() || guard.check().is_ok();
        let may_write = || {
            let may = holds();
            if let Some(until) = believes(worker, &guard).filter(|_| may) {
                tell(by, Event::Renewed { until });
            }
            may
        };
        let done = tokio::select! {
            biased;
            done = section(worker, by, hold, &mut client, fence, may_write) => done?,
            () = watch(by, &guard, told), if !worker.is_deaf() => None,
        };
        let Some(done) = done.filter(|_| holds()) else {
            let why = match guard.check() {
                Ok(()) => "the section was broken off".to_owned(),
                Err(error) => error.to_string(),
            };
            tell(by, Event::Lost { why });
            if worker.is_done(hold + 1) {
                return Ok(());
            }
            continue;
        };
        tell(by, Event::Releases);
        let outcome = outcome(&guard.release().await);
        tell(by, Event::Released { outcome });
        if done == Done::Empty || worker.is_done(hold + 1) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(worker.job.work.rests_millis)).await;
    }
}

/// Whether the store did it. That there was nothing left to give back is known.
fn outcome(released: &leasehold::Result<()>) -> Outcome {
    match released {
        Ok(()) => Outcome::Ok,
        Err(error) if error.effect() == Effect::Unknown => Outcome::Unknown,
        Err(_) => Outcome::No,
    }
}

/// Waits for the lock of the job, a mutex or a permit of a semaphore.
async fn lock(job: &Job, session: &Session, patience: Duration) -> leasehold::Result<Guard> {
    if job.permits > 1 {
        let semaphore = session.semaphore(&job.lock, job.permits);
        return semaphore.acquire_within(patience).await;
    }
    let mut mutex = session.mutex(&job.lock);
    if let Some(millis) = job.max_hold_millis {
        mutex = mutex.max_hold(Duration::from_millis(millis));
    }
    mutex.lock_within(patience).await
}

/// Until when it believes to hold, by what its guard says if it listens to it.
fn believes(worker: &Worker, guard: &Guard) -> Option<Moment> {
    match worker.is_deaf() {
        true => Some(now() + DEAF),
        false => until(guard),
    }
}

/// Tells how long the holder may go on, if that is longer than it was told; ends
/// when it may not.
async fn watch(by: &str, guard: &Guard, mut told: Moment) {
    loop {
        tokio::select! {
            _ = guard.lost() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        // When it is computed is no news.
        if let Some(until) = until(guard).filter(|&until| until > told + JITTER) {
            told = until;
            tell(by, Event::Renewed { until });
        }
    }
}

/// Until when it may believe to hold; none if it may not any more. The time is
/// read first: a process that stands still between the two lines must not believe
/// for longer because of that.
fn until(guard: &Guard) -> Option<Moment> {
    let now = now();
    let nanos = u64::try_from(guard.valid_for().as_nanos());
    let nanos = nanos.unwrap_or(Moment::MAX);
    (nanos > 0).then(|| now.saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_release_of_what_was_lost_is_no_riddle() {
        let session = leasehold::connect("memory://").await.unwrap();
        let guard = session.mutex("lost").lock().await.unwrap();
        session.close().await;
        let released = guard.release().await;
        assert_eq!(outcome(&released), Outcome::No, "{released:?}");
        assert_eq!(outcome(&Ok(())), Outcome::Ok);
    }

    #[tokio::test]
    async fn what_was_lost_is_not_believed_in_for_another_moment() {
        let session = leasehold::connect("memory://").await.unwrap();
        let guard = session.mutex("believed").lock().await.unwrap();
        assert!(until(&guard).is_some_and(|until| until > now()));
        session.close().await;
        assert_eq!(until(&guard), None);
    }
}
