//! The nodes: somebody else's, or five servers of our own, which a benchmark
//! may stop.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::Scratch;
use crate::bench::redis::server::Server;
use crate::exit::{self, Failure};

const PROGRAM: &str = "redis-server";
const COUNT: usize = 5;

#[derive(Debug)]
pub(crate) struct Nodes {
    /// As leasehold is told of them.
    pub(crate) url: String,
    /// Ours, if they are. Killed when this is dropped.
    processes: Vec<Process>,
}

#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Nodes {
    /// The nodes that somebody else started.
    pub(crate) fn of(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            processes: Vec::new(),
        }
    }

    /// Starts five servers in the temporary folder.
    pub(crate) fn start(scratch: &Scratch) -> Result<Self, Failure> {
        let (mut processes, mut places) = (Vec::new(), Vec::new());
        for number in 0..COUNT {
            let folder = scratch.path(&format!("node-{number}"));
            std::fs::create_dir_all(&folder)
                .map_err(|error| Failure::system("make a folder for a server", error))?;
            let (process, port) = start(&folder)?;
            processes.push(process);
            places.push(format!("127.0.0.1:{port}"));
        }
        Ok(Self {
            url: format!("redlock://{}", places.join(",")),
            processes,
        })
    }

    /// Whether we started them, so that we may stop one.
    pub(crate) fn are_ours(&self) -> bool {
        !self.processes.is_empty()
    }

    /// The same nodes for leasehold, with an option.
    pub(crate) fn url_with(&self, option: &str) -> String {
        let sign = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{sign}{option}", self.url)
    }

    /// Each node as a client of one server is told of it.
    pub(crate) fn urls(&self) -> Vec<String> {
        let place = self
            .url
            .split_once('?')
            .map_or(&*self.url, |(place, _)| place);
        let place = place.strip_prefix("redlock:").unwrap_or(place);
        let nodes = place.strip_prefix("//").unwrap_or(place).split(',');
        let full = |node: &str| {
            let has_way = ["redis://", "rediss://", "unix:"]
                .into_iter()
                .any(|way| node.starts_with(way));
            match has_way {
                true => node.to_owned(),
                false => format!("redis://{node}"),
            }
        };
        nodes.map(full).collect()
    }

    pub(crate) async fn servers(&self) -> Result<Vec<Server>, Failure> {
        let mut servers = Vec::new();
        for url in self.urls() {
            servers.push(Server::open(&url).await?);
        }
        Ok(servers)
    }

    /// The first node stands still, or goes on.
    pub(crate) fn signal_first(&self, signal: Signal) {
        if let Some(Process(child)) = self.processes.first() {
            let _ = kill(Pid::from_raw(child.id().cast_signed()), signal);
        }
    }
}

fn start(folder: &std::path::Path) -> Result<(Process, u16), Failure> {
    let failed = |error: std::io::Error| Failure::system("start redis-server", error);
    // Somebody else may take the port first; then there is another one.
    for _ in 0..20 {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        drop(listener);
        let child = Command::new(PROGRAM)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--daemonize", "no", "--port", &port.to_string(), "--dir"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut process = Process(child.map_err(failed)?);
        if answers(&mut process, port) {
            return Ok((process, port));
        }
    }
    let why = "start redis-server: it does not answer";
    Err(Failure::new(exit::SYSTEM, why))
}

fn answers(process: &mut Process, port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if !matches!(process.0.try_wait(), Ok(None)) {
            return false;
        }
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_a_url_of_its_own() {
        let nodes = Nodes::of("redlock://a:7000,ann:x@b/3,rediss://c,unix:/run/r.sock?ttl=5s");
        assert_eq!(
            nodes.urls(),
            [
                "redis://a:7000",
                "redis://ann:x@b/3",
                "rediss://c",
                "unix:/run/r.sock"
            ]
        );
        assert!(nodes.url_with("tokens=off").ends_with("?ttl=5s&tokens=off"));
    }
}
