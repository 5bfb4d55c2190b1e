//! The other side of a peer: reads commands and answers them until its input
//! ends.

use std::io::{BufRead, Write};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::bench::{MakeEngine, open};
use crate::barrier::Entered;
use crate::dedupe::{Begun, Work};
use crate::election::Leadership;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::once::{Begun as Slot, Run, Schedule};
use crate::session::Session;

/// Tells a process that it is a peer.
pub(super) const VARIABLE: &str = "LEASEHOLD_CONFORMANCE_PEER";

/// Whether this process was started as a peer: then the runner calls
/// [`peer_main`] and nothing else.
pub fn is_peer() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Serves as a peer until its input ends, then ends the process as it is, so
/// that no peer outlives its case. With an engine of your own, pass what makes
/// it.
pub fn peer_main(make: Option<MakeEngine>) -> ! {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("threads start");
    let mut peer = Served {
        make,
        session: None,
        guards: Vec::new(),
        works: Vec::new(),
        entered: None,
        leadership: None,
        run: None,
    };
    for line in std::io::stdin()
        .lock()
        .lines()
        .map_while(std::io::Result::ok)
    {
        let answer = match peer.serve(&runtime, &line) {
            Ok(answer) => answer,
            Err(error) => format!("error: {error}"),
        };
        if writeln!(std::io::stdout(), "{answer}").is_err() {
            break;
        }
    }
    std::process::exit(0)
}

struct Served {
    make: Option<MakeEngine>,
    session: Option<Session>,
    guards: Vec<Guard>,
    works: Vec<Work>,
    entered: Option<Entered>,
    leadership: Option<Leadership>,
    run: Option<Run>,
}

impl Served {
    fn serve(&mut self, runtime: &Runtime, line: &str) -> Result<String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        runtime.block_on(async {
            match verb {
                "connect" => self.connect(rest).await,
                "release" => self.pop()?.release().await.map(|()| "ok".into()),
                "drop" => self.pop().map(drop).map(|()| "ok".into()),
                "check" => self.last()?.check().map(|()| "held".into()),
                "count" => {
                    let (total, name) = number(rest)?;
                    let left = self.session()?.latch(name, total).count_down().await?;
                    Ok(format!("left {left}"))
                }
                "enter" => {
                    let (total, name) = number(rest)?;
                    let entered = self.session()?.barrier(name, total).enter().await?;
                    self.entered = Some(entered);
                    Ok("entered".into())
                }
                "leave" => {
                    let entered = self.entered.take();
                    let entered = entered.ok_or_else(|| wrong("nothing is entered"))?;
                    entered.leave().await.map(|()| "ok".into())
                }
                "campaign" => self.campaign(rest).await,
                "proclaim" => {
                    let leadership = self.leadership.as_ref().ok_or_else(leads_nobody)?;
                    leadership.proclaim(rest).await.map(|()| "ok".into())
                }
                "resign" => {
                    let leadership = self.leadership.take().ok_or_else(leads_nobody)?;
                    leadership.resign().await.map(|()| "ok".into())
                }
                "slot" => {
                    let (slot, name) = number(rest)?;
                    let once = self.session()?.once(name, Schedule::numbers());
                    let begun = once.begin_slot(slot.into()).await?;
                    Ok(self.started(begun))
                }
                "quarter" => {
                    let begun = self.session()?.once(rest, quarters()).begin().await?;
                    Ok(self.started(begun))
                }
                "finish" => {
                    let run = self.run.take();
                    let run = run.ok_or_else(|| wrong("no slot is started"))?;
                    run.complete().await.map(|()| "ok".into())
                }
                "lost" => Ok(format!("{:?}", self.last()?.lost().await)),
                "begin" => self.begin(rest).await,
                "complete" => {
                    let work = self.works.last().ok_or_else(|| wrong("nothing is begun"))?;
                    work.complete(rest).await.map(|()| "ok".into())
                }
                "close" => {
                    self.session()?.clone().close().await;
                    Ok("ok".into())
                }
                _ => match self.take(verb, rest).await? {
                    Some(guard) => {
                        let token = guard.token();
                        self.guards.push(guard);
                        Ok(format!("held {token}"))
                    }
                    None => Ok("busy".into()),
                },
            }
        })
    }

    async fn connect(&mut self, rest: &str) -> Result<String> {
        let (ttl, store) = number(rest)?;
        let ttl = Duration::from_millis(u64::from(ttl));
        self.session = Some(open(store, self.make, ttl).await?);
        Ok("ok".into())
    }

    async fn begin(&mut self, rest: &str) -> Result<String> {
        let (keep, key) = number(rest)?;
        let keep = Duration::from_secs(keep.into());
        let begun = self.session()?.dedupe(key).retention(keep).begin().await?;
        Ok(match begun {
            Begun::Started(work) => {
                let attempt = work.attempt();
                self.works.push(work);
                format!("started {attempt}")
            }
            Begun::Done(result) => format!("done {}", String::from_utf8_lossy(&result)),
            Begun::InProgress { .. } => "in progress".into(),
            Begun::GivenUp { .. } => "given up".into(),
        })
    }

    async fn campaign(&mut self, rest: &str) -> Result<String> {
        let (value, name) = rest
            .split_once(' ')
            .ok_or_else(|| wrong("a value comes first"))?;
        let leadership = self.session()?.election(name).campaign(value).await?;
        let token = leadership.token();
        self.leadership = Some(leadership);
        Ok(format!("held {token}"))
    }

    fn started(&mut self, begun: Slot) -> String {
        match begun {
            Slot::Started(run) => {
                let attempt = run.attempt();
                self.run = Some(run);
                format!("started {attempt}")
            }
            Slot::Elsewhere => "elsewhere".into(),
            Slot::Busy { .. } => "busy".into(),
            Slot::Done { .. } => "done".into(),
            Slot::Old { .. } => "old".into(),
            Slot::TooFarAhead { .. } => "too far ahead".into(),
        }
    }

    async fn take(&self, verb: &str, rest: &str) -> Result<Option<Guard>> {
        let session = self.session()?;
        match verb {
            "lock" => session.mutex(rest).lock().await.map(Some),
            "try" => session.mutex(rest).try_lock().await,
            "within" => {
                let (millis, name) = number(rest)?;
                let longest = Duration::from_millis(u64::from(millis));
                session.mutex(name).lock_within(longest).await.map(Some)
            }
            "read" => session.rwlock(rest).read().await.map(Some),
            "write" => session.rwlock(rest).write().await.map(Some),
            "acquire" => {
                let (permits, name) = number(rest)?;
                session.semaphore(name, permits).acquire().await.map(Some)
            }
            _ => Err(wrong("no such command")),
        }
    }

    fn session(&self) -> Result<&Session> {
        self.session.as_ref().ok_or_else(|| wrong("not connected"))
    }

    fn last(&self) -> Result<&Guard> {
        let leads = self.leadership.as_ref().map(Leadership::guard);
        let runs = self.run.as_ref().map(Run::guard);
        let held = self.guards.last().or(leads).or(runs);
        held.ok_or_else(|| wrong("nothing is held"))
    }

    fn pop(&mut self) -> Result<Guard> {
        self.guards.pop().ok_or_else(|| wrong("nothing is held"))
    }
}

/// Slots of which an hour has several.
pub(super) fn quarters() -> Schedule {
    Schedule::per(Duration::from_secs(900)).expect("it is long enough")
}

fn number(text: &str) -> Result<(u32, &str)> {
    let split = text.split_once(' ');
    let parsed = split.and_then(|(number, rest)| Some((number.parse().ok()?, rest)));
    parsed.ok_or_else(|| wrong("a number comes first"))
}

fn leads_nobody() -> Error {
    wrong("it does not lead")
}

fn wrong(why: &str) -> Error {
    Error::new(ErrorKind::Usage, "serve a command", why)
}
