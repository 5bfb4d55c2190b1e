//! Every engine that is wrong on purpose is found out, on a real Redis server;
//! the same run with a sound engine finds nothing.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use leasehold_lab::fault::{Answer, Fault, PAUSE_AT_WRITE};
use leasehold_lab::ground::Kind;
use leasehold_lab::keeper::run_program_kept;
use leasehold_lab::recorder::Recorder;
use leasehold_lab::torture::{Plan, torture};
use leasehold_lab::worker::Sabotage;
use libtest_mimic::{Arguments, Failed, Trial};

const TTL: u64 = 900;

/// What a failure leaves to look at.
const PAGES: &str = env!("CARGO_TARGET_TMPDIR");

fn main() -> ExitCode {
    match run_program_kept(env!("CARGO_BIN_EXE_leasehold-lab")) {
        Ok(None) => trials(),
        Ok(Some(code)) => code,
        Err(error) => panic!("{error}"),
    }
}

/// Below a keeper, so that nothing is left of it however it ends.
fn trials() -> ExitCode {
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

/// One run, and more if nobody who held was hit: then nothing could be found.
fn run(sabotage: Option<Sabotage>) -> Result<(), Failed> {
    for seed in [3, 103] {
        if run_with(sabotage, seed)? {
            return Ok(());
        }
    }
    Err("nobody who held was hit".into())
}

/// Gives whether somebody who held was hit.
fn run_with(sabotage: Option<Sabotage>, seed: u64) -> Result<bool, Failed> {
    let kind = Kind::find("redis").ok_or("there is a store called redis")?;
    if let Some(what) = (kind.lacks)() {
        return Err(format!("{what} is missing").into());
    }
    let fault = match sabotage {
        // The one whose writes come too late, where a mark is all that helps.
        Some(Sabotage::ResourceForgetsMark) => PAUSE_AT_WRITE,
        _ => "pause",
    };
    // A hold that outlasts the ttl needs its renewals; a worker that stood still
    // past it gives back what is another's by then.
    let plan = Plan {
        kind,
        faults: Fault::find(fault).copied().into_iter().collect(),
        seed,
        length: Duration::from_secs(6),
        workers: match sabotage {
            // What is not given back goes when its owner has lost patience and
            // comes with another session. So many cannot all be served that way.
            Some(Sabotage::LazyRelease) => 8,
            _ => 3,
        },
        ttl_millis: TTL,
        work_millis: match sabotage {
            // Everybody gets the lock before it gives up.
            Some(
                Sabotage::LosesPlace
                | Sabotage::ResourceForgetsMark
                | Sabotage::HangingRelease
                | Sabotage::CrashingRelease,
            ) => TTL / 5,
            _ => TTL + TTL / 3,
        },
        long_work_millis: None,
        permits: match sabotage {
            Some(Sabotage::ExtraPermit) => 2,
            _ => 1,
        },
        fenced: true,
        sabotage,
    };
    let folder = tempfile::tempdir()?;
    let verdict = torture(&plan, folder.path(), &Recorder::default(), &|_| {})?;
    let broken: Vec<_> = verdict.broken.iter().map(|it| &*it.text).collect();
    let mut faults = verdict.faults.iter();
    let is_hit = faults.any(|fault| fault.answer == Answer::Installed);
    let Some(sabotage) = sabotage else {
        return match broken.is_empty() {
            true => Ok(is_hit),
            false => {
                let page = verdict.write(&plan, "sound", Path::new(PAGES))?;
                Err(format!("{broken:?}; see {}", page.display()).into())
            }
        };
    };
    if !is_hit {
        return Ok(false);
    }
    for invariant in found_as(sabotage) {
        if !verdict.broken.iter().any(|it| it.invariant == *invariant) {
            let name = sabotage.name();
            return Err(format!("{name} does not break \"{invariant}\": {broken:?}").into());
        }
    }
    // What a worker believes is not what the store granted.
    let is_double = verdict.broken.iter().any(|it| it.invariant == "exclusion");
    if sabotage == Sabotage::DeafWorker && is_double {
        return Err(format!("the store granted nothing twice: {broken:?}").into());
    }
    Ok(true)
}

/// What each of them breaks, as the lab's README says.
fn found_as(sabotage: Sabotage) -> &'static [&'static str] {
    match sabotage {
        Sabotage::LateWatchdog | Sabotage::NoOwnerCheck | Sabotage::EarlyExpiry => {
            &["exclusion", "belief"]
        }
        Sabotage::DeafWorker => &["belief"],
        Sabotage::StuckToken => &["token order"],
        Sabotage::LazyRelease => &["progress"],
        Sabotage::LosesPlace => &["order of service"],
        Sabotage::ExtraPermit => &["capacity"],
        Sabotage::HangingRelease | Sabotage::CrashingRelease => &["ends well"],
        Sabotage::ResourceForgetsMark => &["no stale write", "linearizability"],
    }
}
