//! Servers as they present themselves: when we meet, and to people.

use std::sync::Arc;
use std::time::Duration;

use super::Facts;
use super::config::ZookeeperConfig;
use super::fault::{CONNECT, Refusal};
use super::session::Session;
use super::wire::Request;
use super::words::{self, Said};
use crate::engine::{Finding, Severity};
use crate::error::{Error, ErrorKind, Result};

/// Looks whether the server is new enough, whether it lets us in, and what it
/// can do.
pub(super) async fn meet(config: &Arc<ZookeeperConfig>) -> Result<Facts, Refusal> {
    // Whoever asks for next to nothing gets the least there is.
    let opened = Session::open(config, Duration::from_millis(1)).await;
    let session = match opened {
        // An old server may not even understand why it should not answer so.
        Err(Refusal::Garbled) if is_too_old(&config.servers[0]).await => {
            return Err(Refusal::Unknown);
        }
        opened => opened?.be_patient(),
    };
    let mode = match words::srvr(session.server()).await {
        Ok(Said::Serves { version, .. }) if !words::is_new_enough(&version) => {
            return Err(Refusal::Unknown);
        }
        Ok(Said::Serves { mode, .. }) => mode,
        Ok(_) | Err(_) => String::new(),
    };
    let is_alone = config.servers.len() == 1 && mode == "standalone";
    let path = match config.chroot.as_str() {
        "" => "/".to_owned(),
        chroot => chroot.to_owned(),
    };
    let met = session.ask_one(Request::Children { path, watch: false });
    let met = met.await;
    let _ = session.ask_one(Request::Close).await;
    met?;
    Ok(Facts {
        is_alone,
        shortest: session.timeout,
        // The least timeout is two ticks, and followers report twice a tick.
        flush: session.timeout / 4,
    })
}

async fn is_too_old(server: &str) -> bool {
    let said = words::srvr(server).await;
    matches!(said, Ok(Said::Serves { version, .. }) if !words::is_new_enough(&version))
}

pub(super) fn first_fault(why: Refusal, config: &ZookeeperConfig, label: &str) -> Error {
    match why {
        Refusal::NoNode => {
            let chroot = &config.chroot;
            let why = format!("the chroot {chroot} does not exist; create it, or name another");
            Error::new(ErrorKind::Config, CONNECT, why).on(label)
        }
        why => why.fault(CONNECT, label),
    }
}

/// What is to be said of a server.
pub(super) fn judge(server: &str, said: Result<Said, Refusal>) -> Finding {
    let (severity, what, remedy) = match said {
        Ok(Said::Serves { version, mode }) if !words::is_new_enough(&version) => (
            Severity::Unfit,
            format!("{server}: ZooKeeper {version}, {mode}"),
            "run ZooKeeper 3.5 or newer",
        ),
        Ok(Said::Serves { version, mode }) if mode == "read-only" => (
            Severity::Unfit,
            format!("{server}: ZooKeeper {version}, {mode}: nothing can be locked through it"),
            "start a majority of the servers",
        ),
        Ok(Said::Serves { version, mode }) => (
            Severity::Fine,
            format!("{server}: ZooKeeper {version}, {mode}"),
            "",
        ),
        Ok(Said::ServesNobody) => (
            Severity::Unfit,
            format!("{server} has no majority: nothing can be locked through it"),
            "start a majority of the servers",
        ),
        Ok(Said::Nothing) => (
            Severity::Warning,
            format!("{server} does not say what it is"),
            "allow the command: 4lw.commands.whitelist=srvr",
        ),
        Err(why) => (
            Severity::Warning,
            format!("{server} does not answer: {why}"),
            "look after it: one more, and the rest may be too few",
        ),
    };
    Finding {
        severity,
        what,
        remedy: remedy.to_owned(),
    }
}
