//! `leasehold bench --url redlock://…`: ours, the bare requests to the same
//! nodes, and rslock, in turns. `redlock:` alone measures five servers that are
//! started for it.

mod floor;
mod hung;
mod nodes;
#[cfg(feature = "peers")]
mod rslock;
mod tasks;

use std::time::Duration;

use crate::exit::Failure;

use super::Setting;
use super::report::Report;
use nodes::Nodes;

/// How many rounds the contenders take turns for.
const ROUNDS: u32 = 15;

/// Whether the URL is for this benchmark.
pub(crate) fn is_meant(url: &str) -> bool {
    url == "redlock" || url.starts_with("redlock:")
}

pub(crate) async fn bench(
    setting: &Setting,
    scratch: &super::Scratch,
    report: &mut Report,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let is_bare = matches!(&*setting.url, "redlock" | "redlock:" | "redlock://");
    let nodes = match is_bare {
        true => Nodes::start(scratch)?,
        false => Nodes::of(&setting.url),
    };
    // Ours first: its errors are made for people.
    let session = leasehold::connect(&nodes.url).await?;
    session.close().await;
    if wanted("one task") {
        tasks::one_task(setting, &nodes, report).await?;
    }
    if wanted("64 tasks, 64 names") {
        tasks::many_names(setting, &nodes, report).await?;
    }
    if wanted("one of five hangs") {
        hung::hung(setting, nodes, scratch, report).await?;
    }
    Ok(())
}

/// How long one contender of so many has its turn.
fn turn(setting: &Setting, contenders: u32) -> Duration {
    (setting.time / ROUNDS / contenders).max(Duration::from_millis(40))
}
