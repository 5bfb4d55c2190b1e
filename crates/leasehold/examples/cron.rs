//! Every machine's cron starts the nightly report at the same moment; one of
//! them runs it. Those who come later, also with a slow clock, find it done.

use leasehold::once::{Begun, Schedule};

/// Tonight, as a number that grows: cron gives every machine the same.
const TONIGHT: u64 = 20_411;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let mut machines = tokio::task::JoinSet::new();
    for machine in 1..=10 {
        machines.spawn(cron(url.clone(), machine));
    }
    let mut reports = 0;
    while let Some(ran) = machines.join_next().await {
        reports += u32::from(ran.expect("no machine panics")?);
    }
    assert_eq!(reports, 1);
    assert!(!cron(url, 11).await?, "one that is late finds it done");
    Ok(())
}

/// One machine; says whether it ran the report.
async fn cron(url: String, machine: u32) -> leasehold::Result<bool> {
    let session = leasehold::connect(&url).await?;
    let nightly = session.once("reports/nightly", Schedule::numbers());
    let begun = nightly.begin_slot(TONIGHT).await?;
    let is_ours = matches!(begun, Begun::Started(_));
    if let Begun::Started(run) = begun {
        println!("machine {machine} reports, token {}", run.token());
        run.complete().await?;
    }
    session.close().await;
    Ok(is_ours)
}
