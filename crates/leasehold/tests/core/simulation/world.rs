//! One seed: a store, a network, sessions, and tasks that use them at random;
//! then fine weather, in which everything has to come right.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::engine::{Cause, ClaimRef, Engine};
use leasehold::{Memory, Name, Session};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{self, client};
use super::faulty::{Faulty, Weather};
use super::ledger::Ledger;
use super::rng::Rng;

pub(crate) struct World {
    pub(crate) sessions: Vec<Session>,
    pub(crate) longest_ttl: Duration,
    pub(crate) permits: u32,
    pub(crate) ledger: Ledger,
    is_ending: AtomicBool,
}

/// What came of a seed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) faults: Vec<String>,
    pub(crate) trace: u64,
}

/// Makes an engine on a store.
pub(crate) type Make = fn(Arc<Memory>) -> Arc<dyn Engine>;

/// How a seed is run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Plan {
    /// The engine under test, on top of the store; none for the store itself.
    pub(crate) broken: Option<Make>,
    pub(crate) prints: bool,
}

pub(crate) fn simulate(seed: u64, plan: Plan) -> Outcome {
    leasehold::conformance::seed_this_thread(Some(seed));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let outcome = runtime.block_on(run(Rng::new(seed), plan));
    drop(runtime);
    leasehold::conformance::seed_this_thread(None);
    outcome
}

async fn run(mut rng: Rng, plan: Plan) -> Outcome {
    let store = Memory::new();
    let engine: Arc<dyn Engine> = match plan.broken {
        Some(broken) => broken(store.clone()),
        None => store.clone(),
    };
    let is_rough = rng.chance(25);
    let (mut sessions, mut networks) = (Vec::new(), Vec::new());
    let mut ttls = Vec::new();
    for _ in 0..2 + rng.below(3) {
        let ttl = rng.millis(300..2000);
        ttls.push(ttl);
        let network = Faulty::new(engine.clone(), rng.fork());
        let session = Session::with_engine(network.clone(), ttl).await;
        sessions.push(session.unwrap());
        networks.push(network);
    }
    let world = Arc::new(World {
        sessions,
        longest_ttl: *ttls.iter().max().unwrap(),
        permits: 2 + u32::try_from(rng.below(2)).unwrap(),
        ledger: Ledger::new(is_rough, plan.prints),
        is_ending: AtomicBool::new(false),
    });
    let weather = Weather::bad(&mut rng, *ttls.iter().min().unwrap());
    networks.iter().for_each(|network| network.set(weather));
    let mut clients = JoinSet::new();
    for id in 0..3 + rng.below(6) {
        clients.spawn(client(world.clone(), id, rng.fork()));
    }
    let cutting = cut(networks.clone(), weather, world.longest_ttl, rng.fork());
    tokio::select! {
        biased;
        () = trouble(&world, &store, is_rough, &mut rng) => {}
        () = cutting => {}
    }
    networks
        .iter()
        .for_each(|network| network.set(Weather::FINE));
    world.ledger.note(format_args!("fine weather"));
    world.is_ending.store(true, Ordering::Relaxed);
    settle(&world, &store, clients).await;
    let (faults, trace) = world.ledger.finish();
    Outcome { faults, trace }
}

/// The bad time.
async fn trouble(world: &Arc<World>, store: &Arc<Memory>, is_rough: bool, rng: &mut Rng) {
    let end = Instant::now() + world.longest_ttl * 8;
    let mut closing = JoinSet::new();
    while Instant::now() < end {
        tokio::time::sleep(rng.millis(10..1500)).await;
        if is_rough && rng.chance(20) {
            world.ledger.note(format_args!("the store forgets"));
            store.forget_leases();
            world.condemn(None);
        }
        if is_rough && rng.chance(30) {
            break_lock(world, store, client::MUTEXES[rng.index(3)]).await;
        }
        // The first session stays open, for the claims that must be gone at
        // the end although nobody closes it.
        if rng.chance(4) && world.sessions.len() > 2 {
            let at = 1 + rng.index(world.sessions.len() - 1);
            let (session, world) = (world.sessions[at].clone(), world.clone());
            closing.spawn(async move {
                let (asked, ttl) = (Instant::now(), session.ttl());
                session.close().await;
                world.ledger.note(format_args!("session {at} closed"));
                if asked.elapsed() > ttl * 2 {
                    world
                        .ledger
                        .fault(format_args!("closing took {:?}", asked.elapsed()));
                }
            });
        }
    }
    while closing.join_next().await.is_some() {}
}

/// Cuts one session off from the store, over and over, for about a ttl.
async fn cut(networks: Vec<Arc<Faulty>>, weather: Weather, ttl: Duration, mut rng: Rng) {
    let ttl = u64::try_from(ttl.as_millis()).unwrap();
    loop {
        tokio::time::sleep(rng.millis(0..ttl * 2)).await;
        let network = &networks[rng.index(networks.len())];
        network.set(Weather::CUT);
        tokio::time::sleep(rng.millis(ttl / 4..ttl * 2)).await;
        network.set(weather);
    }
}

async fn break_lock(world: &World, store: &Memory, name: &str) {
    let name = Name::new(name).unwrap();
    for id in store.holders_of(&name) {
        world.ledger.note(format_args!("{name} is broken"));
        let claim = ClaimRef {
            name: name.clone(),
            id,
        };
        let cause = Cause::Evicted {
            by: "the simulation",
            reason: "to see",
        };
        store.withdraw(&claim, cause).await.unwrap();
        world.condemn(Some(name.as_str()));
    }
}

/// The good time: waits end, locks are free for everyone, nothing is left.
async fn settle(world: &Arc<World>, store: &Memory, mut clients: JoinSet<()>) {
    let bound = world.longest_ttl * 6 + Duration::from_secs(20);
    let all = async {
        while let Some(ended) = clients.join_next().await {
            if let Err(panic) = ended {
                world.ledger.fault(panic);
            }
        }
    };
    if tokio::time::timeout(bound, all).await.is_err() {
        world
            .ledger
            .fault("a task does not get its lock in fine weather");
    }
    clients.shutdown().await;
    let mut probes = JoinSet::new();
    for at in 0..world.sessions.len() {
        probes.spawn(client::probe(world.clone(), at));
    }
    let bound = world.longest_ttl * 3;
    let all = async { while probes.join_next().await.is_some() {} };
    if tokio::time::timeout(bound, all).await.is_err() {
        world.ledger.fault("a lock is not free in fine weather");
    }
    probes.shutdown().await;
    tokio::time::sleep(world.longest_ttl).await;
    match store.claim_count() {
        0 => {}
        count => world
            .ledger
            .fault(format_args!("{count} claims are left over")),
    }
}

impl World {
    /// What the store has given up is lost within a ttl, by renewal or by the
    /// deadline.
    fn condemn(&self, name: Option<&str>) {
        let by = Instant::now() + self.longest_ttl;
        self.ledger.condemn(name, by);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}
