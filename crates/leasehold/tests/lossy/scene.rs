//! Servers, proxies before them, and what to look for in the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Session};
use testbed::proxy::{Fault, Proxy, Request};
use testbed::redis::{Fleet, RedisServer};
use testbed::{Lent, Pool};

use crate::steps::{NAME, expect_claims, pause, within};

const NODES: usize = 3;

/// Longer than any wait of an operation, so that nothing is free because its ttl is over.
const TTL: Duration = Duration::from_secs(20);

// Enough for all scenes of all trials that run at once.
static SERVERS: Pool<RedisServer> = Pool::new(
    64,
    |folder| RedisServer::start(folder, &[]),
    RedisServer::wipe,
);
static FLEETS: Pool<Fleet> = Pool::new(64, |folder| Fleet::start(folder, NODES), Fleet::wipe);

pub(crate) struct Scene {
    pub(crate) proxy: Proxies,
    servers: Servers,
    /// What a session behind the proxies connects to.
    subject: String,
    /// What one connects to that nothing happens to.
    witness: String,
}

enum Servers {
    One(Lent<RedisServer>),
    Fleet(Lent<Fleet>),
}

/// The proxies before the servers. The first ones lose what a test names; the others are
/// slower, so that no round goes on without the first.
pub(crate) struct Proxies {
    lossy: Vec<Proxy>,
    _slow: Vec<Proxy>,
}

impl Proxies {
    /// What came to the first of them.
    pub(crate) fn log(&self) -> Vec<Request> {
        self.lossy[0].log()
    }

    /// The same is lost at each of them.
    pub(crate) fn arm(&self, request: &Request, passes: usize, fault: Fault) {
        let arm = |proxy: &Proxy| proxy.arm(request.clone(), passes, fault);
        self.lossy.iter().for_each(arm);
    }

    pub(crate) fn have_fired(&self) -> bool {
        self.lossy.iter().any(Proxy::has_fired)
    }
}

impl Scene {
    /// One server.
    pub(crate) async fn with_layout(layout: &str) -> Arc<Self> {
        let taken = tokio::task::spawn_blocking(|| SERVERS.take());
        let server = taken.await.unwrap();
        let proxy = Proxy::start(server.port()).await;
        let complete = |url: String| format!("{url}?layout={layout}&ttl={}s", TTL.as_secs());
        Arc::new(Self {
            subject: complete(proxy.url()),
            witness: complete(server.url()),
            proxy: Proxies {
                lossy: vec![proxy],
                _slow: Vec::new(),
            },
            servers: Servers::One(server),
        })
    }

    /// New nodes of Redlock, as far as anybody can tell; so many of them lose something.
    pub(crate) async fn of_nodes(lossy: usize) -> Arc<Self> {
        let taken = tokio::task::spawn_blocking(|| FLEETS.take());
        let fleet = taken.await.unwrap();
        let mut proxies = Vec::new();
        for server in &fleet.servers {
            proxies.push(Proxy::start(server.port()).await);
        }
        let places: Vec<_> = proxies.iter().map(Proxy::url).collect();
        let places = places.join(",").replace("redis://", "");
        let slow = proxies.split_off(lossy);
        for proxy in &slow {
            proxy.always(Some(Fault::Delay(Duration::from_millis(3))));
        }
        Arc::new(Self {
            subject: format!("redlock://{places}?ttl={}s", TTL.as_secs()),
            witness: format!("{}?ttl={}s", fleet.url(), TTL.as_secs()),
            proxy: Proxies {
                lossy: proxies,
                _slow: slow,
            },
            servers: Servers::Fleet(fleet),
        })
    }

    /// What the subject connects to.
    pub(crate) fn url(&self) -> &str {
        &self.subject
    }

    /// A session behind the proxies. The one request that is lost may be one of those that
    /// connect.
    pub(crate) async fn subject(&self) -> Session {
        for _ in 0..2 {
            match within("connect", leasehold::connect(&self.subject)).await {
                Ok(session) => return session,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
        leasehold::connect(&self.subject).await.unwrap()
    }

    /// A session that nothing happens to.
    pub(crate) async fn witness(&self) -> Session {
        leasehold::connect(&self.witness).await.unwrap()
    }

    /// Whoever waits does so, as far as the witness can tell.
    pub(crate) async fn until_it_waits(&self, witness: &Session, sent_before: usize) {
        if witness.promises().fair {
            return expect_claims(witness, 2).await;
        }
        // A store without a queue does not know who waits.
        let sent = async {
            while self.proxy.log().len() <= sent_before {
                pause().await;
            }
        };
        within("send a request", sent).await;
    }

    fn servers(&self) -> &[RedisServer] {
        match &self.servers {
            Servers::One(server) => std::slice::from_ref(&**server),
            Servers::Fleet(fleet) => &fleet.servers,
        }
    }

    /// A node forgets everything.
    pub(crate) fn forget(&self, node: usize) {
        let server = &self.servers()[node];
        server.command(&["FLUSHALL"]);
        // So long ago that nobody holds any more what it forgot: waiting for that is
        // another test's.
        server.command(&["HSET", "lh:redlock", "forgot", "1"]);
    }

    /// Waits until no node has anything of the lock, which may take a ttl.
    pub(crate) async fn is_clean(&self) {
        let deadline = Instant::now() + 3 * TTL;
        for server in self.servers() {
            while server.command(&["EXISTS", NAME]) != redis::Value::Int(0) {
                assert!(Instant::now() < deadline, "the lock is still on a node");
                pause().await;
            }
        }
    }
}
