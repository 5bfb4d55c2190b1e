//! A client that is cut off: from the member that it talks to, or from all of
//! them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use leasehold::Lost;

use super::{cluster, inspector, lock, lost, queue_of, session, wait_for_lock};

/// A cable to a member that can be cut.
struct Cable {
    port: u16,
    state: Arc<AtomicU8>,
}

/// Everything goes through.
const WHOLE: u8 = 0;
/// Nothing goes through, and nobody is told.
const SILENT: u8 = 1;
/// Connections end, and new ones end at once.
const TORN: u8 = 2;

impl Cable {
    fn to(member: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(AtomicU8::new(WHOLE));
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.load(Ordering::SeqCst) == TORN {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", member)).unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = shared.clone();
                    std::thread::spawn(move || carry(from, to, &state));
                }
            }
        });
        Self { port, state }
    }

    fn cut(&self, how: u8) {
        self.state.store(how, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, state: &AtomicU8) {
    let often = Duration::from_millis(20);
    from.set_read_timeout(Some(often)).unwrap();
    let mut buffer = [0; 16 * 1024];
    while state.load(Ordering::SeqCst) != TORN {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) if state.load(Ordering::SeqCst) == WHOLE => {
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            // Lost on the way, or nothing came.
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

/// The hold and the wait go on over another member.
async fn survives_a_cut(how: u8) {
    let (_folder, etcd) = cluster(3);
    let cable = Cable::to(etcd.members[0].port());
    let other = etcd.members[1].port();
    let url = format!("etcd://127.0.0.1:{},127.0.0.1:{other}", cable.port);
    let (holder, waiter) = (session(&url, "ttl=6s").await, session(&url, "ttl=6s").await);
    let guard = lock(&holder, "ledger").await;
    let waiting = wait_for_lock(&waiter, "ledger");
    queue_of(&inspector(&etcd.url()).await, "ledger", 2).await;
    cable.cut(how);
    let began = Instant::now();
    // Longer than the lease would last without renewals.
    while began.elapsed() < Duration::from_secs(7) {
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!waiting.is_finished());
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token() > token);
}

#[testbed::test]
async fn cut_from_its_member_without_a_word_a_hold_survives() {
    survives_a_cut(SILENT).await;
}

#[testbed::test]
async fn cut_from_its_member_with_a_reset_a_hold_survives() {
    survives_a_cut(TORN).await;
}

/// Whoever is cut off from the whole cluster knows that its hold is lost before
/// anybody else can have the lock.
async fn is_lost_before_another_holds(how: u8) {
    let (_folder, etcd) = cluster(1);
    let cable = Cable::to(etcd.members[0].port());
    let cut_off = session(&format!("etcd://127.0.0.1:{}", cable.port), "ttl=3s").await;
    let other = session(&etcd.url(), "ttl=3s").await;
    let guard = lock(&cut_off, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&etcd.url()).await, "ledger", 2).await;
    cable.cut(how);
    let next = waiting.await.unwrap();
    guard.check().unwrap_err();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    // Back again, the session has a new lease.
    cable.cut(WHOLE);
    let again = lock(&cut_off, "ledger").await;
    again.release().await.unwrap();
}

#[testbed::test]
async fn cut_from_all_without_a_word_a_hold_is_lost_in_time() {
    is_lost_before_another_holds(SILENT).await;
}

#[testbed::test]
async fn cut_from_all_with_a_reset_a_hold_is_lost_in_time() {
    is_lost_before_another_holds(TORN).await;
}

/// Cut off while waiting, and back in time: the place in the queue is kept.
#[testbed::test]
async fn a_waiter_that_is_back_in_time_has_its_place() {
    let (_folder, etcd) = cluster(1);
    let cable = Cable::to(etcd.members[0].port());
    let holder = session(&etcd.url(), "ttl=20s").await;
    let first = session(&format!("etcd://127.0.0.1:{}", cable.port), "ttl=20s").await;
    let second = session(&etcd.url(), "ttl=20s").await;
    let inspector = inspector(&etcd.url()).await;
    let guard = lock(&holder, "ledger").await;
    let first = wait_for_lock(&first, "ledger");
    queue_of(&inspector, "ledger", 2).await;
    let second = wait_for_lock(&second, "ledger");
    queue_of(&inspector, "ledger", 3).await;
    cable.cut(TORN);
    guard.release().await.unwrap();
    queue_of(&inspector, "ledger", 2).await;
    cable.cut(WHOLE);
    let guard = first.await.unwrap();
    assert!(!second.is_finished());
    guard.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}
