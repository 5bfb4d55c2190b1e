//! Every engine that is wrong on purpose is found out, on a real Redis server;
//! the same run with a sound engine finds nothing.

use std::process::ExitCode;
use std::time::Duration;

use leasehold_lab::fault::Fault;
use leasehold_lab::ground::Kind;
use leasehold_lab::torture::{Plan, torture};
use leasehold_lab::worker::Sabotage;
use libtest_mimic::{Arguments, Failed, Trial};

const TTL: u64 = 900;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let sound = Trial::test("a_sound_engine_breaks_nothing", || run(None));
    let broken = Sabotage::ALL.map(|sabotage| {
        let name = format!("{}_is_found_out", sabotage.name().replace('-', "_"));
        Trial::test(name, move || run(Some(sabotage)))
    });
    let trials = std::iter::once(sound).chain(broken).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run(sabotage: Option<Sabotage>) -> Result<(), Failed> {
    let kind = Kind::find("redis").ok_or("there is a store called redis")?;
    if let Some(what) = (kind.lacks)() {
        return Err(format!("{what} is missing").into());
    }
    // A hold that outlasts the ttl needs its renewals; a worker that stood still
    // past it gives back what is another's by then.
    let plan = Plan {
        kind,
        faults: Fault::find("pause").copied().into_iter().collect(),
        seed: 3,
        length: Duration::from_secs(6),
        workers: 3,
        ttl_millis: TTL,
        work_millis: match sabotage {
            // Everybody gets the lock before it gives up.
            Some(Sabotage::LosesPlace) => TTL / 5,
            _ => TTL + TTL / 3,
        },
        permits: match sabotage {
            Some(Sabotage::ExtraPermit) => 2,
            _ => 1,
        },
        fenced: true,
        sabotage,
    };
    let folder = tempfile::tempdir()?;
    let verdict = torture(&plan, folder.path(), &|_| {})?;
    let found: Vec<_> = verdict.broken.iter().map(|it| &*it.text).collect();
    match (sabotage, found.is_empty()) {
        (None, true) | (Some(_), false) => Ok(()),
        (None, false) => Err(format!("seed {}: {found:?}", plan.seed).into()),
        (Some(sabotage), true) => Err(format!("{} was not found out", sabotage.name()).into()),
    }
}
