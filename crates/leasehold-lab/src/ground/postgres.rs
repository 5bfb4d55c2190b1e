//! One PostgreSQL server.

use std::path::Path;

use rustix::process::Signal;

use super::{Contents, Ground};
use crate::story::Error;
use testbed::postgres::{Postgres, SUPERUSER, lacks_postgres};

#[derive(Debug)]
struct Server(Postgres);

pub(super) fn lacks() -> Option<&'static str> {
    lacks_postgres()
}

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    Ok(Box::new(Server(Postgres::start(folder, &[]))))
}

/// All rows of our tables, by the name of their table.
pub(super) fn rows(server: &Postgres) -> Result<Contents, String> {
    let tables =
        "select table_name from information_schema.tables where table_schema = 'leasehold'";
    let mut rows = Vec::new();
    for table in server.try_sql(tables)?.lines() {
        let count = server.try_sql(&format!("select count(*) from leasehold.{table}"))?;
        rows.extend((0..count.parse().unwrap_or(0)).map(|_: usize| table.to_owned()));
    }
    // One of a session that did not end well is swept a minute after its end.
    Ok(Contents::of(rows).without(&["session"]))
}

impl Ground for Server {
    fn ports(&self) -> Vec<u16> {
        vec![self.0.port]
    }

    fn url(&self, ports: &[u16], ttl_millis: u64) -> String {
        let places = super::places(ports);
        format!("postgres://{SUPERUSER}@{places}/postgres?ttl={ttl_millis}ms")
    }

    fn contents(&self) -> Result<Contents, String> {
        rows(&self.0)
    }

    fn kill(&mut self, _: usize) {
        self.0.kill();
    }

    fn start_again(&mut self, _: usize) {
        self.0.restart();
    }

    fn pause(&mut self, _: usize) {
        self.0.signal_all(Signal::STOP);
    }

    fn resume(&mut self, _: usize) {
        self.0.signal_all(Signal::CONT);
    }
}
