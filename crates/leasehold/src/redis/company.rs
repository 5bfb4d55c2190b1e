//! Claims that are asked for, and claims that leave, go to the server in company.
//!
//! One script does for each of them what it would do for one that goes alone. Only
//! where one script may work on any keys, so not on a cluster.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::redis::{Cmd, ErrorKind as RedisKind, RedisError, ServerErrorKind, Value};
use tokio::sync::MutexGuard;

use super::inbox::{Inbox, Mine};
use super::link::Link;
use super::scripts::Scripts;
use super::server::Doer;
use crate::gather::{self, Asked, Carrier, Gathering, Joined, Place};

/// How many go together. The server does nothing else meanwhile.
const MOST: usize = 64;

/// While the server works on one party, we do on another.
const WAYS: usize = 2;

/// How long a party keeps the other from going on at most.
const A_TURN: Duration = Duration::from_millis(1);

/// So few are not parted.
const FEW: usize = 8;

/// A way that one has who goes alone.
pub(super) type Way = gather::Way<Company>;

/// All that goes to one server.
pub(super) struct Company {
    link: Arc<Link>,
    scripts: Arc<Scripts>,
    inbox: Arc<Inbox>,
    gathering: Gathering<Question, Told>,
    /// How many parties are under way.
    under_way: AtomicUsize,
    /// Whose party goes on with what it was answered.
    turn: tokio::sync::Mutex<()>,
}

type Told = Result<(Value, u64), RedisError>;

pub(super) enum Question {
    Enqueue(Enqueue),
    /// Takes out a claim that may be alone on its lock.
    Leave(Arc<Mine>),
}

/// A claim that is asked for.
pub(super) struct Enqueue {
    pub(super) mine: Arc<Mine>,
    /// Server time in ms after which it is too late.
    pub(super) not_after: u64,
    /// In ms.
    pub(super) ttl: u64,
    pub(super) rest: String,
    pub(super) waits: bool,
}

/// How a question went.
pub(super) enum Went {
    /// It has to be asked alone, on this way if it has one.
    Alone(Option<Way>),
    Told(Value, Doer),
}

impl Company {
    pub(super) fn new(link: Arc<Link>, scripts: Arc<Scripts>, inbox: Arc<Inbox>) -> Arc<Self> {
        let company = Arc::new(Self {
            link,
            scripts,
            inbox,
            gathering: Gathering::new(WAYS),
            under_way: AtomicUsize::new(0),
            turn: tokio::sync::Mutex::default(),
        });
        company.inbox.accompany(&company);
        company
    }

    /// Asks with whoever else asks now.
    pub(super) async fn ask(
        self: &Arc<Self>,
        question: impl FnOnce() -> Question,
    ) -> Result<Went, RedisError> {
        match gather::join(self, question) {
            Joined::Alone(way) => Ok(Went::Alone(Some(way))),
            Joined::Together(place) => self.wait(place).await,
        }
    }

    async fn wait(&self, place: Place<Self>) -> Result<Went, RedisError> {
        let patience = self.link.patience();
        let Some(told) = place.answer().await else {
            return Err((RedisKind::Io, "the session is going").into());
        };
        if let Some(patience) = patience {
            patience.ends_by_another();
        }
        let link = self.link.clone();
        Ok(match told? {
            (Value::Nil, _) => Went::Alone(None),
            (answer, number) => Went::Told(answer, Doer { link, number }),
        })
    }

    /// The lease was closed: returns when none of its claims can be asked for any
    /// more.
    pub(super) fn seal(&self) {
        self.gathering.seal();
    }

    /// The connection was lost: those who wait go over the next one.
    pub(super) fn set_out_anew(self: &Arc<Self>) {
        gather::disown(self);
    }

    /// How many are to go now. If nobody is under way, half of those who wait: the
    /// others follow while the server works. Else all would go in one party for
    /// ever, and either the server or we would have nothing to do.
    fn share(&self) -> usize {
        match self.under_way.load(Relaxed) {
            0 => self.gathering.crowd().div_ceil(WAYS).clamp(FEW, MOST),
            _ => MOST,
        }
    }

    fn is_wanted(&self, question: &Question) -> bool {
        match question {
            Question::Enqueue(one) => self.inbox.lease(one.mine.lease).is_some(),
            Question::Leave(_) => true,
        }
    }

    fn command(&self, party: &[Asked<Question, Told>]) -> Cmd {
        let mut command = Cmd::with_capacity(4 + 5 * party.len(), 64 + 256 * party.len());
        command.arg("EVALSHA").arg(self.scripts.together.get_hash());
        command.arg(party.len());
        let mut not_after = u64::MAX;
        for one in party {
            let mine = match &one.question {
                Question::Leave(mine) => mine,
                Question::Enqueue(one) => {
                    not_after = not_after.min(one.not_after);
                    &one.mine
                }
            };
            command.arg(mine.keys.lock());
        }
        command.arg(not_after);
        for one in party {
            match &one.question {
                Question::Leave(mine) => command.arg(mine.ticket.as_str()).arg(""),
                Question::Enqueue(one) => {
                    let ticket = one.mine.ticket.as_str();
                    let waits = u8::from(one.waits);
                    command.arg(ticket).arg(one.ttl).arg(&one.rest).arg(waits)
                }
            };
        }
        command
    }

    /// What each of them is told.
    async fn answers(&self, count: usize, told: Told) -> Result<(Vec<Value>, u64), RedisError> {
        let (answer, number) = match told {
            // The server refuses the script as a whole: nothing was done. What it
            // would say to each is told to whoever asks alone; some may have given
            // up meanwhile.
            Err(error) if error.code().is_some() => {
                if error.kind() == RedisKind::Server(ServerErrorKind::NoScript) {
                    let _ = self.link.load(&self.scripts.together).await;
                }
                return Ok((vec![Value::Nil; count], 0));
            }
            told => told?,
        };
        match answer {
            Value::Array(answers) if answers.len() == count => Ok((answers, number)),
            _ => Err((RedisKind::UnexpectedReturnType, "answers are missing").into()),
        }
    }
}

impl Carrier for Company {
    type Question = Question;
    type Answer = Told;

    fn gathering(&self) -> &Gathering<Question, Told> {
        &self.gathering
    }

    async fn carry(&self) {
        let era = self.gathering.era();
        let mut turn = None;
        while let Some((party, told, under_way)) = self.travel(turn.take()).await {
            let told = self.answers(party.len(), told).await;
            // Those of one party at a time go on, and are sent before those of the
            // other do: else both would be on the same way for ever, and either the
            // server or we would have nothing to do.
            turn = self.turn().await;
            drop(under_way);
            let is_lost = told.is_err();
            match told {
                Ok((answers, number)) => {
                    for (one, answer) in party.into_iter().zip(answers) {
                        one.answer(Ok((answer, number)));
                    }
                }
                Err(error) => {
                    for one in party {
                        one.answer(Err(error.clone()));
                    }
                }
            }
            tokio::task::yield_now().await;
            // Others take them along, over another connection.
            if is_lost || self.gathering.era() != era {
                return;
            }
        }
    }
}

type Party = Vec<Asked<Question, Told>>;

impl Company {
    /// Whoever has it may be a task that its thread does not come back to: then it
    /// is waited for no longer.
    async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        if let Ok(turn) = self.turn.try_lock() {
            return Some(turn);
        }
        tokio::time::timeout(A_TURN, self.turn.lock()).await.ok()
    }

    /// Lets a party depart, after which it is another's turn, and waits for its
    /// answer. `None` if there is nobody.
    async fn travel(
        &self,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Option<(Party, Told, UnderWay<'_>)> {
        let line = self.link.line_number();
        // Who has to connect first keeps nobody from hearing.
        let turn = turn.filter(|_| self.link.is_connected());
        let ready = match self.link.ready().await {
            Ok(ready) => ready,
            // They go over another connection by now.
            Err(_) if self.link.line_number() != line => return None,
            Err(error) => {
                let all = self.gathering.depart(usize::MAX, |_| true, |_| ());
                let (party, ()) = all.unwrap_or_default();
                for one in party {
                    one.answer(Err(error.clone()));
                }
                return None;
            }
        };
        let is_wanted = |question: &Question| self.is_wanted(question);
        let send = |party: &[_]| ready.send(self.command(party));
        let (party, sent) = self.gathering.depart(self.share(), is_wanted, send)?;
        drop(turn);
        let under_way = UnderWay::new(&self.under_way);
        let told = sent.answer().await;
        Some((party, told, under_way))
    }
}

/// A party is under way as long as this lives.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl fmt::Debug for Company {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Company")
    }
}
