//! A Redis server of our own: a child process on a free port, killed when the
//! test is over.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::world::World;

const PROGRAM: &str = "redis-server";

pub(crate) struct Server {
    program: PathBuf,
    process: Child,
    folder: TempDir,
    port: u16,
}

impl Server {
    /// `None` if this machine has no Redis, which is said; a machine that is to
    /// run every test fails instead.
    pub(crate) fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// With these lines of configuration. They stand in a file: what is in
    /// arguments is public.
    pub(crate) fn with(lines: &[&str]) -> Option<Self> {
        Self::of(Path::new(PROGRAM), lines)
    }

    /// One that is older than anything we support, from `cargo xtask tools`.
    pub(crate) fn too_old() -> Option<Self> {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let tools = scratch.parent().unwrap().join("tools");
        Self::of(&tools.join("servers/redis-5.0.6/redis-server"), &[])
    }

    fn of(program: &Path, lines: &[&str]) -> Option<Self> {
        let version = Command::new(program).arg("--version").output();
        if version.is_err() {
            let program = program.display();
            let must_run = std::env::var_os("LEASEHOLD_NO_SKIP").is_some();
            assert!(!must_run, "{program} is not installed");
            eprintln!("skipped: {program} is not installed");
            return None;
        }
        let folder = TempDir::new().unwrap();
        // Another test may take the port first; then there is another one.
        for _ in 0..20 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            let place = format!(
                "port {port}\nbind 127.0.0.1\nsave \"\"\nappendonly no\nlogfile {0}/log\ndir {0}\n{1}\n",
                folder.path().display(),
                lines.join("\n")
            );
            fs::write(folder.path().join("redis.conf"), place).unwrap();
            let mut process = spawn(program, &folder);
            if answers(&mut process, port) {
                return Some(Self {
                    program: program.to_owned(),
                    process,
                    folder,
                    port,
                });
            }
            end(&mut process);
        }
        panic!("{} does not start", program.display());
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Host and port.
    pub(crate) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sends one command whose arguments have no spaces.
    pub(crate) fn tell(&self, command: &str) -> String {
        ask(self.port, &format!("{command}\r\n")).unwrap()
    }

    /// The same with a password.
    pub(crate) fn url_with(&self, password: &str) -> String {
        format!("redis://:{password}@127.0.0.1:{}", self.port)
    }

    /// A folder for processes whose locks are here.
    pub(crate) fn world(&self) -> World {
        World::on(self.url())
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        end(&mut self.process);
    }

    /// Starts it on the same port, without what it knew.
    pub(crate) fn start_again(&mut self) {
        self.process = spawn(&self.program, &self.folder);
        assert!(answers(&mut self.process, self.port));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

fn spawn(program: &Path, folder: &TempDir) -> Child {
    Command::new(program)
        .arg(folder.path().join("redis.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Whether our process answers, not somebody else on that port; one that wants
/// a password answers too.
fn answers(process: &mut Child, port: u16) -> bool {
    let id = format!("process_id:{}\r", process.id());
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if process.try_wait().unwrap().is_some() {
            return false;
        }
        let said = ask(port, "INFO server\r\n").unwrap_or_default();
        if said.contains(&id) || said.starts_with("-NOAUTH") {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn ask(port: u16, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(command.as_bytes())?;
    let mut answer = [0; 4096];
    let count = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..count]).into_owned())
}
