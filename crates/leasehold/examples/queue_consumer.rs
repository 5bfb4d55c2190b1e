//! Everything is delivered three times, and some attempts break off: each order is
//! shipped once, and the poisoned one is given up.

use leasehold::dedupe::Begun;

static SHIPPED: std::sync::Mutex<Vec<u32>> = std::sync::Mutex::new(Vec::new());

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let mut deliveries = tokio::task::JoinSet::new();
    for number in 0..60 {
        let session = leasehold::connect("memory:shop").await?;
        deliveries.spawn(consume(session, number % 20));
    }
    for delivered in deliveries.join_all().await {
        delivered?;
    }
    let mut shipped = SHIPPED.lock().expect("nobody panics").clone();
    shipped.sort_unstable();
    println!("shipped {} of 20 orders, 60 deliveries", shipped.len());
    let expected = (0..20).filter(|order| *order != 13);
    assert_eq!(shipped, expected.collect::<Vec<_>>());
    Ok(())
}

async fn consume(session: leasehold::Session, order: u32) -> leasehold::Result<()> {
    let message = session.dedupe(format!("order-{order}/ship"));
    loop {
        match message.clone().max_attempts(3).begin().await? {
            // Dropped without `complete`: begun again, by whoever asks next.
            Begun::Started(work) if order == 13 || work.attempt() <= order % 3 => drop(work),
            Begun::Started(work) => {
                SHIPPED.lock().expect("nobody panics").push(order);
                work.complete(format!("parcel {order}")).await?;
            }
            Begun::Done(_) | Begun::GivenUp { .. } => return Ok(()),
            Begun::InProgress { .. } => tokio::task::yield_now().await,
        }
    }
}
