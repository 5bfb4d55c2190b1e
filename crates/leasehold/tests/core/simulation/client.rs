//! A task that takes locks in every way there is, gives up at any moment, and
//! holds for any time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Guards, Owner, Result, Session};
use tokio::time::Instant;

use super::ledger::Grant;
use super::rng::Rng;
use super::world::World;

pub(crate) const MUTEXES: [&str; 3] = ["m0", "m1", "m2"];
/// A wait ends this long after its deadline at the latest.
const GRACE: Duration = Duration::from_millis(100);

/// What a task is after.
#[derive(Debug, Clone)]
enum Aim {
    Mutex(&'static str),
    Limited(&'static str, Duration),
    Read,
    Write,
    Permits(u32),
    Reentrant,
    All(Vec<&'static str>),
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Lock,
    Within(Duration),
    Try,
}

/// What a task has got.
#[derive(Clone)]
enum Prize {
    One(Arc<Guard>),
    All(Arc<Guards>),
}

type Asked = Pin<Box<dyn Future<Output = Result<Option<Prize>>> + Send>>;

pub(crate) async fn client(world: Arc<World>, id: u64, mut rng: Rng) {
    let owner = Owner::new(format!("task {id}"));
    while !world.is_ending() {
        tokio::time::sleep(rng.millis(0..120)).await;
        let at = rng.index(world.sessions.len());
        let (aim, way) = (aim(&world, &mut rng), way(&mut rng));
        let names = names(&aim);
        let floors: Vec<_> = names.iter().map(|name| world.ledger.floor(name)).collect();
        let asked = Instant::now();
        let request = ask(
            world.sessions[at].clone(),
            aim.clone(),
            way,
            owner.clone(),
            world.permits,
        );
        let answer = give_up_at_random(request, &mut rng).await;
        world.ledger.note(format_args!(
            "task {id} session {at} {aim:?} {way:?}: {}",
            describe(&answer)
        ));
        if let Way::Within(longest) = way
            && asked.elapsed() > longest + GRACE
        {
            let late = asked.elapsed() - longest;
            world
                .ledger
                .fault(format_args!("a wait ended {late:?} after its deadline"));
        }
        match answer {
            Some(Ok(Some(prize))) => hold(&world, id, &aim, prize, &floors, &mut rng).await,
            Some(Err(error)) if !is_expected(&error) => world.ledger.fault(error),
            Some(Ok(None)) if !matches!(way, Way::Try) => world.ledger.fault("a wait got nothing"),
            _ => {}
        }
    }
}

fn is_expected(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TimedOut | ErrorKind::Unavailable | ErrorKind::Closed
    )
}

fn describe(answer: &Option<Result<Option<Prize>>>) -> String {
    match answer {
        None => "gave up".into(),
        Some(Ok(None)) => "busy".into(),
        Some(Err(error)) => format!("{error}"),
        Some(Ok(Some(Prize::One(guard)))) => format!("got {}", guard.token()),
        Some(Ok(Some(Prize::All(guards)))) => format!("got all {}", guards.len()),
    }
}

fn aim(world: &World, rng: &mut Rng) -> Aim {
    let permits = 1 + u32::try_from(rng.below(world.permits.into())).unwrap();
    match rng.below(12) {
        0..=3 => Aim::Mutex(MUTEXES[rng.index(3)]),
        4 => Aim::Limited(MUTEXES[0], rng.millis(10..1000)),
        5 | 6 => Aim::Read,
        7 => Aim::Write,
        8 | 9 => Aim::Permits(permits),
        10 => Aim::Reentrant,
        _ => Aim::All(MUTEXES[rng.index(2)..].to_vec()),
    }
}

fn names(aim: &Aim) -> Vec<&'static str> {
    match aim {
        Aim::Mutex(name) | Aim::Limited(name, _) => vec![name],
        Aim::Read | Aim::Write => vec!["rw"],
        Aim::Permits(_) => vec!["sem"],
        Aim::Reentrant => vec!["re"],
        Aim::All(names) => names.clone(),
    }
}

fn way(rng: &mut Rng) -> Way {
    match rng.below(10) {
        0..=4 => Way::Lock,
        5..=7 => Way::Within(rng.millis(0..1500)),
        _ => Way::Try,
    }
}

fn ask(session: Session, aim: Aim, way: Way, owner: Owner, permits: u32) -> Asked {
    let one = |guard: Option<Guard>| guard.map(|guard| Prize::One(Arc::new(guard)));
    let all = |guards: Option<Guards>| guards.map(|guards| Prize::All(Arc::new(guards)));
    Box::pin(async move {
        match aim {
            Aim::Mutex(_) | Aim::Limited(..) => {
                let mutex = match aim {
                    Aim::Limited(name, longest) => session.mutex(name).max_hold(longest),
                    Aim::Mutex(name) => session.mutex(name),
                    _ => unreachable!(),
                };
                match way {
                    Way::Lock => mutex.lock().await.map(Some),
                    Way::Within(longest) => mutex.lock_within(longest).await.map(Some),
                    Way::Try => mutex.try_lock().await,
                }
                .map(one)
            }
            Aim::Read => match way {
                Way::Lock => session.rwlock("rw").read().await.map(Some),
                Way::Within(longest) => session.rwlock("rw").read_within(longest).await.map(Some),
                Way::Try => session.rwlock("rw").try_read().await,
            }
            .map(one),
            Aim::Write => match way {
                Way::Lock => session.rwlock("rw").write().await.map(Some),
                Way::Within(longest) => session.rwlock("rw").write_within(longest).await.map(Some),
                Way::Try => session.rwlock("rw").try_write().await,
            }
            .map(one),
            Aim::Permits(count) => {
                let semaphore = session.semaphore("sem", permits);
                match way {
                    Way::Lock => semaphore.acquire_many(count).await.map(Some),
                    Way::Within(longest) => semaphore
                        .acquire_many_within(count, longest)
                        .await
                        .map(Some),
                    Way::Try => semaphore.try_acquire_many(count).await,
                }
                .map(one)
            }
            Aim::Reentrant => {
                let lock = session.reentrant("re");
                match way {
                    Way::Lock => lock.lock(&owner).await.map(Some),
                    Way::Within(longest) => lock.lock_within(&owner, longest).await.map(Some),
                    Way::Try => lock.try_lock(&owner).await,
                }
                .map(one)
            }
            Aim::All(names) => match way {
                Way::Lock => session.lock_all(names).lock().await.map(Some),
                Way::Within(longest) => {
                    session.lock_all(names).lock_within(longest).await.map(Some)
                }
                Way::Try => session.lock_all(names).try_lock().await,
            }
            .map(all),
        }
    })
}

/// The answer, unless we stop listening first: after a time, or after so many
/// polls.
async fn give_up_at_random<T>(request: impl Future<Output = T>, rng: &mut Rng) -> Option<T> {
    let mut request = std::pin::pin!(request);
    match rng.below(10) {
        0..=4 => Some(request.await),
        5 | 6 => tokio::time::timeout(rng.millis(0..1500), request)
            .await
            .ok(),
        _ => {
            let mut polls = rng.below(12);
            std::future::poll_fn(|context| match polls {
                0 => Poll::Ready(None),
                _ => {
                    polls -= 1;
                    // The last poll asks to be called once more, to give up.
                    if polls == 0 {
                        context.waker().wake_by_ref();
                    }
                    request.as_mut().poll(context).map(Some)
                }
            })
            .await
        }
    }
}

async fn hold(world: &Arc<World>, id: u64, aim: &Aim, prize: Prize, floors: &[u64], rng: &mut Rng) {
    let entries = enter(world, aim, &prize, floors);
    if let (Aim::Reentrant, Prize::One(guard)) = (aim, &prize)
        && rng.chance(50)
        && guard.check().is_ok()
    {
        world
            .ledger
            .note(format_args!("task {id} holds {}", guard.token()));
    }
    let longest = world.longest_ttl.as_millis() as u64;
    let time = if rng.chance(50) {
        rng.millis(0..60)
    } else {
        rng.millis(0..longest * 2)
    };
    let until = Instant::now() + time;
    while Instant::now() < until && !world.is_ending() && !prize.is_lost_in_time(world, until).await
    {
        check(world, aim, &entries);
    }
    check(world, aim, &entries);
    for (name, entry) in &entries {
        world.ledger.leave(name, *entry);
    }
    give_back(world, id, prize, rng).await;
}

fn check(world: &World, aim: &Aim, entries: &[(String, u64)]) {
    for (name, _) in entries {
        world.ledger.check(name, capacity(world, aim));
    }
}

fn capacity(world: &World, aim: &Aim) -> u32 {
    match aim {
        Aim::Read | Aim::Write => u32::MAX,
        Aim::Permits(_) => world.permits,
        _ => 1,
    }
}

fn enter(world: &World, aim: &Aim, prize: &Prize, floors: &[u64]) -> Vec<(String, u64)> {
    let weight = match aim {
        Aim::Write => u32::MAX,
        Aim::Permits(count) => *count,
        _ => 1,
    };
    let guards: Vec<&Guard> = match prize {
        Prize::One(guard) => vec![guard],
        Prize::All(guards) => guards.iter().collect(),
    };
    let enter = |(at, guard): (usize, &Guard)| {
        let grant = Grant {
            name: guard.name(),
            token: guard.token().get(),
            weight,
            capacity: capacity(world, aim),
            floor: floors.get(at).copied().unwrap_or(0),
            is_entered_again: matches!(aim, Aim::Reentrant),
        };
        let prize = prize.clone();
        let believes = Box::new(move || prize.guard(at).check().is_ok());
        (
            guard.name().to_owned(),
            world.ledger.enter(&grant, believes),
        )
    };
    guards.into_iter().enumerate().map(enter).collect()
}

impl Prize {
    fn guard(&self, at: usize) -> &Guard {
        match self {
            Self::One(guard) => guard,
            Self::All(guards) => &guards[at],
        }
    }

    /// Waits until it is lost, and checks that it says so in time; comes back
    /// with `false` after a while, or at `until`.
    async fn is_lost_in_time(&self, world: &World, until: Instant) -> bool {
        let valid = match self {
            Self::One(guard) => guard.valid_for(),
            Self::All(guards) => guards
                .iter()
                .map(Guard::valid_for)
                .min()
                .unwrap_or_default(),
        };
        // Timers count in milliseconds; one more and it is late.
        let wake = until.min(Instant::now() + valid + Duration::from_millis(2));
        let lost = async {
            match self {
                Self::One(guard) => guard.lost().await,
                Self::All(guards) => guards.lost().await,
            }
        };
        tokio::select! {
            biased;
            _ = lost => return true,
            () = tokio::time::sleep_until(wake) => {}
        }
        let checked = match self {
            Self::One(guard) => guard.check(),
            Self::All(guards) => guards.check(),
        };
        if wake < until && checked.is_err() {
            world.ledger.fault("lost() is later than the deadline");
        }
        false
    }
}

async fn give_back(world: &World, id: u64, prize: Prize, rng: &mut Rng) {
    if rng.chance(40) {
        return;
    }
    let released = match prize {
        Prize::One(guard) => match Arc::into_inner(guard) {
            Some(guard) => give_up_at_random(guard.release(), rng).await,
            None => return world.ledger.fault("somebody else has the guard"),
        },
        Prize::All(guards) => match Arc::into_inner(guards) {
            Some(guards) => give_up_at_random(guards.release(), rng).await,
            None => return world.ledger.fault("somebody else has the guards"),
        },
    };
    world
        .ledger
        .note(format_args!("task {id} released: {released:?}"));
}

/// In fine weather every lock is free for every session.
pub(crate) async fn probe(world: Arc<World>, at: usize) {
    let session = &world.sessions[at];
    let wait = Duration::from_secs(60);
    let check = |result: Result<Guard>| match result {
        Ok(guard) => Some(guard),
        Err(error) if error.kind() == ErrorKind::Closed => None,
        Err(error) => {
            world.ledger.fault(format_args!("in fine weather: {error}"));
            None
        }
    };
    for name in MUTEXES {
        let guard = check(session.mutex(name).lock_within(wait).await);
        if let Some(Err(error)) = give_back_now(guard).await {
            world.ledger.fault(format_args!("in fine weather: {error}"));
        }
    }
    let owner = Owner::new("probe");
    give_back_now(check(
        session.reentrant("re").lock_within(&owner, wait).await,
    ))
    .await;
    give_back_now(check(session.rwlock("rw").write_within(wait).await)).await;
    let permits = session.semaphore("sem", world.permits);
    give_back_now(check(
        permits.acquire_many_within(world.permits, wait).await,
    ))
    .await;
    world
        .ledger
        .note(format_args!("session {at} got everything"));
}

async fn give_back_now(guard: Option<Guard>) -> Option<Result<()>> {
    match guard {
        Some(guard) => Some(guard.release().await),
        None => None,
    }
}
