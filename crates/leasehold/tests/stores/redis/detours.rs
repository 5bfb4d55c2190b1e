//! Ways that lead elsewhere than before: an address behind which the server
//! changes, or behind which there is none for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU16, AtomicUsize};
use std::time::Duration;

use crate::steps::{LONG, try_lock};
use leasehold::Session;
use testbed::redis::{RedisServer, Replicated};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;

/// An address of its own that leads to a server. What is connected stays so.
struct Detour {
    port: u16,
    /// Where new connections lead to; 0 if they are closed at once.
    target: Arc<AtomicU16>,
    taken: Arc<AtomicUsize>,
    /// Who has it keeps new connections from leading anywhere.
    gate: Arc<RwLock<()>>,
}

impl Detour {
    async fn to(server: &RedisServer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let detour = Self {
            port: listener.local_addr().unwrap().port(),
            target: Arc::new(AtomicU16::new(server.port())),
            taken: Arc::default(),
            gate: Arc::default(),
        };
        let (target, taken) = (detour.target.clone(), detour.taken.clone());
        let gate = detour.gate.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                taken.fetch_add(1, SeqCst);
                let port = target.load(SeqCst);
                let gate = gate.clone();
                tokio::spawn(async move {
                    drop(gate.read().await);
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        detour
    }

    /// Waits until it was connected to more often than that.
    async fn taken_again(&self, before: usize) {
        let again = async {
            while self.taken.load(SeqCst) <= before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG, again).await.unwrap();
    }

    async fn session(&self, options: &str) -> Session {
        let url = format!("redis://127.0.0.1:{}?{options}", self.port);
        leasehold::connect(&url).await.unwrap()
    }
}

#[testbed::test]
async fn what_another_server_confirms_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let old = Replicated::start(&folder.path().join("old"), 1, &[]);
    let new = Replicated::start(&folder.path().join("new"), 1, &[]);
    for layout in ["queue", "plain", "redisson"] {
        let detour = Detour::to(old.primary()).await;
        let options = format!("ttl=20s&durability=replicas:1&layout={layout}");
        let ours = detour.session(&options).await;
        detour.target.store(new.primary().port(), SeqCst);
        let guard = ours.mutex(layout).lock_within(LONG).await.unwrap();
        let url = format!("{}?ttl=20s&layout={layout}", new.url());
        let other = leasehold::connect(&url).await.unwrap();
        let taken = try_lock(&other, layout).await;
        assert!(taken.is_none(), "{layout}: the lock is held twice");
        guard.release().await.unwrap();
    }
}

#[testbed::test]
async fn an_address_that_closes_every_connection_is_not_stormed() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    for layout in ["queue", "plain", "redisson"] {
        let detour = Detour::to(&server).await;
        let ours = detour.session(&format!("ttl=20s&layout={layout}")).await;
        let guard = ours.mutex("ledger").lock_within(LONG).await.unwrap();
        detour.target.store(0, SeqCst);
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let before = detour.taken.load(SeqCst);
        let mutex = ours.mutex("other");
        mutex.lock_within(Duration::from_secs(2)).await.unwrap_err();
        let taken = detour.taken.load(SeqCst) - before;
        assert!(taken > 0, "{layout}: it was tried");
        assert!(taken < 200, "{layout}: {taken} connections");
        detour.target.store(server.port(), SeqCst);
        let other = mutex.lock_within(LONG).await.unwrap();
        other.release().await.unwrap();
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
}

#[testbed::test]
async fn whoever_looks_elsewhere_while_it_connects_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    let detour = Detour::to(&server).await;
    let ours = detour.session("ttl=60s").await;
    let (first, second) = (ours.mutex("first"), ours.mutex("second"));
    // The session connects by itself, too: it is not always the future below.
    for _ in 0..10 {
        let before = detour.taken.load(SeqCst);
        detour.target.store(0, SeqCst);
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        // The session pauses before it tries again.
        detour.taken_again(before).await;
        let gate = detour.gate.write().await;
        detour.target.store(server.port(), SeqCst);
        let before = detour.taken.load(SeqCst);
        let mut idle = Box::pin(first.lock_within(LONG));
        assert!(futures_util::poll!(&mut idle).is_pending());
        detour.taken_again(before).await;
        drop(gate);
        let guard = second.lock_within(LONG).await.unwrap();
        guard.release().await.unwrap();
        idle.await.unwrap().release().await.unwrap();
    }
}
