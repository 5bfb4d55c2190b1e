//! Server, workload, faults, history, invariants, report: all from one seed.

mod excuse;
mod hurry;
mod leftover;
mod report;
mod tally;
mod verdict;
mod voters;
mod witness;
mod world;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leasehold::engine::Promises;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::crew::{Hand, until};
use crate::disk::Disk;
use crate::fault::{Answer, DISK_FULL, FAILOVER, Fault, SWITCH};
use crate::ground::{Contents, Kind};
use crate::history::{Event, now};
use crate::proxy::Proxy;
use crate::recorder::Recorder;
use crate::resource::{Resource, Temper};
use crate::story::Error;
use crate::worker::{Job, LongWork, Sabotage, Strategy, Work};

use hurry::Hurry;
use leftover::{contents_of_one, left_behind};
use verdict::Ended;
use witness::Witness;

pub use excuse::Happened;
pub use report::history_file;
pub use tally::{Count, Sightings, Tally};
pub use verdict::Verdict;
pub use world::{NOBODY_HIT, World};

/// How long a fault lasts at most, in ttls.
const LONGEST_FAULT: f64 = 2.5;
/// The first one lasts so much longer than a ttl at least.
const PAST_TTL: Duration = Duration::from_millis(300);
/// After the faults, everybody gets the lock within so many ttls.
const BOUND: u64 = 12;
/// How long the workers may take until they ask for the first time.
const LONGEST_START: Duration = Duration::from_secs(30);
/// The file that says that the faults are over.
const CALM: &str = "calm";
/// The file that says that long work is over now.
const HURRY: &str = "hurry";
/// The file that says that nobody is to ask for now.
const REST: &str = "rest";
/// The lock of a run.
const LOCK: &str = "lab/torture";

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The store.
    pub kind: &'static Kind,
    /// What happens to it.
    pub faults: Vec<Fault>,
    /// Everything that is chosen is chosen by this.
    pub seed: u64,
    /// How long faults happen.
    pub length: Duration,
    /// How many processes work.
    pub workers: usize,
    /// The ttl of their sessions.
    pub ttl_millis: u64,
    /// How long a hold takes.
    pub work_millis: u64,
    /// How long it takes now and then, while faults happen.
    pub long_work_millis: Option<u64>,
    /// How many may hold at once: a mutex, or a semaphore.
    pub permits: u32,
    /// Whether the resource checks fences.
    pub fenced: bool,
    /// What is wrong with the engine, on purpose.
    pub sabotage: Option<Sabotage>,
}

/// Runs a plan to its end in this folder. A run that breaks off in the middle
/// has a verdict too, which says so.
///
/// # Errors
/// If the store or a worker cannot be started.
pub fn torture(
    plan: &Plan,
    folder: &Path,
    recorder: &Recorder,
    progress: &dyn Fn(&str),
) -> Result<Verdict, Error> {
    let temper = match plan.sabotage {
        Some(Sabotage::ResourceForgetsMark) => Temper::Forgets,
        _ if plan.fenced => Temper::LosesAnswers,
        // The one write that comes too late would be lost with its answer.
        _ => Temper::Sound,
    };
    let ledger = Resource::start_with("ledger", 0, recorder.clone(), temper)?;
    let stop = folder.join("stop");
    let (mut world, promises, before) =
        unless_it_panics(|| start(plan, folder, recorder, ledger.address, &stop))?;
    let bound = Duration::from_millis(BOUND * plan.ttl_millis) + Duration::from_secs(3);
    let hurry = (!plan.fenced).then(|| Hurry::start(recorder, folder.join(HURRY)));
    let witness = Witness::start(&*world.ground, promises, recorder)?;
    let mut faults = Vec::new();
    let ran = unless_it_panics(|| run(plan, &mut world, folder, bound, &mut faults, progress));
    tell_failure(recorder, "the run broke off", ran);
    std::fs::write(&stop, "")?;
    world.finish(bound);
    drop((hurry, witness));
    let left = unless_it_panics(|| left_behind(&*world.ground, plan, &before));
    let left = tell_failure(recorder, "the store cannot be looked at", left);
    faults.extend(switches(&mut world));
    let ended = Ended {
        faults,
        workers: world.jobs.iter().map(|job| job.name.clone()).collect(),
        bound,
        left: left.unwrap_or_default(),
        promises,
        takes_over: world.ground.takes_over(),
    };
    Ok(Verdict::new(plan, &recorder.history(), ended))
}

/// Both phases: with faults, and without.
fn run(
    plan: &Plan,
    world: &mut World,
    folder: &Path,
    bound: Duration,
    faults: &mut Vec<Happened>,
    progress: &dyn Fn(&str),
) -> Result<(), Error> {
    let recorder = world.recorder.clone();
    let names: Vec<String> = world.jobs.iter().map(|job| job.name.clone()).collect();
    let is_at_work = |name: &String| recorder.has(|line| line.by == *name);
    if !until(LONGEST_START, || names.iter().all(is_at_work)) {
        return Err("a worker did not come to work".into());
    }
    tell_phase(&recorder, "safety");
    break_things(plan, world, faults, progress);
    std::fs::write(folder.join(CALM), "")?;
    progress("no more faults: everybody gets the lock again");
    tell_phase(&recorder, "liveness");
    let (begin, mut seen) = (now(), recorder.so_far());
    let mut starved: BTreeSet<String> = names.into_iter().collect();
    until(bound, || {
        for line in recorder.after(seen) {
            seen += 1;
            if line.at >= begin && matches!(line.event, Event::Granted { .. }) {
                starved.remove(&line.by);
            }
        }
        starved.is_empty() || world.hands.iter_mut().all(Hand::has_ended)
    });
    Ok(())
}

/// The same with a panic as an error: a server that does not start again is an
/// assertion that fails.
fn unless_it_panics<T>(act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("it panicked").into())
    })
}

/// Puts it into the history if something of the lab went wrong.
fn tell_failure<T>(recorder: &Recorder, what: &str, ended: Result<T, Error>) -> Option<T> {
    match ended {
        Ok(value) => Some(value),
        Err(error) => {
            let why = format!("{what}: {error}");
            recorder.tell("lab", Event::Failed { why });
            None
        }
    }
}

fn start(
    plan: &Plan,
    folder: &Path,
    recorder: &Recorder,
    ledger: SocketAddr,
    stop: &Path,
) -> Result<(World, Promises, Contents), Error> {
    let has = |name: &str| plan.faults.iter().any(|fault| fault.name == name);
    let place = folder.join("store");
    std::fs::create_dir_all(&place)?;
    let disk = match has(DISK_FULL) {
        true => Disk::mount(&place, plan.kind.room),
        false => Err("the store has no disk of its own".to_owned()),
    };
    let start = match has(FAILOVER) {
        true => plan.kind.start_replicated,
        false => plan.kind.start,
    };
    let mut world = World {
        ground: start(&place)?,
        disk,
        hands: Vec::new(),
        networks: Vec::new(),
        recorder: recorder.clone(),
        jobs: Vec::new(),
        rest: folder.join(REST),
        ttl: Duration::from_millis(plan.ttl_millis),
    };
    let strategy = match plan.fenced {
        true => Strategy::Fenced,
        false => Strategy::Unfenced,
    };
    let whole = world.ground.url(&world.ground.ports(), plan.ttl_millis);
    let promises = promises(&whole)?;
    let before = contents_of_one(&*world.ground, plan)?;
    for number in 1..=plan.workers {
        let mut proxies = Vec::new();
        for port in world.ground.ports() {
            proxies.push(Proxy::start(SocketAddr::from(([127, 0, 0, 1], port)))?);
        }
        let ports: Vec<u16> = proxies.iter().map(Proxy::port).collect();
        let url = world.ground.url(&ports, plan.ttl_millis);
        let job = Job {
            work: Work {
                counts_down: false,
                takes_millis: plan.work_millis,
                rests_millis: 5,
                at_most: None,
            },
            long_work: plan.long_work_millis.map(|millis| LongWork {
                millis,
                seed: plan.seed.wrapping_mul(1_000_003) ^ ((number as u64) << 32),
                ends_with: folder.join(CALM),
            }),
            patience_millis: 2 * plan.ttl_millis + plan.long_work_millis.unwrap_or(0),
            ttl_millis: plan.ttl_millis,
            sabotage: plan.sabotage,
            permits: plan.permits,
            // But for every fourth, which connects as users do: the witness sees its
            // claims in the store.
            tells_answers: number % 4 != 0,
            hurries_with: (!plan.fenced).then(|| folder.join(HURRY)),
            rests_with: Some(folder.join(REST)),
            stops_with: Some(folder.join(format!("stop-{number}"))),
            ends_with: Some(PathBuf::from(stop)),
            ..Job::new(&format!("w{number}"), strategy, &url, LOCK, ledger)
        };
        world.hands.push(Hand::start(&job, recorder)?);
        world.networks.push(proxies);
        world.jobs.push(job);
    }
    Ok((world, promises, before))
}

/// Lets faults happen one after the other, and notes what became of each.
fn break_things(
    plan: &Plan,
    world: &mut World,
    happened: &mut Vec<Happened>,
    progress: &dyn Fn(&str),
) {
    let mut rng = StdRng::seed_from_u64(plan.seed);
    let begin = Instant::now();
    while begin.elapsed() < plan.length && !plan.faults.is_empty() {
        std::thread::sleep(Duration::from_millis(
            rng.random_range(50..=plan.ttl_millis),
        ));
        let fault = plan.faults[rng.random_range(0..plan.faults.len())];
        let most = plan.ttl_millis as f64 * LONGEST_FAULT;
        let mut length = Duration::from_millis(rng.random_range(20..=most as u64));
        if happened.is_empty() {
            // Long enough for everybody who cannot be renewed to lose its lock.
            length = length.max(world.ttl + PAST_TTL);
        }
        progress(fault.name);
        // Every other one is aimed at whoever holds, the first one too.
        let choice = (rng.random::<u64>() & !1) | (happened.len() as u64 & 1);
        let since = now();
        let answer = (fault.happen)(world, choice, length);
        let is_idle = plan.faults.len() == 1
            && matches!(answer, Answer::Skipped(_))
            && !happened.iter().any(|it| it.answer == Answer::Installed);
        happened.push(Happened {
            fault: fault.name,
            answer,
            span: (since, now()),
        });
        if is_idle {
            break;
        }
    }
    if plan.faults.is_empty() {
        std::thread::sleep(plan.length);
    }
}

/// Takes what the store tells of servers that took over into the history: it is
/// a fault like any other, whoever made it.
fn switches(world: &mut World) -> Vec<Happened> {
    let switches = world.ground.switches();
    for &(from, to) in &switches {
        world.recorder.broke(SWITCH, "the leading server", from);
        world.recorder.healed(SWITCH, "the leading server", to);
    }
    let happened = switches.into_iter().map(|span| Happened {
        fault: SWITCH,
        answer: Answer::Installed,
        span,
    });
    happened.collect()
}

fn tell_phase(recorder: &Recorder, name: &str) {
    recorder.tell("lab", Event::Phase { name: name.into() });
}

/// What the store guarantees.
fn promises(url: &str) -> Result<Promises, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(leasehold::inspect(url))?.promises())
}
