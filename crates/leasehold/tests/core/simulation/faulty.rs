//! A network between the session and the store: requests and replies get lost
//! or are late, by the dice. A request that is on its way is delivered also if
//! its sender has stopped listening.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::engine::{
    Cause, ClaimRef, Engine, Finding, Inspect, Lease, Mark, Memo, Noted, Owner, Promises, Queue,
    Reading, Renewal, Standing, Ticket, Watch, Withdrawn,
};
use leasehold::{Effect, Error, ErrorKind, Name, Result};
use tokio::sync::oneshot;

use super::rng::Rng;

/// How bad it is, of a hundred requests each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) lost_requests: u64,
    pub(crate) lost_replies: u64,
    pub(crate) refused: u64,
    pub(crate) repeated: u64,
    pub(crate) late: u64,
    /// The longest that a request or a reply is on its way. Less than the
    /// shortest ttl: engines do not keep a request for longer.
    pub(crate) longest: Duration,
}

impl Weather {
    pub(crate) const FINE: Self = Self {
        lost_requests: 0,
        lost_replies: 0,
        refused: 0,
        repeated: 0,
        late: 0,
        longest: Duration::ZERO,
    };

    /// Nothing gets through.
    pub(crate) const CUT: Self = Self {
        lost_requests: 100,
        ..Self::FINE
    };

    pub(crate) fn bad(rng: &mut Rng, shortest_ttl: Duration) -> Self {
        Self {
            lost_requests: rng.below(12),
            lost_replies: rng.below(12),
            refused: rng.below(8),
            repeated: rng.below(20),
            late: rng.below(100),
            longest: shortest_ttl * [5, 15, 30, 90][rng.index(4)] / 100,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Faulty {
    store: Arc<dyn Engine>,
    sky: Mutex<(Weather, Rng)>,
    /// What will become of the next requests of some kind, whatever the
    /// weather.
    script: Mutex<Vec<(&'static str, Fate)>>,
    /// Requests that are not in the script reach the store without a detour.
    is_near: AtomicBool,
    sent: Mutex<Vec<String>>,
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) before: Duration,
    /// How often the store gets it.
    pub(crate) deliveries: u32,
    pub(crate) after: Duration,
    pub(crate) end: End,
}

impl Fate {
    pub(crate) const SWIFT: Self = Self {
        before: Duration::ZERO,
        deliveries: 1,
        after: Duration::ZERO,
        end: End::Answer,
    };
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Answer,
    Refused,
    /// The sender never hears anything.
    Silence,
    /// The sender hears that the connection broke.
    Broken,
}

impl Faulty {
    pub(crate) fn new(store: Arc<dyn Engine>, rng: Rng) -> Arc<Self> {
        let sky = Mutex::new((Weather::FINE, rng));
        Arc::new(Self {
            store,
            sky,
            script: Mutex::default(),
            is_near: AtomicBool::new(false),
            sent: Mutex::default(),
        })
    }

    /// How many requests of this kind were sent so far.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.sent
            .lock()
            .unwrap()
            .iter()
            .filter(|sent| *sent == what)
            .count()
    }

    pub(crate) fn skip_network(&self) {
        self.is_near.store(true, Ordering::Relaxed);
    }

    /// Decides what becomes of the next request of this kind that is not
    /// decided yet.
    pub(crate) fn next(&self, what: &'static str, fate: Fate) {
        self.script.lock().unwrap().push((what, fate));
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.sky.lock().unwrap().0 = weather;
    }

    fn fate(&self, what: &str) -> Fate {
        let mut script = self.script.lock().unwrap();
        if let Some(at) = script.iter().position(|(kind, _)| *kind == what) {
            return script.remove(at).1;
        }
        let (weather, rng) = &mut *self.sky.lock().unwrap();
        let longest = u64::try_from(weather.longest.as_millis()).unwrap();
        let delay = |rng: &mut Rng| match rng.chance(weather.late) {
            true => rng.millis(0..longest + 1),
            false => Duration::ZERO,
        };
        let (before, after) = (delay(rng), delay(rng));
        let deliveries = if rng.chance(weather.repeated) { 2 } else { 1 };
        let failure = if rng.chance(50) {
            End::Silence
        } else {
            End::Broken
        };
        let dice = rng.below(100);
        let lost_request = dice < weather.lost_requests;
        let lost_reply = (30..30 + weather.lost_replies).contains(&dice);
        let refused = (60..60 + weather.refused).contains(&dice);
        let (deliveries, end) = match (lost_request, lost_reply, refused) {
            (true, _, _) => (0, failure),
            (_, true, _) => (deliveries, failure),
            (_, _, true) => (0, End::Refused),
            _ => (deliveries, End::Answer),
        };
        Fate {
            before,
            deliveries,
            after,
            end,
        }
    }

    /// Sends a request on its way.
    async fn send<T, F>(
        &self,
        what: &str,
        request: impl Fn(Arc<dyn Engine>) -> F + Send + Sync + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send,
    {
        self.sent.lock().unwrap().push(what.to_owned());
        let is_near = self.is_near.load(Ordering::Relaxed);
        let is_in_script = self
            .script
            .lock()
            .unwrap()
            .iter()
            .any(|(kind, _)| *kind == what);
        if is_near && !is_in_script {
            return request(self.store.clone()).await;
        }
        let fate = self.fate(what);
        let store = self.store.clone();
        let (reply, heard) = oneshot::channel();
        tokio::spawn(async move {
            tokio::time::sleep(fate.before).await;
            let mut answer = None;
            for _ in 0..fate.deliveries {
                answer = Some(request(store.clone()).await);
            }
            tokio::time::sleep(fate.after).await;
            let _ = reply.send(answer);
        });
        let answer = heard.await.ok().flatten();
        let failed = |effect| {
            let error = Error::new(ErrorKind::Unavailable, what, "the simulated network failed");
            Err(error.effect_is(effect))
        };
        match (fate.end, answer) {
            (End::Answer, Some(answer)) => answer,
            (End::Silence, _) => std::future::pending().await,
            (End::Refused, _) => failed(Effect::None),
            (End::Broken | End::Answer, _) => failed(Effect::Unknown),
        }
    }
}

#[async_trait]
impl Engine for Faulty {
    fn promises(&self) -> Promises {
        self.store.promises()
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let owner = owner.clone();
        self.send("open", move |store| {
            let owner = owner.clone();
            async move { store.open(&owner, ttl).await }
        })
        .await
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        let lease = *lease;
        self.send(
            "renew",
            move |store| async move { store.renew(&lease).await },
        )
        .await
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let lease = *lease;
        self.send(
            "close",
            move |store| async move { store.close(&lease).await },
        )
        .await
    }

    /// Now and then it returns although there is nothing to look at.
    async fn listen(&self, lease: &Lease) {
        let wake = {
            let (weather, rng) = &mut *self.sky.lock().unwrap();
            rng.chance(weather.late).then(|| rng.millis(1..1000))
        };
        match wake {
            Some(wake) => {
                let _ = tokio::time::timeout(wake, self.store.listen(lease)).await;
            }
            None => self.store.listen(lease).await,
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let ticket = ticket.clone();
        self.send("enqueue", move |store| {
            let ticket = ticket.clone();
            async move { store.enqueue(&ticket).await }
        })
        .await
    }

    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        let ticket = ticket.clone();
        self.send("wait", move |store| {
            let ticket = ticket.clone();
            async move { store.wait(&ticket, watch).await }
        })
        .await
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        assert_eq!(
            cause,
            Cause::Ours,
            "the breaker of locks uses the store itself"
        );
        let claim = claim.clone();
        self.send("withdraw", move |store| {
            let claim = claim.clone();
            async move { store.withdraw(&claim, Cause::Ours).await }
        })
        .await
    }

    async fn write_memo(&self, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
        let (claim, memo) = (claim.clone(), memo.clone());
        self.send("write_memo", move |store| {
            let (claim, memo) = (claim.clone(), memo.clone());
            async move { store.write_memo(&claim, &memo).await }
        })
        .await
    }

    async fn write_memo_for(&self, claim: &ClaimRef, memo: &Memo, keep: Duration) -> Result<Noted> {
        let (claim, memo) = (claim.clone(), memo.clone());
        self.send("write_memo_for", move |store| {
            let (claim, memo) = (claim.clone(), memo.clone());
            async move { store.write_memo_for(&claim, &memo, keep).await }
        })
        .await
    }

    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        let name = name.clone();
        self.send("read_memo", move |store| {
            let name = name.clone();
            async move { store.read_memo(&name).await }
        })
        .await
    }

    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        let name = name.clone();
        self.send("holders", move |store| {
            let name = name.clone();
            async move { store.holders(&name).await }
        })
        .await
    }

    async fn stamp(&self, lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        let (lease, name) = (*lease, name.clone());
        self.send("stamp", move |store| {
            let name = name.clone();
            async move { store.stamp(&lease, &name).await }
        })
        .await
    }
}

#[async_trait]
impl Inspect for Faulty {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        self.store.queue(name).await
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        self.store.names(prefix).await
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        self.store.examine().await
    }
}
