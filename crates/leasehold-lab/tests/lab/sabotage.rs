//! Every engine that is wrong on purpose is found out, on a real Redis server;
//! the same run with a sound engine finds nothing.

use std::path::Path;
use std::time::Duration;

use leasehold_lab::fault::{Answer, Fault, PAUSE_AT_WRITE};
use leasehold_lab::ground::Kind;
use leasehold_lab::recorder::Recorder;
use leasehold_lab::story::Error;
use leasehold_lab::torture::{Plan, torture};
use leasehold_lab::worker::Sabotage;
use libtest_mimic::Trial;

use crate::{Outcome, PAGES, trial};

const TTL: u64 = 900;

pub(crate) fn trials() -> Vec<Trial> {
    let sound = trial("sabotage::a_sound_engine_breaks_nothing", || run(None));
    let broken = Sabotage::ALL.map(|sabotage| {
        let name = sabotage.name().replace('-', "_");
        trial(format!("sabotage::{name}_is_found_out"), move || {
            run(Some(sabotage))
        })
    });
    std::iter::once(sound).chain(broken).collect()
}

/// One run, and more if nobody who held was hit: then nothing could be found.
fn run(sabotage: Option<Sabotage>) -> Outcome {
    for seed in [3, 103, 203, 303] {
        if run_with(sabotage, seed)? {
            return Ok(());
        }
    }
    Err("nobody who held was hit".into())
}

/// Gives whether somebody who held was hit.
fn run_with(sabotage: Option<Sabotage>, seed: u64) -> Result<bool, Error> {
    let kind = Kind::find("redis").ok_or("there is a store called redis")?;
    testbed::need((kind.lacks)());
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
