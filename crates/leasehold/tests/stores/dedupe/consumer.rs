//! A consumer in a process of its own. It does what it is given, a line at a time,
//! and now and then it dies in the middle of it, or stops until it is told to go on.

use std::io::BufRead as _;

use leasehold::dedupe::{Begun, DoneDatabase};
use leasehold::{Error, ErrorKind, Session};
use rustix::process::{Signal, getpid, kill_process};
use sqlx_core::pool::Pool;
use sqlx_mysql::MySql;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use crate::fence::place::{Place, connect};

pub(crate) const KIND: &str = "LEASEHOLD_TEST_DATABASE";
pub(crate) const PLACE: &str = "LEASEHOLD_TEST_PLACE";
pub(crate) const LOCKS: &str = "LEASEHOLD_TEST_LOCKS";
pub(crate) const HOW: &str = "LEASEHOLD_TEST_HOW";
pub(crate) const SEED: &str = "LEASEHOLD_TEST_SEED";
/// At one in how many chances it stops.
pub(crate) const STOPS: &str = "LEASEHOLD_TEST_STOPS";

/// How a consumer keeps from doing a message twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By the mark in the database.
    Marked,
    /// By the memo of the lock.
    Noted,
    /// Not at all.
    Bare,
}

impl How {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Marked => "marked",
            Self::Noted => "noted",
            Self::Bare => "bare",
        }
    }
}

/// Whether this process is to be a consumer.
pub(crate) fn is_one() -> bool {
    std::env::var_os(KIND).is_some()
}

/// Answers each line, a message's number, with `done`, `duplicate` or `again`.
pub(crate) fn consume() {
    match &*variable(KIND) {
        "postgres" => serve::<Postgres>(),
        "mysql" => serve::<MySql>(),
        _ => serve::<Sqlite>(),
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

struct Consumer<DB: Place> {
    session: Session,
    pool: Pool<DB>,
    random: u64,
    stops: u64,
}

fn serve<DB: Place + DoneDatabase>() {
    let runtime = crate::dedupe::runtime();
    let how = variable(HOW);
    let (session, pool) = runtime.block_on(async {
        let session = leasehold::connect(&variable(LOCKS)).await.unwrap();
        (session, connect::<DB>(&variable(PLACE)).await)
    });
    let mut consumer = Consumer {
        session,
        pool,
        random: variable(SEED).parse().unwrap(),
        stops: variable(STOPS).parse().unwrap(),
    };
    for line in std::io::stdin().lock().lines() {
        let message: u64 = line.unwrap().parse().unwrap();
        let answer = runtime.block_on(async {
            match &*how {
                "marked" => consumer.marked(message).await,
                "noted" => consumer.noted(message).await,
                _ => consumer.bare(message).await,
            }
        });
        println!("{}", answer.unwrap_or_else(passing));
    }
}

/// What a broker is told of an error: to deliver it again. Any other kind of error
/// is a fault of the test or of what it tests.
fn passing(error: Error) -> &'static str {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Lost(_) => "again",
        ErrorKind::AlreadyDone => "refused",
        _ => panic!("{error}"),
    }
}

impl<DB: Place + DoneDatabase> Consumer<DB> {
    async fn marked(&mut self, message: u64) -> Result<&'static str, Error> {
        let key = format!("charge-{message}");
        let asked = self.session.dedupe(&key);
        let begun = {
            let mut connection = self.pool.acquire().await.unwrap();
            asked.begin_in::<DB>(&mut connection).await?
        };
        let work = match begun {
            Begun::Started(work) => work,
            other => return Ok(answer(&other, &key)),
        };
        self.accident();
        let mut transaction = self.pool.begin().await.unwrap();
        let effect = effect(message);
        // Another may have the file for longer than this waits.
        if DB::execute(&mut transaction, &effect).await.is_err() {
            return Ok("again");
        }
        self.accident();
        work.complete_in(&mut transaction, &key).await?;
        self.accident();
        if transaction.commit().await.is_err() {
            return Ok("again");
        }
        self.accident();
        drop(work);
        Ok("done")
    }

    async fn noted(&mut self, message: u64) -> Result<&'static str, Error> {
        let key = format!("order-{message}");
        let work = match self.session.dedupe(&key).begin().await? {
            Begun::Started(work) => work,
            other => return Ok(answer(&other, &key)),
        };
        let begun = format!("insert into begun (message) values ({message})");
        self.write(&begun).await;
        self.accident();
        self.write(&effect(message)).await;
        self.accident();
        if let Err(error) = work.complete(&key).await {
            assert_eq!(passing(error), "again");
            return Ok("cut off");
        }
        self.accident();
        Ok("done")
    }

    async fn bare(&mut self, message: u64) -> Result<&'static str, Error> {
        self.write(&effect(message)).await;
        Ok("done")
    }

    async fn write(&self, statement: &str) {
        let mut connection = self.pool.acquire().await.unwrap();
        let mut written = DB::execute(&mut connection, statement).await;
        for _ in 0..5 {
            // Another had the file for longer than this waits: nothing is written.
            if !matches!(&written, Err(error) if error.to_string().contains("database is locked")) {
                break;
            }
            written = DB::execute(&mut connection, statement).await;
        }
        written.unwrap();
    }

    /// Often nothing; now and then the end, or a stop past the ttl.
    fn accident(&mut self) {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let chance = self.random >> 33;
        let signal = match (chance % 30, chance / 30 % self.stops) {
            (0, _) => Signal::KILL,
            (_, 0) => Signal::STOP,
            _ => return,
        };
        kill_process(getpid(), signal).unwrap();
    }
}

fn effect(message: u64) -> String {
    format!("insert into effect (message) values ({message})")
}

fn answer(begun: &Begun, key: &str) -> &'static str {
    match begun {
        Begun::Done(result) => {
            assert_eq!(result, key.as_bytes());
            "duplicate"
        }
        Begun::InProgress { .. } => "again",
        other => panic!("{other:?}"),
    }
}
