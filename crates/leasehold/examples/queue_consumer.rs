//! A queue that delivers everything three times, four consumers, one of every four
//! attempts breaks off: each order is shipped once, and the poisoned one is given up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::dedupe::Begun;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let folder = tempfile::tempdir().expect("there is a folder for what passes");
    let store = format!("sqlite:{}", folder.path().join("locks.db").display());
    let queue: Vec<u32> = (0..20).chain(0..20).chain(0..20).collect();
    let (queue, shipped) = (Arc::new(Mutex::new(queue)), Arc::new(Mutex::new(vec![])));
    let mut consumers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let session = leasehold::connect(&store).await?;
        let (queue, shipped) = (queue.clone(), shipped.clone());
        let next = move || queue.lock().expect("nobody panics").pop();
        consumers.spawn(async move {
            while let Some(order) = next() {
                let message = session
                    .dedupe(format!("order-{order}/ship"))
                    .max_attempts(3);
                loop {
                    match message.begin().await? {
                        // Dropped without `complete`: begun again, by whoever asks next.
                        Begun::Started(work) if order == 13 => drop(work),
                        Begun::Started(work) if order % 4 == 0 && work.attempt() == 1 => drop(work),
                        Begun::Started(work) => {
                            shipped.lock().expect("nobody panics").push(order);
                            work.complete(format!("parcel {order}")).await?;
                        }
                        Begun::InProgress { retry_after } => {
                            // Nobody here dies, so it is free sooner than that.
                            let soon = retry_after.min(Duration::from_millis(20));
                            tokio::time::sleep(soon).await;
                        }
                        Begun::Done(_) | Begun::GivenUp { .. } => break,
                    }
                }
            }
            Ok::<_, leasehold::Error>(())
        });
    }
    for ended in consumers.join_all().await {
        ended?;
    }
    let mut shipped = shipped.lock().expect("nobody panics").clone();
    shipped.sort_unstable();
    println!(
        "shipped {} orders from 60 deliveries, gave up 1",
        shipped.len()
    );
    let expected: Vec<u32> = (0..20).filter(|order| *order != 13).collect();
    assert_eq!(shipped, expected);
    Ok(())
}
