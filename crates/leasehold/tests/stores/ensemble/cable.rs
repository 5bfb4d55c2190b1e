//! A cable to a server, which can be cut.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a cable looks whether it is cut.
const OFTEN: Duration = Duration::from_millis(20);

/// How a cable is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing goes through, and neither side sees an error. What was sent meanwhile
    /// arrives when the cable is mended, as TCP has it.
    Silent,
    /// Connections end, and new ones end at once.
    Torn,
}

/// Listens until the test program ends.
pub(crate) struct Cable {
    pub(crate) port: u16,
    cut: Arc<Mutex<Option<Cut>>>,
}

impl Cable {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(Mutex::new(None));
        let shared = cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if *shared.lock().unwrap() == Some(Cut::Torn) {
                    continue;
                }
                // It may be down.
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let cut = shared.clone();
                    std::thread::spawn(move || carry(from, to, &cut));
                }
            }
        });
        Self { port, cut }
    }

    pub(crate) fn cut(&self, how: Cut) {
        *self.cut.lock().unwrap() = Some(how);
    }

    pub(crate) fn mend(&self) {
        *self.cut.lock().unwrap() = None;
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, cut: &Mutex<Option<Cut>>) {
    from.set_read_timeout(Some(OFTEN)).unwrap();
    let is_cut = |how| *cut.lock().unwrap() == Some(how);
    let mut buffer = [0; 16 * 1024];
    while !is_cut(Cut::Torn) {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        while is_cut(Cut::Silent) {
            std::thread::sleep(OFTEN);
        }
        if is_cut(Cut::Torn) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
