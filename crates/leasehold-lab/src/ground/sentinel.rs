//! A Redis primary with two replicas and three Sentinels. The one server that
//! faults happen to is whoever is the primary.

use std::path::Path;
use std::time::Duration;

use super::lookout::Lookout;
use super::redis::raw_keys;
use super::{Contents, Ground};
use crate::crew::until;
use crate::history::Moment;
use crate::story::Error;
use testbed::redis::{RedisServer, Sentinel, lacks_sentinel};

/// How long Sentinels may take for it.
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Watched {
    // Ended before the servers are.
    lookout: Lookout,
    sentinel: Sentinel,
    /// The one that stands still.
    paused: Option<u16>,
    /// Replicas that stand still.
    behind: Vec<u16>,
}

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    if let Some(what) = lacks_sentinel() {
        return Err(format!("{what} is missing on this machine").into());
    }
    let sentinel = Sentinel::start(folder, &[]);
    let servers = sentinel.servers().iter().map(RedisServer::port).collect();
    Ok(Box::new(Watched {
        lookout: Lookout::start(Sentinel::NAME, sentinel.watcher_ports(), servers),
        sentinel,
        paused: None,
        behind: Vec::new(),
    }))
}

impl Watched {
    fn resume_server(&self, port: u16) {
        let mut servers = self.sentinel.servers().iter();
        if let Some(server) = servers.find(|server| server.port() == port) {
            server.resume();
        }
    }

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

    fn contents(&self) -> Result<Contents, String> {
        Ok(Contents::of(raw_keys(self.sentinel.primary())?))
    }

    fn kill(&mut self, _: usize) {
        self.sentinel.kill_primary();
    }

    fn start_again(&mut self, _: usize) {
        self.sentinel.restart_killed();
        self.wait_until_one_leads();
    }

    fn pause(&mut self, _: usize) {
        let primary = self.sentinel.primary();
        primary.stop();
        self.paused = Some(primary.port());
    }

    fn resume(&mut self, _: usize) {
        if let Some(port) = self.paused.take() {
            self.resume_server(port);
        }
        self.wait_until_one_leads();
    }

    fn takes_over(&self) -> bool {
        true
    }

    fn switches(&mut self) -> Vec<(Moment, Moment)> {
        self.lookout.switches()
    }

    fn fall_behind(&mut self) -> bool {
        let primary = self.sentinel.primary_port();
        let servers = self.sentinel.servers().iter();
        for replica in servers.filter(|server| server.port() != primary) {
            replica.stop();
            self.behind.push(replica.port());
        }
        // What is in the socket of a replica would reach it when it goes on.
        self.sentinel.primary().tell("CLIENT KILL TYPE replica");
        true
    }

    fn may_depose(&self) -> Result<(), String> {
        Ok(())
    }

    fn depose(&mut self) -> Result<usize, String> {
        self.sentinel.kill_primary();
        for port in std::mem::take(&mut self.behind) {
            self.resume_server(port);
        }
        self.sentinel.wait_for_new_primary();
        Ok(0)
    }
}
