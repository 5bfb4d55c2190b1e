//! `leasehold-lab torture`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use leasehold_lab::fault::{Answer, FAULTS, Fault};
use leasehold_lab::ground::Kind;
use leasehold_lab::story::Error;
use leasehold_lab::torture::{Plan, Verdict, torture};
use leasehold_lab::worker::Sabotage;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) store: String,
    pub(crate) faults: Vec<String>,
    pub(crate) seed: Option<u64>,
    pub(crate) length: Duration,
    pub(crate) workers: usize,
    pub(crate) ttl: u64,
    pub(crate) work: u64,
    pub(crate) permits: u32,
    pub(crate) unfenced: bool,
    pub(crate) sabotage: Option<String>,
    pub(crate) out: PathBuf,
}

pub(crate) fn run(wish: &Wish) -> Result<ExitCode, Error> {
    let kind = Kind::find(&wish.store);
    let kind = kind.ok_or_else(|| format!("the lab has no store called {}", wish.store))?;
    if let Some(what) = (kind.lacks)() {
        return Err(format!("{what} is missing on this machine").into());
    }
    let faults = match wish.faults.is_empty() {
        true => FAULTS.to_vec(),
        false => {
            let find = |name: &String| {
                let fault = Fault::find(name).copied();
                fault.ok_or_else(|| format!("the lab has no fault called {name}"))
            };
            wish.faults.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    let sabotage = match &wish.sabotage {
        None => None,
        Some(name) => {
            let known = Sabotage::ALL.map(Sabotage::name).join(", ");
            let sabotage = Sabotage::find(name);
            Some(sabotage.ok_or_else(|| format!("{name} is none of {known}"))?)
        }
    };
    let seed = wish.seed.unwrap_or_else(rand::random);
    println!("store {}, seed {seed}", kind.name);
    let plan = Plan {
        kind,
        faults,
        seed,
        length: wish.length,
        workers: wish.workers.max(1),
        ttl_millis: wish.ttl,
        work_millis: wish.work,
        permits: wish.permits.max(1),
        fenced: !wish.unfenced,
        sabotage,
    };
    let folder = tempfile::tempdir()?;
    let bar = indicatif::ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    let verdict = torture(&plan, folder.path(), &|text| {
        bar.set_message(text.to_owned());
    })?;
    bar.finish_and_clear();
    report(wish, &plan, &verdict)
}

fn report(wish: &Wish, plan: &Plan, verdict: &Verdict) -> Result<ExitCode, Error> {
    let mut faults: BTreeMap<&str, (u32, Option<String>)> = BTreeMap::new();
    for happened in &verdict.faults {
        let seen = faults.entry(happened.fault).or_default();
        match &happened.answer {
            Answer::Installed => seen.0 += 1,
            Answer::Skipped(why) => seen.1 = Some(format!("skipped: {why}")),
            Answer::Doubtful(why) => seen.1 = Some(format!("doubtful: {why}")),
        }
    }
    for (name, (count, remark)) in &faults {
        let remark = remark.as_deref().unwrap_or_default();
        println!("  {name:14} {count:4} times  {remark}");
    }
    println!("  {} grants", verdict.grants);
    for violation in &verdict.allowed {
        println!(
            "  as the theory says: {}: {}",
            violation.invariant, violation.text
        );
    }
    for violation in &verdict.broken {
        println!("  BROKEN: {}: {}", violation.invariant, violation.text);
    }
    let name = format!("torture-{}-{}", plan.kind.name, plan.seed);
    let path = verdict.write(plan, &name, &wish.out)?;
    println!("\n  {}", path.display());
    Ok(match verdict.broken.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
