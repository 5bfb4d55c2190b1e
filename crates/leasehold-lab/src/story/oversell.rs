//! A flash sale: so many bottles, more buyers, and whoever has read that there
//! is one left sells it.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Error, Report, Stage, Told};
use crate::crew::{Hand, until};
use crate::history::{Access, Event, Line};
use crate::invariant::{Violation, belief, lost_updates};
use crate::recorder::Recorder;
use crate::resource::Resource;
use crate::worker::{Accident, Job, Strategy, Work};
use testbed::redis::RedisServer;

const BOTTLES: u64 = 40;
const PROCESSES: u32 = 4;
const TASKS: u32 = 2;
/// Locks made by hand end after it, while work goes on.
const TTL: u64 = 300;
/// Ours must survive it, on a busy machine too.
const OUR_TTL: u64 = 5_000;
/// How long anybody may take for what it must come to.
const LONGEST: Duration = Duration::from_secs(120);

/// One way to sell.
struct Way {
    title: &'static str,
    strategy: Strategy,
    accident: Option<Accident>,
    should_be_bad: bool,
}

fn way(title: &'static str, strategy: Strategy, accident: Option<Accident>) -> Way {
    Way {
        title,
        strategy,
        accident,
        should_be_bad: true,
    }
}

fn ways() -> Vec<Way> {
    let slow = |ttl| Some(Accident::Slow { millis: 2 * ttl });
    let stops = || Some(Accident::StopsBeforeWrite);
    let forever = Some(Accident::DiesInWork);
    let between = Some(Accident::DiesBeforeExpiry);
    let delete = Some(Accident::StopsBeforeDelete);
    let good = |way: Way| Way {
        should_be_bad: false,
        ..way
    };
    vec![
        way("no lock", Strategy::NoLock, None),
        way("a mutex in each process", Strategy::InProcess, None),
        way("SETNX, and one dies", Strategy::SetnxForever, forever),
        way(
            "SETNX then EXPIRE, and one dies between",
            Strategy::SetnxThenExpire,
            between,
        ),
        way(
            "expiry without renewal, slow work",
            Strategy::NoRenewal,
            slow(TTL),
        ),
        way(
            "release without a look at the owner, slow work",
            Strategy::BlindRelease,
            slow(TTL),
        ),
        way(
            "GET then DEL, paused between",
            Strategy::GetThenDelete,
            delete,
        ),
        good(way(
            "leasehold, slow work",
            Strategy::Unfenced,
            slow(OUR_TTL),
        )),
        way(
            "leasehold without a fence, paused before the write",
            Strategy::Unfenced,
            stops(),
        ),
        good(way(
            "leasehold with a fence, paused before the write",
            Strategy::Fenced,
            stops(),
        )),
        good(way(
            "an atomic decrement, for comparison",
            Strategy::Decrement,
            None,
        )),
    ]
}

pub(super) fn tell(stage: &Stage<'_>) -> Result<Report, Error> {
    let server;
    let url = match stage.url {
        Some(url) => url.to_owned(),
        None => {
            server = RedisServer::start(stage.folder, &[]);
            server.url()
        }
    };
    let mut report = Report::default();
    let heads = ["strategy", "sold", "of", "oversold", "stuck", "time"];
    report.table.heads = heads.map(str::to_owned).to_vec();
    for (number, way) in ways().into_iter().enumerate() {
        (stage.progress)(way.title);
        let lock = format!("lab/sale/{}/{number}", std::process::id());
        let word = stage.folder.join(format!("word-{number}"));
        let (told, seen) = sell(&way, &url, &lock, &word)?;
        let fields = vec![
            seen.sold.to_string(),
            BOTTLES.to_string(),
            seen.oversold.to_string(),
            seen.stuck.to_string(),
            format!("{:.1} s", seen.took.as_secs_f64()),
        ];
        let is_bad = seen.oversold > 0 || seen.stuck > 0;
        report.add(told, fields, is_bad, way.should_be_bad);
    }
    Ok(report)
}

/// What came out of a sale.
struct Seen {
    sold: u64,
    oversold: u64,
    /// Workers that wait for ever.
    stuck: usize,
    took: Duration,
}

fn sell(way: &Way, url: &str, lock: &str, word: &Path) -> Result<(Told, Seen), Error> {
    let recorder = Recorder::default();
    let stock = Resource::start("stock", BOTTLES, recorder.clone())?;
    let begin = Instant::now();
    let accident = |number| match (number, is_overtaken(way)) {
        // Slow is whatever lasts until another has sold something.
        (1, _) if is_too_slow(way) => Some(Accident::WorksUntil { file: word.into() }),
        (1, _) => way.accident.clone(),
        // In the middle of its section until another holds too.
        (2, true) => Some(Accident::WorksUntil { file: word.into() }),
        _ => None,
    };
    let job = |number: u32| Job {
        name: format!("w{number}"),
        tasks: match accident(number) {
            // Else its other task may be first, and all is sold before the accident.
            Some(_) => 1,
            None => TASKS,
        },
        strategy: way.strategy,
        url: match way.strategy {
            Strategy::Fenced | Strategy::Unfenced => format!("{url}?ttl={OUR_TTL}ms"),
            _ => url.to_owned(),
        },
        lock: lock.to_owned(),
        resource: stock.address,
        work: Work {
            counts_down: true,
            takes_millis: 3,
            rests_millis: 0,
            at_most: None,
        },
        long_work: None,
        ttl_millis: match way.strategy {
            Strategy::Fenced | Strategy::Unfenced => OUR_TTL,
            // It is free before that only if somebody deletes it.
            _ if is_overtaken(way) && number > 1 => 60_000,
            _ => TTL,
        },
        patience_millis: 2_000,
        max_hold_millis: None,
        permits: 1,
        tells_answers: false,
        hurries_with: None,
        rests_with: None,
        stops_with: None,
        ends_with: None,
        sabotage: None,
        accident: accident(number),
    };
    // The one with the accident comes first.
    let mut hands = vec![Hand::start(&job(1), &recorder)?];
    if way.accident.is_some() {
        let begun = until(LONGEST, || recorder.has(is_begun) || hands[0].has_ended());
        assert!(begun, "the first worker begins");
        let has_read = |line: &Line| matches!(line.event, Event::Answered { .. });
        let may_go_on = || !is_too_slow(way) || recorder.has(has_read);
        assert!(until(LONGEST, may_go_on), "the first worker reads");
    }
    let others = || recorder.count(|line| !is_of("w2", &line.by) && is_begun(line));
    let before = others();
    if is_overtaken(way) {
        hands.push(Hand::start(&job(2), &recorder)?);
        wake_into_section(&hands[0], &recorder);
    }
    for number in hands.len() as u32 + 1..=PROCESSES {
        hands.push(Hand::start(&job(number), &recorder)?);
    }
    match way.accident {
        Some(Accident::StopsBeforeWrite) => wake(&hands[0], &recorder),
        Some(Accident::Slow { .. }) if is_too_slow(way) => {
            wait_for_another(&hands[0], &recorder);
            std::fs::write(word, "")?;
        }
        Some(Accident::StopsBeforeDelete) => {
            assert!(until(LONGEST, || others() > before), "another holds too");
            std::fs::write(word, "")?;
        }
        _ => {}
    }
    let hanging = hands
        .iter_mut()
        .filter_map(|hand| (!hand.finish(LONGEST)).then_some(()));
    let hanging = hanging.count();
    let took = begin.elapsed();
    let history = recorder.history();
    let is_sale = |line: &&Line| match &line.event {
        Event::Decides {
            accepted, access, ..
        } => *accepted && matches!(access, Access::Write(_)),
        _ => false,
    };
    let sold = history.lines.iter().filter(is_sale).count() as u64;
    // Whoever locks by hand gives up in the end; ours ask again and again.
    let gave_up = match way.strategy {
        Strategy::Fenced | Strategy::Unfenced => 0,
        _ => recorder.count(|line| matches!(line.event, Event::Refused { .. })),
    };
    let mut violations: Vec<Violation> = match way.strategy {
        Strategy::Decrement => Vec::new(),
        _ => lost_updates(&history, "stock"),
    };
    violations.extend(belief(&history));
    let seen = Seen {
        sold,
        oversold: sold.saturating_sub(BOTTLES - stock.value()),
        stuck: hanging + gave_up,
        took,
    };
    let title = way.title.to_owned();
    let told = Told {
        title,
        history,
        violations,
    };
    Ok((told, seen))
}

/// Whether its lock is over before its work is.
fn is_too_slow(way: &Way) -> bool {
    way.should_be_bad && matches!(way.accident, Some(Accident::Slow { .. }))
}

/// Whether its lock is another's when it deletes it.
fn is_overtaken(way: &Way) -> bool {
    way.accident == Some(Accident::StopsBeforeDelete)
}

/// Whether a task is one of this worker.
fn is_of(worker: &str, task: &str) -> bool {
    task.split('.').next() == Some(worker)
}

/// Lets a worker go on that stands still before its write, when another has
/// written.
fn wake(hand: &Hand, recorder: &Recorder) {
    assert!(until(LONGEST, || hand.is_stopped()), "it stands still");
    recorder.breaks("pause", &hand.name);
    wait_for_another(hand, recorder);
    hand.resume();
}

/// Waits until another than this one has written; this one has read before.
fn wait_for_another(hand: &Hand, recorder: &Recorder) {
    let is_late = |line: &Line| match &line.event {
        Event::Decides {
            of,
            access: Access::Write(_),
            ..
        } => !is_of(&hand.name, of),
        _ => false,
    };
    assert!(until(LONGEST, || recorder.has(is_late)), "another writes");
}

/// Lets a worker go on that stands still before it deletes its lock, when that
/// is the second one's, which has read.
fn wake_into_section(hand: &Hand, recorder: &Recorder) {
    assert!(until(LONGEST, || hand.is_stopped()), "it stands still");
    recorder.breaks("pause", &hand.name);
    let has_read =
        |line: &Line| is_of("w2", &line.by) && matches!(line.event, Event::Answered { .. });
    assert!(
        until(LONGEST, || recorder.has(has_read)),
        "the second one reads"
    );
    hand.resume();
}

fn is_begun(line: &Line) -> bool {
    matches!(line.event, Event::Granted { .. } | Event::Killed)
}
