//! The gate beside nginx, before the same service, in one interleaved run.

mod client;
mod servers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::fence::FenceKey;
use leasehold::http::fence_headers;
use leasehold::{Fence, Token};
use tokio::sync::Mutex;

use super::report::{Goal, Report, median, micros};
use super::slice::Slice;
use super::{Scratch, Setting};
use crate::exit::Failure;
use client::Connection;
pub(super) use servers::serve;
use servers::{Servers, nginx_program};

const PART: &str = "gate";
/// An even number: every other one goes the other way round.
const ROUNDS: u32 = 16;
/// Connections that ask at the same time.
const CROWD: usize = 16;
/// New tokens that each come by one request.
const TOKENS: u64 = 60;
const KEY: &[u8] = b"a key for benchmarks only";

/// Measures, if there is an nginx to measure by.
pub(super) async fn bench(
    setting: &Setting,
    scratch: &Scratch,
    report: &mut Report,
) -> Result<(), Failure> {
    if nginx_program().is_none() {
        return report.note(PART, "left out: nginx is not installed");
    }
    let servers = Servers::start(scratch, KEY)?;
    let time = setting.time / ROUNDS;
    let mut ways = [
        Way::new(servers.service),
        Way::new(servers.nginx),
        Way::new(servers.gate),
    ];
    let before = [servers.nginx_time(), servers.gate_time()];
    for _ in 0..ROUNDS {
        for way in &mut ways {
            let mut slice = way.slice(1, time / 6).await?;
            way.asked += slice.cycles();
            way.one.append(&mut slice.samples);
        }
        for way in &mut ways {
            let slice = way.slice(CROWD, time / 6).await?;
            way.asked += slice.cycles();
            way.many.push(slice.rate());
        }
        // Each comes first as often as last: a machine slows down as it warms.
        ways.reverse();
    }
    let after = [servers.nginx_time(), servers.gate_time()];
    let [bare, nginx, gate] = &mut ways;
    let [bare_one, nginx_one, gate_one] =
        [&mut *bare, nginx, gate].map(|way| median(&mut way.one) / 1e3);
    // Other work on the machine comes and goes: what was measured side by side
    // is compared.
    let ratios = gate.many.iter().zip(&nginx.many);
    let mut ratios: Vec<f64> = ratios.map(|(gate, nginx)| gate / nginx).collect();
    let asked = [nginx.asked, gate.asked];
    let rates = [bare, nginx, gate].map(|way| median(&mut way.many));
    for (what, rate) in ["service", "nginx", "gate"].into_iter().zip(rates) {
        let what = format!("{what}, {CROWD} connections");
        report.figure(PART, &what, rate, "GET/s", Goal::None)?;
    }
    let ratio = median(&mut ratios);
    report.figure(PART, "against nginx", ratio, "", Goal::AtLeast(0.7))?;
    // The client and the service have their part in that ratio; not in these.
    let proxies = ["nginx", "gate"].into_iter().zip(asked);
    for ((what, asked), (before, after)) in proxies.zip(before.into_iter().zip(after)) {
        if let (Some(before), Some(after)) = (before, after) {
            let each = micros(after.saturating_sub(before)) / asked;
            let what = format!("{what}, processor time");
            report.figure(PART, &what, each, "us/GET", Goal::None)?;
        }
    }
    report.figure(PART, "service, p50", bare_one, "ms", Goal::None)?;
    report.figure(
        PART,
        "nginx adds, p50",
        nginx_one - bare_one,
        "ms",
        Goal::None,
    )?;
    let added = gate_one - bare_one;
    report.figure(PART, "gate adds, p50", added, "ms", Goal::AtMost(0.3))?;
    let (mut first, mut commits) = (Vec::new(), Vec::new());
    let disk = Disk::new(scratch)?;
    let mut connection = Connection::open(servers.gate).await?;
    for token in 0..TOKENS {
        let began = Instant::now();
        connection.get(&request(0, 2 + token)).await?;
        first.push(micros(began.elapsed()) / 1e3);
        commits.push(disk.commit(token)?);
    }
    let more = median(&mut first) - gate_one;
    report.figure(PART, "a new token adds, p50", more, "ms", Goal::None)?;
    let commit = median(&mut commits);
    report.figure(
        PART,
        "a commit of SQLite here, p50",
        commit,
        "ms",
        Goal::None,
    )
}

/// A way to the service, and how long requests took by it.
struct Way {
    address: std::net::SocketAddr,
    one: Vec<f64>,
    many: Vec<f64>,
    /// Requests in all slices.
    asked: f64,
}

impl Way {
    fn new(address: std::net::SocketAddr) -> Self {
        Self {
            address,
            one: Vec::new(),
            many: Vec::new(),
            asked: 0.0,
        }
    }

    /// So many connections, each with a resource of its own.
    async fn slice(&self, connections: usize, time: Duration) -> Result<Slice, Failure> {
        let mut open = Vec::new();
        for task in 0..connections {
            let mut connection = Connection::open(self.address).await?;
            let request = request(task, 1);
            // The first of all brings the mark to the disk.
            connection.get(&request).await?;
            open.push(Mutex::new((connection, request)));
        }
        let open = Arc::new(open);
        let ask = move |task: usize| {
            let open = open.clone();
            async move {
                let mut open = open[task].lock().await;
                let (connection, request) = &mut *open;
                connection.get(request).await
            }
        };
        Slice::of(connections, time, ask).await
    }
}

/// A signed request, the same for those who do not look at it.
fn request(resource: usize, token: u64) -> Vec<u8> {
    let resource = format!("r/{resource}");
    let fence = Fence {
        token: Token::new(token),
        holder: token,
    };
    let key = FenceKey::new(KEY).expect("it is long enough");
    let headers = fence_headers(fence, &resource, Some(&key)).expect("it is plain text");
    let mut text = format!("GET /{resource} HTTP/1.1\r\nhost: bench\r\n");
    for (name, value) in &headers {
        let value = value.to_str().expect("it is plain text");
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// What one commit of the same kind costs without us: several writes that wait
/// for the disk, if the folder for temporary files is on one.
struct Disk(rusqlite::Connection);

impl Disk {
    fn new(scratch: &Scratch) -> Result<Self, Failure> {
        let open = || {
            let connection = rusqlite::Connection::open(scratch.path("commits"))?;
            connection.pragma_update(None, "synchronous", "full")?;
            connection.pragma_update(None, "locking_mode", "exclusive")?;
            connection.execute_batch("create table a (b integer)")?;
            Ok(connection)
        };
        open().map(Self).map_err(failed)
    }

    /// In milliseconds.
    fn commit(&self, number: u64) -> Result<f64, Failure> {
        let began = Instant::now();
        let number = number.cast_signed();
        self.0
            .execute("insert into a values (?1)", [number])
            .map_err(failed)?;
        Ok(micros(began.elapsed()) / 1e3)
    }
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::system("write a file to compare with", error)
}
