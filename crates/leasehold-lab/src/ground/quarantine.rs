//! The part of Redlock's operator: nodes that forgot are in quarantine until
//! somebody lets them in.

use std::time::{Duration, Instant};

use leasehold::redlock::{Standing, admit, status};

use super::Mended;

/// How long it may take: each node has to wait for the longest ttl.
const LONGEST: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(100);

/// Lets in all nodes that forgot, if enough others did not.
pub(super) fn admit_all(url: &str) -> Result<Mended, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let deadline = Instant::now() + LONGEST;
        loop {
            let nodes = status(url).await.map_err(|error| error.to_string())?;
            let good = nodes.iter().filter(|node| node.standing == Standing::Good);
            let good = good.count();
            if good == nodes.len() {
                return Ok(Mended::All);
            }
            if good < nodes.len() / 2 + 1 {
                return Ok(Mended::TooMuchForgotten);
            }
            if let Err(error) = admit(url, &[]).await
                && Instant::now() > deadline
            {
                return Err(format!("a node that forgot is not let in: {error}"));
            }
            tokio::time::sleep(EVERY).await;
        }
    })
}
