//! `leasehold-lab torture`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use leasehold_lab::fault::{DISK_FULL, FAILOVER, FAULTS, Fault, RESTART_ALL_EMPTY};
use leasehold_lab::ground::Kind;
use leasehold_lab::invariant::Violation;
use leasehold_lab::recorder::Recorder;
use leasehold_lab::story::Error;
use leasehold_lab::torture::{Plan, Tally, Verdict, history_file, torture};
use leasehold_lab::worker::Sabotage;

/// What does not happen unless it is named. With the first two the store is started
/// so that most of the others are skipped; after the last its tokens go by the clock,
/// and the jumps that follow `restart-empty` may have been ahead of it.
const UNUSUAL: [&str; 3] = [FAILOVER, DISK_FULL, RESTART_ALL_EMPTY];

/// How many violations of a kind are told in words, of what must never happen and of
/// what may.
const TOLD: [usize; 2] = [12, 3];

/// What was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Wish {
    /// The store: sqlite, redis, redlock, etcd, zookeeper, postgres, mariadb.
    #[arg(long)]
    store: String,
    /// What happens, with commas between; if nothing is named everything but
    /// failover and disk-full, which need servers or disks of another kind, and
    /// restart-all-empty, after which tokens go by the clock.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// The same seed chooses the same faults.
    #[arg(long)]
    seed: Option<u64>,
    /// How long.
    #[arg(long = "for", default_value = "10s", value_parser = leasehold::parse_duration)]
    length: Duration,
    /// How many processes work.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// The ttl of their sessions, in milliseconds.
    #[arg(long, default_value_t = 1_500)]
    ttl: u64,
    /// How long a hold takes, in milliseconds.
    #[arg(long, default_value_t = 15)]
    work: u64,
    /// How long one hold in four takes while faults happen, in milliseconds; two
    /// ttls unless it is said, and never if it is zero.
    #[arg(long)]
    long_work: Option<u64>,
    /// How many may hold at once: a semaphore if more than one.
    #[arg(long, default_value_t = 1)]
    permits: u32,
    /// Break the engine on purpose, to see that it is found out.
    #[arg(long)]
    sabotage: Option<String>,
    /// Let the resource check nothing, to see what fences are for.
    #[arg(long)]
    unfenced: bool,
    /// Where the page goes.
    #[arg(long, default_value = "lab")]
    out: PathBuf,
    /// The picture as a file of its own too.
    #[arg(long)]
    svg: bool,
}

pub(crate) fn run(wish: &Wish) -> Result<ExitCode, Error> {
    let plan = plan(wish)?;
    if let Some(what) = (plan.kind.lacks)() {
        return Err(format!("{what} is missing on this machine").into());
    }
    println!("store {}, seed {}", plan.kind.name, plan.seed);
    if wish.faults.is_empty() {
        println!(
            "without {}: name them if they are wanted",
            UNUSUAL.join(", ")
        );
    }
    let folder = tempfile::tempdir()?;
    let name = format!("torture-{}-{}", plan.kind.name, plan.seed);
    std::fs::create_dir_all(&wish.out)?;
    let recorder = Recorder::streaming(&history_file(&wish.out, &name))?;
    let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let bar = crate::bar(millis(plan.length), "{elapsed}");
    let begin = Instant::now();
    let verdict = torture(&plan, folder.path(), &recorder, &|text| {
        bar.set_position(millis(begin.elapsed().min(plan.length)));
        bar.set_message(text.to_owned());
    })?;
    bar.finish_and_clear();
    report(wish, &plan, &name, &verdict)
}

fn plan(wish: &Wish) -> Result<Plan, Error> {
    let kind = Kind::find(&wish.store);
    let kind = kind.ok_or_else(|| format!("the lab has no store called {}", wish.store))?;
    let faults = match wish.faults.is_empty() {
        true => {
            let others = FAULTS.iter().copied();
            let is_usual = |fault: &Fault| !UNUSUAL.contains(&fault.name);
            others.filter(is_usual).collect()
        }
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
    Ok(Plan {
        kind,
        faults,
        seed: wish.seed.unwrap_or_else(rand::random),
        length: wish.length,
        workers: wish.workers.max(1),
        ttl_millis: wish.ttl,
        work_millis: wish.work,
        long_work_millis: Some(wish.long_work.unwrap_or(2 * wish.ttl)).filter(|&long| long > 0),
        permits: wish.permits.max(1),
        fenced: !wish.unfenced,
        sabotage,
    })
}

fn report(wish: &Wish, plan: &Plan, name: &str, verdict: &Verdict) -> Result<ExitCode, Error> {
    for (name, came) in verdict.what_happened() {
        println!("  {name:17} {came}");
    }
    let tally = Tally::of(&verdict.history);
    println!("  asked for the lock: {}", tally.acquires);
    println!("  gave it back:       {}", tally.releases);
    println!("  accesses under it:  {}", tally.accesses);
    println!("  seen in the store:  {}", tally.witness);
    let [broken, allowed] = TOLD;
    tell("as the theory says", &verdict.allowed, allowed);
    tell("BROKEN", &verdict.broken, broken);
    match verdict.broken.is_empty() {
        true => println!("  no promise was broken"),
        false => println!("  A PROMISE WAS BROKEN"),
    }
    let path = verdict.write(plan, name, &wish.out)?;
    println!("\n  {}", path.display());
    if wish.svg {
        let picture = verdict.write_picture(name, &wish.out)?;
        println!("  {}", picture.display());
    }
    Ok(match verdict.broken.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The first of each kind in words, and how many more there are.
fn tell(what: &str, violations: &[Violation], most: usize) {
    let mut kinds: BTreeMap<&str, Vec<&Violation>> = BTreeMap::new();
    for violation in violations {
        kinds
            .entry(violation.invariant)
            .or_default()
            .push(violation);
    }
    for (invariant, violations) in kinds {
        for violation in violations.iter().take(most) {
            println!("  {what}: {invariant}: {}", violation.text);
        }
        if let Some(more) = violations.len().checked_sub(most + 1) {
            println!("  {what}: {invariant}: and {} more", more + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use leasehold_lab::matrix::Row;

    #[test]
    fn a_cell_of_the_matrix_is_run_again_by_its_command() {
        let (kind, length) = (Kind::find("redis").unwrap(), Duration::from_millis(2_500));
        for row in Row::all() {
            let command = format!("leasehold-lab {}", row.again("redis", "7", length));
            let args = crate::Args::try_parse_from(command.split(' '));
            let crate::Command::Torture(wish) = args.unwrap().command else {
                panic!("{command} is torture");
            };
            let (again, first) = (plan(&wish).unwrap(), row.plan(kind, 7, length));
            assert_eq!(format!("{again:?}"), format!("{first:?}"), "{command}");
        }
    }
}
