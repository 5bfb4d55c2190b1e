//! Holders that are killed wherever they are: what was accepted stays, and what
//! was not does not come later.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::{ErrorKind, Fence};

use crate::fence::holder::{Ground, Holder};
use crate::fence::resource::Resource;
use crate::fence::sql::fence;

const KIND: &str = "LEASEHOLD_TEST_CRASH";
const PLACE: &str = "LEASEHOLD_TEST_PLACE";
const FENCE: &str = "LEASEHOLD_TEST_FENCE";
const ROUNDS: u64 = 25;
/// More than anybody writes before it is killed.
const MANY: u64 = 1_000_000;

/// Whether this process is to write until it is killed.
pub(crate) fn is_one() -> bool {
    std::env::var_os(KIND).is_some()
}

/// Counts in the resource, and says how far it got.
pub(crate) async fn count() {
    let variable = |name| std::env::var(name).unwrap();
    let fence: Fence = variable(FENCE).parse().unwrap();
    let claimed = Resource::claim(&variable(KIND), &variable(PLACE), fence).await;
    let mut resource = claimed.unwrap();
    let begin = number(&mut resource).await;
    for number in begin + 1..begin + MANY {
        resource.write(&number.to_string()).await.unwrap();
        println!("{number}");
    }
}

async fn number(resource: &mut Resource) -> u64 {
    let text = resource.read().await.unwrap();
    match text.as_str() {
        "" => 0,
        number => number.parse().unwrap(),
    }
}

/// Each is killed after a few writes, or before its first, at a moment that
/// nobody chose.
pub(crate) async fn whoever_is_killed_anywhere_loses_nothing_and_leaves_nothing(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let ground = Ground::new(kind, folder.path()).await;
    let mut known = 0;
    for round in 1..=ROUNDS {
        let killed = fence(2 * round, round);
        let said = killed_after(kind, &ground.place, killed, round).await;
        let said = said.unwrap_or(known);
        let next = fence(2 * round + 1, round);
        let mut resource = Resource::claim(kind, &ground.place, next).await.unwrap();
        let found = number(&mut resource).await;
        // The last one may have been written without being told.
        assert!((said..=said + 1).contains(&found), "{found} after {said}");
        let late = Resource::claim(kind, &ground.place, killed).await;
        let late = late.err().map(|error| error.kind());
        assert!(matches!(late, Some(ErrorKind::Stale(_))), "{late:?}");
        let mut resource = Resource::claim(kind, &ground.place, next).await.unwrap();
        assert_eq!(number(&mut resource).await, found, "something came late");
        known = found;
    }
    assert!(known > 0, "nobody has written anything");
}

/// The last number that it said.
async fn killed_after(kind: &str, place: &str, fence: Fence, round: u64) -> Option<u64> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(KIND, kind).env(PLACE, place);
    command.env(FENCE, fence.to_string()).stdout(Stdio::piped());
    let mut holder = Holder(command.spawn().unwrap());
    let mut said = BufReader::new(holder.0.stdout.take().unwrap()).lines();
    let mut last = None;
    // Every fourth is killed while it begins, a little later each time.
    match round % 4 {
        0 => tokio::time::sleep(Duration::from_millis(round)).await,
        few => {
            for _ in 0..few {
                last = Some(said.next().unwrap().unwrap().parse().unwrap());
            }
        }
    }
    holder.0.kill().unwrap();
    holder.0.wait().unwrap();
    said.map(|line| line.unwrap().parse().unwrap())
        .last()
        .or(last)
}
