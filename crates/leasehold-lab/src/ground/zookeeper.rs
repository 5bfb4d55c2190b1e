//! Three servers of ZooKeeper.

use std::path::Path;

use super::{Contents, Ground, places};
use crate::story::Error;
use testbed::zookeeper::{Zookeeper, lacks_zookeeper};

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

    fn contents(&self) -> Result<Contents, String> {
        let mut client = self.0.client();
        let mut paths = Vec::new();
        let mut open = vec![String::new()];
        while let Some(path) = open.pop() {
            // One that is gone by now has none.
            let children = client.children(if path.is_empty() { "/" } else { &path });
            let children = children.unwrap_or_default().into_iter();
            let children = children.map(|child| format!("{path}/{child}"));
            let ours = children.filter(|child| child != "/zookeeper");
            open.extend(ours.inspect(|child| paths.push(child.clone())));
        }
        Ok(Contents::of(paths))
    }

    fn kill(&mut self, server: usize) {
        self.0.servers[server].kill();
    }

    fn start_again(&mut self, server: usize) {
        self.0.servers[server].start_again();
    }

    fn pause(&mut self, server: usize) {
        self.0.servers[server].stop();
    }

    fn resume(&mut self, server: usize) {
        self.0.servers[server].resume();
    }

    fn vital(&self, _: usize) -> Vec<usize> {
        vec![self.0.leader()]
    }

    fn may_depose(&self) -> Result<(), String> {
        Ok(())
    }

    fn depose(&mut self) -> Result<usize, String> {
        let leader = self.0.leader();
        self.0.servers[leader].kill();
        // Another one, since a dead one says nothing.
        self.0.leader();
        Ok(leader)
    }
}
