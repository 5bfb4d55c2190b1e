//! Every engine that is wrong on purpose is found out, on a real Redis server;
//! the same run with a sound engine finds nothing.

use std::process::ExitCode;
use std::time::Duration;

use leasehold_lab::fault::{Fault, PAUSE_AT_WRITE};
use leasehold_lab::ground::Kind;
use leasehold_lab::recorder::Recorder;
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
        seed: 3,
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
    let Some(sabotage) = sabotage else {
        return match broken.is_empty() {
            true => Ok(()),
            false => {
                let out = std::env::temp_dir().join("leasehold-lab");
                let page = verdict.write(&plan, "sound", &out)?;
                Err(format!("{broken:?}; see {}", page.display()).into())
            }
        };
    };
    for invariant in found_as(sabotage) {
        if !verdict.broken.iter().any(|it| it.invariant == *invariant) {
            let name = sabotage.name();
            return Err(format!("{name} does not break \"{invariant}\": {broken:?}").into());
        }
    }
    Ok(())
}

/// What each of them breaks, as the lab's README says.
fn found_as(sabotage: Sabotage) -> &'static [&'static str] {
    match sabotage {
        Sabotage::LateWatchdog | Sabotage::NoOwnerCheck | Sabotage::EarlyExpiry => &["exclusion"],
        Sabotage::StuckToken => &["token order"],
        Sabotage::LazyRelease => &["progress"],
        Sabotage::LosesPlace => &["order of service"],
        Sabotage::ExtraPermit => &["capacity"],
        Sabotage::HangingRelease | Sabotage::CrashingRelease => &["ends well"],
        Sabotage::ResourceForgetsMark => &["no stale write", "linearizability"],
    }
}
