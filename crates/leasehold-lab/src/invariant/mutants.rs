//! A sound history, and the same with one thing wrong: each must be found out by
//! the invariant that it breaks. A checker that finds nothing is broken.
#![expect(
    clippy::ptr_arg,
    reason = "all mutations have one type, and some of them add lines"
)]

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use leasehold::engine::Freed;

use super::*;
use crate::history::tests::line;
use crate::history::{Access, Line, Outcome};

const WORKERS: u64 = 4;
const MILLISECOND: Moment = 1_000_000;
/// How long a round takes, and one in which the holder stands still.
const ROUND: u64 = 1_000;
const LONG_ROUND: u64 = 3_050;
/// How long the store keeps a claim, and how much less its holder believes in it.
const TTL: u64 = 3_000;
const MARGIN: u64 = 100;
const BOUND: Moment = 60_000 * MILLISECOND;

/// Everything that is wrong with a history, by the names of the invariants.
fn wrong(history: &History) -> Vec<&'static str> {
    let workers: Vec<_> = (0..WORKERS).map(|number| format!("w{number}")).collect();
    let mut found = Vec::new();
    found.extend(belief(history));
    found.extend(exclusion(history, 1, Freed::AfterTtl));
    found.extend(overtaken(history));
    found.extend(capacity(history, 1));
    found.extend(token_order(history));
    found.extend(told_in_time(history, 1));
    found.extend(order_of_service(history));
    found.extend(stale_writes(history));
    found.extend(lost_updates(history, "ledger"));
    found.extend(linearizable(history, 0));
    found.extend(progress(history, "liveness", &workers, BOUND));
    found.extend(ends_well(history));
    found.iter().map(|it| it.invariant).collect()
}

/// Writes a history, round by round.
#[derive(Default)]
struct Scribe {
    lines: Vec<Line>,
    value: u64,
}

impl Scribe {
    fn tell(&mut self, at: u64, by: &str, event: Event) {
        self.lines.push(line(at, by, event));
    }

    /// An access, and whether it is let in.
    fn access(&mut self, at: u64, by: &str, access: Access, token: u64, accepted: bool) {
        if let (Access::Write(value), true) = (access, accepted) {
            self.value = value;
        }
        let sends = Event::Sends {
            access,
            token: Some(token),
            holder: Some(token),
        };
        let decides = Event::Decides {
            of: by.into(),
            access,
            token: Some(token),
            accepted,
            value: self.value,
        };
        let outcome = match accepted {
            true => Outcome::Ok,
            false => Outcome::No,
        };
        let value = Some(self.value);
        self.tell(at, by, sends);
        self.tell(at + 10, "ledger", decides);
        self.tell(at + 20, by, Event::Answered { outcome, value });
    }

    /// A worker waits, holds and gives back; or stands still and is told of its
    /// loss when it wakes up. Gives when the next one may hold.
    fn round(&mut self, begin: u64, number: u64, stands_still: bool) -> u64 {
        let (by, token) = (format!("w{}", number % WORKERS), number + 1);
        let name = || "l".to_owned();
        let until = |after: u64| (begin + after) * MILLISECOND;
        self.tell(begin - 600, &by, Event::Asks { name: name() });
        self.tell(begin - 550, &by, Event::Queued { waits: true });
        let stands = Event::Stands {
            name: name(),
            holder: token,
            token,
            until: until(TTL),
        };
        self.tell(begin + 10, &by, stands);
        let granted = Event::Granted {
            name: name(),
            token: Some(token),
            until: Some(until(TTL - MARGIN)),
        };
        self.tell(begin + 20, &by, granted);
        self.access(begin + 50, &by, Access::Claim, token, true);
        let write = Access::Write(self.value + 1);
        let (kind, on) = ("pause".to_owned(), by.clone());
        if stands_still {
            let fault = Event::Fault { kind, on };
            self.tell(begin + 200, "lab", fault);
            let seen = seen(token, begin + 30, begin + TTL - 20);
            self.tell(begin + LONG_ROUND, "store", seen);
            return begin + LONG_ROUND;
        }
        let (holders, kept) = (vec![token], until(400 + TTL));
        self.tell(
            begin + 410,
            &by,
            Event::Keeps {
                holders,
                until: kept,
            },
        );
        let until = until(400 + TTL - MARGIN);
        self.tell(begin + 420, &by, Event::Renewed { until });
        self.access(begin + 500, &by, write, token, true);
        self.tell(begin + 600, &by, Event::Releases);
        self.tell(begin + 610, &by, Event::Yields { holder: token });
        let outcome = Outcome::Ok;
        self.tell(begin + 630, &by, Event::Released { outcome });
        let seen = seen(token, begin + 30, begin + 580);
        self.tell(begin + 700, "store", seen);
        begin + ROUND
    }

    /// One that stood still in this round wakes up, when the next one has the mark.
    fn wakes(&mut self, at: u64, number: u64) {
        let (by, token) = (format!("w{}", number % WORKERS), number + 1);
        let (kind, on) = ("pause".to_owned(), by.clone());
        self.tell(at, "lab", Event::Healed { kind, on });
        self.access(at + 10, &by, Access::Write(self.value + 1), token, false);
        let why = "deadline".to_owned();
        self.tell(at + 40, &by, Event::Lost { why });
        self.tell(at + 45, &by, Event::Yields { holder: token });
    }
}

fn seen(holder: u64, from: u64, to: u64) -> Event {
    Event::Seen {
        name: "l".into(),
        holder,
        token: None,
        from: from * MILLISECOND,
        to: to * MILLISECOND,
    }
}

/// A history of some length in which nothing is wrong; every fifth holder or so
/// stands still past its time.
fn sound(rng: &mut StdRng) -> History {
    let mut scribe = Scribe::default();
    let (rounds, mut begin) = (rng.random_range(20..60), 1_000);
    let mut slept = None;
    for number in 0..rounds + 2 * WORKERS {
        if number == rounds {
            let name = "liveness".to_owned();
            scribe.tell(begin - 700, "lab", Event::Phase { name });
        }
        // The first one does, so that there is one in each history.
        let stands_still =
            number == 0 || (number + 1 < rounds && slept.is_none() && rng.random_ratio(1, 5));
        if let Some(sleeper) = slept.take() {
            scribe.wakes(begin + 100, sleeper);
        }
        let next = scribe.round(begin, number, stands_still);
        slept = stands_still.then_some(number);
        begin = next;
    }
    History::new(scribe.lines)
}

/// The numbers of the lines like that, but for those of the last rounds.
fn those(lines: &[Line], is_it: impl Fn(&Line) -> bool) -> Vec<usize> {
    let ends = lines.len() - lines.len() / 4;
    let numbers = lines[..ends].iter().enumerate();
    numbers
        .filter(|(_, line)| is_it(line))
        .map(|(number, _)| number)
        .collect()
}

type Mutation = fn(&mut Vec<Line>, &mut StdRng);

fn any(lines: &[Line], rng: &mut StdRng, is_it: impl Fn(&Line) -> bool) -> usize {
    *those(lines, is_it).choose(rng).expect("there is one")
}

/// What is done to a history, and what must be found.
const MUTATIONS: &[(&str, Mutation, &[&str])] = &[
    ("two tokens change places", swap_tokens, &["token order"]),
    ("a token comes twice", repeat_token, &["token order"]),
    (
        "a hold is longer",
        |lines, rng| {
            let ends = any(lines, rng, |line| line.event == Event::Releases);
            lines[ends].at += 500 * MILLISECOND;
        },
        &["belief", "capacity"],
    ),
    (
        "nobody tells the end of a hold",
        |lines, rng| {
            let ends = any(lines, rng, |line| line.event == Event::Releases);
            lines.remove(ends);
        },
        &["belief"],
    ),
    (
        "the store grants before it was asked to take the last claim away",
        |lines, rng| {
            let yields = any(lines, rng, is_early_yield);
            lines[yields].at += 500 * MILLISECOND;
        },
        &["exclusion"],
    ),
    (
        "a claim is seen when the next one holds",
        |lines, rng| {
            let seen = any(lines, rng, |line| matches!(line.event, Event::Seen { .. }));
            if let Event::Seen { to, .. } = &mut lines[seen].event {
                *to += 1_500 * MILLISECOND;
            }
        },
        &["exclusion"],
    ),
    (
        "a claim is granted before the promise to a sleeper is over",
        |lines, rng| {
            let fault = any(lines, rng, |line| matches!(line.event, Event::Fault { .. }));
            let stands = |line: &&mut Line| matches!(line.event, Event::Stands { .. });
            let next = lines[fault..].iter_mut().find(stands).expect("the next");
            next.at -= 100 * MILLISECOND;
        },
        &["exclusion"],
    ),
    (
        "a loss is not told",
        |lines, rng| {
            let lost = any(lines, rng, |line| matches!(line.event, Event::Lost { .. }));
            lines.remove(lost);
        },
        &["loss told in time"],
    ),
    (
        "a loss is told long after the sleeper woke up",
        |lines, rng| {
            let lost = any(lines, rng, |line| matches!(line.event, Event::Lost { .. }));
            lines[lost].at += 1_500 * MILLISECOND;
        },
        &["loss told in time"],
    ),
    (
        "a refused write is let in",
        let_stale_in,
        &["no stale write", "linearizability", "no lost update"],
    ),
    (
        "an answer is another",
        |lines, rng| {
            let answered = any(lines, rng, |line| {
                matches!(line.event, Event::Answered { .. })
            });
            if let Event::Answered { value, .. } = &mut lines[answered].event {
                *value = value.map(|value| value + 7);
            }
        },
        &["linearizability"],
    ),
    (
        "an update is made of an old value",
        lose_update,
        &["no lost update"],
    ),
    (
        "somebody is served before one who waits",
        overtake,
        &["order of service"],
    ),
    (
        "a worker gets nothing any more",
        |lines, rng| {
            let begin = lines
                .iter()
                .position(|line| matches!(line.event, Event::Phase { .. }))
                .expect("there is a last phase");
            let by = format!("w{}", rng.random_range(0..WORKERS));
            let mut number = 0;
            lines.retain(|line| {
                number += 1;
                number <= begin || line.by != by
            });
        },
        &["progress"],
    ),
    (
        "a worker fails",
        |lines, rng| {
            let why = "it panicked".to_owned();
            let number = any(lines, rng, |line| line.by == "w1");
            lines[number].event = Event::Failed { why };
        },
        &["ends well"],
    ),
];

/// The release of one that did not stand still.
fn is_early_yield(line: &Line) -> bool {
    matches!(line.event, Event::Yields { .. }) && line.at / MILLISECOND % 1_000 % 50 == 10
}

fn token_of(line: &mut Line) -> Option<&mut u64> {
    match &mut line.event {
        Event::Granted { token, .. } => token.as_mut(),
        _ => None,
    }
}

fn swap_tokens(lines: &mut Vec<Line>, rng: &mut StdRng) {
    let is_grant = |line: &Line| matches!(line.event, Event::Granted { .. });
    let grants = those(lines, is_grant);
    let first = rng.random_range(0..grants.len() - 3);
    let [a, b] = [grants[first], grants[first + 3]];
    let [x, y] = [a, b].map(|number| *token_of(&mut lines[number]).expect("it has one"));
    *token_of(&mut lines[a]).expect("it has one") = y;
    *token_of(&mut lines[b]).expect("it has one") = x;
}

fn repeat_token(lines: &mut Vec<Line>, rng: &mut StdRng) {
    let is_grant = |line: &Line| matches!(line.event, Event::Granted { .. });
    let [a, b] = [any(lines, rng, is_grant), lines.len() - 1];
    let last = (0..b).rfind(|&number| is_grant(&lines[number]));
    let token = *token_of(&mut lines[a]).expect("it has one");
    *token_of(&mut lines[last.expect("the last")]).expect("it has one") = token;
}

/// The resource takes what it refused, and says so.
fn let_stale_in(lines: &mut Vec<Line>, rng: &mut StdRng) {
    let is_refused = |line: &Line| {
        let event = &line.event;
        matches!(
            event,
            Event::Decides {
                accepted: false,
                ..
            }
        )
    };
    let decides = any(lines, rng, is_refused);
    let mut written = 0;
    if let Event::Decides {
        access: Access::Write(wanted),
        accepted,
        value,
        ..
    } = &mut lines[decides].event
    {
        (*accepted, *value, written) = (true, *wanted, *wanted);
    }
    let is_no = |line: &&mut Line| {
        let event = &line.event;
        matches!(
            event,
            Event::Answered {
                outcome: Outcome::No,
                ..
            }
        )
    };
    let answer = lines[decides..].iter_mut().find(is_no).expect("its answer");
    answer.event = Event::Answered {
        outcome: Outcome::Ok,
        value: Some(written),
    };
}

/// A worker's read comes before the write of the one before it.
fn lose_update(lines: &mut Vec<Line>, rng: &mut StdRng) {
    let decides = those(lines, |line| matches!(line.event, Event::Decides { .. }));
    let is_write = |number: usize| {
        let event = &lines[number].event;
        let Event::Decides {
            access, accepted, ..
        } = event
        else {
            return false;
        };
        *accepted && matches!(access, Access::Write(_))
    };
    // A write, and a claim right after it that a write comes of.
    let places = decides
        .windows(3)
        .filter(|three| is_write(three[0]) && !is_write(three[1]) && is_write(three[2]));
    let places: Vec<_> = places.map(|three| (three[0], three[1])).collect();
    let &(write, claim) = places.choose(rng).expect("there is one");
    lines[claim].at = lines[write].at - 1;
}

/// Somebody who has not asked yet is granted what a waiter waits for.
fn overtake(lines: &mut Vec<Line>, rng: &mut StdRng) {
    let queued = any(lines, rng, |line| {
        matches!(line.event, Event::Queued { .. }) && line.by != "w0"
    });
    let at = lines[queued].at / MILLISECOND;
    let name = || "l".to_owned();
    let (token, until) = (None, Some((at + 30) * MILLISECOND));
    let granted = Event::Granted {
        name: name(),
        token,
        until,
    };
    lines.push(line(at + 5, "hasty", Event::Asks { name: name() }));
    lines.push(line(at + 8, "hasty", granted));
    lines.push(line(at + 9, "hasty", Event::Releases));
}

#[test]
fn nothing_is_wrong_with_a_sound_history() {
    for seed in 0..60 {
        let history = sound(&mut StdRng::seed_from_u64(seed));
        assert_eq!(wrong(&history), [""; 0], "seed {seed}");
    }
}

#[test]
fn whatever_is_wrong_with_a_history_is_found() {
    for &(name, mutate, must) in MUTATIONS {
        for seed in 0..60 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut lines = sound(&mut rng).lines;
            mutate(&mut lines, &mut rng);
            let found = wrong(&History::new(lines));
            for invariant in must {
                assert!(
                    found.contains(invariant),
                    "{name}, seed {seed}: no \"{invariant}\" in {found:?}"
                );
            }
        }
    }
}
