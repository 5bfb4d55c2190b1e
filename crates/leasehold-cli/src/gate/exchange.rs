//! One request and its answer, through the gate.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt as _, Either, Full, channel};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use leasehold::fence::Ending;
use leasehold::http::{FENCE, Pass, Porter, SIGNATURE};
use serde_json::json;
use tokio::time::Instant;

use super::connector::Connector;
use super::line::Trace;
use super::to_the_end::ToTheEnd;
use super::upload::{Upload, Watch};
use super::workers::Place;
use crate::exit::Failure;

/// An answer up to this size is taken in before it is passed on: then the
/// request is over, however slowly the client reads.
const SMALL: u64 = 64 * 1024;
/// Parts of a larger answer that wait for the client.
const PARTS: usize = 8;
/// A service that does not take a connection within this time is not there.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The least that a client gets to read some of its answer, and the service to
/// read some of a request.
const READS_WITHIN: Duration = Duration::from_secs(1);

pub(super) type Answer = Response<Either<Full<Bytes>, channel::Channel<Bytes, hyper::Error>>>;

/// What the service gets in place of the fence where that is the proof.
const TOKEN: HeaderName = HeaderName::from_static("leasehold-token");

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
    client: Client<Connector, Upload>,
    porter: Porter,
    hides_fences: bool,
    drain_max: Duration,
}

impl Upstream {
    /// At most so many connections stay open for requests to come.
    pub(super) fn new(
        uri: &Uri,
        porter: Porter,
        drain_max: Duration,
        idle: usize,
    ) -> Result<Self, Failure> {
        let unfit = || Failure::usage("--upstream: not a host");
        let authority = uri.authority().cloned().ok_or_else(unfit)?;
        // Before the request's own time is over: then it is known that nothing
        // was sent, and nobody has to wait for it.
        let within = CONNECT_WITHIN.min(drain_max / 2);
        let connector = Connector::new(within, drain_max.max(READS_WITHIN));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(idle)
            .build(connector);
        Ok(Self {
            host: HeaderValue::from_str(authority.as_str()).map_err(|_| unfit())?,
            authority,
            client,
            porter,
            hides_fences: false,
            drain_max,
        })
    }

    /// Tells the service only the token of a fence: for a porter to whom the
    /// whole fence is the proof.
    pub(super) fn hiding_fences(mut self, hides_fences: bool) -> Self {
        self.hides_fences = hides_fences;
        self
    }

    /// How long a client may take nothing of its answer.
    pub(super) fn client_patience(&self) -> Duration {
        self.drain_max.max(READS_WITHIN)
    }

    /// Answers a request: with the service's answer if it may pass.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        place: Place,
    ) -> Answer {
        let (mut parts, body) = request.into_parts();
        if parts.method == Method::CONNECT || parts.headers.contains_key(header::UPGRADE) {
            let why = "a connection that is handed over cannot be fenced";
            return problem(StatusCode::NOT_IMPLEMENTED, "no upgrades", why);
        }
        let pass = match self.porter.admit(&parts).await {
            Ok(pass) => pass,
            Err(answer) => return answer.map(|text| Either::Left(text.into())),
        };
        if self.hides_fences {
            parts.headers.remove(FENCE);
            let token = HeaderValue::from(pass.fence().token.get());
            parts.headers.insert(TOKEN, token);
        }
        let is_chunked = body.size_hint().exact().is_none();
        if let Err(error) = self.readdress(&mut parts, peer, is_chunked) {
            pass.end(Ending::NotSent);
            return problem(StatusCode::BAD_REQUEST, "not a request", &error.to_string());
        }
        let (body, upload) = Upload::watched(body);
        let mut request = Request::from_parts(parts, body);
        let trace = Trace::new(capture_connection(&mut request));
        let under_way = UnderWay {
            upload,
            trace,
            pass,
            place,
        };
        let sent = self.client.request(request);
        let until = Instant::now() + self.drain_max;
        // The request is seen to its end also if the client goes away.
        ToTheEnd::new(see_through(sent, under_way, until)).await
    }

    /// Turns a request to us into one to the service.
    fn readdress(
        &self,
        parts: &mut Parts,
        peer: SocketAddr,
        is_chunked: bool,
    ) -> Result<(), hyper::http::Error> {
        let path = parts.uri.path_and_query().cloned();
        parts.uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(path.unwrap_or(PathAndQuery::from_static("/")))
            .build()?;
        parts.version = Version::HTTP_11;
        leave_connection(&mut parts.headers);
        if is_chunked {
            // Else a body would be left out where none is usual, as with GET.
            let chunked = HeaderValue::from_static("chunked");
            parts.headers.insert(header::TRANSFER_ENCODING, chunked);
        }
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

/// A request that the service may act on.
struct UnderWay {
    /// First, so that nothing more goes on when the pass is over.
    upload: Watch,
    trace: Trace,
    pass: Pass,
    place: Place,
}

impl UnderWay {
    /// The answer has come to its end.
    fn answered(self, is_final: bool) {
        // Who answers early may still act on what it has.
        let is_over = is_final && self.upload.has_ended();
        self.end(if is_over {
            Ending::Answered
        } else {
            Ending::Unknown
        });
    }

    fn end(self, ending: Ending) {
        drop(self.upload);
        match ending {
            Ending::Answered => self.trace.settle(),
            Ending::NotSent | Ending::Unknown => drop(self.trace),
        }
        self.pass.end(ending);
    }
}

/// Waits for the answer and says at the door how the request ended.
async fn see_through(mut sent: ResponseFuture, mut under_way: UnderWay, until: Instant) -> Answer {
    let trace = &mut under_way.trace;
    let followed = poll_fn(move |context| {
        let polled = Pin::new(&mut sent).poll(context);
        if polled.is_pending() {
            trace.follow();
        }
        polled
    });
    let response = match tokio::time::timeout_at(until, followed).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            let is_sent = !error.is_connect();
            under_way.end(if is_sent {
                Ending::Unknown
            } else {
                Ending::NotSent
            });
            return problem(StatusCode::BAD_GATEWAY, "no answer", &chain(&error));
        }
        Err(_) => {
            under_way.end(Ending::Unknown);
            let why = "the service did not answer within --drain-max";
            return problem(StatusCode::GATEWAY_TIMEOUT, "no answer", why);
        }
    };
    let (mut parts, body) = response.into_parts();
    let is_final = is_final(&parts, &body);
    leave_connection(&mut parts.headers);
    let size = body.size_hint().exact();
    if size.is_some_and(|size| size <= SMALL) {
        let Ok(Ok(collected)) = tokio::time::timeout_at(until, body.collect()).await else {
            under_way.end(Ending::Unknown);
            let why = "the answer broke off";
            return problem(StatusCode::BAD_GATEWAY, "no answer", why);
        };
        under_way.answered(is_final);
        let body = Either::Left(Full::new(collected.to_bytes()));
        return Response::from_parts(parts, body);
    }
    let (sender, channel) = channel::Channel::new(PARTS);
    tokio::spawn(stream(body, sender, under_way, is_final, until));
    Response::from_parts(parts, Either::Right(channel))
}

/// Whether the end of this answer is the end of the work: not if another proxy
/// may have given up on the service, and not if an answer that broke off would
/// look the same.
fn is_final(parts: &hyper::http::response::Parts, body: &Incoming) -> bool {
    // Most proxies say 502 or 504. Envoy and Varnish say 503 also when they had
    // sent the request, and Cloudflare has numbers of its own. A service that
    // says 503 by itself costs its next holder a wait, which does no harm.
    let has_given_up = matches!(parts.status.as_u16(), 502..=504 | 520..=530);
    let has_end =
        body.size_hint().exact().is_some() || parts.headers.contains_key(header::TRANSFER_ENCODING);
    has_end && !has_given_up
}

/// Passes a long answer on, part by part. It is read to its end also if nobody
/// wants it any more. A client that does not read keeps others waiting for
/// `drain_max` and no longer: an upload is cut off then, and the service acts on
/// what it has for `drain_max` more at the longest.
async fn stream(
    mut body: Incoming,
    mut sender: channel::Sender<Bytes, hyper::Error>,
    under_way: UnderWay,
    is_final: bool,
    until: Instant,
) {
    // As long as there is a connection to the service.
    let _place = under_way.place.clone();
    let passed = {
        let mut passing = std::pin::pin!(pass_on(&mut body, &mut sender, until));
        match tokio::time::timeout_at(until, &mut passing).await {
            Ok(passed) => {
                under_way.answered(is_final && matches!(passed, Ok(true)));
                passed
            }
            Err(_) => {
                under_way.end(Ending::Unknown);
                passing.await
            }
        }
    };
    if let Err(error) = passed {
        sender.abort(error);
    }
}

/// Whether it came to its end: one that nobody wants is read until its time is
/// over and no longer.
async fn pass_on(
    body: &mut Incoming,
    sender: &mut channel::Sender<Bytes, hyper::Error>,
    until: Instant,
) -> Result<bool, hyper::Error> {
    let mut is_wanted = true;
    loop {
        let next = if is_wanted {
            body.frame().await
        } else if Instant::now() >= until {
            return Ok(false);
        } else {
            match tokio::time::timeout_at(until, body.frame()).await {
                Ok(next) => next,
                Err(_) => return Ok(false),
            }
        };
        let Some(frame) = next else {
            return Ok(true);
        };
        let frame = frame?;
        is_wanted = is_wanted && sender.send(frame).await.is_ok();
    }
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
