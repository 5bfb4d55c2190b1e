//! Three nodes, proxies before some of them, and what to look for afterwards.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Session};

use crate::proxy::{Fault, Proxy, Request};
use crate::server::Fleet;
use crate::steps::{NAME, pause, within};

const NODES: usize = 3;
/// Longer than any wait of an operation, so that nothing is free because its
/// ttl is over.
const TTL: Duration = Duration::from_secs(7);

/// Nodes that no scene uses now: to start them takes longer than most scenes.
static IDLE: Mutex<Vec<(tempfile::TempDir, Fleet)>> = Mutex::new(Vec::new());

/// Ends all nodes: statics are never dropped.
pub(crate) fn end() {
    IDLE.lock().unwrap().clear();
}

pub(crate) struct Scene {
    pub(crate) proxy: Proxies,
    nodes: Option<(tempfile::TempDir, Fleet)>,
}

/// The proxies before the nodes. The first ones lose what they are told to; the
/// others are slower, so that no round goes on without the first.
pub(crate) struct Proxies {
    lossy: Vec<Proxy>,
    slow: Vec<Proxy>,
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
    /// New nodes, as far as anybody can tell; so many of them lose something.
    pub(crate) async fn start(lossy: usize) -> Arc<Self> {
        let started = tokio::task::spawn_blocking(|| {
            let idle = IDLE.lock().unwrap().pop();
            let nodes = idle.unwrap_or_else(|| {
                let folder = tempfile::tempdir().unwrap();
                let fleet = Fleet::start(folder.path(), NODES);
                (folder, fleet)
            });
            for server in &nodes.1.servers {
                server.command(&["FLUSHALL"]);
                server.command(&["SCRIPT", "FLUSH"]);
            }
            nodes
        });
        let nodes = started.await.unwrap();
        let (mut first, mut slow) = (Vec::new(), Vec::new());
        for (number, server) in nodes.1.servers.iter().enumerate() {
            let proxy = Proxy::start(server.port()).await;
            if number < lossy {
                first.push(proxy);
            } else {
                proxy.always(Some(Fault::Delay(Duration::from_millis(3))));
                slow.push(proxy);
            }
        }
        let lossy = first;
        Arc::new(Self {
            proxy: Proxies { lossy, slow },
            nodes: Some(nodes),
        })
    }

    fn fleet(&self) -> &Fleet {
        &self.nodes.as_ref().unwrap().1
    }

    pub(crate) fn url(&self) -> String {
        let proxies = self.proxy.lossy.iter().chain(&self.proxy.slow);
        let places: Vec<_> = proxies.map(Proxy::url).collect();
        let places = places.join(",").replace("redis://", "");
        format!("redlock://{places}?ttl={}s", TTL.as_secs())
    }

    /// A session behind the proxies. The one request that is lost may be one of
    /// those that connect.
    pub(crate) async fn subject(&self) -> Session {
        for _ in 0..2 {
            match within("connect", leasehold::connect(&self.url())).await {
                Ok(session) => return session,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
        leasehold::connect(&self.url()).await.unwrap()
    }

    /// A session that nothing happens to.
    pub(crate) async fn witness(&self) -> Session {
        let url = format!("{}?ttl={}s", self.fleet().url(), TTL.as_secs());
        leasehold::connect(&url).await.unwrap()
    }

    /// Whoever waits does so, as far as can be told: no node knows who waits.
    pub(crate) async fn until_it_waits(&self, _witness: &Session, sent_before: usize) {
        let sent = async {
            while self.proxy.log().len() <= sent_before {
                pause().await;
            }
        };
        within("send a request", sent).await;
    }

    /// A node forgets everything.
    pub(crate) fn forget(&self, node: usize) {
        let server = &self.fleet().servers[node];
        server.command(&["FLUSHALL"]);
        // So long ago that nobody holds any more what it forgot: waiting for
        // that is another test's.
        server.command(&["HSET", "lh:redlock", "forgot", "1"]);
    }

    /// Waits until no node has anything of the lock, at the latest after a ttl.
    pub(crate) async fn is_clean(&self) {
        let deadline = Instant::now() + TTL + Duration::from_secs(2);
        for server in &self.fleet().servers {
            while server.command(&["EXISTS", NAME]) != redis::Value::Int(0) {
                assert!(Instant::now() < deadline, "the lock is still on a node");
                pause().await;
            }
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let (Some(nodes), Ok(mut idle)) = (self.nodes.take(), IDLE.lock()) {
            idle.push(nodes);
        }
    }
}
