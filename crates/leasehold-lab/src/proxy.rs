//! A network that can be broken: a TCP proxy on a port of its own before a
//! server. Each worker gets its own, so that one can be cut off alone.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a byte waits at most before it looks at the state again.
const LOOK: Duration = Duration::from_millis(5);

/// What a network does to what is sent through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weather {
    /// It passes.
    #[default]
    Fair,
    /// Nothing passes in either way, and nobody is told: connections stay.
    Cut,
    /// Requests pass, answers are held back.
    OneWay,
    /// Everything takes so much longer.
    Slow(Duration),
    /// Requests pass; at the next answer the connection breaks instead.
    LosesReplies,
}

/// A running proxy. It ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    weather: Mutex<Weather>,
    is_over: AtomicBool,
}

impl Proxy {
    /// Starts one before this server.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn start(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            server,
            weather: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let inner = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if inner.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let inner = inner.clone();
                thread::spawn(move || serve(stream, &inner));
            }
        });
        Ok(Self { port, shared })
    }

    /// Where it listens on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the weather, for connections that are there too.
    pub fn set(&self, weather: Weather) {
        *self.shared.weather() = weather;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // So that the listener looks up.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn weather(&self) -> MutexGuard<'_, Weather> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may pass in this way; `None` if the connection is
    /// to break.
    fn pass(&self, is_answer: bool) -> Option<()> {
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return None;
            }
            let weather = *self.weather();
            match weather {
                Weather::Fair => return Some(()),
                Weather::OneWay | Weather::LosesReplies if !is_answer => return Some(()),
                Weather::LosesReplies => return None,
                Weather::Slow(longer) => {
                    thread::sleep(longer);
                    return Some(());
                }
                Weather::Cut | Weather::OneWay => thread::sleep(LOOK),
            }
        }
    }
}

fn serve(client: TcpStream, shared: &Arc<Shared>) -> Option<()> {
    // A connection that is asked for in bad weather is not made before it clears.
    shared.pass(false)?;
    let server = TcpStream::connect(shared.server).ok()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true).ok()?;
    }
    let (from, to) = (client.try_clone().ok()?, server.try_clone().ok()?);
    let inner = shared.clone();
    thread::spawn(move || carry(from, to, &inner, false));
    carry(server, client, shared, true);
    Some(())
}

/// Carries bytes in one way until one side ends.
fn carry(mut from: TcpStream, mut to: TcpStream, shared: &Shared, is_answer: bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if shared.pass(is_answer).is_none() || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each byte with the same.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut output = stream.try_clone().unwrap();
                    std::io::copy(&mut &stream, &mut output)
                });
            }
        });
        address
    }

    fn ask(stream: &mut TcpStream) -> std::io::Result<u8> {
        stream.write_all(b"x")?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer[0])
    }

    #[test]
    fn what_is_cut_waits_and_a_lost_reply_breaks_the_connection() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        assert_eq!(ask(&mut stream).unwrap(), b'x');
        for weather in [Weather::Cut, Weather::OneWay] {
            proxy.set(weather);
            let mut waiting = stream.try_clone().unwrap();
            let waiting = thread::spawn(move || ask(&mut waiting));
            // It cannot end while the weather is bad; it does as soon as it clears.
            thread::sleep(4 * LOOK);
            assert!(!waiting.is_finished(), "{weather:?}");
            proxy.set(Weather::Fair);
            assert_eq!(waiting.join().unwrap().unwrap(), b'x');
        }
        proxy.set(Weather::LosesReplies);
        assert!(ask(&mut stream).is_err());
    }
}
