//! Somebody else's lock library, as a process; see `interop/README.md`.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tokio::sync::mpsc;

use testbed::redis::lacks_redis;
use testbed::tools;

/// The lock that everybody wants.
pub(crate) const KEY: &str = "interop";

/// Long enough for a virtual machine to start on a busy computer; much shorter
/// than any ttl that is not meant to end.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// A ttl that does not end within a test.
pub(crate) const NEVER: Duration = Duration::from_secs(300);

/// A ttl that is meant to end.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

/// A library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    RedisPy,
    Redlock,
    Redsync,
    Rslock,
    Redisson,
}

impl Client {
    pub(crate) const ALL: [Self; 5] = [
        Self::RedisPy,
        Self::Redlock,
        Self::Redsync,
        Self::Rslock,
        Self::Redisson,
    ];

    /// Those that can lock on a majority of several servers.
    pub(crate) const OF_MANY: [Self; 3] = [Self::Redlock, Self::Redsync, Self::Rslock];

    /// How its locks lie in the server, as our URL says it.
    pub(crate) fn layout(self) -> &'static str {
        match self {
            Self::Redisson => "redisson",
            _ => "plain",
        }
    }

    /// Another one that it can share a lock with.
    pub(crate) fn neighbour(self) -> Self {
        match self {
            Self::RedisPy => Self::Redlock,
            Self::Redlock => Self::Redsync,
            Self::Redsync => Self::Rslock,
            Self::Rslock => Self::RedisPy,
            Self::Redisson => Self::Redisson,
        }
    }

    /// What this machine lacks to run it.
    pub(crate) fn lacks(self) -> Option<String> {
        if let Some(what) = lacks_redis() {
            return Some(what.into());
        }
        (!self.program().is_file()).then(|| format!("{self} (cargo xtask tools)"))
    }

    fn program(self) -> PathBuf {
        tools().join("clients").join(self.to_string())
    }

    /// Counts in the file, under the lock. Several servers have commas between.
    pub(crate) fn count(self, urls: &str, rounds: u32, file: &Path) -> Process {
        let file = file.to_str().expect("its name is text");
        self.start(["count", urls, KEY, &rounds.to_string(), file])
    }

    /// Holds the lock, without renewing it, until it is released or killed.
    pub(crate) async fn hold(self, urls: &str, ttl: Duration) -> Process {
        let ttl = ttl.as_millis().to_string();
        let mut process = self.start(["hold", urls, KEY, &ttl]);
        process.expect("held").await;
        process
    }

    /// Waits for the lock, then releases it and ends.
    pub(crate) async fn wait(self, urls: &str) -> Process {
        let mut process = self.start(["wait", urls, KEY]);
        process.expect("waiting").await;
        process
    }

    fn start<const N: usize>(self, arguments: [&str; N]) -> Process {
        let mut child = Command::new(self.program())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{self} starts: {error}"));
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let (said, heard) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in lines.map_while(std::io::Result::ok) {
                let _ = said.send(line);
            }
        });
        Process {
            client: self,
            child,
            input,
            heard,
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RedisPy => "redis-py",
            Self::Redlock => "redlock",
            Self::Redsync => "redsync",
            Self::Rslock => "rslock",
            Self::Redisson => "redisson",
        })
    }
}

/// A library at work, killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    client: Client,
    child: Child,
    input: Option<ChildStdin>,
    heard: mpsc::UnboundedReceiver<String>,
}

impl Process {
    /// Waits until it says this.
    pub(crate) async fn expect(&mut self, line: &str) {
        let heard = tokio::time::timeout(SOON, self.heard.recv()).await;
        let client = self.client;
        let heard = heard.unwrap_or_else(|_| panic!("{client}: no `{line}` within {SOON:?}"));
        assert_eq!(heard.as_deref(), Some(line), "{client}");
    }

    /// Whether it has said nothing since.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.heard.try_recv().is_err()
    }

    /// Lets it release what it holds, and waits until it has ended.
    pub(crate) async fn release(&mut self) {
        self.input = None;
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait().expect("it is our child") {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let status = tokio::time::timeout(SOON, ended).await;
        assert!(status.expect("it ends").success(), "{}", self.client);
    }

    /// Ends its input: it releases, and we do not wait for that.
    pub(crate) fn begin_release(&mut self) {
        self.input = None;
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
