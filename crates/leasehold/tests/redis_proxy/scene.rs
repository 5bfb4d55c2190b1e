//! A server, a proxy before it, and what to look for in the store.

use std::sync::Arc;
use std::time::Duration;

use leasehold::engine::Queue;
use leasehold::{ErrorKind, Guard, Inspector, Session};

use crate::proxy::Proxy;
use crate::server::RedisServer;

/// The lock of every scene.
pub(crate) const NAME: &str = "jobs/nightly";

/// Longer than any wait here, so that nothing is free because its ttl is over.
const TTL: Duration = Duration::from_secs(7);

/// How long one fault may hold anything up: the longest is a reply that never
/// comes.
const BOUND: Duration = Duration::from_secs(5);

/// One server of its own.
pub(crate) struct Scene {
    pub(crate) proxy: Proxy,
    server: RedisServer,
    layout: &'static str,
    _folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn start(layout: &'static str) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let started = tokio::task::spawn_blocking(move || RedisServer::start(&path, &[]));
        let server = started.await.unwrap();
        Arc::new(Self {
            proxy: Proxy::start(server.port()).await,
            server,
            layout,
            _folder: folder,
        })
    }

    /// A session behind the proxy. The one request that is lost may be one of
    /// those that connect.
    pub(crate) async fn subject(&self) -> Session {
        let url = self.complete(&self.proxy.url());
        for _ in 0..2 {
            match within("connect", leasehold::connect(&url)).await {
                Ok(session) => return session,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
        leasehold::connect(&url).await.unwrap()
    }

    /// A session that nothing happens to.
    pub(crate) async fn witness(&self) -> Session {
        let url = self.complete(&self.server.url());
        leasehold::connect(&url).await.unwrap()
    }

    fn complete(&self, url: &str) -> String {
        format!("{url}?layout={}&ttl={}s", self.layout, TTL.as_secs())
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
}

/// The lock is free; others can have it, and so can the subject. Gives the
/// sessions back, so that none closes before the log is read.
pub(crate) async fn afterwards(witness: Session, subject: Session) -> [Session; 2] {
    expect_claims(&witness, 0).await;
    for session in [&witness, &subject, &witness] {
        let guard = held(session.mutex(NAME).lock()).await;
        assert_eq!(look(&witness.inspector()).await.claims.len(), 1);
        give_back(guard).await;
    }
    expect_claims(&witness, 0).await;
    [witness, subject]
}

/// Waits until the lock has so many claims.
pub(crate) async fn expect_claims(witness: &Session, count: usize) {
    let inspector = witness.inspector();
    let seen = async {
        while look(&inspector).await.claims.len() != count {
            pause().await;
        }
    };
    within(&format!("come to {count} claims"), seen).await;
}

/// The guard of a wait that one fault must not fail.
pub(crate) async fn held(wait: impl Future<Output = leasehold::Result<Guard>>) -> Guard {
    let guard = within("hold", wait).await.unwrap();
    guard.check().unwrap();
    guard
}

/// Releases; whoever does not hear that the store did it is told so.
pub(crate) async fn give_back(guard: Guard) {
    if let Err(error) = within("release", guard.release()).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// Fails if it takes longer than one fault may.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(BOUND, work).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {BOUND:?}"))
}

/// Between two looks.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

pub(crate) async fn look(inspector: &Inspector) -> Queue {
    inspector.queue(NAME).await.unwrap()
}
