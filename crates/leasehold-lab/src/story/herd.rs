//! Many wait for one lock: what does a hand-over cost the server?

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use redis::aio::MultiplexedConnection;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Error, Report, Stage, Told};
use crate::history::Event;
use crate::recorder::Recorder;
use testbed::redis::RedisServer;

const WAITERS: u32 = 200;
const RETRY: Duration = Duration::from_millis(10);
/// How long it may take until all wait.
const LONGEST_START: Duration = Duration::from_secs(60);
/// What is done under the lock: long enough that those who poll find it taken,
/// on a slow machine too.
const WORK: Duration = Duration::from_millis(15);
const CHANNEL: &str = "lab/herd/free";
/// A fair lock needs about this many commands for a hand-over, however many
/// wait; a herd needs as many as there are in it.
const MANY: f64 = 20.0;
/// One waiter of so many has a lane in the picture.
const DRAWN_IN: u32 = 20;

type Result<T> = std::result::Result<T, Error>;

/// How the waiters wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Poll,
    Broadcast,
    Predecessor,
    Ours,
}

pub(super) fn tell(stage: &Stage<'_>) -> Result<Report> {
    let server = RedisServer::start(stage.folder, &[]);
    let mut report = Report::default();
    let heads = [
        "strategy",
        "waiters",
        "commands per hand-over",
        "server µs per hand-over",
        "all served in",
    ];
    report.table.heads = heads.map(str::to_owned).to_vec();
    let ways = [
        ("everybody tries every 10 ms", Way::Poll, true),
        ("a release wakes everybody", Way::Broadcast, true),
        ("each waits for the one before it", Way::Predecessor, false),
        ("leasehold: a release tells the next one", Way::Ours, false),
    ];
    for (title, way, should_be_bad) in ways {
        (stage.progress)(title);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let recorder = Recorder::default();
        let (counted, took) = runtime.block_on(run(way, &server, &recorder))?;
        let commands = counted.commands as f64 / f64::from(WAITERS);
        let micros = counted.micros as f64 / f64::from(WAITERS);
        let fields = vec![
            WAITERS.to_string(),
            format!("{commands:.1}"),
            format!("{micros:.0}"),
            format!("{:.1} s", took.as_secs_f64()),
        ];
        let told = Told {
            title: title.to_owned(),
            history: recorder.history(),
            violations: Vec::new(),
        };
        report.add(told, fields, commands > MANY, should_be_bad);
    }
    Ok(report)
}

/// What one of them tells for the picture.
#[derive(Debug, Clone)]
struct Drawn(Option<(Recorder, String)>);

impl Drawn {
    /// The first is the one that all others wait for.
    fn new(recorder: &Recorder, number: u32) -> Self {
        let name = || (recorder.clone(), format!("waiter {number:03}"));
        Self(number.is_multiple_of(DRAWN_IN).then(name))
    }

    fn tell(&self, event: Event) {
        if let Some((recorder, by)) = &self.0 {
            recorder.tell(by, event);
        }
    }

    fn asks(&self) {
        let name = String::new();
        self.tell(Event::Asks { name });
    }

    fn holds(&self) {
        self.tell(Event::Granted {
            name: String::new(),
            token: None,
            until: None,
        });
    }

    fn ends(&self) {
        self.tell(Event::Releases);
    }
}

/// What the server counted.
#[derive(Debug, Clone, Copy)]
struct Counted {
    commands: u64,
    micros: u64,
}

fn counted(server: &RedisServer) -> Counted {
    let number = |field: &str| server.info(field).and_then(|text| text.parse().ok());
    let seconds = |field: &str| -> f64 {
        let text = server.info(field).unwrap_or_default();
        text.parse().unwrap_or_default()
    };
    let cpu = seconds("used_cpu_user") + seconds("used_cpu_sys");
    Counted {
        commands: number("total_commands_processed").unwrap_or_default(),
        micros: (cpu * 1e6) as u64,
    }
}

/// Lets everybody wait for a lock that is held, frees it, and counts until
/// everybody has had it once.
async fn run(way: Way, server: &RedisServer, recorder: &Recorder) -> Result<(Counted, Duration)> {
    let name = format!("lab/herd/{way:?}");
    match way {
        Way::Ours => ours(&name, server, recorder).await,
        Way::Predecessor => in_a_row(&name, server, recorder).await,
        Way::Poll | Way::Broadcast => by_hand(way, &name, server, recorder).await,
    }
}

async fn ours(
    name: &str,
    server: &RedisServer,
    recorder: &Recorder,
) -> Result<(Counted, Duration)> {
    let url = format!("{}?ttl=60s", server.url());
    let first = leasehold::connect(&url).await?;
    let guard = first.mutex(name).lock().await?;
    let holder = Drawn::new(recorder, 0);
    holder.holds();
    let mut waiters = JoinSet::new();
    for number in 1..=WAITERS {
        // A session each: tasks of one session wait in their process.
        let (url, name) = (url.clone(), name.to_owned());
        let drawn = Drawn::new(recorder, number);
        waiters.spawn(async move {
            let session = leasehold::connect(&url).await?;
            drawn.asks();
            let guard = session.mutex(&name).lock().await?;
            drawn.holds();
            tokio::time::sleep(WORK).await;
            drawn.ends();
            guard.release().await?;
            Ok::<_, leasehold::Error>(session)
        });
    }
    let inspector = first.inspector();
    let deadline = Instant::now() + LONGEST_START;
    loop {
        // Where two hundred connect at once a look may get no answer. That says
        // nothing of who waits.
        match inspector.queue(name).await {
            Ok(queue) if queue.claims.len() > WAITERS as usize => break,
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Ok(_) if Instant::now() > deadline => return Err("not all came to wait".into()),
            _ => tokio::time::sleep(RETRY).await,
        }
    }
    let (before, begin) = (counted(server), Instant::now());
    holder.ends();
    guard.release().await?;
    let mut sessions = Vec::new();
    while let Some(ended) = waiters.join_next().await {
        sessions.push(ended??);
    }
    let took = begin.elapsed();
    Ok((less(counted(server), before), took))
}

async fn by_hand(
    way: Way,
    name: &str,
    server: &RedisServer,
    recorder: &Recorder,
) -> Result<(Counted, Duration)> {
    let client = redis::Client::open(server.url())?;
    let mut first = client.get_multiplexed_async_connection().await?;
    set(&mut first, name).await?;
    let holder = Drawn::new(recorder, 0);
    holder.holds();
    let refused = Arc::new(Semaphore::new(0));
    let mut waiters = JoinSet::new();
    for number in 1..=WAITERS {
        let (client, name, refused) = (client.clone(), name.to_owned(), Arc::clone(&refused));
        let drawn = Drawn::new(recorder, number);
        waiters.spawn(async move { wait(way, &client, &name, (&refused, &drawn)).await });
    }
    // All of them have tried it and wait.
    let _ = refused.acquire_many(WAITERS).await?;
    let (before, begin) = (counted(server), Instant::now());
    holder.ends();
    free(&mut first, name).await?;
    while let Some(ended) = waiters.join_next().await {
        ended??;
    }
    let took = begin.elapsed();
    Ok((less(counted(server), before), took))
}

/// Everybody draws a number, and whoever has the one before it tells it when it
/// is done: as with the sequence nodes of ZooKeeper, but nobody here may die.
async fn in_a_row(
    name: &str,
    server: &RedisServer,
    recorder: &Recorder,
) -> Result<(Counted, Duration)> {
    let client = redis::Client::open(server.url())?;
    let mut first = client.get_multiplexed_async_connection().await?;
    let begin: u64 = draw(&mut first, name).await?;
    let holder = Drawn::new(recorder, 0);
    holder.holds();
    let waiting = Arc::new(Semaphore::new(0));
    let mut waiters = JoinSet::new();
    for number in 1..=WAITERS {
        let (client, name, waiting) = (client.clone(), name.to_owned(), Arc::clone(&waiting));
        let drawn = Drawn::new(recorder, number);
        waiters.spawn(async move {
            let mut connection = client.get_multiplexed_async_connection().await?;
            let number = draw(&mut connection, &name).await?;
            let mut listens = client.get_async_pubsub().await?;
            listens.subscribe(format!("{name}/{}", number - 1)).await?;
            drawn.asks();
            // Nobody is done before all listen.
            waiting.add_permits(1);
            listens.into_on_message().next().await;
            drawn.holds();
            tokio::time::sleep(WORK).await;
            drawn.ends();
            tell_next(&mut connection, &name, number).await
        });
    }
    let _ = waiting.acquire_many(WAITERS).await?;
    let (before, since) = (counted(server), Instant::now());
    holder.ends();
    tell_next(&mut first, name, begin).await?;
    while let Some(ended) = waiters.join_next().await {
        ended??;
    }
    let took = since.elapsed();
    Ok((less(counted(server), before), took))
}

async fn draw(connection: &mut MultiplexedConnection, name: &str) -> Result<u64> {
    Ok(redis::cmd("INCR").arg(name).query_async(connection).await?)
}

async fn tell_next(connection: &mut MultiplexedConnection, name: &str, number: u64) -> Result<()> {
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(format!("{name}/{number}")).arg("done");
    publish.exec_async(connection).await?;
    Ok(())
}

async fn wait(
    way: Way,
    client: &redis::Client,
    name: &str,
    (refused, drawn): (&Semaphore, &Drawn),
) -> Result<()> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut listens = client.get_async_pubsub().await?;
    if way == Way::Broadcast {
        listens.subscribe(CHANNEL).await?;
    }
    let mut told = listens.into_on_message();
    let mut is_new = true;
    drawn.asks();
    while !set(&mut connection, name).await? {
        refused.add_permits(usize::from(std::mem::take(&mut is_new)));
        match way {
            // Somebody may have freed it between our try and our listening.
            Way::Broadcast => {
                let _ = tokio::time::timeout(Duration::from_secs(1), told.next()).await;
            }
            _ => tokio::time::sleep(RETRY).await,
        }
    }
    drawn.holds();
    tokio::time::sleep(WORK).await;
    drawn.ends();
    free(&mut connection, name).await
}

async fn set(connection: &mut MultiplexedConnection, name: &str) -> Result<bool> {
    let mut command = redis::cmd("SET");
    command.arg(name).arg("x").arg("NX").arg("PX").arg(60_000);
    let answer: Option<String> = command.query_async(connection).await?;
    Ok(answer.is_some())
}

async fn free(connection: &mut MultiplexedConnection, name: &str) -> Result<()> {
    let mut both = redis::pipe();
    both.del(name).ignore().publish(CHANNEL, "free").ignore();
    both.exec_async(connection).await?;
    Ok(())
}

fn less(after: Counted, before: Counted) -> Counted {
    Counted {
        commands: after.commands.saturating_sub(before.commands),
        micros: after.micros.saturating_sub(before.micros),
    }
}
