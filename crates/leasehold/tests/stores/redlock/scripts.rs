//! The scripts on a real server and the pure node that the models drive give
//! the same answers, whatever is asked in whatever order.

use leasehold::redlock::node::{Node, Quarantined};
use leasehold::redlock::quorum::{Raised, Vote, WIDTH, counter_after};
use proptest::prelude::*;
use redis::{Connection, Value};

use testbed::redis::RedisServer;

const LOCKS: usize = 2;
const NODE: &str = "lh:redlock";

const TAKE: &str = include_str!("../../../src/redis/redlock/lua/take.lua");
const RAISE: &str = include_str!("../../../src/redis/redlock/lua/raise.lua");
const RENEW: &str = include_str!("../../../src/redis/redlock/lua/renew.lua");
const RELEASE: &str = include_str!("../../../src/redis/redlock/lua/release.lua");
const FLOOR: &str = include_str!("../../../src/redis/redlock/lua/floor.lua");
const ADMIT: &str = include_str!("../../../src/redis/redlock/lua/admit.lua");

/// What is done to a node.
#[derive(Debug, Clone, Copy)]
enum Step {
    Take {
        lock: usize,
        owner: u64,
        guess: Option<u64>,
    },
    /// Somebody without tokens leaves a note.
    PlainNote {
        lock: usize,
    },
    Raise {
        lock: usize,
        owner: u64,
        token: u64,
    },
    Renew {
        lock: usize,
        owner: u64,
    },
    Release {
        lock: usize,
        owner: u64,
    },
    Expire {
        lock: usize,
    },
    ExpireCounter {
        lock: usize,
    },
    Lift {
        floor: u64,
    },
    Admit {
        floor: u64,
        is_late: bool,
    },
    Restart {
        keeps: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (lock, owner) = (0..LOCKS, 1..4_u64);
    let claim = || (lock.clone(), owner.clone());
    let step = prop_oneof![
        8 => (claim(), prop::option::of(1..300_u64))
            .prop_map(|((lock, owner), guess)| Step::Take { lock, owner, guess }),
        1 => lock.clone().prop_map(|lock| Step::PlainNote { lock }),
        8 => (claim(), 1..200_u64)
            .prop_map(|((lock, owner), token)| Step::Raise { lock, owner, token }),
        2 => claim().prop_map(|(lock, owner)| Step::Renew { lock, owner }),
        4 => claim().prop_map(|(lock, owner)| Step::Release { lock, owner }),
        2 => lock.clone().prop_map(|lock| Step::Expire { lock }),
        2 => lock.clone().prop_map(|lock| Step::ExpireCounter { lock }),
        1 => (0..200_u64).prop_map(|floor| Step::Lift { floor }),
        2 => (0..200_u64, prop::bool::weighted(0.2))
            .prop_map(|(floor, is_late)| Step::Admit { floor, is_late }),
        1 => any::<bool>().prop_map(|keeps| Step::Restart { keeps }),
    ];
    prop::collection::vec(step, 1..60)
}

/// A server that is told which run it is: restarting one for each step would
/// take hours, and the scripts know no other way.
struct Real {
    connection: Connection,
    run: u64,
}

impl Real {
    fn eval(&mut self, script: &str, keys: &[&str], arguments: &[&str]) -> Value {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
        command.query(&mut self.connection).unwrap()
    }

    fn tell(&mut self, words: &[&str]) -> Value {
        let mut command = redis::Cmd::new();
        command.arg(words).query(&mut self.connection).unwrap()
    }

    fn run(&self) -> String {
        format!("run-{}", self.run)
    }

    fn take(&mut self, lock: usize, owner: u64, guess: Option<u64>) -> Result<Vote, Quarantined> {
        let (lock, note) = keys(lock);
        let late = (i64::MAX >> 12).to_string();
        let (id, run) = (id(owner), self.run());
        let mut arguments = vec![&*id, "600000", &late, &run, "900000"];
        let guess = guess.map(|token| {
            let last = counter_after(token, WIDTH).to_string();
            let rest = format!(" {id} {token} 1 1 1 host label 00");
            [token.to_string(), last, rest]
        });
        arguments.extend(guess.iter().flatten().map(String::as_str));
        let answer = self.eval(TAKE, &[&lock, &note, NODE], &arguments);
        if answer == Value::Int(1) {
            return Ok(Vote::Guessed);
        }
        match words(&answer)[..] {
            [ref counter] => Ok(Vote::Granted {
                counter: counter.parse().unwrap(),
            }),
            [ref word, _] if word == "refused" => Ok(Vote::Refused),
            [ref word, _] if word == "quarantined" => Err(Quarantined),
            ref other => panic!("{other:?}"),
        }
    }

    fn raise(&mut self, lock: usize, owner: u64, token: u64) -> Result<Raised, Quarantined> {
        let (lock, note) = keys(lock);
        let (first, last) = (token.to_string(), counter_after(token, WIDTH).to_string());
        let rest = format!(" {} {first} 1 1 1 host label 00", id(owner));
        let arguments = [&*id(owner), &self.run(), &first, &last, "900000", &rest];
        match words(&self.eval(RAISE, &[&lock, &note, NODE], &arguments))[..] {
            [ref word] if word == "1" => Ok(Raised::Done),
            [ref word] if word == "refused" => Ok(Raised::Refused),
            [ref word, _] if word == "quarantined" => Err(Quarantined),
            ref other => panic!("{other:?}"),
        }
    }

    fn renew(&mut self, lock: usize, owner: u64) -> Result<bool, Quarantined> {
        let (lock, _) = keys(lock);
        let arguments = ["600000", &self.run(), "900000", &id(owner)];
        match words(&self.eval(RENEW, &[NODE, &lock], &arguments))[..] {
            [ref word, _] if word == "quarantined" => Err(Quarantined),
            [_, ref is_ours] => Ok(is_ours == "1"),
            ref other => panic!("{other:?}"),
        }
    }

    fn high(&mut self) -> u64 {
        match self.tell(&["HGET", NODE, "high"]) {
            Value::Nil => 0,
            high => testbed::redis::text(&high).parse().unwrap(),
        }
    }

    fn admitted(&mut self) -> String {
        match self.tell(&["HGET", NODE, "run"]) {
            Value::Nil => String::new(),
            run => testbed::redis::text(&run),
        }
    }
}

fn keys(lock: usize) -> (String, String) {
    (format!("lock-{lock}"), format!("lh:r:lock-{lock}"))
}

fn id(owner: u64) -> String {
    format!("{owner:032x}")
}

fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().map(testbed::redis::text).collect(),
        value => vec![testbed::redis::text(value)],
    }
}

/// Does the step to both, and compares what they answer.
fn compare(step: Step, node: &mut Node<LOCKS>, real: &mut Real) {
    match step {
        Step::Take { lock, owner, guess } => {
            let vote = match guess {
                Some(token) => node.take_guessing(lock, owner, token, WIDTH),
                None => node.take(lock, owner),
            };
            assert_eq!(real.take(lock, owner, guess), vote);
            assert_eq!(real.high(), node.high);
        }
        Step::PlainNote { lock } => {
            real.tell(&["SET", &keys(lock).1, "- 0 0"]);
            node.expire_counter(lock);
        }
        Step::Raise { lock, owner, token } => {
            let raised = node.raise(lock, owner, token, WIDTH);
            assert_eq!(real.raise(lock, owner, token), raised);
        }
        Step::Renew { lock, owner } => assert_eq!(real.renew(lock, owner), node.renew(lock, owner)),
        Step::Release { lock, owner } => {
            let answer = real.eval(RELEASE, &[&keys(lock).0], &[&id(owner)]);
            assert_eq!(answer == Value::Int(1), node.release(lock, owner));
        }
        Step::Expire { lock } => {
            real.tell(&["DEL", &keys(lock).0]);
            node.expire(lock);
        }
        Step::ExpireCounter { lock } => {
            real.tell(&["DEL", &keys(lock).1]);
            node.expire_counter(lock);
        }
        Step::Lift { floor } => {
            let answer = real.eval(FLOOR, &[NODE], &[&floor.to_string(), &real.run(), ""]);
            assert_eq!(answer == Value::Int(1), node.lift(floor).is_ok());
        }
        Step::Admit { floor, is_late } => {
            // Only a node that is not in good standing is admitted.
            if !node.is_quarantined() {
                return;
            }
            let (run, admitted) = (real.run(), real.admitted());
            // Somebody else was faster than whoever looked before.
            let seen = if is_late { "another" } else { &*admitted };
            let answer = real.eval(ADMIT, &[NODE], &[&run, seen, &floor.to_string(), ""]);
            let is_admitted = !is_late && node.admit(floor, node.run);
            assert_eq!(answer == Value::Int(1), is_admitted);
        }
        Step::Restart { keeps } => {
            real.run += 1;
            node.restart(real.run, keeps);
            if !keeps {
                real.tell(&["FLUSHALL"]);
            }
        }
    }
}

#[testbed::test]
fn the_scripts_do_what_the_models_take_for_granted() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    let client = redis::Client::open(server.url()).unwrap();
    let settings = ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(settings);
    let real = std::cell::RefCell::new(Real {
        connection: client.get_connection().unwrap(),
        run: 0,
    });
    let compared = runner.run(&steps(), |steps| {
        let mut real = real.borrow_mut();
        real.tell(&["FLUSHALL"]);
        real.run = 1;
        let mut node = Node::new(1);
        for step in steps {
            compare(step, &mut node, &mut real);
        }
        Ok(())
    });
    compared.unwrap();
}
