//! The lock of rslock, behind the command line of `../README.md`.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use rslock::{Lock, LockManager};

type Outcome<T> = Result<T, Box<dyn Error>>;

const LONG: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["count", urls, key, rounds, file] => count(&manager(urls), key, rounds.parse()?, file).await,
        ["hold", urls, key, ttl] => {
            let ttl = Duration::from_millis(ttl.parse()?);
            hold(&manager(urls), key, ttl).await
        }
        ["wait", urls, key] => wait(&manager(urls), key).await,
        _ => Err("see ../README.md for the arguments".into()),
    }
}

fn manager(urls: &str) -> LockManager {
    let mut manager = LockManager::new(urls.split(',').collect());
    // A short pause between tries; the default makes tests slow.
    manager.set_retry(100, Duration::from_millis(10));
    manager
}

/// Tries for ever.
async fn take(manager: &LockManager, key: &str, ttl: Duration) -> Outcome<Lock> {
    Ok(manager.acquire_no_guard(key.as_bytes(), ttl).await?)
}

async fn count(manager: &LockManager, key: &str, rounds: u32, file: &str) -> Outcome<()> {
    for _ in 0..rounds {
        let lock = take(manager, key, LONG).await?;
        let number: u64 = std::fs::read_to_string(file)?.trim().parse()?;
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::fs::write(file, (number + 1).to_string())?;
        manager.unlock(&lock).await;
    }
    println!("done {rounds}");
    Ok(())
}

async fn hold(manager: &LockManager, key: &str, ttl: Duration) -> Outcome<()> {
    let lock = take(manager, key, ttl).await?;
    println!("held");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    manager.unlock(&lock).await;
    Ok(())
}

async fn wait(manager: &LockManager, key: &str) -> Outcome<()> {
    println!("waiting");
    let lock = take(manager, key, LONG).await?;
    println!("got");
    manager.unlock(&lock).await;
    Ok(())
}
