//! Other lock libraries in the same run: rslock, if this program was built with
//! the feature `peers`, and redis-py, if this machine's Python has it.

mod python;
#[cfg(feature = "peers")]
mod rslock;

use std::time::Duration;

use crate::bench::report::Report;
use crate::exit::Failure;

use super::server::Server;

/// What a peer reached in one slice.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(crate) struct Reached {
    /// Microseconds for a cycle.
    pub(crate) p50: f64,
    /// Cycles per second of all tasks.
    pub(crate) rate: f64,
}

/// Which names the tasks of a peer lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    OneEach,
    OneForAll,
}

pub(crate) const NAMES: [&str; 2] = ["rslock", "redis-py"];

#[derive(Debug)]
pub(crate) struct Peers {
    #[cfg(feature = "peers")]
    rslock: rslock::Rslock,
    python: Option<python::Python>,
}

impl Peers {
    /// Finds out which are there; a line of the report says which are not.
    pub(crate) fn find(part: &str, server: &Server, report: &mut Report) -> Result<Self, Failure> {
        if cfg!(not(feature = "peers")) {
            report.note(part, "rslock is not in this build (feature `peers`)")?;
        }
        let python = python::Python::start(server.url());
        if python.is_none() {
            report.note(
                part,
                "redis-py is not there (`python3 -c 'import redis'` fails)",
            )?;
        }
        Ok(Self {
            #[cfg(feature = "peers")]
            rslock: rslock::Rslock::open(server)?,
            python,
        })
    }

    /// Without redis-py, whose figures here nobody asks for.
    pub(crate) fn rslock_only(
        part: &str,
        #[cfg_attr(not(feature = "peers"), expect(unused_variables))] server: &Server,
        report: &mut Report,
    ) -> Result<Self, Failure> {
        if cfg!(not(feature = "peers")) {
            report.note(part, "rslock is not in this build (feature `peers`)")?;
        }
        Ok(Self {
            #[cfg(feature = "peers")]
            rslock: rslock::Rslock::open(server)?,
            python: None,
        })
    }

    /// A slice of each, in the order of [`NAMES`].
    pub(crate) async fn slices(
        &self,
        names: Names,
        tasks: usize,
        time: Duration,
    ) -> Result<[Option<Reached>; 2], Failure> {
        #[cfg(feature = "peers")]
        let rslock = Some(self.rslock.slice(names, tasks, time).await?);
        #[cfg(not(feature = "peers"))]
        let rslock = None;
        let python = match &self.python {
            Some(python) => python.slice(names, tasks, time).await,
            None => None,
        };
        Ok([rslock, python])
    }
}
