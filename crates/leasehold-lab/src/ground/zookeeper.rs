//! Three servers of ZooKeeper.

use std::path::Path;

use super::{Ground, places};
use crate::story::Error;
use crate::zookeeper_server::{Zookeeper, lacks_zookeeper};

#[derive(Debug)]
struct Ensemble(Zookeeper);

pub(super) fn lacks() -> Option<&'static str> {
    lacks_zookeeper()
}

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    Ok(Box::new(Ensemble(Zookeeper::start_three(folder))))
}

impl Ground for Ensemble {
    fn ports(&self) -> Vec<u16> {
        let places = self.0.servers.iter().map(|server| server.place());
        let ports = places.filter_map(|place| place.rsplit_once(':')?.1.parse().ok());
        ports.collect()
    }

    fn url(&self, ports: &[u16], ttl_millis: u64) -> String {
        format!("zk://{}?ttl={ttl_millis}ms", places(ports))
    }

    fn kill(&mut self, server: usize) {
        self.0.servers[server].kill();
    }

    fn start_again(&mut self, server: usize) {
        self.0.servers[server].start_again();
    }

    // A server that forgot can outvote those that did not; its manual forbids it.
    fn forget(&mut self, _: usize) -> bool {
        false
    }

    fn pause(&mut self, server: usize) {
        self.0.servers[server].stop();
    }

    fn resume(&mut self, server: usize) {
        self.0.servers[server].resume();
    }

    fn depose(&mut self) -> Result<usize, String> {
        let leader = self.0.leader();
        self.0.servers[leader].kill();
        // Another one, since a dead one says nothing.
        self.0.leader();
        Ok(leader)
    }
}
