//! etcd servers of our own: one member or three, as child processes on free
//! ports of 127.0.0.1, in folders that the test gives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::process::runs;
use crate::{LONGEST, Process, free_port, need, tools, wait_for};

/// Whether Debian's server runs here.
static SYSTEM: OnceLock<bool> = OnceLock::new();

/// A program that the tests can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Debian's, 3.4.
    System,
    /// The one that `cargo xtask test` brings.
    Etcd35,
}

impl Version {
    fn program(self) -> PathBuf {
        match self {
            Self::System => "etcd".into(),
            Self::Etcd35 => tools().join("servers/etcd-3.5.1/etcd"),
        }
    }

    /// The name of what is missing, if something is.
    pub fn lacks(self) -> Option<&'static str> {
        static CLIENT: OnceLock<bool> = OnceLock::new();
        let has_client = || runs("etcdctl", &["version"]);
        match self {
            Self::System if !*SYSTEM.get_or_init(|| runs("etcd", &["--version"])) => Some("etcd"),
            Self::Etcd35 if !self.program().is_file() => Some("etcd-3.5.1 (cargo xtask tools)"),
            _ => (!*CLIENT.get_or_init(has_client)).then_some("etcdctl"),
        }
    }
}

/// A running cluster of one member or more.
#[derive(Debug)]
pub struct Etcd {
    pub members: Vec<Member>,
}

/// One server.
#[derive(Debug)]
pub struct Member {
    process: Process,
    start: Start,
}

#[derive(Debug, Clone)]
struct Start {
    program: PathBuf,
    port: u16,
    /// `https` if clients need TLS.
    scheme: &'static str,
    arguments: Vec<String>,
}

impl Etcd {
    /// Starts one member.
    pub fn start(folder: &Path, version: Version) -> Self {
        Self::start_with(folder, version, 1, &[])
    }

    /// Starts three members.
    pub fn start_three(folder: &Path, version: Version) -> Self {
        Self::start_with(folder, version, 3, &[])
    }

    /// Starts so many members, each with these options beside.
    pub fn start_with(folder: &Path, version: Version, count: usize, options: &[&str]) -> Self {
        need(version.lacks());
        // Another test may take a port first; then there are others.
        for attempt in 0..10 {
            let folder = folder.join(format!("attempt-{attempt}"));
            let starts = starts(&folder, version, count, options);
            let members = starts.into_iter().map(Start::run).collect();
            let mut etcd = Self { members };
            if etcd.is_up() {
                return etcd;
            }
        }
        panic!("etcd does not start in {}", folder.display());
    }

    /// `etcd://…` with all members.
    pub fn url(&self) -> String {
        let places: Vec<_> = self.members.iter().map(Member::place).collect();
        match self.members[0].start.scheme {
            "https" => format!("etcds://{}", places.join(",")),
            _ => format!("etcd://{}", places.join(",")),
        }
    }

    /// Runs `etcdctl` and gives what it prints.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let mut command = self.etcdctl();
        // By itself it gives up after five seconds, on a busy machine too.
        command.args(["--dial-timeout=10s", "--command-timeout=30s"]);
        let output = command.args(arguments).output();
        let output = output.expect("etcdctl starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {arguments:?}: {text}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `etcdctl` for these members.
    pub fn etcdctl(&self) -> Command {
        let mut command = Command::new("etcdctl");
        let places: Vec<_> = self.members.iter().map(Member::place).collect();
        command
            .env("ETCDCTL_API", "3")
            .env("ETCDCTL_ENDPOINTS", places.join(","))
            .stdin(Stdio::null());
        command
    }

    /// Deletes every key.
    pub fn wipe(&self) {
        self.ctl(&["del", "", "--from-key"]);
    }

    /// Starts one more member that only listens to the others.
    pub fn add_learner(&self, folder: &Path) -> Member {
        let (port, peer) = (free_port(), free_port());
        let peer = format!("http://127.0.0.1:{peer}");
        let name = "learner";
        let added = self.ctl(&[
            "member",
            "add",
            name,
            "--learner",
            &format!("--peer-urls={peer}"),
        ]);
        let peers = added.lines().find_map(|line| {
            let peers = line.strip_prefix("ETCD_INITIAL_CLUSTER=")?;
            Some(peers.trim_matches('"').to_owned())
        });
        let client = format!("http://127.0.0.1:{port}");
        let arguments = vec![
            format!("--name={name}"),
            format!("--data-dir={}", folder.join(name).display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={}", peers.expect("etcdctl names all")),
            "--initial-cluster-state=existing".to_owned(),
            "--log-level=error".to_owned(),
            format!("--listen-metrics-urls=http://127.0.0.1:{}", port + 10_000),
        ];
        let start = Start {
            program: self.members[0].start.program.clone(),
            port,
            scheme: "http",
            arguments,
        };
        let learner = start.run();
        wait_for("a learner with a leader", || {
            let metrics = learner.get("/metrics")?;
            metrics.contains("etcd_server_has_leader 1").then_some(())
        });
        learner
    }

    /// Which member leads, as a living one says.
    pub fn leader(&self) -> usize {
        wait_for("a leader", || {
            let mut members = self.members.iter();
            members.position(|member| member.says_it_leads())
        })
    }

    /// Waits until the living members take writes.
    pub fn wait_until_writable(&self) {
        wait_for("a writable cluster", || {
            let mut command = self.etcdctl();
            command.args(["--command-timeout=1s", "put", "leasehold-test", "x"]);
            let output = command.output().expect("etcdctl starts");
            output.status.success().then_some(())
        });
    }

    fn is_up(&mut self) -> bool {
        let deadline = Instant::now() + LONGEST;
        while Instant::now() < deadline {
            if self.members.iter_mut().any(|m| m.process.has_ended()) {
                return false;
            }
            if self.members.iter().all(Member::is_healthy) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

fn starts(folder: &Path, version: Version, count: usize, options: &[&str]) -> Vec<Start> {
    // A member has one port for clients and one for its peers.
    let ports: Vec<_> = (0..count).map(|_| (free_port(), free_port())).collect();
    let peers = ports.iter().enumerate();
    let peers = peers.map(|(number, (_, peer))| format!("n{number}=http://127.0.0.1:{peer}"));
    let peers: Vec<_> = peers.collect();
    let has_tls = options
        .iter()
        .any(|option| option.starts_with("--cert-file"));
    let scheme = if has_tls { "https" } else { "http" };
    let start = |(number, (port, peer)): (usize, &(u16, u16))| {
        let client = format!("{scheme}://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{peer}");
        let own = [
            format!("--name=n{number}"),
            format!("--data-dir={}", folder.join(format!("n{number}")).display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={}", peers.join(",")),
            "--initial-cluster-state=new".to_owned(),
            "--log-level=error".to_owned(),
            // For looking at health without a certificate.
            format!("--listen-metrics-urls=http://127.0.0.1:{}", port + 10_000),
        ];
        let options = options.iter().map(|&option| option.to_owned());
        Start {
            program: version.program(),
            port: *port,
            scheme,
            arguments: own.into_iter().chain(options).collect(),
        }
    };
    ports.iter().enumerate().map(start).collect()
}

impl Start {
    fn run(self) -> Member {
        Member {
            process: Process::start(&self.program, self.arguments.clone()),
            start: self,
        }
    }
}

impl Member {
    pub fn port(&self) -> u16 {
        self.start.port
    }

    /// `etcd://…` with this member only.
    pub fn url(&self) -> String {
        format!("etcd://{}", self.place())
    }

    fn place(&self) -> String {
        format!("127.0.0.1:{}", self.start.port)
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts a killed server again, with the data that it has.
    pub fn restart(&mut self) {
        self.kill();
        self.process = Process::start(&self.start.program, self.start.arguments.clone());
        wait_for("a member that is up again", || {
            // Another test may have taken its port for a moment.
            if self.process.has_ended() {
                self.process = Process::start(&self.start.program, self.start.arguments.clone());
            }
            self.is_healthy().then_some(())
        });
    }

    /// Lets the server stand still.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Lets a server go on that stands still.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Whether it takes requests, with a majority behind it.
    pub fn is_healthy(&self) -> bool {
        self.get("/health")
            .is_some_and(|text| text.contains("\"true\""))
    }

    fn says_it_leads(&self) -> bool {
        self.metrics().contains("etcd_server_is_leader 1")
    }

    /// How often this method was called, well or badly, as the server counts.
    pub fn calls(&self, method: &str) -> u64 {
        let metrics = self.metrics();
        let method = format!("grpc_method=\"{method}\"");
        let lines = metrics
            .lines()
            .filter(|line| line.starts_with("grpc_server_handled_total") && line.contains(&method));
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        counts.sum()
    }

    fn metrics(&self) -> String {
        self.get("/metrics").unwrap_or_default()
    }

    /// What the server says of itself, over plain HTTP.
    fn get(&self, path: &str) -> Option<String> {
        let port = self.start.port + 10_000;
        let address = ([127, 0, 0, 1], port).into();
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}
