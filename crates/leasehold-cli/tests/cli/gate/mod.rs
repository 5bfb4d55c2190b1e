//! The gate before a service that cannot check fences.

mod faults;
mod holders;
mod input;
mod leftovers;
mod passing;
mod upstream;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::thread::JoinHandle;

use leasehold::fence::FenceKey;
use leasehold::{Fence, Token};

use crate::world::{Running, World};
use upstream::Upstream;

const KEY: &[u8] = b"a key for tests only";

fn fence(token: u64) -> Fence {
    Fence {
        token: Token::new(token),
        holder: token,
    }
}

/// A gate that runs, and its service.
struct Gate {
    running: Running,
    address: String,
}

impl Gate {
    /// Starts one with these options beside those that are needed.
    fn start(world: &World, upstream: &Upstream, options: &[&str]) -> Self {
        fs::write(world.path("key"), KEY).unwrap();
        let url = upstream.url();
        let needed = [
            "gate",
            "--json",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            &url,
        ];
        let state = [
            "--state",
            "state",
            "--resource",
            "/r/{id}",
            "--resource",
            "/r/{id}/{*rest}",
        ];
        let trust: &[&str] = match options {
            ["--confirm", ..] => &[],
            _ => &["--key", "key"],
        };
        let new: &[&str] = match (world.path("state").exists(), options) {
            (true, _) | (_, [.., "--new-state"]) => &[],
            _ => &["--new-state", "--first-start"],
        };
        let arguments = [&needed[..], &state, trust, new, options].concat();
        let mut command = world.leasehold(arguments);
        let mut running = Running::as_it_is(command.stderr(Stdio::piped()));
        let stderr = running.child().stderr.as_mut().unwrap();
        let mut line = String::new();
        BufReader::new(stderr).read_line(&mut line).unwrap();
        let event: serde_json::Value = serde_json::from_str(&line).expect(&line);
        let address = event["address"].as_str().unwrap().to_owned();
        Self { running, address }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// A signed request, and its answer.
    fn ask(&self, path: &str, token: u64) -> Answer {
        self.try_ask(path, token).unwrap()
    }

    /// The same of a gate that may be dead.
    fn try_ask(&self, path: &str, token: u64) -> Option<Answer> {
        try_ask(&self.address, path, token)
    }

    /// The same, in the background.
    fn asking(&self, path: &'static str, token: u64) -> JoinHandle<Answer> {
        let address = self.address.clone();
        std::thread::spawn(move || try_ask(&address, path, token).unwrap())
    }
}

fn try_ask(address: &str, path: &str, token: u64) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(head(path, token, "").as_bytes()).ok()?;
    answer(&mut stream)
}

/// A signed request without a body.
fn head(path: &str, token: u64, more: &str) -> String {
    let resource: Vec<_> = path.trim_matches('/').split('/').take(2).collect();
    let key = FenceKey::new(KEY).unwrap();
    let signature = key.sign(&resource.join("/"), fence(token));
    let fence = fence(token);
    format!(
        "POST {path} HTTP/1.1\r\nHost: gate\r\nLeasehold-Fence: {fence}\r\n\
         Leasehold-Signature: {signature}\r\n{more}\r\n"
    )
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Answer {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let (mut length, mut headers) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        headers.push_str(&lower);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    Some(Answer {
        status,
        headers,
        body,
    })
}
