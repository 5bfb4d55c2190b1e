//! A Redis primary with two replicas and three Sentinels. The one server that
//! faults happen to is whoever is the primary.

use std::path::Path;
use std::time::Duration;

use super::Ground;
use crate::crew::until;
use crate::server::{RedisServer, Sentinel, lacks_sentinel};
use crate::story::Error;

/// How long Sentinels may take for it.
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Watched {
    sentinel: Sentinel,
    /// The one that stands still.
    paused: Option<u16>,
}

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    if let Some(what) = lacks_sentinel() {
        return Err(format!("{what} is missing on this machine").into());
    }
    Ok(Box::new(Watched {
        sentinel: Sentinel::start(folder, &[]),
        paused: None,
    }))
}

impl Watched {
    /// Sentinels let a primary that comes back go on for some seconds before they
    /// tell it that another has taken over. Until then there are two.
    fn wait_until_one_leads(&self) {
        until(LONGEST, || {
            let agreed = self.sentinel.primary_port();
            let leads = |server: &&RedisServer| server.info("role").as_deref() == Some("master");
            let leading = self.sentinel.servers().iter().filter(leads);
            leading.map(RedisServer::port).eq([agreed])
        });
    }
}

impl Ground for Watched {
    // Sentinels tell where the servers are, so nothing can be put between.
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    fn servers(&self) -> usize {
        1
    }

    fn url(&self, _: &[u16], ttl_millis: u64) -> String {
        format!("{}?ttl={ttl_millis}ms", self.sentinel.url())
    }

    fn kill(&mut self, _: usize) {
        self.sentinel.kill_primary();
    }

    fn start_again(&mut self, _: usize) {
        self.sentinel.restart_killed();
        self.wait_until_one_leads();
    }

    // None of them keeps anything on disk.
    fn forget(&mut self, _: usize) -> bool {
        false
    }

    fn pause(&mut self, _: usize) {
        let primary = self.sentinel.primary();
        primary.stop();
        self.paused = Some(primary.port());
    }

    fn resume(&mut self, _: usize) {
        let paused = self.paused.take();
        let mut servers = self.sentinel.servers().iter();
        if let Some(server) = servers.find(|server| Some(server.port()) == paused) {
            server.resume();
        }
        self.wait_until_one_leads();
    }

    fn takes_over(&self) -> bool {
        true
    }

    fn depose(&mut self) -> Result<usize, String> {
        self.sentinel.kill_primary();
        self.sentinel.wait_for_new_primary();
        Ok(0)
    }
}
