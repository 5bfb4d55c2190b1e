//! An operator breaks a stuck lock; the work stops at once and is told why.

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let session = leasehold::connect("memory:?ttl=2s").await?;
    let guard = session.mutex("reports/monthly").lock().await?;
    let operator = session.inspector();

    let work = guard.run(|_token| std::future::pending::<()>());
    let (stopped, evicted) = tokio::join!(
        work,
        operator.evict("reports/monthly", "ann", "it hangs since noon"),
    );
    println!("evicted: {}", evicted?);
    println!(
        "the work was told: {}",
        stopped.expect_err("the lock was broken")
    );

    let next = session.mutex("reports/monthly").lock().await?;
    println!(
        "the next token is greater: {} > {}",
        next.token(),
        guard.token()
    );
    assert!(next.token() > guard.token());
    Ok(())
}
