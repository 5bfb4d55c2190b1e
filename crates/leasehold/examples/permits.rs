//! At most three downloads at a time, over all processes of the machine.

use std::time::Duration;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let session = leasehold::open_default().await?;
    let downloads = session.semaphore("downloads", 3);
    let mut tasks = tokio::task::JoinSet::new();
    for file in 1..=9 {
        let downloads = downloads.clone();
        tasks.spawn(async move {
            let permit = downloads.acquire().await?;
            println!("file {file} after {:?}", permit.waited());
            tokio::time::sleep(Duration::from_millis(50)).await;
            permit.release().await
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no download panics")?;
    }
    session.close().await;
    Ok(())
}
