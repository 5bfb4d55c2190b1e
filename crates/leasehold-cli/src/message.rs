//! `leasehold once --key`: a command per message, once.

use std::ffi::OsString;
use std::time::Duration;

use leasehold::Session;
use leasehold::dedupe::{Begun, Work};
use nix::sys::signal::Signal;

use crate::args::OnLost;
use crate::child::Change;
use crate::exit::{self, Failure};
use crate::job::{self, Job};
use crate::keeper::Keeper;
use crate::nested::Held;
use crate::print::{self, Console};
use crate::signals::Signals;
use crate::stuck::{Stuck, StuckArgs};

/// What is done about one message.
pub(crate) struct Message<'a> {
    pub(crate) key: &'a str,
    pub(crate) keep: Option<Duration>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) max_runtime: Option<Duration>,
    pub(crate) stuck: &'a StuckArgs,
    pub(crate) argv: &'a [OsString],
    pub(crate) url: &'a str,
    pub(crate) session: &'a Session,
    pub(crate) console: Console,
}

impl Message<'_> {
    /// Runs the command unless the message is done; the exit code.
    pub(crate) async fn run(
        &self,
        signals: &mut Signals,
        keepers: &mut Vec<Keeper>,
    ) -> Result<u8, Failure> {
        let mut message = self.session.dedupe(self.key);
        if let Some(keep) = self.keep {
            message = message.retention(keep);
        }
        if let Some(most) = self.max_attempts {
            message = message.max_attempts(most);
        }
        let begun = tokio::select! {
            biased;
            signal = signals.end() => return Ok(exit::signalled(signal as i32)),
            begun = message.begin() => begun?,
        };
        let key = self.key;
        match begun {
            Begun::Started(work) => self.work(work, signals, keepers).await,
            Begun::Done(_) => {
                self.console.detail(&format!("{key} is done"));
                Ok(exit::OK)
            }
            Begun::InProgress { retry_after } => {
                // Whole milliseconds are exact enough.
                let millis = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
                let later = print::duration(Duration::from_millis(millis));
                let why = format!("{key} is being done elsewhere; ask again in {later}");
                Err(Failure::new(exit::HELD, why))
            }
            Begun::GivenUp { attempts } => {
                let often = match attempts {
                    1 => "once".to_owned(),
                    attempts => format!("{attempts} times"),
                };
                let why = format!("{key} is given up: begun {often} and never done");
                Err(Failure::new(exit::GIVEN_UP, why))
            }
        }
    }

    async fn work(
        &self,
        work: Work,
        signals: &mut Signals,
        keepers: &mut Vec<Keeper>,
    ) -> Result<u8, Failure> {
        let (key, attempt, console) = (self.key, work.attempt(), self.console);
        console.detail(&format!("does {key}, attempt {attempt}"));
        let mut environment = Held::new(self.url, self.session, work.guard()).environment();
        environment.push(("LEASEHOLD_KEY", key.to_owned()));
        environment.push(("LEASEHOLD_ATTEMPT", attempt.to_string()));
        let job = Job {
            argv: self.argv,
            stuck: Stuck::asked(self.stuck, &environment),
            environment,
            on_lost: OnLost::Term,
            notice: job::notice(None, None, self.session)?,
            max_hold: None,
            max_runtime: self.max_runtime,
            console,
        };
        let (keeper, ending) = job.run(self.session, work.guard(), signals).await;
        keepers.extend(keeper);
        keepers.iter_mut().for_each(Keeper::dismiss);
        let ending = match ending {
            Ok(ending) => ending,
            Err(failure) => {
                // Nothing was run, so it was no attempt. That it could not be run is
                // what there is to say.
                drop(work.abandon().await);
                return Err(failure);
            }
        };
        if let Some(loss) = ending.loss {
            return Err(Failure::new(exit::LOST, loss));
        }
        match ending.change {
            // Whoever ends because it is told to has not done its work.
            Change::Exited(exit::OK) if ending.is_overtime || ending.is_cut_short() => {
                console.say("the command was told to end: it is not done");
                Ok(exit::signalled(Signal::SIGTERM as i32))
            }
            Change::Exited(exit::OK) => {
                work.complete("").await?;
                Ok(exit::OK)
            }
            // It is not done. The attempt stays counted.
            failed => Ok(failed.code()),
        }
    }
}
