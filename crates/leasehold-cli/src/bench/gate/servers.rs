//! A service, nginx before it, and our gate before it, each in processes of
//! their own.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::super::processor;
use crate::bench::Scratch;
use crate::bench::startup::ourselves;
use crate::exit::{self, Failure};
use crate::print;

/// How long a server may take to start.
const LONGEST: Duration = Duration::from_secs(20);

/// Where the program is, if it is installed.
pub(super) fn nginx_program() -> Option<PathBuf> {
    let places = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
    places
        .map(PathBuf::from)
        .into_iter()
        .find(|it| it.is_file())
}

/// All of them, as long as this lives.
pub(super) struct Servers {
    pub(super) service: SocketAddr,
    pub(super) nginx: SocketAddr,
    pub(super) gate: SocketAddr,
    running: [Running; 3],
}

impl Servers {
    pub(super) fn start(scratch: &Scratch, key: &[u8]) -> Result<Self, Failure> {
        let mut worker = Command::new(ourselves());
        worker
            .args(["bench", "--worker=serve:0"])
            .stdout(Stdio::piped());
        let (first, service) = Running::start(&mut worker, |child| read_line(child.stdout.take()))?;
        let (second, nginx) = nginx(scratch, service)?;
        write(&scratch.path("key"), key)?;
        let mut gate = Command::new(ourselves());
        gate.args(["gate", "--json", "--listen", "127.0.0.1:0"])
            .args(["--new-state", "--first-start"])
            .args([
                "--resource",
                "/r/{id}",
                "--upstream",
                &format!("http://{service}"),
            ])
            .arg("--key")
            .arg(scratch.path("key"))
            .arg("--state")
            .arg(scratch.path("marks"))
            .stderr(Stdio::piped());
        let (third, gate) = Running::start(&mut gate, |child| read_line(child.stderr.take()))?;
        Ok(Self {
            service,
            nginx,
            gate,
            running: [first, second, third],
        })
    }

    /// The processor time that nginx has taken, if the system tells.
    pub(super) fn nginx_time(&self) -> Option<Duration> {
        processor::time(self.running[1].0.id())
    }

    /// The same of the gate.
    pub(super) fn gate_time(&self) -> Option<Duration> {
        processor::time(self.running[2].0.id())
    }
}

/// The service: a short answer to everything. It says where it listens.
pub(crate) async fn serve() -> Result<(), Failure> {
    let failed = |error| Failure::system("listen", error);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    print::json_line(&serde_json::json!({ "address": address.to_string() }))?;
    loop {
        let (stream, _) = listener.accept().await.map_err(failed)?;
        _ = stream.set_nodelay(true);
        let answer = service_fn(async |_: Request<Incoming>| {
            let body = Full::new(Bytes::from_static(&[b'x'; 64]));
            Ok::<_, Infallible>(Response::new(body))
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(async move { drop(connection.await) });
    }
}

/// Set up as well as one can: connections are kept, nothing is logged, and each
/// process listens by itself. Else the one that slept last gets them all.
fn nginx(scratch: &Scratch, service: SocketAddr) -> Result<(Running, SocketAddr), Failure> {
    let folder = scratch.path("nginx");
    std::fs::create_dir(&folder).map_err(|error| Failure::system("make a folder", error))?;
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
    let address = free.map_err(|error| Failure::system("find a port", error))?;
    let place = folder.display();
    let text = format!(
        "worker_processes auto; pid {place}/pid; error_log {place}/error.log; daemon off;
         events {{ worker_connections 1024; }}
         http {{
             access_log off; keepalive_requests 1000000;
             client_body_temp_path {place}/a; proxy_temp_path {place}/b;
             fastcgi_temp_path {place}/c; uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;
             upstream service {{ server {service}; keepalive 64; keepalive_requests 1000000; }}
             server {{
                 listen {address} reuseport;
                 location / {{
                     proxy_pass http://service; proxy_http_version 1.1;
                     proxy_set_header Connection \"\";
                 }}
             }}
         }}\n"
    );
    write(&folder.join("nginx.conf"), text.as_bytes())?;
    let program = nginx_program().expect("it was looked for before");
    let mut command = Command::new(program);
    command
        .arg("-p")
        .arg(&folder)
        .arg("-c")
        .arg(folder.join("nginx.conf"));
    Running::start(command.stderr(Stdio::null()), |_| {
        let deadline = Instant::now() + LONGEST;
        while Instant::now() < deadline {
            if TcpStream::connect(address).is_ok() {
                return Some(address);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    })
}

/// A process that ends with us.
struct Running(Child);

impl Running {
    /// Starts it and waits until it says where it listens.
    fn start(
        command: &mut Command,
        find: impl FnOnce(&mut Child) -> Option<SocketAddr>,
    ) -> Result<(Self, SocketAddr), Failure> {
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.map_err(|error| Failure::system("start a server", error))?;
        let mut running = Self(child);
        let address = find(&mut running.0);
        let lost = || Failure::new(exit::UNAVAILABLE, format!("{command:?} does not start"));
        address.map(|address| (running, address)).ok_or_else(lost)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its own children end with it, if it is asked.
        let id = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM);
        _ = self.0.wait();
    }
}

/// The address in the one line that a server of ours says.
fn read_line(stream: Option<impl std::io::Read>) -> Option<SocketAddr> {
    let mut line = String::new();
    BufReader::new(stream?).read_line(&mut line).ok()?;
    let said: serde_json::Value = serde_json::from_str(&line).ok()?;
    said["address"].as_str()?.parse().ok()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::system("write a file", error))
}
