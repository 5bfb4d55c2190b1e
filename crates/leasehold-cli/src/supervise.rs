//! Watches over the command and the lock at once: whichever ends first decides.

use std::time::Duration;

use leasehold::Guard;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::args::OnLost;
use crate::child::{Change, Child};
use crate::exit;
use crate::print::{self, Console};
use crate::signals::Signals;
use crate::stuck::{self, Stuck};
use crate::terminal::{self, Terminal};

/// A command that runs under a lock.
pub(crate) struct Supervision<'a> {
    pub(crate) child: &'a mut Child,
    pub(crate) guard: &'a Guard,
    pub(crate) signals: &'a mut Signals,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) on_lost: OnLost,
    /// How long before the loss the command is told.
    pub(crate) notice: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// When the command is stopped although the lock is ours.
    pub(crate) max_runtime: Option<Duration>,
    /// What to do when the hold outlives its time.
    pub(crate) stuck: Option<&'a Stuck>,
    pub(crate) console: Console,
}

/// How it ended.
pub(crate) struct Ending {
    /// `Exited` or `Killed`.
    pub(crate) change: Change,
    /// What to say about the loss of the lock, if it was lost.
    pub(crate) loss: Option<String>,
    /// A signal came that asks programs to end.
    pub(crate) is_asked_to_end: bool,
    /// Not only one that many programs take for something else.
    pub(crate) is_plainly_asked: bool,
    /// It ran for longer than it may, and was told to end.
    pub(crate) is_overtime: bool,
}

impl Ending {
    /// The command ended by itself.
    pub(crate) fn of(change: Change) -> Self {
        Self {
            change,
            loss: None,
            is_asked_to_end: false,
            is_plainly_asked: false,
            is_overtime: false,
        }
    }

    /// Whether the command may have ended before its work was done, because a signal
    /// asked it to. One that got only SIGHUP, which tells many to read their settings
    /// anew, went on for a while and ended with 0 has ended by itself.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.is_plainly_asked || self.is_asked_to_end && self.change.code() != exit::OK
    }
}

/// A command that goes on for so long after SIGHUP does not end because of it.
const LIVES_ON: Duration = Duration::from_secs(3);

/// How far the end of the command's time has come.
enum Overtime {
    No,
    /// The command has been told to stop.
    Told,
    Killed,
}

/// How far the loss of the lock has come.
#[derive(PartialEq, Eq)]
enum Stage {
    Held,
    /// The command has been told to stop.
    Told,
    Lost,
}

impl Supervision<'_> {
    /// Returns when the command has ended, and if it was told to stop, its whole
    /// group.
    pub(crate) async fn run(self) -> Ending {
        let mut stage = Stage::Held;
        let mut loss = None;
        let mut overtime = Overtime::No;
        let (mut is_asked_to_end, mut is_plainly_asked) = (false, false);
        let mut hung_up: Option<tokio::time::Instant> = None;
        let longest = self.max_runtime.unwrap_or(Duration::MAX);
        let mut time_is_up = std::pin::pin!(tokio::time::sleep(longest));
        let mut stuck = self.stuck;
        let mut has_terminal = self.terminal.as_ref().is_some_and(|it| it.is_ours_alone);
        let change = loop {
            let may_be_told = stage == Stage::Held && self.on_lost == OnLost::Term;
            tokio::select! {
                biased;
                _ = self.guard.lost(), if stage != Stage::Lost => {
                    stage = Stage::Lost;
                    loss = Some(self.lost());
                }
                left = self.guard.expiring(self.notice), if may_be_told => {
                    stage = Stage::Told;
                    loss = Some(self.tell(left));
                }
                change = self.child.change() => match change {
                    Change::Stopped(signal) => self.stopped(signal, &mut has_terminal),
                    ended => break ended,
                },
                signal = self.signals.next() => match signal {
                    Signal::SIGCONT => self.go_on(has_terminal),
                    signal => {
                        let asks = asks_to_end(signal);
                        is_asked_to_end |= asks;
                        is_plainly_asked |= asks && signal != Signal::SIGHUP;
                        if signal == Signal::SIGHUP {
                            hung_up = Some(tokio::time::Instant::now());
                        }
                        self.child.signal(signal);
                    }
                },
                overstayed = stuck::overstayed(stuck, self.guard) => {
                    overstayed.tell(self.guard, self.console);
                    stuck = None;
                }
                () = &mut time_is_up, if !matches!(overtime, Overtime::Killed) => {
                    overtime = self.stop(&overtime);
                    time_is_up.as_mut().reset(tokio::time::Instant::now() + self.notice);
                }
            }
        };
        // A signal that came to both of us may have ended the command before we saw it.
        for _ in 0..3 {
            tokio::task::yield_now().await;
            while let Some(signal) = self.signals.pending().await {
                is_asked_to_end |= asks_to_end(signal);
                is_plainly_asked |= asks_to_end(signal);
            }
        }
        is_plainly_asked |= hung_up.is_some_and(|since| since.elapsed() < LIVES_ON);
        // The keys of a terminal reach whoever has it, and that was not us.
        if has_terminal && is_interrupted(change) {
            (is_asked_to_end, is_plainly_asked) = (true, true);
        }
        let is_overtime = matches!(overtime, Overtime::Told);
        if stage == Stage::Told || is_overtime {
            let too_long = async {
                match is_overtime {
                    true => time_is_up.await,
                    false => std::future::pending().await,
                }
            };
            self.outlive_group(too_long).await;
        }
        if stage == Stage::Held && self.guard.check().is_err() {
            loss = Some(self.lost());
        }
        if let Some(terminal) = &self.terminal {
            terminal.take_from(self.child.group);
            if matches!(change, Change::Killed(_)) {
                terminal.restore();
            }
        }
        Ending {
            change,
            loss,
            is_asked_to_end,
            is_plainly_asked,
            is_overtime: !matches!(overtime, Overtime::No),
        }
    }

    /// The command's time is up: first it is told, then it is killed.
    fn stop(&self, overtime: &Overtime) -> Overtime {
        if let Overtime::Told = overtime {
            self.child.kill();
            return Overtime::Killed;
        }
        self.child.signal(Signal::SIGTERM);
        self.child.signal(Signal::SIGCONT);
        self.console
            .say("the command runs for too long; sent SIGTERM to it");
        Overtime::Told
    }

    /// The lock is lost: another may hold it at any moment.
    fn lost(&self) -> String {
        let ignore = self.on_lost == OnLost::Ignore;
        let is_killed = !ignore && self.child.kill();
        let why = self.guard.check().err();
        let why = why.as_ref().map_or("it is gone", |error| error.why());
        let then = match (ignore, is_killed) {
            (true, _) => "was left to run on",
            (false, true) => "was killed",
            (false, false) => "could not be killed: it runs as another user",
        };
        self.console
            .event(&json!({ "event": "lost", "name": self.guard.name(), "why": why }));
        format!(
            "lost {} while the command ran: {why}; the command {then}",
            self.guard.name()
        )
    }

    /// The lock is about to be lost: the command should stop.
    fn tell(&self, left: Duration) -> String {
        self.child.signal(Signal::SIGTERM);
        // A stopped process would not hear it.
        self.child.signal(Signal::SIGCONT);
        let at_limit = self
            .max_hold
            .is_some_and(|longest| self.guard.held() + left >= longest);
        let why = if at_limit {
            "the hold reaches its limit"
        } else {
            "the lease cannot be renewed"
        };
        let (name, left_ms) = (self.guard.name(), print::millis(left));
        let event = json!({ "event": "stopping", "name": name, "why": why, "left_ms": left_ms });
        self.console.event(&event);
        let left = print::duration(left);
        self.console.say(&format!(
            "about to lose {name} in {left}: {why}; sent SIGTERM to the command"
        ));
        format!("lost {name} while the command ran: {why}; the command was stopped")
    }

    /// The command's leader is gone, but others of its group may still be
    /// winding up. They have until the lock is lost or it takes too long.
    async fn outlive_group(&self, too_long: impl Future<Output = ()>) {
        let mut too_long = std::pin::pin!(too_long);
        while self.child.is_group_alive() {
            tokio::select! {
                biased;
                _ = self.guard.lost() => return self.child.signal(Signal::SIGKILL),
                () = &mut too_long => return self.child.signal(Signal::SIGKILL),
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
        }
    }

    /// The command stopped. If the terminal did that, we follow, so that the
    /// shell notices; a lock that runs out meanwhile is lost, and the command
    /// then never continues.
    fn stopped(&self, signal: Signal, has_terminal: &mut bool) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        let asks = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if asks && terminal.is_foreground() {
            *has_terminal = true;
            self.go_on(true);
        } else if asks || signal == Signal::SIGTSTP {
            terminal.take_from(self.child.group);
            let (name, left) = (self.guard.name(), print::duration(self.guard.valid_for()));
            self.console.say(&format!(
                "stopped; {name} is lost unless continued within {left}"
            ));
            terminal::stop_ourselves();
            self.go_on(*has_terminal);
        }
    }

    fn go_on(&self, with_terminal: bool) {
        if self.guard.check().is_err() && self.on_lost != OnLost::Ignore {
            return;
        }
        if let Some(terminal) = &self.terminal
            && with_terminal
            && terminal.is_foreground()
        {
            terminal.give_to(self.child.group);
        }
        self.child.signal(Signal::SIGCONT);
    }
}

/// Whether Ctrl-C or Ctrl-\ ended the command, or it says that they did, as shells do.
fn is_interrupted(change: Change) -> bool {
    let keys = [Signal::SIGINT, Signal::SIGQUIT].map(|signal| signal as i32);
    keys.into_iter().any(|signal| match change {
        Change::Killed(by) => by == signal,
        Change::Exited(code) => code == exit::signalled(signal),
        Change::Stopped(_) => false,
    })
}

fn asks_to_end(signal: Signal) -> bool {
    let asks = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ];
    asks.contains(&signal)
}
