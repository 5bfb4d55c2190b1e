//! `leasehold bench`: how fast this store is through leasehold, and how fast it
//! is without, in one interleaved run. Machines are noisy: read the ratios.

mod contend;
#[cfg(feature = "etcd")]
mod etcd;
mod floor;
mod gate;
mod held;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod meter;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod processor;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redlock;
mod report;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod session;
#[cfg_attr(not(feature = "redis"), allow(dead_code))]
pub(crate) mod slice;
mod startup;
mod tasks;
mod worker;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::time::Duration;

use crate::exit::{self, Failure};
use crate::store;
use clap::Args;

use report::Report;

/// Measure the store through leasehold and without it.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How much to measure: each part takes about this long
    #[arg(long, default_value = "3s", value_parser = leasehold::parse_duration)]
    pub(crate) r#for: Duration,
    /// Run only the parts whose name contains this
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Measure the processor time of this process and its children too: the server, if
    /// it is on this machine (PostgreSQL, MySQL)
    #[arg(long, value_name = "PID")]
    server: Option<u32>,
    /// Internal: be one of the measured processes
    #[arg(long, hide = true)]
    worker: Option<worker::Role>,
}

/// What every part needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) url: String,
    pub(crate) time: Duration,
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "only these measure it")
    )]
    pub(crate) server: Option<u32>,
}

/// Measures; `url` is the user's, or `None` for a new file in a temporary
/// directory.
pub(crate) async fn bench(
    args: &BenchArgs,
    url: Option<String>,
    json: bool,
) -> Result<u8, Failure> {
    let scratch = Scratch::new();
    // Workers are told by their environment: a URL may have a password in it,
    // and arguments are public.
    let from_environment = std::env::var("LEASEHOLD_URL").ok();
    let url = match (url, from_environment) {
        // The same store, but perhaps with a password.
        (Some(url), Some(full)) if is_same_server(&url, &full) => Some(full),
        (None, Some(full)) => args.worker.map(|_| full),
        (url, _) => url,
    };
    let url = url.unwrap_or_else(|| format!("sqlite:{}", scratch.path("locks.db").display()));
    let setting = Setting {
        url,
        time: args.r#for,
        server: args.server,
    };
    if let Some(role) = &args.worker {
        return worker::work(role, &setting).await;
    }
    let mut report = Report::new(json);
    let wanted = |part: &str| {
        args.only
            .as_ref()
            .is_none_or(|only| part.contains(only.as_str()))
    };
    #[cfg(feature = "redis")]
    if redis::is_meant(&setting.url) {
        redis::bench(&setting, &scratch, &mut report, wanted).await?;
        report.finish()?;
        return Ok(exit::OK);
    }
    #[cfg(feature = "redis")]
    if redlock::is_meant(&setting.url) {
        redlock::bench(&setting, &scratch, &mut report, wanted).await?;
        report.finish()?;
        return Ok(exit::OK);
    }
    #[cfg(feature = "etcd")]
    if etcd::is_meant(&setting.url) {
        etcd::bench(&setting, &scratch, &mut report, wanted).await?;
        report.finish()?;
        return Ok(exit::OK);
    }
    #[cfg(feature = "zookeeper")]
    if zookeeper::is_meant(&setting.url) {
        zookeeper::bench(&setting, &scratch, &mut report, wanted).await?;
        report.finish()?;
        return Ok(exit::OK);
    }
    #[cfg(feature = "postgres")]
    if postgres::is_meant(&setting.url) {
        postgres::bench(&setting, &scratch, &mut report, wanted).await?;
        report.finish()?;
        return Ok(exit::OK);
    }
    #[cfg(feature = "mysql")]
    if mysql::is_meant(&setting.url) {
        mysql::bench(&setting, &scratch, &mut report, wanted).await?;
        report.finish()?;
        return Ok(exit::OK);
    }
    if wanted("one task") {
        tasks::one_task(&setting, &mut report).await?;
    }
    if wanted("64 tasks, 64 names") {
        tasks::many_names(&setting, &mut report).await?;
    }
    if wanted("16 tasks, one name") {
        tasks::one_name(&setting, &mut report).await?;
    }
    if wanted("8 processes, one name") {
        contend::processes(&setting, &mut report).await?;
    }
    if wanted("10000 held") {
        held::held(&setting, &mut report).await?;
    }
    if wanted("run") {
        startup::startup(&setting, &scratch, &mut report)?;
    }
    if wanted("gate") {
        gate::bench(&setting, &scratch, &mut report).await?;
    }
    report.finish()?;
    Ok(exit::OK)
}

/// Whether both name the same server, the one with a user or a password.
fn is_same_server(url: &str, full: &str) -> bool {
    !url.contains('@') && !url.contains('?') && store::identity(url) == store::identity(full)
}

/// A temporary directory that goes with the benchmark.
#[derive(Debug)]
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = tempfile::Builder::new()
            .prefix("leasehold-bench-")
            .tempdir();
        Self(scratch.expect("there is a temporary directory to write to"))
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}
