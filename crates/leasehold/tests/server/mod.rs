//! A Redis server of our own: a child process on a free port, in a temporary
//! folder, ended when it is dropped.
// Not every test uses all of it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "redis-server";

/// The name of the missing program, if it is missing.
pub(crate) fn lacks_redis() -> Option<&'static str> {
    match Command::new(PROGRAM)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
    {
        Ok(status) if status.success() => None,
        _ => Some(PROGRAM),
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct RedisServer {
    process: Child,
    port: u16,
    folder: PathBuf,
    options: Vec<String>,
}

impl RedisServer {
    /// Starts one without persistence, with these options beside.
    pub(crate) fn start(folder: &Path, options: &[&str]) -> Self {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        // Another test may take the port first; then there is another one.
        for _ in 0..20 {
            let port = free_port();
            let mut process = spawn(folder, port, &options);
            if answers(&mut process, port) {
                let folder = folder.to_owned();
                return Self {
                    process,
                    port,
                    folder,
                    options,
                };
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("{PROGRAM} does not start in {}", folder.display());
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server with SIGKILL and starts it anew on the same port.
    pub(crate) fn restart(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.process = spawn(&self.folder, self.port, &self.options);
        assert!(answers(&mut self.process, self.port), "it starts again");
    }

    /// Sends one command without arguments that have spaces, and waits for the
    /// first piece of the answer.
    pub(crate) fn tell(&self, command: &str) -> String {
        ask(self.port, command).expect("the server answers")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

fn spawn(folder: &Path, port: u16, options: &[String]) -> Child {
    Command::new(PROGRAM)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--daemonize", "no", "--loglevel", "warning"])
        .arg("--dir")
        .arg(folder)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server starts")
}

/// Whether our process answers; not somebody else on that port.
fn answers(process: &mut Child, port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Ok(Some(_)) = process.try_wait() {
            return false;
        }
        let id = format!("process_id:{}\r", process.id());
        // A server with a password answers too.
        if ask(port, "INFO server")
            .is_ok_and(|info| info.contains(&id) || info.starts_with("-NOAUTH"))
        {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn ask(port: u16, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answer = [0; 8192];
    let count = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..count]).into_owned())
}
