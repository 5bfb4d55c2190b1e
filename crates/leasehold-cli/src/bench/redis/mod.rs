//! `leasehold bench --url redis://…`: the same measurements ours and bare, in
//! turns over one server that somebody else started.

pub(crate) mod floor;
mod handover;
mod held;
mod peers;
pub(crate) mod server;
mod sessions;
pub(crate) mod tasks;

use std::time::Duration;

use crate::exit::{self, Failure};
use crate::store;

use super::report::Report;
pub(crate) use super::slice;
use super::{Setting, contend, startup};
pub(crate) use held::keep;
use server::Server;

/// How many rounds the contenders take turns for.
const ROUNDS: u32 = 15;

/// What the parts on this store need to know.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) server: Server,
}

impl Bench<'_> {
    /// How long one contender of so many has its turn. A slice must be long
    /// enough for cycles to end in it.
    fn turn(&self, contenders: u32) -> Duration {
        (self.setting.time / ROUNDS / contenders).max(Duration::from_millis(40))
    }
}

/// Whether the URL is for this benchmark.
pub(crate) fn is_meant(url: &str) -> bool {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    scheme.starts_with("redis") || scheme == "unix"
}

pub(crate) async fn bench(
    setting: &Setting,
    scratch: &super::Scratch,
    report: &mut Report,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    if setting
        .url
        .split_once(':')
        .is_some_and(|(scheme, _)| scheme.contains('+'))
    {
        let why =
            "bench compares with a bare client of one server; give redis://, rediss:// or unix:";
        return Err(Failure::usage(why));
    }
    // Ours first: its errors are made for people.
    let session = leasehold::connect(&setting.url).await?;
    session.close().await;
    let bench = Bench {
        setting,
        server: Server::open(&setting.url).await?,
    };
    if wanted("one task") {
        tasks::one_task(&bench, report).await?;
    }
    if wanted("64 tasks, 64 names") {
        tasks::many_names(&bench, report).await?;
    }
    if wanted("64 tasks, one name") {
        tasks::one_name(&bench, report).await?;
    }
    if wanted("16 sessions, one name") {
        sessions::one_name(&bench, report).await?;
    }
    for waiting in [10, 100, 1000] {
        if wanted(&format!("{waiting} sessions wait")) {
            handover::waiting(&bench, waiting, report).await?;
        }
    }
    if wanted("10000 held") {
        held::held(&bench, report).await?;
    }
    if wanted("8 processes, one name") {
        contend::processes(setting, report).await?;
    }
    if wanted("run") {
        startup::startup(setting, scratch, report)?;
    }
    Ok(())
}

/// The server's own words have no password in them; neither has the identity.
pub(crate) fn fault(url: &str) -> impl Fn(redis::RedisError) -> Failure {
    let store = store::identity(url);
    move |error| {
        let message = format!("benchmark the bare client on {store}: {error}");
        Failure::new(exit::UNAVAILABLE, message)
    }
}
