//! One Redis server.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, IntoConnectionInfo, RedisResult, Value};

use super::versions::{Version, lacks_clock, lacks_version};
use super::{PROGRAM, lacks_redis};
use crate::tls::Certificates;
use crate::{LONGEST, Process, free_port, need, tools};

/// The socket file of a server that has no open TCP port, in its folder.
const SOCKET: &str = "redis.sock";

/// A running server.
#[derive(Debug)]
pub struct RedisServer {
    process: Process,
    port: u16,
    start: Start,
}

/// How clients reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Tcp,
    Tls,
    Unix,
}

/// All that is needed to start a server, also once more.
#[derive(Debug, Clone)]
struct Start {
    program: PathBuf,
    way: Way,
    folder: PathBuf,
    options: Vec<String>,
    /// If the server's wall clock can be moved, the file that says how far.
    clock: Option<PathBuf>,
}

impl RedisServer {
    /// Starts one without persistence, with these options beside.
    pub fn start(folder: &Path, options: &[&str]) -> Self {
        need(lacks_redis());
        Start::new(PROGRAM.as_ref(), Way::Tcp, folder, options).run()
    }

    /// Starts one of another version than the system's.
    pub fn start_version(version: Version, folder: &Path, options: &[&str]) -> Self {
        need(lacks_version(version));
        Start::new(&version.program(), Way::Tcp, folder, options).run()
    }

    /// Starts one that listens on a socket file in the folder, on no port.
    pub fn start_unix(folder: &Path, options: &[&str]) -> Self {
        need(lacks_redis());
        Start::new(PROGRAM.as_ref(), Way::Unix, folder, options).run()
    }

    /// Starts one that takes TLS only, and only clients with a certificate if
    /// it asks them.
    pub fn start_tls(folder: &Path, certificates: &Certificates, asks: bool) -> Self {
        need(lacks_redis());
        let options = certificates.server_options(asks);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Start::new(PROGRAM.as_ref(), Way::Tls, folder, &options).run()
    }

    /// Starts one whose wall clock can be moved.
    pub fn start_with_clock(folder: &Path, options: &[&str]) -> Self {
        need(lacks_redis().or(lacks_clock()));
        let clock = folder.join("clock");
        std::fs::write(&clock, 0_i64.to_ne_bytes()).expect("there is room for a file");
        let start = Start::new(PROGRAM.as_ref(), Way::Tcp, folder, options);
        let clock = Some(clock);
        Start { clock, ..start }.run()
    }

    /// From now on the server's wall clock is so many milliseconds ahead.
    pub fn set_ahead(&self, millis: i64) {
        let clock = self.start.clock.as_ref().expect("its clock can be moved");
        // Written in place: the server has the file's memory before it.
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(clock)
            .expect("it was made");
        std::io::Write::write_all(&mut file, &millis.to_ne_bytes()).expect("there is room");
    }

    pub fn url(&self) -> String {
        match self.start.way {
            Way::Tcp => format!("redis://127.0.0.1:{}", self.port),
            Way::Tls => format!("rediss://127.0.0.1:{}", self.port),
            Way::Unix => format!("unix:{}", self.start.socket().display()),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Forgets every key and every script.
    pub fn wipe(&self) {
        self.command(&["FLUSHALL"]);
        self.command(&["SCRIPT", "FLUSH"]);
    }

    /// Kills the server with SIGKILL and starts it anew on the same port.
    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Starts a server that was killed, on the same port and with its files.
    pub fn start_again(&mut self) {
        self.process = self.start.spawn(self.port);
        assert!(self.answers(), "it starts again");
    }

    /// The same, but returns while it still reads its files.
    pub fn restart_loading(&mut self) {
        self.kill();
        self.process = self.start.spawn(self.port);
        assert!(self.answers_with("\nloading:1\r"), "it loads");
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Lets the server stand still: it takes connections and answers nothing.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Lets a server go on that stands still.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Sends one command whose arguments have no spaces, and gives the answer
    /// as text; an error as `-` and its text.
    pub fn tell(&self, command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        match self.ask(&words) {
            Ok(value) => text(&value),
            Err(error) => {
                let (code, detail) = (error.code(), error.detail());
                format!("-{} {}", code.unwrap_or("ERR"), detail.unwrap_or_default())
            }
        }
    }

    /// Sends one command, however its arguments look.
    pub fn command(&self, words: &[&str]) -> Value {
        self.ask(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Sends one command that may be refused.
    pub fn ask(&self, words: &[&str]) -> RedisResult<Value> {
        let address = match self.start.way {
            Way::Tcp => ConnectionAddr::Tcp("127.0.0.1".into(), self.port),
            Way::Tls | Way::Unix => ConnectionAddr::Unix(self.start.socket()),
        };
        let client = redis::Client::open(address.into_connection_info()?)?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut command = redis::Cmd::new();
        command.arg(words);
        command.query(&mut connection)
    }

    /// One line of `INFO`, such as `role`.
    pub fn info(&self, field: &str) -> Option<String> {
        let info = text(&self.ask(&["INFO", "all"]).ok()?);
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| *name == field)?;
        Some(value.trim().to_owned())
    }

    /// Whether our process answers and has read its files.
    fn answers(&mut self) -> bool {
        self.answers_with("\nloading:0\r")
    }

    /// Whether our process comes to say this of itself; not somebody else on that port.
    fn answers_with(&mut self, state: &str) -> bool {
        let deadline = Instant::now() + LONGEST;
        let id = format!("process_id:{}\r", self.process.id());
        while Instant::now() < deadline && !self.process.has_ended() {
            let info = self.tell("INFO");
            let is_so = info.contains(&id) && info.contains(state);
            // A server with a password answers too.
            if is_so || info.starts_with("-NOAUTH") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Start {
    fn new(program: &Path, way: Way, folder: &Path, options: &[&str]) -> Self {
        Self {
            program: program.to_owned(),
            way,
            folder: folder.to_owned(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            clock: None,
        }
    }

    fn run(&self) -> RedisServer {
        // Another test may take the port first; then there is another one.
        for _ in 0..20 {
            let port = free_port();
            let mut server = RedisServer {
                process: self.spawn(port),
                port,
                start: self.clone(),
            };
            if server.answers() {
                return server;
            }
        }
        panic!(
            "{} does not start in {} with {:?}",
            self.program.display(),
            self.folder.display(),
            self.options
        );
    }

    fn spawn(&self, port: u16) -> Process {
        let port = port.to_string();
        let listen = match self.way {
            Way::Tcp => vec!["--port", &port],
            Way::Tls => vec!["--port", "0", "--tls-port", &port, "--unixsocket", SOCKET],
            Way::Unix => vec!["--port", "0", "--unixsocket", SOCKET],
        };
        let folder = self.folder.to_string_lossy();
        let always = [
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--daemonize",
            "no",
            "--loglevel",
            "warning",
            "--dir",
            &folder,
        ];
        let words = listen.into_iter().chain(always).map(str::to_owned);
        let words: Vec<String> = words.chain(self.options.iter().cloned()).collect();
        let clock = self.clock.iter();
        let variables = clock.flat_map(|file| {
            let library = tools().join("servers/clock/clock.so");
            [("LD_PRELOAD", library), ("CLOCK_FILE", file.clone())]
        });
        Process::start_in(&variables.collect::<Vec<_>>(), &self.program, words)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }
}

/// An answer as text: arrays one element per line, maps one pair.
pub fn text(value: &Value) -> String {
    match value {
        Value::Nil => String::new(),
        Value::Okay => "OK".into(),
        Value::Int(number) => number.to_string(),
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        Value::Array(values) | Value::Set(values) => {
            values.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        other => format!("{other:?}"),
    }
}
