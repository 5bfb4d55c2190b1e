//! Ten bottles, fifty buyers, five sessions: nobody sells one bottle twice.

use std::sync::atomic::{AtomicU32, Ordering};

static STOCK: AtomicU32 = AtomicU32::new(10);

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let mut buyers = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let session = leasehold::connect("memory:shop").await?;
        for _ in 0..10 {
            let session = session.clone();
            buyers.spawn(async move {
                let guard = session.mutex("stock/bottle").lock().await?;
                // Read, think, write: wrong without the lock.
                let left = STOCK.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                if left > 0 {
                    STOCK.store(left - 1, Ordering::Relaxed);
                }
                guard.release().await?;
                Ok::<_, leasehold::Error>(left > 0)
            });
        }
    }
    let mut sold = 0;
    while let Some(buyer) = buyers.join_next().await {
        sold += u32::from(buyer.expect("no buyer panics")?);
    }
    println!("sold {sold} of 10, {} left", STOCK.load(Ordering::Relaxed));
    assert_eq!(sold, 10);
    Ok(())
}
