//! Three members of etcd.

use std::path::Path;

use super::{Contents, Ground, places};
use crate::story::Error;
use testbed::etcd::{Etcd, Version};

#[derive(Debug)]
struct Members(Etcd);

pub(super) fn lacks() -> Option<&'static str> {
    Version::System.lacks()
}

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    Ok(Box::new(Members(Etcd::start_three(
        folder,
        Version::System,
    ))))
}

impl Ground for Members {
    fn ports(&self) -> Vec<u16> {
        self.0.members.iter().map(|member| member.port()).collect()
    }

    fn url(&self, ports: &[u16], ttl_millis: u64) -> String {
        format!("etcd://{}?ttl={ttl_millis}ms", places(ports))
    }

    fn contents(&self) -> Result<Contents, String> {
        let keys = self.0.ctl(&["get", "", "--from-key", "--keys-only"]);
        // What is written to see whether it can be.
        let keys = keys
            .lines()
            .filter(|key| !key.is_empty() && *key != "leasehold-test");
        let leases = self.0.ctl(&["lease", "list"]);
        // How many there are comes first.
        let leases = leases.lines().skip(1).map(|lease| format!("lease {lease}"));
        Ok(Contents::of(keys.map(str::to_owned).chain(leases)))
    }

    fn kill(&mut self, server: usize) {
        self.0.members[server].kill();
    }

    fn start_again(&mut self, server: usize) {
        self.0.members[server].restart();
    }

    fn start_all_again(&mut self, servers: &[usize]) {
        std::thread::scope(|scope| {
            for (number, member) in self.0.members.iter_mut().enumerate() {
                if servers.contains(&number) {
                    scope.spawn(|| member.restart());
                }
            }
        });
    }

    fn pause(&mut self, server: usize) {
        self.0.members[server].stop();
    }

    fn resume(&mut self, server: usize) {
        self.0.members[server].resume();
    }

    fn vital(&self, _: usize) -> Vec<usize> {
        vec![self.0.leader()]
    }

    fn may_depose(&self) -> Result<(), String> {
        Ok(())
    }

    fn depose(&mut self) -> Result<usize, String> {
        let leader = self.0.leader();
        self.0.members[leader].kill();
        self.0.wait_until_writable();
        Ok(leader)
    }
}
