//! One MariaDB server.

use std::path::Path;

use rustix::process::Signal;

use super::{Contents, Ground};
use crate::story::Error;
use testbed::mysql::{DATABASE, Mysql, lacks_mysql};

#[derive(Debug)]
struct Server(Mysql);

pub(super) fn lacks() -> Option<&'static str> {
    lacks_mysql()
}

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    Ok(Box::new(Server(Mysql::start(folder, &[]))))
}

impl Ground for Server {
    fn ports(&self) -> Vec<u16> {
        vec![self.0.port]
    }

    fn url(&self, ports: &[u16], ttl_millis: u64) -> String {
        let places = super::places(ports);
        format!("mysql://root@{places}/{DATABASE}?ttl={ttl_millis}ms")
    }

    fn contents(&self) -> Result<Contents, String> {
        let mut rows = Vec::new();
        for table in self.0.sql("show tables").lines() {
            let count = self.0.sql(&format!("select count(*) from `{table}`"));
            rows.extend((0..count.parse().unwrap_or(0)).map(|_: usize| table.to_owned()));
        }
        // One of a session that did not end well is swept a minute after its end.
        Ok(Contents::of(rows).without(&["leasehold_session"]))
    }

    fn kill(&mut self, _: usize) {
        self.0.kill();
    }

    fn start_again(&mut self, _: usize) {
        self.0.restart();
    }

    fn pause(&mut self, _: usize) {
        self.0.signal(Signal::STOP);
    }

    fn resume(&mut self, _: usize) {
        self.0.signal(Signal::CONT);
    }
}
