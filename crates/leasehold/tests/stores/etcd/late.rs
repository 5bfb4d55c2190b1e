//! A request that arrives long after it was given up: held back on its way, and
//! delivered when its claim has been withdrawn by another way.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{cluster, session};
use testbed::wait_for;

/// A way to a member on which requests can be held back.
struct Way {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    hold: Mutex<Hold>,
    /// What the member has sent.
    answers: Mutex<Vec<u8>>,
}

#[derive(Default)]
enum Hold {
    #[default]
    Open,
    /// Everything is kept.
    Keeping(Vec<u8>, TcpStream),
    /// What came first is kept, the rest is thrown away.
    Sealed(Vec<u8>, TcpStream),
    /// About to keep what comes.
    Closed,
}

impl Way {
    fn to(member: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", member)).unwrap();
                let (from_client, to_server) = (client.try_clone(), server.try_clone());
                let requests = shared.clone();
                let (from_client, to_server) = (from_client.unwrap(), to_server.unwrap());
                std::thread::spawn(move || requests.forward(from_client, to_server));
                let answers = shared.clone();
                std::thread::spawn(move || answers.bring_back(server, client));
            }
        });
        Self { port, state }
    }

    fn close(&self) {
        *self.state.hold.lock().unwrap() = Hold::Closed;
    }

    /// Waits for a request that has this text in it, and throws away whatever
    /// comes after it: also the news that nobody wants it any more.
    fn seal_after(&self, text: &str) {
        wait_for("a request to hold back", || {
            let mut hold = self.state.hold.lock().unwrap();
            match std::mem::replace(&mut *hold, Hold::Closed) {
                Hold::Keeping(kept, server) if has(&kept, text) => {
                    *hold = Hold::Sealed(kept, server);
                    Some(())
                }
                other => {
                    *hold = other;
                    None
                }
            }
        });
    }

    /// Delivers what was held back and waits for the member's answer, which has
    /// a key in it: the inbox that was not as expected, or the new claim.
    fn deliver(&self) {
        self.state.answers.lock().unwrap().clear();
        match &mut *self.state.hold.lock().unwrap() {
            Hold::Sealed(kept, server) => server.write_all(kept).unwrap(),
            _ => panic!("nothing is held back"),
        }
        wait_for("an answer", || {
            let answers = self.state.answers.lock().unwrap();
            (has(&answers, "leasehold/inbox/") || has(&answers, "ledger/")).then_some(())
        });
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

impl State {
    fn forward(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            let bytes = &buffer[..count];
            let mut hold = self.hold.lock().unwrap();
            match &mut *hold {
                Hold::Open => drop(server.write_all(bytes)),
                Hold::Keeping(kept, _) => kept.extend(bytes),
                Hold::Sealed(..) => {}
                Hold::Closed => {
                    let server = server.try_clone().unwrap();
                    *hold = Hold::Keeping(bytes.to_vec(), server);
                }
            }
        }
        // The member is to believe that its client is still there.
    }

    fn bring_back(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = server.read(&mut buffer) {
            self.answers.lock().unwrap().extend(&buffer[..count]);
            let _ = client.write_all(&buffer[..count]);
        }
        let _ = client.shutdown(Shutdown::Both);
    }
}

#[testbed::test]
async fn a_request_that_was_given_up_does_nothing_when_it_arrives() {
    let (_folder, etcd) = cluster(3);
    let way = Way::to(etcd.members[0].port());
    let other = etcd.members[1].port();
    let url = format!("etcd://127.0.0.1:{},127.0.0.1:{other}", way.port);
    let one = session(&url, "ttl=30s").await;
    way.close();
    let mutex = one.mutex("ledger");
    let given_up = tokio::spawn(async move {
        let attempt = mutex.lock_within(Duration::from_millis(500)).await;
        attempt.map(drop).unwrap_err()
    });
    way.seal_after("ledger/");
    given_up.await.unwrap();
    wait_for("a request that is called back", || {
        let inboxes = etcd.ctl(&["get", "leasehold/inbox/", "--prefix", "--keys-only"]);
        (!inboxes.is_empty()).then_some(())
    });
    assert_eq!(etcd.ctl(&["get", "ledger/", "--prefix"]), "");
    way.deliver();
    assert_eq!(etcd.ctl(&["get", "ledger/", "--prefix"]), "");
}
