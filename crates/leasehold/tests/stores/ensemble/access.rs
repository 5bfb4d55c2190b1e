//! Members that refuse.

use std::time::{Duration, Instant};

use leasehold::ErrorKind;

use super::{Ensemble, cases, ensemble};
use crate::LONG;

cases![a_member_without_a_majority_is_unavailable,];

async fn a_member_without_a_majority_is_unavailable<E: Ensemble>() {
    let (_folder, mut ensemble) = ensemble::<E>(3);
    ensemble.kill(1);
    ensemble.kill(2);
    is_said_to_be_alone(&ensemble, E::ALONE).await;
}

/// Waits until this is said of the first member. It needs a while to see that it is alone,
/// and says all sorts of things until then.
pub(crate) async fn is_said_to_be_alone<E: Ensemble>(ensemble: &E, part: &str) {
    let (url, deadline) = (ensemble.url_to(0), Instant::now() + LONG);
    loop {
        let connecting = leasehold::connect(&url);
        let connected = tokio::time::timeout(LONG, connecting).await;
        let told = connected.expect("it gives up").map(drop);
        match told {
            Err(error) if error.to_string().contains(part) => {
                return assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            }
            told => assert!(Instant::now() < deadline, "{told:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
