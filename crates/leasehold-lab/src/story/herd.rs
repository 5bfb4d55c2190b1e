//! Many wait for one lock: what does a hand-over cost the server?

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use redis::aio::MultiplexedConnection;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Error, Report, Stage};
use crate::page::Mood;
use crate::server::RedisServer;

const WAITERS: u32 = 200;
const RETRY: Duration = Duration::from_millis(10);
/// What is done under the lock: long enough that those who poll find it taken,
/// on a slow machine too.
const WORK: Duration = Duration::from_millis(15);
const CHANNEL: &str = "lab/herd/free";
/// A fair lock needs about this many commands for a hand-over, however many
/// wait; a herd needs as many as there are in it.
const MANY: f64 = 20.0;

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
        let (counted, took) = runtime.block_on(run(way, &server))?;
        let commands = counted.commands as f64 / f64::from(WAITERS);
        let micros = counted.micros as f64 / f64::from(WAITERS);
        let is_bad = commands > MANY;
        if is_bad != should_be_bad {
            report
                .surprises
                .push(format!("{title}: {commands:.1} commands per hand-over"));
        }
        let mood = match is_bad {
            true => Mood::Bad,
            false => Mood::Good,
        };
        let row = vec![
            title.to_owned(),
            WAITERS.to_string(),
            format!("{commands:.1}"),
            format!("{micros:.0}"),
            format!("{:.1} s", took.as_secs_f64()),
        ];
        report.table.rows.push((mood, row));
    }
    Ok(report)
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
async fn run(way: Way, server: &RedisServer) -> Result<(Counted, Duration)> {
    let url = server.url();
    let name = format!("lab/herd/{way:?}");
    match way {
        Way::Ours => ours(&url, &name, server).await,
        Way::Predecessor => in_a_row(&url, &name, server).await,
        Way::Poll | Way::Broadcast => by_hand(way, &url, &name, server).await,
    }
}

async fn ours(url: &str, name: &str, server: &RedisServer) -> Result<(Counted, Duration)> {
    let url = format!("{url}?ttl=60s");
    let first = leasehold::connect(&url).await?;
    let guard = first.mutex(name).lock().await?;
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        // A session each: tasks of one session wait in their process.
        let (url, name) = (url.clone(), name.to_owned());
        waiters.spawn(async move {
            let session = leasehold::connect(&url).await?;
            let guard = session.mutex(&name).lock().await?;
            tokio::time::sleep(WORK).await;
            guard.release().await?;
            Ok::<_, leasehold::Error>(session)
        });
    }
    let inspector = first.inspector();
    while inspector.queue(name).await?.claims.len() <= WAITERS as usize {
        tokio::time::sleep(RETRY).await;
    }
    let (before, begin) = (counted(server), Instant::now());
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
    url: &str,
    name: &str,
    server: &RedisServer,
) -> Result<(Counted, Duration)> {
    let client = redis::Client::open(url)?;
    let mut first = client.get_multiplexed_async_connection().await?;
    set(&mut first, name).await?;
    let refused = Arc::new(Semaphore::new(0));
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (client, name, refused) = (client.clone(), name.to_owned(), Arc::clone(&refused));
        waiters.spawn(async move { wait(way, &client, &name, &refused).await });
    }
    // All of them have tried it and wait.
    let _ = refused.acquire_many(WAITERS).await?;
    let (before, begin) = (counted(server), Instant::now());
    free(&mut first, name).await?;
    while let Some(ended) = waiters.join_next().await {
        ended??;
    }
    let took = begin.elapsed();
    Ok((less(counted(server), before), took))
}

/// Everybody draws a number, and whoever has the one before it tells it when it
/// is done: as with the sequence nodes of ZooKeeper, but nobody here may die.
async fn in_a_row(url: &str, name: &str, server: &RedisServer) -> Result<(Counted, Duration)> {
    let client = redis::Client::open(url)?;
    let mut first = client.get_multiplexed_async_connection().await?;
    let begin: u64 = draw(&mut first, name).await?;
    let waiting = Arc::new(Semaphore::new(0));
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (client, name, waiting) = (client.clone(), name.to_owned(), Arc::clone(&waiting));
        waiters.spawn(async move {
            let mut connection = client.get_multiplexed_async_connection().await?;
            let number = draw(&mut connection, &name).await?;
            let mut listens = client.get_async_pubsub().await?;
            listens.subscribe(format!("{name}/{}", number - 1)).await?;
            // Nobody is done before all listen.
            waiting.add_permits(1);
            listens.into_on_message().next().await;
            tokio::time::sleep(WORK).await;
            tell_next(&mut connection, &name, number).await
        });
    }
    let _ = waiting.acquire_many(WAITERS).await?;
    let (before, since) = (counted(server), Instant::now());
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

async fn wait(way: Way, client: &redis::Client, name: &str, refused: &Semaphore) -> Result<()> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut listens = client.get_async_pubsub().await?;
    if way == Way::Broadcast {
        listens.subscribe(CHANNEL).await?;
    }
    let mut told = listens.into_on_message();
    let mut is_new = true;
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
    tokio::time::sleep(WORK).await;
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
