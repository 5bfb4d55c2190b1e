//! One attempt to take a lock: the nodes are asked, and what they say is put
//! before `quorum.rs`, which decides.

use std::time::Duration;

use ::redis::{RedisError, Value};

use super::claims::{Mine, OpenLease};
use super::fan::{Fan, Reply};
use super::keys::{Keys, NODE};
use super::nodes::{Call, Node, Nodes, RUN, silent};
use super::note::Note;
use crate::clock::{Moment, boot_time, wall_time};
use crate::redis::whole_millis;
use crate::redlock::quorum::{Attempt, Raised, Step, Vote, WIDTH, Why, counter_after, validity};

/// What became of an attempt.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) outcome: Outcome,
    /// The nodes that have the lock as ours, as far as they answered.
    pub(super) granted: Vec<usize>,
    /// Over which connection each node was asked; `None` if it answered.
    pub(super) asked_over: Vec<Option<u64>>,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Held {
        token: u64,
    },
    /// Others have it, or too many nodes of it.
    Busy {
        /// When a majority of the nodes has it free, unless somebody renews.
        free_in: Option<Duration>,
    },
    /// Too few nodes answered. Why the others did not.
    TooFew(Vec<String>),
    /// A majority granted, and too few of these answered once more. Others may
    /// be there, so it is worth another attempt.
    Unanswered(Vec<String>),
    /// The key is not a lock on a node; of what type it is.
    NoLock(String),
    /// The nodes' counters have no room for another token.
    Exhausted,
    /// A majority granted, too late to be of use.
    TooLate,
}

/// What a node answered in round 1.
enum Answer {
    Counter(u64),
    Guessed,
    Refused(Option<Duration>),
    Quarantined,
    Late,
    NoLock(String),
    Away(String),
}

/// One attempt, under an id that was never used before.
pub(super) struct Taking<'a> {
    nodes: &'a Nodes,
    keys: &'a Keys,
    id: &'a str,
    open: &'a OpenLease,
    note: Note<'a>,
    /// Over which connection each node was asked; `None` once it answered.
    asked_over: Vec<Option<u64>>,
    /// The token if the nodes have no say in it.
    own_token: u64,
    granted: Vec<usize>,
    refused: Vec<Option<Duration>>,
    away: Vec<String>,
    no_lock: Option<String>,
}

impl<'a> Taking<'a> {
    pub(super) fn new(
        nodes: &'a Nodes,
        mine: &'a Mine,
        id: &'a str,
        open: &'a OpenLease,
        label: Option<&'a str>,
    ) -> Self {
        Self {
            nodes,
            keys: &mine.keys,
            id,
            open,
            note: Note {
                id,
                holder: mine.holder,
                owner: &open.owner,
                label: label.unwrap_or(open.owner.label()),
                lease: open.lease.id,
                since: wall_time(),
            },
            asked_over: nodes.lines(),
            own_token: match nodes.uses_tokens {
                true => 0,
                false => Self::own_token(nodes),
            },
            granted: Vec::new(),
            refused: Vec::new(),
            away: Vec::new(),
            no_lock: None,
        }
    }

    /// Asks for the lock. `sent` is from before the first node is asked.
    pub(super) async fn run(mut self, sent: Moment) -> Taken {
        let attempt = Attempt::new(self.nodes.all.len(), self.nodes.uses_tokens);
        let mut attempt = attempt.guessing(self.nodes.guess.next());
        let mut step = self.round_1(&mut attempt, sent).await;
        if let Step::Raise { token, nodes } = step {
            step = self.round_2(&mut attempt, token, nodes).await;
        }
        if let Step::Held { token } = step
            && self.nodes.uses_tokens
        {
            self.nodes.guess.acknowledged(token);
        }
        let outcome = match step {
            Step::Held { token } => match validity(sent, boot_time(), self.open.lease.ttl) {
                Some(_) if !self.nodes.uses_tokens => Outcome::Held {
                    token: self.own_token,
                },
                Some(_) => Outcome::Held { token },
                None => Outcome::TooLate,
            },
            Step::Failed(Why::Exhausted) => Outcome::Exhausted,
            Step::Failed(Why::Unanswered) => Outcome::Unanswered(self.away),
            _ => match self.no_lock {
                Some(kind) => Outcome::NoLock(kind),
                None if self.away.len() > self.nodes.all.len() - self.nodes.majority() => {
                    Outcome::TooFew(self.away)
                }
                None => Outcome::Busy {
                    free_in: self.free_in(),
                },
            },
        };
        Taken {
            outcome,
            granted: self.granted,
            asked_over: self.asked_over,
        }
    }

    /// Without the nodes' counters: the time as the fastest of their clocks has
    /// it, which orders nothing for certain.
    fn own_token(nodes: &Nodes) -> u64 {
        let clocks = nodes.all.iter();
        let millis = clocks.filter_map(|node| node.link.time_in(Duration::ZERO));
        millis.max().unwrap_or(0) * 1000 + boot_time().nanos() / 1000 % 1000
    }

    async fn round_1(&mut self, attempt: &mut Attempt, sent: Moment) -> Step {
        let (ttl, nodes, id) = (self.open.lease.ttl, self.nodes, self.id);
        let (ttl_millis, note_millis) = (whole_millis(ttl).to_string(), self.open.note_millis());
        let (ttl_millis, note_millis) = (&*ttl_millis, &*note_millis);
        let keys = [&*self.keys.lock, &*self.keys.note, NODE];
        // Whoever uses tokens takes a lock without a counter for one whose note
        // has expired.
        let note = match nodes.uses_tokens {
            true => String::new(),
            false => format!("-{}", self.note.rest(self.own_token)),
        };
        let note = &*note;
        let guess = attempt.guess().map(|token| {
            let last = counter_after(token, WIDTH);
            [token.to_string(), last.to_string(), self.note.rest(token)]
        });
        let guess = guess.as_ref();
        let script = match nodes.uses_tokens {
            true => &nodes.scripts.take,
            false => &nodes.scripts.take_plain,
        };
        let make = |node: &Node, server: &str| {
            // From when it was sent first, however late this node gets it: what is owed
            // to it relies on that.
            let left = (sent + ttl).since(boot_time());
            let not_after = node.link.time_in(left).unwrap_or(0).to_string();
            let (keys, arguments): (_, &[&str]) = match (nodes.uses_tokens, guess) {
                (true, None) => (&keys[..], &[id, ttl_millis, &not_after, RUN, note_millis]),
                (true, Some([token, last, rest])) => (
                    &keys[..],
                    &[
                        id,
                        ttl_millis,
                        &not_after,
                        RUN,
                        note_millis,
                        token,
                        last,
                        rest,
                    ],
                ),
                (false, _) => (&keys[..2], &[id, ttl_millis, &not_after, note_millis, note]),
            };
            let call = Call {
                script,
                keys,
                arguments,
            };
            call.command(node, server)
        };
        // A twin would take away what the server gives under its first name.
        let (twins, to): (Vec<_>, Vec<_>) =
            (0..nodes.all.len()).partition(|&node| nodes.twin_of(&nodes.all[node]).is_some());
        for number in twins {
            self.count(number, Err(silent()));
            attempt.voted(number, Vote::Away);
        }
        let mut answers = Fan::send(nodes, to, script, &make);
        let limit = tokio::time::sleep(self.open.limit);
        tokio::pin!(limit);
        loop {
            let reply = tokio::select! {
                biased;
                reply = answers.next() => match reply {
                    Some(reply) => reply,
                    None => return Step::Failed(Why::Away),
                },
                () = &mut limit => {
                    let heard = self.granted.len() + self.refused.len() + self.away.len();
                    let missing = self.nodes.all.len() - heard;
                    self.away.extend((0..missing).map(|_| "one did not answer in time".to_owned()));
                    return Step::Failed(Why::Away);
                }
            };
            let vote = self.count(reply.node, reply.answer);
            match attempt.voted(reply.node, vote) {
                Step::Wait => {}
                step => return step,
            }
        }
    }

    /// Takes in what a node answered in round 1.
    fn count(&mut self, number: usize, answer: Result<Value, RedisError>) -> Vote {
        let node = &self.nodes.all[number];
        let label = &node.link.label;
        if let Some(twin) = self.nodes.twin_of(node) {
            let twin = &twin.link.label;
            let why = format!("{label} is the same server as {twin}");
            self.away.push(why);
            return Vote::Away;
        }
        let answer = match answer {
            Ok(answer) => {
                self.asked_over[number] = None;
                Answer::read(&answer, &node.link)
            }
            Err(error) => Answer::Away(node.wrong(error, "lock").why().to_owned()),
        };
        match answer {
            Answer::Counter(counter) => {
                self.granted.push(number);
                return Vote::Granted { counter };
            }
            Answer::Guessed => {
                self.granted.push(number);
                return Vote::Guessed;
            }
            Answer::Refused(left) => {
                self.refused.push(left);
                return Vote::Refused;
            }
            Answer::NoLock(kind) => {
                self.refused.push(None);
                self.no_lock = Some(kind);
            }
            Answer::Quarantined => {
                self.nodes.to_settle.notify_one();
                self.away.push(format!(
                    "{label} is in quarantine: it restarted and may have forgotten, or is in a list of \
                     another length; see `leasehold redlock status`"
                ));
            }
            Answer::Late => self.away.push(format!("{label}: its clock was moved")),
            Answer::Away(why) => self.away.push(format!("{label}: {why}")),
        }
        Vote::Away
    }

    async fn round_2(&mut self, attempt: &mut Attempt, token: u64, raise: Vec<usize>) -> Step {
        let nodes = self.nodes;
        let keys = [&*self.keys.lock, &*self.keys.note, NODE];
        let (first, last) = (token.to_string(), counter_after(token, WIDTH).to_string());
        let (note_millis, rest) = (self.open.note_millis(), self.note.rest(token));
        let call = Call {
            script: &nodes.scripts.raise,
            keys: &keys,
            arguments: &[self.id, RUN, &first, &last, &note_millis, &rest],
        };
        let make = |node: &Node, server: &str| call.command(node, server);
        let mut answers = Fan::send(nodes, raise, call.script, &make);
        let limit = tokio::time::sleep(self.open.limit);
        tokio::pin!(limit);
        loop {
            let Reply {
                node: number,
                answer,
                ..
            } = tokio::select! {
                biased;
                reply = answers.next() => match reply {
                    Some(reply) => reply,
                    None => return Step::Failed(Why::Away),
                },
                () = &mut limit => {
                    self.away.push("a node that granted did not answer again in time".into());
                    return Step::Failed(Why::Unanswered);
                }
            };
            let raised = match answer {
                Ok(Value::Int(1)) => Raised::Done,
                // Somebody else was faster on this node.
                Ok(_) => {
                    self.refused.push(None);
                    Raised::Refused
                }
                Err(error) => {
                    let node = &nodes.all[number];
                    let why = node.wrong(error, "lock");
                    self.away
                        .push(format!("{}: {}", node.link.label, why.why()));
                    Raised::Away
                }
            };
            match attempt.raised(number, raised) {
                Step::Wait => {}
                step => return step,
            }
        }
    }

    /// When enough of those that refused have it free to make a majority with
    /// those that granted. `None` if that is not known.
    fn free_in(&self) -> Option<Duration> {
        let missing = self.nodes.majority().checked_sub(self.granted.len())?;
        let mut left: Vec<_> = self.refused.iter().flatten().copied().collect();
        left.sort();
        match missing {
            0 => Some(Duration::ZERO),
            missing => left.get(missing - 1).copied(),
        }
    }
}

impl Answer {
    fn read(answer: &Value, link: &crate::redis::link::Link) -> Self {
        if *answer == Value::Int(1) {
            return Self::Guessed;
        }
        if let Ok(counter) = ::redis::from_redis_value_ref::<u64>(answer) {
            return Self::Counter(counter);
        }
        let words = ::redis::from_redis_value_ref::<Vec<String>>(answer).unwrap_or_default();
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["refused", left] => {
                // What is left is told in whole milliseconds.
                let left = left.parse().ok().map(|left: u64| left + 1);
                Self::Refused(left.map(Duration::from_millis))
            }
            ["quarantined", _] => Self::Quarantined,
            ["late", now] => {
                if let Ok(now) = now.parse() {
                    link.learn_time(now);
                }
                Self::Late
            }
            ["type", kind] => Self::NoLock(kind.to_owned()),
            _ => Self::Away("an answer that is none of ours".into()),
        }
    }
}
