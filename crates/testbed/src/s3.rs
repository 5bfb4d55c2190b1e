//! A server that speaks as S3 does: a child process on a free port of 127.0.0.1
//! with one bucket, all in memory. `cargo xtask test` brings it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::{LONGEST, Process, free_port, need, tools};

/// The bucket that there is.
pub const BUCKET: &str = "bucket";

fn folder() -> PathBuf {
    tools().join("servers/s3")
}

/// The name of what is missing, if something is.
pub fn lacks_s3() -> Option<&'static str> {
    (!folder().join("built-from").is_file()).then_some("s3 (cargo xtask tools)")
}

/// A running server.
#[derive(Debug)]
pub struct S3Server {
    _process: Process,
    port: u16,
}

impl S3Server {
    pub fn start() -> Self {
        need(lacks_s3());
        // Another test may take the port first; then there are others.
        for _ in 0..10 {
            let port = free_port();
            let arguments = ["-m", "moto.server", "-H", "127.0.0.1", "-p"].map(str::to_owned);
            let arguments = arguments.into_iter().chain([port.to_string()]);
            let variables = [("PYTHONPATH", folder())];
            let mut process = Process::start_in(&variables, Path::new("python3"), arguments);
            let deadline = Instant::now() + LONGEST;
            while Instant::now() < deadline && !process.has_ended() {
                if make_bucket(port).is_some() {
                    return Self {
                        _process: process,
                        port,
                    };
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        panic!("the S3 server does not start");
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn make_bucket(port: u16) -> Option<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("PUT /{BUCKET} HTTP/1.1\r\nHost: s3\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    line.contains(" 200 ").then_some(())
}
