//! `leasehold gate`: a reverse proxy that lets only the newest holder through to
//! a service that cannot check fences itself.

mod connector;
mod exchange;
mod line;
mod open_files;
mod patient;
mod resource;
mod to_the_end;
mod upload;
mod workers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use hyper::Uri;
use leasehold::fence::FenceKey;
use leasehold::http::{Doors, Porter, Trust};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::args::Common;
use crate::exit::{self, Failure};
use crate::print::Console;
use crate::signals::Signals;
use crate::store;
use exchange::Upstream;
use resource::Resources;
use workers::{Arrival, Workers};

/// Let only the newest holder reach an HTTP service
///
/// A reverse proxy for a service that cannot check fences itself. Every request
/// must show the fence of its lock (Leasehold-Fence) and name its resource, by
/// its path (--resource) or by a header (Leasehold-Resource). Requests of a
/// newer holder wait until those of older ones are answered; older ones are
/// refused with 409 from then on. A request whose answer nobody saw counts as
/// under way for --drain-max, which must be longer than a request ever takes in
/// the service, its queues included. After each start nobody passes for that
/// long: what an earlier gate has let in may still be under way.
///
/// A fence is believed if it is signed (--key; `leasehold fence headers` signs)
/// or, without a key, if the store says at its first sight that the lock of the
/// resource's name is held under it (--confirm). In the latter case the service
/// gets the token only (Leasehold-Token).
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
    /// Create the file, for the first time; there must be none. If one was
    /// lost, its marks are: only when no stale holder can be left
    #[arg(long)]
    new_state: bool,
    /// No gate ran here before, so nothing is under way: do not wait for
    /// --drain-max at the start
    #[arg(long, requires = "new_state")]
    first_start: bool,
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
    /// How many clients are served at a time; more than that wait. Each takes
    /// up to three open files: fewer are served if the system allows fewer
    #[arg(long, value_name = "N", default_value = "10000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
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
    // Only accepts; threads of their own do the work.
    let runtime = tokio::runtime::Builder::new_current_thread()
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
        let why = format!(
            "there is no state {state}: add --new-state once, if it was never there or no \
             stale holder can be left"
        );
        return Err(Failure::new(exit::CONFIG, why));
    }
    let doors = if args.first_start {
        Doors::open_first(&args.state, args.drain_max)?
    } else {
        Doors::open(&args.state, args.drain_max)?
    };
    let doors = Arc::new(doors);
    let patience = args.patience.unwrap_or(args.drain_max * 2);
    let mut porter = Porter::new(doors, trust).patience(patience);
    if !args.resource.is_empty() {
        porter = porter.resource(move |parts| resources.of(parts.uri.path()));
    }
    let (wanted, threads) = (args.max_connections, workers::count());
    let allowed = open_files::connections(threads);
    let places = wanted.min(allowed) as usize;
    let idle = (places / threads).max(1);
    let mut workers = Workers::start(|| {
        let upstream = Upstream::new(&args.upstream, porter.clone(), args.drain_max, idle)?;
        Ok(upstream.hiding_fences(args.confirm))
    })?;
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
    if allowed < wanted {
        let why = "the system does not allow more open files (ulimit -n)";
        console.say(&format!("at most {allowed} connections: {why}"));
    }
    let room = Arc::new(Semaphore::new(places));
    let mut is_told = false;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            _ = signals.end() => break,
        };
        match accepted {
            Ok(arrival) => workers.take(arrival),
            Err(error) => {
                // Too many open files: those that are open come to an end.
                if !std::mem::replace(&mut is_told, true) {
                    console.say(&format!("accept: {error}"));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    console.detail("finishing what is under way");
    tokio::select! {
        () = workers.finish() => {}
        _ = signals.end() => {}
        () = tokio::time::sleep(args.drain_max) => {}
    }
    Ok(exit::OK)
}

/// Waits until there is room for one more connection, and for that connection.
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> std::io::Result<Arrival> {
    let place = room.clone().acquire_owned().await;
    let place = Arc::new(place.map_err(std::io::Error::other)?);
    let (stream, peer) = listener.accept().await?;
    let stream = stream.into_std()?;
    Ok(Arrival {
        stream,
        peer,
        place,
    })
}
