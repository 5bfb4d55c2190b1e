//! A program without async: the same names, blocking.

use leasehold::blocking;

fn main() -> leasehold::Result<()> {
    let session = blocking::open_default()?;
    let guard = session.mutex("ledger").lock()?;
    println!("held, fence {}", guard.fence());
    guard.check()?;
    guard.release()?;
    session.close()
}
