//! A PostgreSQL server and a standby that every commit waits for.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;

use super::postgres::rows;
use super::{Contents, Ground};
use crate::story::Error;
use testbed::postgres::{Postgres, SUPERUSER, command, hand_over, lacks_postgres, program};
use testbed::wait_for;

#[derive(Debug)]
struct Pair {
    servers: [Postgres; 2],
    /// Which of them takes writes.
    leads: usize,
}

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    if let Some(what) = lacks_postgres() {
        return Err(format!("{what} is missing on this machine").into());
    }
    let first = Postgres::start(folder, &["wal_level=replica"]);
    let data = folder.join("standby");
    std::fs::create_dir(&data)?;
    hand_over(&data);
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700))?;
    let program = program("pg_basebackup").ok_or("pg_basebackup is missing on this machine")?;
    let output = command(program)
        .args(["-R", "-X", "stream", "-c", "fast", "-d", &first.url(), "-D"])
        .arg(&data)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let second = Postgres::start_on(data, Vec::new());
    first.sql("alter system set synchronous_standby_names = '*'");
    first.sql("select pg_reload_conf()");
    wait_for("a standby in step", || {
        let state = first.sql("select sync_state from pg_stat_replication");
        (state == "sync").then_some(())
    });
    Ok(Box::new(Pair {
        servers: [first, second],
        leads: 0,
    }))
}

impl Ground for Pair {
    fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|server| server.port).collect()
    }

    fn url(&self, ports: &[u16], ttl_millis: u64) -> String {
        let places = super::places(ports);
        format!("postgres://{SUPERUSER}@{places}/postgres?ttl={ttl_millis}ms")
    }

    fn contents(&self) -> Result<Contents, String> {
        rows(&self.servers[self.leads])
    }

    fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    // Two that take writes would be two stores: who was deposed stays away.
    fn start_again(&mut self, server: usize) {
        if self.leads == 0 || server == self.leads {
            self.servers[server].restart();
        }
    }

    fn pause(&mut self, server: usize) {
        self.servers[server].signal_all(Signal::STOP);
    }

    fn resume(&mut self, server: usize) {
        self.servers[server].signal_all(Signal::CONT);
    }

    fn vital(&self, _: usize) -> Vec<usize> {
        vec![self.leads]
    }

    fn may_depose(&self) -> Result<(), String> {
        match self.leads {
            0 => Ok(()),
            _ => Err("its only standby has been promoted already".into()),
        }
    }

    fn depose(&mut self) -> Result<usize, String> {
        self.servers[0].kill();
        let standby = &self.servers[1];
        standby.try_sql("select pg_promote()")?;
        self.leads = 1;
        Ok(0)
    }
}
