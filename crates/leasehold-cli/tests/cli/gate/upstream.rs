//! A service that cannot check fences: it acts on what comes, in the order in
//! which it comes to it, and takes note.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use leasehold::Fence;

/// What the service has seen and what it waits for.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Path and fence, in the order of acting.
    acted: Vec<(String, Fence)>,
    /// Requests that have come, acted on or not.
    seen: usize,
    /// Requests that broke off before their end.
    broken: usize,
    /// Requests to paths with `hold` wait while this is set, and answers to
    /// those with `half` stop in the middle.
    holds: bool,
}

/// A running service; its threads end with the test.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        shared.state.lock().unwrap().holds = true;
        let upstream = Self {
            address,
            shared: shared.clone(),
        };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                // A connection that breaks ends its thread.
                thread::spawn(move || serve(stream, &shared));
            }
        });
        upstream
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets the requests go on that are held.
    pub(crate) fn release(&self) {
        self.shared.state.lock().unwrap().holds = false;
        self.shared.changed.notify_all();
    }

    pub(crate) fn seen(&self) -> usize {
        self.shared.state.lock().unwrap().seen
    }

    /// How many requests broke off in the middle of their body.
    pub(crate) fn broken(&self) -> usize {
        self.shared.state.lock().unwrap().broken
    }

    /// The tokens of what was acted on, in order.
    pub(crate) fn tokens(&self) -> Vec<u64> {
        let state = self.shared.state.lock().unwrap();
        state.acted.iter().map(|(_, it)| it.token.get()).collect()
    }

    /// The same of one resource, by the beginning of its paths.
    pub(crate) fn tokens_of(&self, resource: &str) -> Vec<u64> {
        let state = self.shared.state.lock().unwrap();
        let acted = state.acted.iter();
        let of_it = acted.filter(|(path, _)| path.starts_with(resource));
        of_it.map(|(_, it)| it.token.get()).collect()
    }
}

impl Shared {
    /// Waits to be released.
    fn wait(&self) {
        let mut state = self.state.lock().unwrap();
        while state.holds {
            state = self.changed.wait(state).unwrap();
        }
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let (mut fence, mut length) = (None, 0);
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            match &*name.to_lowercase() {
                "leasehold-fence" => fence = value.parse().ok(),
                "leasehold-signature" => panic!("the proof went on to the service"),
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
        let mut state = shared.state.lock().unwrap();
        state.seen += 1;
        drop(state);
        if path.contains("early") {
            // It answers before it has read all, a long answer only in part, and
            // goes on.
            let size = if path.contains("large") { 300_000 } else { 2 };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\nok");
            stream.write_all(answer.as_bytes()).ok()?;
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            shared.state.lock().unwrap().broken += 1;
            return None;
        }
        if path.contains("die") {
            // It acts and dies before it answers.
            shared.state.lock().unwrap().acted.push((path, fence?));
            return None;
        }
        if path.contains("hold") {
            shared.wait();
        }
        if path.contains("slow") {
            // At times just about nothing, at times rather long.
            let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
            let millis = now.unwrap().subsec_micros() % 100;
            thread::sleep(Duration::from_millis(millis.into()));
        }
        let mut state = shared.state.lock().unwrap();
        state.acted.push((path.clone(), fence?));
        drop(state);
        if path.contains("early") {
            continue;
        }
        if path.contains("gave-up") {
            // A proxy that did not wait for the service.
            let answer = "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).ok()?;
            continue;
        }
        let size = match () {
            () if path.contains("endless") => 100_000_000,
            () if path.contains("large") => 300_000,
            () => 2,
        };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
        stream.write_all(answer.as_bytes()).ok()?;
        let content = vec![b'x'; size];
        stream.write_all(&content[..size / 2]).ok()?;
        if path.contains("half") {
            shared.wait();
        }
        stream.write_all(&content[size / 2..]).ok()?;
    }
}
