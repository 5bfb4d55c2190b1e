//! `leasehold gate`: a reverse proxy that lets only the newest holder through to
//! a service that cannot check fences itself.

mod exchange;
mod resource;
mod upload;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use leasehold::fence::FenceKey;
use leasehold::http::{Doors, Porter, Trust};
use serde_json::json;
use tokio::net::TcpListener;

use crate::args::Common;
use crate::exit::{self, Failure};
use crate::print::Console;
use crate::signals::Signals;
use crate::store;
use exchange::Upstream;
use resource::Resources;

/// A client that does not finish its headers is let go.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// Let only the newest holder reach an HTTP service
///
/// A reverse proxy for a service that cannot check fences itself. Every request
/// must show the fence of its lock (Leasehold-Fence) and name its resource, by
/// its path (--resource) or by a header (Leasehold-Resource). Requests of a
/// newer holder wait until those of older ones are answered; older ones are
/// refused with 409 from then on. A request whose answer nobody saw counts as
/// under way for --drain-max, which must be longer than a request ever takes in
/// the service, its queues included. After a restart nobody passes for that long
/// to a resource that the gate knows.
///
/// A fence is believed if it is signed (--key; `leasehold fence headers` signs)
/// or, without a key, if the store says at its first sight that the lock of the
/// resource's name is held under it (--confirm).
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
#[command(group = ArgGroup::new("trust").required(true).args(["key", "confirm"]))]
pub(crate) struct GateArgs {
    /// Where to listen, such as 127.0.0.1:8080; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// The service, such as http://127.0.0.1:9000
    #[arg(long, value_name = "URL", value_parser = upstream)]
    upstream: Uri,
    /// Where the marks are kept: a file that only one gate may use
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// Create the file, for the first time; there must be none
    #[arg(long)]
    new_state: bool,
    /// No request acts for longer than this after it was sent to the service
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = bounded)]
    drain_max: Duration,
    /// How long a request waits for older ones before it gets 503 [default: twice --drain-max]
    #[arg(long, value_name = "DUR", value_parser = bounded)]
    patience: Option<Duration>,
    /// The resource in a path, such as /accounts/{id}/{*rest}, which makes
    /// accounts/17 of /accounts/17/balance; may be given several times
    #[arg(long, value_name = "PATTERN")]
    resource: Vec<String>,
    /// The key that fences are signed with
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Ask the store (--url) whether the lock is held under the fence
    #[arg(long)]
    confirm: bool,
}

fn bounded(text: &str) -> Result<Duration, String> {
    let duration = leasehold::parse_duration(text)?;
    let longest = Duration::from_secs(24 * 60 * 60);
    if duration.is_zero() || duration > longest {
        return Err("allowed is 1ns to 1day".into());
    }
    Ok(duration)
}

fn upstream(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(_)) => {}
        (Some("https"), _) => {
            return Err("https is not supported: let a local proxy speak TLS".into());
        }
        _ => return Err("expected a URL such as http://127.0.0.1:9000".into()),
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Err("a path is not allowed: requests keep their own".into());
    }
    Ok(uri)
}

pub(crate) fn gate(common: &Common, args: &GateArgs, console: Console) -> Result<u8, Failure> {
    // Many requests at a time, unlike everything else here.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::system("start", error))?;
    runtime.block_on(serve(common, args, console))
}

async fn serve(common: &Common, args: &GateArgs, console: Console) -> Result<u8, Failure> {
    let resources = Resources::new(&args.resource)
        .map_err(|why| Failure::usage(format!("--resource: {why}")))?;
    let trust = match &args.key {
        Some(key) => Trust::Key(FenceKey::from_file(key)?),
        None => Trust::Store(leasehold::inspect(&store::url(common)?).await?),
    };
    if args.new_state {
        Doors::create(&args.state)?;
    } else if !args.state.exists() {
        let state = args.state.display();
        let why = format!("there is no state {state}: if it was never there, add --new-state once");
        return Err(Failure::new(exit::CONFIG, why));
    }
    let doors = Arc::new(Doors::open(&args.state, args.drain_max)?);
    let patience = args.patience.unwrap_or(args.drain_max * 2);
    let mut porter = Porter::new(doors, trust).patience(patience);
    if !args.resource.is_empty() {
        porter = porter.resource(move |parts| resources.of(parts.uri.path()));
    }
    let upstream = Arc::new(Upstream::new(&args.upstream, porter, args.drain_max)?);
    let mut signals = Signals::catch()?;
    let listener = TcpListener::bind(args.listen).await;
    let cannot = |error| {
        Failure::new(
            exit::UNAVAILABLE,
            format!("listen on {}: {error}", args.listen),
        )
    };
    let listener = listener.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    console.say(&format!("listening on http://{address}"));
    console.event(&json!({ "event": "listening", "address": address.to_string() }));
    let graceful = GracefulShutdown::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Too many open files: those that are open come to an end.
                    console.detail(&format!("accept: {error}"));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            _ = signals.end() => break,
        };
        _ = stream.set_nodelay(true);
        let upstream = upstream.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            let upstream = upstream.clone();
            async move { Ok::<_, hyper::Error>(upstream.answer(request, peer).await) }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN);
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), answer));
        // A client that breaks off is not our trouble.
        tokio::spawn(async move { drop(connection.await) });
    }
    drop(listener);
    console.detail("finishing what is under way");
    tokio::select! {
        () = graceful.shutdown() => {}
        _ = signals.end() => {}
        () = tokio::time::sleep(args.drain_max) => {}
    }
    Ok(exit::OK)
}
