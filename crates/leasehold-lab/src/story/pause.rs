//! The holder stands still past its time and wakes up writing.

use std::time::Duration;

use super::{Error, Report, Stage, Told};
use crate::crew::{Hand, until};
use crate::history::{Access, Event, Line};
use crate::invariant::{belief, lost_updates, stale_writes};
use crate::recorder::Recorder;
use crate::resource::Resource;
use crate::worker::{Accident, Job, Strategy, Work};
use testbed::redis::RedisServer;

const TTL: u64 = 600;
const LONGEST: Duration = Duration::from_secs(20);

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
    let heads = ["strategy", "updates", "value", "lost"];
    report.table.heads = heads.map(str::to_owned).to_vec();
    let ways = [
        (
            "SET NX PX, released by its owner only",
            Strategy::NoRenewal,
            true,
        ),
        (
            "leasehold, a look at the lock before the write",
            Strategy::Unfenced,
            true,
        ),
        (
            "leasehold, a fence at the resource",
            Strategy::Fenced,
            false,
        ),
    ];
    for (number, (title, strategy, should_be_bad)) in ways.into_iter().enumerate() {
        (stage.progress)(title);
        let lock = format!("lab/pause/{}/{number}", std::process::id());
        let (history, updates, value) = run(strategy, &url, &lock)?;
        let mut violations = lost_updates(&history, "ledger");
        violations.extend(stale_writes(&history));
        violations.extend(belief(&history));
        let lost = updates - value;
        let fields = [updates, value, lost].map(|number| number.to_string());
        let title = title.to_owned();
        let told = Told {
            title,
            history,
            violations,
        };
        report.add(told, fields.to_vec(), lost > 0, should_be_bad);
    }
    Ok(report)
}

/// Two workers count, and the first stands still before its first write until
/// the second has counted on. Gives the history, how many updates the resource
/// took, and how many it shows.
fn run(
    strategy: Strategy,
    url: &str,
    lock: &str,
) -> Result<(crate::history::History, u64, u64), Error> {
    let recorder = Recorder::default();
    let ledger = Resource::start("ledger", 0, recorder.clone())?;
    let job = |number: u32| Job {
        name: format!("w{number}"),
        tasks: 1,
        strategy,
        url: match strategy {
            Strategy::Fenced | Strategy::Unfenced => format!("{url}?ttl={TTL}ms"),
            _ => url.to_owned(),
        },
        lock: lock.to_owned(),
        resource: ledger.address,
        work: Work {
            counts_down: false,
            takes_millis: 40,
            rests_millis: 20,
            at_most: Some(6),
        },
        long_work: None,
        ttl_millis: TTL,
        patience_millis: 5_000,
        max_hold_millis: None,
        permits: 1,
        tells_answers: false,
        hurries_with: None,
        rests_with: None,
        stops_with: None,
        ends_with: None,
        sabotage: None,
        accident: (number == 1).then_some(Accident::StopsBeforeWrite),
    };
    let mut first = Hand::start(&job(1), &recorder)?;
    assert!(until(LONGEST, || first.is_stopped()), "it stands still");
    recorder.breaks("pause", "w1");
    let mut second = Hand::start(&job(2), &recorder)?;
    let is_written = |line: &Line| match &line.event {
        Event::Decides {
            of,
            access: Access::Write(_),
            ..
        } => of == "w2",
        _ => false,
    };
    assert!(
        until(LONGEST, || recorder.count(is_written) >= 2),
        "the next one writes"
    );
    first.resume();
    for hand in [&mut first, &mut second] {
        hand.finish(LONGEST);
    }
    let history = recorder.history();
    let is_update = |line: &&Line| match &line.event {
        Event::Decides {
            accepted, access, ..
        } => *accepted && matches!(access, Access::Write(_)),
        _ => false,
    };
    let updates = history.lines.iter().filter(is_update).count() as u64;
    Ok((history, updates, ledger.value()))
}
