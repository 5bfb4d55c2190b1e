//! A server, a proxy before it, and what to look for in the store.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{ErrorKind, Session};

use crate::proxy::Proxy;
use crate::server::RedisServer;
use crate::steps::{expect_claims, pause, within};

/// Longer than any wait here, so that nothing is free because its ttl is over.
const TTL: Duration = Duration::from_secs(7);

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
