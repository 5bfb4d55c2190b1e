//! A program without async: the same names, blocking.

use leasehold::blocking::{self, dedupe::Begun};

fn main() -> leasehold::Result<()> {
    let session = blocking::open_default()?;
    let guard = session.mutex("ledger").lock()?;
    println!("held, fence {}", guard.fence());
    guard.check()?;
    guard.release()?;

    // Each of these is once, however often the program is started.
    for order in ["order-17", "order-18", "order-17"] {
        match session.dedupe(order).begin()? {
            Begun::Started(work) => {
                println!("{order}: charged, attempt {}", work.attempt());
                work.complete("charged")?;
                work.release()?;
            }
            Begun::Done(result) => println!("{order}: {}", String::from_utf8_lossy(&result)),
            other => println!("{order}: not now: {other:?}"),
        }
    }

    let leadership = session.election("ledger/leader").campaign("this program")?;
    println!("leads, token {}", leadership.token());
    leadership.resign()?;
    session.close()
}
