//! Processor time per cycle: on a busy machine it says more than the time of day.

use std::time::Duration;

use crate::exit::Failure;

use super::report::{Goal, Report};
use super::slice::Slice;
use super::{Setting, processor, worker};

/// What one of the contenders cost so far.
#[derive(Debug)]
pub(crate) struct Meter {
    who: &'static str,
    server: Option<u32>,
    ours: Duration,
    servers: Duration,
    cycles: f64,
}

impl Meter {
    pub(crate) fn of(who: &'static str, setting: &Setting) -> Self {
        Self {
            who,
            server: setting.server,
            ours: Duration::ZERO,
            servers: Duration::ZERO,
            cycles: 0.0,
        }
    }

    /// Counts what passes while these cycles run.
    pub(crate) async fn around(
        &mut self,
        running: impl Future<Output = Result<Slice, Failure>>,
    ) -> Result<Slice, Failure> {
        let servers_time = || self.server.and_then(processor::time).unwrap_or_default();
        let (ours, servers) = (worker::cpu_time(), servers_time());
        let slice = running.await?;
        let (ours_now, servers_now) = (worker::cpu_time(), servers_time());
        self.ours += ours_now.saturating_sub(ours);
        self.servers += servers_now.saturating_sub(servers);
        self.cycles += slice.cycles();
        Ok(slice)
    }

    pub(crate) fn tell(&self, report: &mut Report, part: &str) -> Result<(), Failure> {
        let per_cycle = |time: Duration| time.as_secs_f64() * 1e6 / self.cycles.max(1.0);
        let what = format!("{}, processor of the client", self.who);
        report.figure(part, &what, per_cycle(self.ours), "us", Goal::None)?;
        if self.server.is_some() {
            let what = format!("{}, processor of the server", self.who);
            report.figure(part, &what, per_cycle(self.servers), "us", Goal::None)?;
        }
        Ok(())
    }
}
