//! A holder that lives and does nothing.

use std::time::Duration;

use super::{Error, Report, Stage, Told};
use crate::crew::{Hand, until};
use crate::history::{Event, Line};
use crate::invariant::belief;
use crate::recorder::Recorder;
use crate::resource::Resource;
use crate::worker::{Accident, Job, Strategy};
use testbed::redis::RedisServer;

const TTL: u64 = 600;
const MAX_HOLD: u64 = 1_000;
/// How long the next one is watched; nobody waits for ever here.
const WATCHED: Duration = Duration::from_secs(3);
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
    let heads = ["strategy", "the next one", "the stuck one was told"];
    report.table.heads = heads.map(str::to_owned).to_vec();
    let ways = [
        (
            "a timer that renews for ever",
            Strategy::RenewedForever,
            None,
            false,
        ),
        ("leasehold without a limit", Strategy::Unfenced, None, false),
        (
            "leasehold, max_hold of a second",
            Strategy::Unfenced,
            Some(MAX_HOLD),
            false,
        ),
        (
            "leasehold, broken by an operator",
            Strategy::Unfenced,
            None,
            true,
        ),
    ];
    for (number, (title, strategy, max_hold, is_broken)) in ways.into_iter().enumerate() {
        (stage.progress)(title);
        let lock = format!("lab/stuck/{}/{number}", std::process::id());
        let url = match strategy {
            Strategy::RenewedForever => url.clone(),
            _ => format!("{url}?ttl={TTL}ms"),
        };
        let recorder = Recorder::default();
        let ledger = Resource::start("ledger", 0, recorder.clone())?;
        let job = |name: &str| Job {
            ttl_millis: TTL,
            max_hold_millis: max_hold,
            ..Job::new(name, strategy, &url, &lock, ledger.address)
        };
        let accident = Some(Accident::Hangs);
        let mut first = Hand::start(
            &Job {
                accident,
                ..job("w1")
            },
            &recorder,
        )?;
        let granted = |by: &'static str| {
            move |line: &Line| line.by == by && matches!(line.event, Event::Granted { .. })
        };
        if !until(LONGEST, || recorder.has(granted("w1"))) {
            return Err("the first worker got no lock".into());
        }
        let mut second = Hand::start(&job("w2"), &recorder)?;
        if is_broken {
            recorder.note("an operator breaks the lock");
            evict(&url, &lock)?;
        }
        let should_be_bad = max_hold.is_none() && !is_broken;
        let longest = if should_be_bad { WATCHED } else { LONGEST };
        let gets_in = until(longest, || recorder.has(granted("w2")));
        if gets_in {
            second.finish(LONGEST);
        }
        first.kill();
        second.finish(Duration::ZERO);
        let history = recorder.history();
        let told = history.lines.iter().find_map(|line| match &line.event {
            Event::Lost { why } if line.by == "w1" => Some(why.clone()),
            _ => None,
        });
        let next = match gets_in {
            true => "got in".to_owned(),
            false => format!("still waits after {} s", longest.as_secs()),
        };
        let fields = vec![next, told.unwrap_or_else(|| "nothing".to_owned())];
        let title = title.to_owned();
        let violations = belief(&history);
        let told = Told {
            title,
            history,
            violations,
        };
        report.add(told, fields, !gets_in, should_be_bad);
    }
    Ok(report)
}

/// What `leasehold break` does.
fn evict(url: &str, lock: &str) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let inspector = leasehold::inspect(url).await?;
        inspector.evict(lock, "the lab", "it does nothing").await?;
        Ok(())
    })
}
