//! How the gate comes to a connection to the service.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::line::Wire;
use super::patient::Patient;

/// Connects within a time, the search for the name's addresses included: else a
/// name server that hangs would let a request look as if it had been sent.
#[derive(Debug, Clone)]
pub(super) struct Connector<C = HttpConnector> {
    inner: C,
    within: Duration,
    patience: Duration,
}

impl Connector {
    /// A service that takes nothing of what is sent to it for `patience` is let
    /// go.
    pub(super) fn new(within: Duration, patience: Duration) -> Self {
        let mut inner = HttpConnector::new();
        inner.set_nodelay(true);
        // A share of it for each address.
        inner.set_connect_timeout(Some(within));
        Self {
            inner,
            within,
            patience,
        }
    }
}

impl<C> Service<Uri> for Connector<C>
where
    C: Service<Uri, Response = TokioIo<TcpStream>>,
    C::Error: Into<Box<dyn Error + Send + Sync>>,
    C::Future: Send + 'static,
{
    type Response = TokioIo<Patient<Wire>>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let (within, patience) = (self.within, self.patience);
        Box::pin(async move {
            let connected = tokio::time::timeout(within, connecting).await;
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
            let stream = connected.map_err(late)?.map_err(Into::into)?;
            let wire = Wire::new(stream.into_inner())?;
            Ok(TokioIo::new(Patient::new(wire, patience)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Empty;
    use hyper::Request;
    use hyper::body::Bytes;
    use hyper_util::client::legacy::Client;
    use hyper_util::client::legacy::connect::dns::Name;
    use hyper_util::rt::TokioExecutor;
    use std::net::SocketAddr;

    /// A name server that never answers.
    #[derive(Debug, Clone)]
    struct Hangs;

    impl Service<Name> for Hangs {
        type Response = std::vec::IntoIter<SocketAddr>;
        type Error = io::Error;
        type Future = std::future::Pending<io::Result<Self::Response>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            std::future::pending()
        }
    }

    #[tokio::test]
    async fn a_name_server_that_hangs_is_a_service_that_is_not_there() {
        let connector = Connector {
            inner: HttpConnector::new_with_resolver(Hangs),
            within: Duration::from_millis(20),
            patience: Duration::from_secs(3600),
        };
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = Uri::from_static("http://service.example/");
        let deadline = Duration::from_secs(10);
        let answer = tokio::time::timeout(deadline, client.request(request)).await;
        let error = answer.expect("it waits for the name").unwrap_err();
        // Which is what tells that nothing was sent.
        assert!(error.is_connect(), "{error:?}");
    }
}
