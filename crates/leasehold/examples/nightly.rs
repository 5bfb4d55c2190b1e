//! The nightly job runs once, however many processes want to run it.
//! Try it in two terminals: cargo run --example nightly

use std::time::Duration;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let session = leasehold::open_default().await?;
    let Some(guard) = session.mutex("jobs/nightly").try_lock().await? else {
        println!("another process is at it");
        return Ok(());
    };
    println!("running with fencing token {}", guard.token());
    let done = guard
        .run(|_token| tokio::time::sleep(Duration::from_millis(200)))
        .await;
    match done {
        Ok(()) => println!("done"),
        Err(lost) => println!("stopped: {lost}"),
    }
    guard.release().await?;
    session.close().await;
    Ok(())
}
