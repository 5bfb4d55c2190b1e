//! Five instances of a service start at once. One migrates the database; the
//! others wait until that is done, and none serves before.

use std::path::{Path, PathBuf};
use std::time::Duration;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let mut instances = tokio::task::JoinSet::new();
    for instance in 1..=5 {
        instances.spawn(start(instance, folder.path().to_owned()));
    }
    while let Some(started) = instances.join_next().await {
        started.expect("no instance panics")?;
    }
    let migrations = std::fs::read_to_string(folder.path().join("schema")).expect("a schema");
    assert_eq!(migrations, "version 2\n", "migrated once");
    Ok(())
}

async fn start(instance: u32, folder: PathBuf) -> leasehold::Result<()> {
    let url = format!(
        "sqlite:{}?label=instance-{instance}",
        folder.join("locks.db").display()
    );
    let session = leasehold::connect(&url).await?;
    let guard = session
        .mutex("shop/migration")
        .expected_hold(Duration::from_secs(60))
        .on_stuck(|stuck| eprintln!("the migration takes long: {:?}", stuck.held))
        .lock()
        .await?;
    // Looked at under the lock: whoever was before us may have done it.
    if !is_migrated(&folder) {
        println!("instance {instance} migrates, token {}", guard.token());
        guard.run(|_token| migrate(&folder)).await?;
    }
    guard.release().await?;
    assert!(
        is_migrated(&folder),
        "instance {instance} would serve on an old schema"
    );
    session.close().await;
    Ok(())
}

/// What stands for the database.
fn is_migrated(folder: &Path) -> bool {
    folder.join("schema").exists()
}

async fn migrate(folder: &Path) {
    use std::io::Write as _;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let path = folder.join("schema");
    let schema = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    let mut schema = schema.expect("a file");
    writeln!(schema, "version 2").expect("written");
}
