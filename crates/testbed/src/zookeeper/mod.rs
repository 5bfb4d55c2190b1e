//! ZooKeeper servers of our own: one or three, as child processes on free ports
//! of 127.0.0.1, in folders that the test gives.

mod client;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use client::{Client, Refused};

use crate::process::runs;
use crate::{LONGEST, Process, free_port, need, wait_for};

const JARS: &[&str] = &[
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/slf4j-nop.jar",
];

/// The name of what is missing, if something is.
pub fn lacks_zookeeper() -> Option<&'static str> {
    static LACKS: OnceLock<Option<&'static str>> = OnceLock::new();
    *LACKS.get_or_init(|| {
        let is_missing = |jar: &&&str| !Path::new(jar).is_file();
        match runs("java", &["-version"]) {
            true => JARS.iter().find(is_missing).copied(),
            false => Some("java"),
        }
    })
}

/// A running ensemble of one server or more.
#[derive(Debug)]
pub struct Zookeeper {
    pub servers: Vec<Server>,
}

/// One server.
#[derive(Debug)]
pub struct Server {
    process: Process,
    pub port: u16,
    /// Its configuration and its data.
    pub folder: PathBuf,
    options: Vec<String>,
}

impl Zookeeper {
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, 1, "", &[])
    }

    pub fn start_three(folder: &Path) -> Self {
        Self::start_with(folder, 3, "", &[])
    }

    /// Starts so many servers, with these lines in their configuration and these
    /// options of Java.
    pub fn start_with(folder: &Path, count: usize, lines: &str, options: &[&str]) -> Self {
        need(lacks_zookeeper());
        // Another test may take a port first; then there are others.
        for attempt in 0..10 {
            let folder = folder.join(format!("attempt-{attempt}"));
            let servers = servers(&folder, count, lines, options);
            let mut zookeeper = Self { servers };
            if zookeeper.is_up() {
                return zookeeper;
            }
        }
        panic!("ZooKeeper does not start in {}", folder.display());
    }

    /// `zk://…` with all servers.
    pub fn url(&self) -> String {
        self.url_from(0)
    }

    /// The same, with this one first.
    pub fn url_from(&self, first: usize) -> String {
        let count = self.servers.len();
        let order = (0..count).map(|number| (first + number) % count);
        let places: Vec<_> = order.map(|number| self.servers[number].place()).collect();
        format!("zk://{}", places.join(","))
    }

    /// Which server leads, as a living one says.
    pub fn leader(&self) -> usize {
        wait_for("a leader", || {
            let mut servers = self.servers.iter();
            servers.position(|server| server.mode().as_deref() == Some("leader"))
        })
    }

    pub fn follower(&self) -> usize {
        (self.leader() + 1) % self.servers.len()
    }

    /// A client of the first server that takes one.
    pub fn client(&self) -> Client {
        wait_for("a client", || {
            let mut servers = self.servers.iter();
            servers.find_map(|server| Client::connect(server.port).ok())
        })
    }

    /// Deletes every node.
    pub fn wipe(&self) {
        let mut client = self.client();
        for child in client.children("/").expect("there is a root") {
            if child != "zookeeper" {
                client.delete_all(&format!("/{child}"));
            }
        }
    }

    fn is_up(&mut self) -> bool {
        let deadline = Instant::now() + LONGEST;
        while Instant::now() < deadline {
            if self.servers.iter_mut().any(|s| s.process.has_ended()) {
                return false;
            }
            if self.servers.iter().all(|server| server.mode().is_some()) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

fn servers(folder: &Path, count: usize, lines: &str, options: &[&str]) -> Vec<Server> {
    let ports: Vec<_> = (0..count).map(|_| free_port()).collect();
    // One port for the leader's business, one for elections.
    let peers: Vec<_> = (0..count).map(|_| (free_port(), free_port())).collect();
    let mut ensemble = String::new();
    if count > 1 {
        ensemble.push_str("initLimit=50\nsyncLimit=15\n");
        for (number, (peer, election)) in peers.iter().enumerate() {
            let id = number + 1;
            ensemble.push_str(&format!("server.{id}=127.0.0.1:{peer}:{election}\n"));
        }
    }
    let server = |(number, port): (usize, &u16)| {
        let folder = folder.join(format!("z{number}"));
        std::fs::create_dir_all(folder.join("data")).expect("there is room for a folder");
        std::fs::write(folder.join("data/myid"), (number + 1).to_string()).expect("it is writable");
        let data = folder.join("data");
        // Ticks are short for the elections; sessions last as long as a test wants.
        let configuration = format!(
            "tickTime=200\nmaxSessionTimeout=4000000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr,cons\n\
             {ensemble}{lines}\n",
            data.display()
        );
        std::fs::write(folder.join("zoo.cfg"), configuration).expect("it is writable");
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        Server {
            process: start(&folder, &options),
            port: *port,
            folder,
            options,
        }
    };
    ports.iter().enumerate().map(server).collect()
}

fn start(folder: &Path, options: &[String]) -> Process {
    let java = [
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
    ];
    let java = java.iter().map(|&option| option.to_owned());
    let rest = [
        "-cp".to_owned(),
        JARS.join(":"),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned(),
        folder.join("zoo.cfg").display().to_string(),
    ];
    let arguments = java.chain(options.iter().cloned()).chain(rest);
    Process::start(Path::new("java"), arguments)
}

impl Server {
    pub fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("zk://{}", self.place())
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts a killed server again, with the data that it has.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = start(&self.folder, &self.options);
    }

    /// The same, and waits until it serves.
    pub fn restart(&mut self) {
        self.start_again();
        wait_for("a server that is up again", || self.mode().map(drop));
    }

    /// Lets the server stand still.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Lets a server go on that stands still.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// What it is, if it serves.
    pub fn mode(&self) -> Option<String> {
        let said = self.says("srvr")?;
        let mut lines = said.lines().filter_map(|line| line.strip_prefix("Mode: "));
        lines.next().map(str::to_owned)
    }

    /// Whether the session is on this server.
    pub fn has_session(&self, session: i64) -> bool {
        let sign = format!("sid=0x{session:x},");
        self.says("cons").is_some_and(|said| said.contains(&sign))
    }

    /// How many requests it has had.
    pub fn received(&self) -> u64 {
        let said = self.says("srvr").expect("it answers");
        let mut lines = said
            .lines()
            .filter_map(|line| line.strip_prefix("Received: "));
        lines
            .next()
            .and_then(|count| count.parse().ok())
            .expect("it is told")
    }

    fn says(&self, word: &str) -> Option<String> {
        let mut stream = connect(self.port).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let address = ([127, 0, 0, 1], port).into();
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    Ok(stream)
}
