//! Five instances of a service start at once. One migrates the database; the
//! others wait until that is done, and none serves before.

use std::path::{Path, PathBuf};
use std::time::Duration;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let mut instances = tokio::task::JoinSet::new();
    for _ in 0..5 {
        instances.spawn(start(folder.path().to_owned()));
    }
    let migrations = instances.join_all().await.into_iter();
    let migrations = migrations.collect::<leasehold::Result<Vec<bool>>>()?;
    assert_eq!(migrations.iter().filter(|did| **did).count(), 1);
    Ok(())
}

/// One instance; says whether it migrated.
async fn start(folder: PathBuf) -> leasehold::Result<bool> {
    let (store, schema) = (folder.join("locks.db"), folder.join("schema"));
    let session = leasehold::connect(&format!("sqlite:{}", store.display())).await?;
    let guard = session.mutex("shop/migration").lock().await?;
    // Looked at under the lock: whoever was before us may have done it.
    let is_needed = !schema.exists();
    if is_needed {
        println!("migrates, token {}", guard.token());
        guard.run(|_token| migrate(&schema)).await?;
    }
    guard.release().await?;
    session.close().await;
    Ok(is_needed)
}

/// What stands for the work on the database.
async fn migrate(schema: &Path) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    std::fs::write(schema, "version 2").expect("written");
}
