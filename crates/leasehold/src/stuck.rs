//! Holds that outlive the time they were expected to take. Nothing is taken
//! away: people are told, and decide.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::fence::Token;
use crate::name::Name;

/// A hold that has lasted longer than was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stuck {
    /// The lock.
    pub name: Name,
    /// The fencing token of the hold.
    pub token: Token,
    /// How long it was expected to last.
    pub expected: Duration,
    /// How long it has lasted.
    pub held: Duration,
}

/// What to do about such a hold.
#[derive(Clone)]
pub(crate) struct OnStuck(Arc<dyn Fn(Stuck) + Send + Sync>);

impl OnStuck {
    pub(crate) fn new(told: impl Fn(Stuck) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    /// On a thread where it may block or panic: whoever tells has leases to
    /// renew.
    pub(crate) fn tell(&self, stuck: Stuck) {
        let told = self.0.clone();
        tokio::task::spawn_blocking(move || told(stuck));
    }
}

impl fmt::Debug for OnStuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnStuck")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::Stuck;

    /// In paused time: it passes as fast as everybody is asleep.
    #[tokio::test(start_paused = true)]
    async fn a_hold_that_outlives_its_time_is_told_once_and_goes_on() {
        let session = crate::connect("memory:").await.unwrap();
        let (teller, mut told) = mpsc::unbounded_channel::<Stuck>();
        let lock = session
            .mutex("x")
            .expected_hold(Duration::from_secs(60))
            .on_stuck(move |stuck| drop(teller.send(stuck)));
        let guard = lock.lock().await.unwrap();
        let stuck = told.recv().await.unwrap();
        assert_eq!((stuck.name.as_str(), stuck.token), ("x", guard.token()));
        assert_eq!(stuck.expected, Duration::from_secs(60));
        assert!(stuck.held >= stuck.expected && stuck.held < Duration::from_secs(61));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(told.try_recv().is_err(), "told twice");
        guard.check().unwrap();
        guard.release().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_that_ends_in_time_is_not_told() {
        let session = crate::connect("memory:").await.unwrap();
        let (teller, mut told) = mpsc::unbounded_channel::<Stuck>();
        let lock = session
            .semaphore("x", 2)
            .expected_hold(Duration::from_secs(60))
            .on_stuck(move |stuck| drop(teller.send(stuck)));
        for _ in 0..3 {
            let permit = lock.acquire().await.unwrap();
            tokio::time::sleep(Duration::from_secs(59)).await;
            permit.release().await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(told.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_callback_that_panics_costs_nobody_a_lock() {
        let session = crate::connect("memory:").await.unwrap();
        let (teller, mut told) = mpsc::unbounded_channel::<Stuck>();
        let lock = session
            .rwlock("x")
            .expected_hold(Duration::from_secs(1))
            .on_stuck(move |stuck| {
                drop(teller.send(stuck));
                panic!("as a test");
            });
        let guard = lock.read().await.unwrap();
        told.recv().await.unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        guard.release().await.unwrap();
    }
}
