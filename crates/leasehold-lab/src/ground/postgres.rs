//! One PostgreSQL server.

use std::path::Path;

use rustix::process::Signal;

use super::Ground;
use crate::postgres_server::{Postgres, SUPERUSER, lacks_postgres};
use crate::story::Error;

#[derive(Debug)]
struct Server(Postgres);

pub(super) fn lacks() -> Option<&'static str> {
    lacks_postgres()
}

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    Ok(Box::new(Server(Postgres::start(folder, &[]))))
}

impl Ground for Server {
    fn ports(&self) -> Vec<u16> {
        vec![self.0.port]
    }

    fn url(&self, ports: &[u16], ttl_millis: u64) -> String {
        let places = super::places(ports);
        format!("postgres://{SUPERUSER}@{places}/postgres?ttl={ttl_millis}ms")
    }

    fn kill(&mut self, _: usize) {
        self.0.kill();
    }

    fn start_again(&mut self, _: usize) {
        self.0.restart();
    }

    // A database that loses its data is restored by people, not by locks.
    fn forget(&mut self, _: usize) -> bool {
        false
    }

    fn pause(&mut self, _: usize) {
        self.0.signal_all(Signal::STOP);
    }

    fn resume(&mut self, _: usize) {
        self.0.signal_all(Signal::CONT);
    }
}
