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
    /// Requests that are being worked on, and the most that there were at once.
    working: usize,
    most: usize,
    /// Requests that broke off before their end.
    broken: usize,
    /// The heads of all requests.
    heads: String,
    /// How much of the last body came with its head.
    taken: usize,
    /// Connections that were reset while a request waited to be read.
    reset: usize,
    /// Bodies of requests to paths with `stall` are not read while this is set.
    stalls: bool,
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
        Self::listen(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// One whose connections take little of what is not read.
    pub(crate) fn with_small_buffers() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let runtime = runtime.unwrap();
        let _inside = runtime.enter();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8 * 1024).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(16).unwrap().into_std().unwrap();
        listener.set_nonblocking(false).unwrap();
        Self::listen(listener)
    }

    fn listen(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let mut state = shared.state.lock().unwrap();
        state.holds = true;
        state.stalls = true;
        drop(state);
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

    /// Lets the bodies be read that have not been.
    pub(crate) fn read_on(&self) {
        self.shared.state.lock().unwrap().stalls = false;
        self.shared.changed.notify_all();
    }

    /// How many connections were reset while a request waited to be read.
    pub(crate) fn reset(&self) -> usize {
        self.shared.state.lock().unwrap().reset
    }

    /// How much of a body is on its way or was taken with its head. The kernel
    /// knows of each connection what has not been read and not been taken.
    pub(crate) fn on_its_way(&self) -> usize {
        let sockets = self.sockets();
        let waiting = sockets.iter().map(|socket| socket.waiting);
        self.shared.state.lock().unwrap().taken + waiting.sum::<usize>()
    }

    /// Whether the gate has a connection here that it has not closed.
    pub(crate) fn is_connected(&self) -> bool {
        let sockets = self.sockets();
        let mut of_gate = sockets.iter().filter(|socket| !socket.is_ours);
        of_gate.any(|socket| socket.is_established)
    }

    /// Both ends of all connections.
    fn sockets(&self) -> Vec<Socket> {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let port = format!(":{:04X}", self.address.port());
        let sockets = table.lines().skip(1).filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (ours, theirs) = (words.next()?, words.next()?);
            let (state, queues) = (words.next()?, words.next()?);
            let (unsent, unread) = queues.split_once(':')?;
            let is_ours = ours.ends_with(&port);
            let waiting = if is_ours { unread } else { unsent };
            // 0A is a socket that listens.
            let is_it = (is_ours && state != "0A") || theirs.ends_with(&port);
            is_it.then(|| Socket {
                is_ours,
                is_established: state == "01",
                waiting: usize::from_str_radix(waiting, 16).unwrap(),
            })
        });
        sockets.collect()
    }

    pub(crate) fn seen(&self) -> usize {
        self.shared.state.lock().unwrap().seen
    }

    /// Whether the head of a request had this in it.
    pub(crate) fn has_seen(&self, text: &str) -> bool {
        self.shared.state.lock().unwrap().heads.contains(text)
    }

    /// How many requests there were at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.shared.state.lock().unwrap().most
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

/// One end of a connection between the gate and us.
struct Socket {
    is_ours: bool,
    is_established: bool,
    /// Bytes towards us.
    waiting: usize,
}

impl Shared {
    /// Waits to be told to read, and takes note of a reset.
    fn stall(&self, stream: &TcpStream) {
        let mut state = self.state.lock().unwrap();
        while state.stalls {
            if stream.take_error().unwrap().is_some() {
                state.reset += 1;
            }
            let tick = Duration::from_millis(5);
            state = self.changed.wait_timeout(state, tick).unwrap().0;
        }
    }

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
        let mut head = line;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            head.push_str(&line);
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            match &*name.to_lowercase() {
                "leasehold-fence" => fence = value.parse().ok(),
                // All that there is where the fence is the proof.
                "leasehold-token" => fence = Some(super::fence(value.parse().ok()?)),
                "leasehold-signature" => panic!("the proof went on to the service"),
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
        let mut state = shared.state.lock().unwrap();
        state.seen += 1;
        state.heads.push_str(&head);
        state.working += 1;
        state.most = state.most.max(state.working);
        state.taken = reader.buffer().len();
        drop(state);
        if path.contains("early") {
            // It answers before it has read all, a long answer only in part, and
            // goes on.
            let size = if path.contains("large") { 300_000 } else { 2 };
            let mut last = "";
            if path.contains("close") {
                // It answers when it is told to, and no more after that.
                shared.wait();
                last = "Connection: close\r\n";
            }
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n{last}\r\nok");
            stream.write_all(answer.as_bytes()).ok()?;
        }
        if path.contains("stall") {
            shared.stall(&stream);
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
        state.working -= 1;
        drop(state);
        if path.contains("early") {
            continue;
        }
        if path.contains("gave-up") {
            // A proxy that did not wait for the service.
            let status = path.rsplit('/').next()?;
            let answer = format!("HTTP/1.1 {status} Gave Up\r\nContent-Length: 0\r\n\r\n");
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
