//! One request and its answer, through the gate.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Either, Full, channel};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use leasehold::fence::Ending;
use leasehold::http::{Pass, Porter, SIGNATURE};
use serde_json::json;
use tokio::sync::oneshot;

use crate::exit::Failure;

/// An answer up to this size is taken in before it is passed on: then the
/// request is over, however slowly the client reads.
const SMALL: u64 = 64 * 1024;
/// Parts of a larger answer that wait for the client.
const PARTS: usize = 8;

pub(super) type Answer = Response<Either<Full<Bytes>, channel::Channel<Bytes, hyper::Error>>>;

/// These are about one connection, not about the request.
const OF_THE_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The service behind the gate.
#[derive(Debug)]
pub(super) struct Upstream {
    authority: Authority,
    host: HeaderValue,
    client: Client<HttpConnector, Incoming>,
    porter: Porter,
    drain_max: Duration,
}

impl Upstream {
    pub(super) fn new(uri: &Uri, porter: Porter, drain_max: Duration) -> Result<Self, Failure> {
        let unfit = || Failure::usage("--upstream: not a host");
        let authority = uri.authority().cloned().ok_or_else(unfit)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(drain_max));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self {
            host: HeaderValue::from_str(authority.as_str()).map_err(|_| unfit())?,
            authority,
            client,
            porter,
            drain_max,
        })
    }

    /// Answers a request: with the service's answer if it may pass.
    pub(super) async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        let (mut parts, body) = request.into_parts();
        if parts.method == Method::CONNECT || parts.headers.contains_key(header::UPGRADE) {
            let why = "a connection that is handed over cannot be fenced";
            return problem(StatusCode::NOT_IMPLEMENTED, "no upgrades", why);
        }
        let pass = match self.porter.admit(&parts).await {
            Ok(pass) => pass,
            Err(answer) => return answer.map(|text| Either::Left(text.into())),
        };
        if let Err(error) = self.readdress(&mut parts, peer) {
            pass.end(Ending::NotSent);
            return problem(StatusCode::BAD_REQUEST, "not a request", &error.to_string());
        }
        let request = Request::from_parts(parts, body);
        let sent = self.client.request(request);
        let (answer, answered) = oneshot::channel();
        // A task of its own: the request is seen to its end also if the client
        // goes away.
        tokio::spawn(see_through(sent, pass, answer, self.drain_max));
        let lost = |_| {
            let why = "the request broke off inside the gate";
            problem(StatusCode::BAD_GATEWAY, "no answer", why)
        };
        answered.await.unwrap_or_else(lost)
    }

    /// Turns a request to us into one to the service.
    fn readdress(&self, parts: &mut Parts, peer: SocketAddr) -> Result<(), hyper::http::Error> {
        let path = parts.uri.path_and_query().cloned();
        parts.uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(path.unwrap_or(PathAndQuery::from_static("/")))
            .build()?;
        parts.version = Version::HTTP_11;
        leave_connection(&mut parts.headers);
        // Whoever can read it could show it again.
        parts.headers.remove(SIGNATURE);
        let host = parts.headers.insert(header::HOST, self.host.clone());
        if let Some(host) = host {
            parts.headers.insert("x-forwarded-host", host);
        }
        let address = HeaderValue::from_str(&peer.ip().to_string())?;
        parts.headers.append("x-forwarded-for", address);
        Ok(())
    }
}

/// Waits for the answer and says at the door how the request ended.
async fn see_through(
    sent: hyper_util::client::legacy::ResponseFuture,
    pass: Pass,
    answer: oneshot::Sender<Answer>,
    drain_max: Duration,
) {
    let response = match tokio::time::timeout(drain_max, sent).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            let is_sent = !error.is_connect();
            let ending = if is_sent {
                Ending::Unknown
            } else {
                Ending::NotSent
            };
            pass.end(ending);
            let why = chain(&error);
            _ = answer.send(problem(StatusCode::BAD_GATEWAY, "no answer", &why));
            return;
        }
        Err(_) => {
            pass.end(Ending::Unknown);
            let why = "the service did not answer within --drain-max";
            _ = answer.send(problem(StatusCode::GATEWAY_TIMEOUT, "no answer", why));
            return;
        }
    };
    let (mut parts, body) = response.into_parts();
    leave_connection(&mut parts.headers);
    let size = body.size_hint().exact();
    if size.is_some_and(|size| size <= SMALL) {
        let collected = tokio::time::timeout(drain_max, body.collect()).await;
        let Ok(Ok(collected)) = collected else {
            pass.end(Ending::Unknown);
            let why = "the answer broke off";
            _ = answer.send(problem(StatusCode::BAD_GATEWAY, "no answer", why));
            return;
        };
        pass.end(Ending::Answered);
        let body = Either::Left(Full::new(collected.to_bytes()));
        _ = answer.send(Response::from_parts(parts, body));
        return;
    }
    let (sender, channel) = channel::Channel::new(PARTS);
    _ = answer.send(Response::from_parts(parts, Either::Right(channel)));
    stream(body, sender, pass).await;
}

/// Passes a long answer on, part by part. It is read to its end also if nobody
/// wants it any more.
async fn stream(mut body: Incoming, mut sender: channel::Sender<Bytes, hyper::Error>, pass: Pass) {
    let mut is_wanted = true;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => is_wanted = is_wanted && sender.send(frame).await.is_ok(),
            Err(error) => {
                sender.abort(error);
                pass.end(Ending::Unknown);
                return;
            }
        }
    }
    pass.end(Ending::Answered);
}

/// Takes out what is about the connection that it came by.
fn leave_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_THE_CONNECTION) {
        headers.remove(name);
    }
}

fn problem(status: StatusCode, title: &str, detail: &str) -> Answer {
    let text = json!({
        "type": "about:blank",
        "title": title,
        "status": status.as_u16(),
        "detail": detail,
    });
    let mut response = Response::new(Either::Left(Full::from(format!("{text}\n"))));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
