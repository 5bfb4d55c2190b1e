//! `leasehold doctor`: is the store fit for locks, and what does it promise?

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use leasehold::engine::{Finding, Severity};
use leasehold::{Grade, Promises};
use serde_json::{Value, json};

use crate::args::Common;
use crate::exit::{self, Failure};
use crate::print::{self, Console, HEADING};
use crate::store;

pub(crate) async fn doctor(common: &Common, console: Console) -> Result<u8, Failure> {
    let url = store::url(common)?;
    let inspector = leasehold::inspect(&url).await?;
    let (store, promises) = (store::identity(&url), inspector.promises());
    let findings = inspector.examine().await?;
    let is_fit = findings
        .iter()
        .all(|finding| finding.severity != Severity::Unfit);
    if console.json {
        let promises = promises_as_json(&promises);
        let findings: Vec<_> = findings.iter().map(finding_as_json).collect();
        print::json_line(
            &json!({ "store": store, "fit": is_fit, "promises": promises, "findings": findings }),
        )?;
    } else {
        let store = print::clean(&store);
        let mut text = format!("{HEADING}{store}{HEADING:#}\n");
        text.push_str(&describe_promises(&promises));
        for finding in &findings {
            text.push_str(&describe(finding));
        }
        print::text(&text)?;
    }
    Ok(if is_fit { exit::OK } else { exit::CONFIG })
}

fn describe_promises(promises: &Promises) -> String {
    let yes = |promised| if promised { "yes" } else { "no" };
    let fence = match promises.fence {
        Grade::Ordered => "A: tokens are ordered and unique as far as the store is durable",
        Grade::OrderedByClock => "B: tokens are ordered as long as clocks agree",
        Grade::Unique => "C: tokens are unique, but not ordered",
        Grade::None => "0: there are no tokens worth checking",
    };
    let rows = [
        ("shared by", promises.reach.to_string()),
        ("fair", yes(promises.fair).to_owned()),
        ("readers and writers", yes(promises.rwlock).to_owned()),
        ("slots", yes(promises.semaphore).to_owned()),
        ("fence grade", fence.to_owned()),
        ("free after a crash", promises.crash.to_string()),
        ("survives a restart", yes(promises.durable).to_owned()),
    ];
    rows.iter()
        .fold(String::new(), |mut text, (what, promise)| {
            let _ = writeln!(text, "  {what:20} {promise}");
            text
        })
}

fn describe(finding: &Finding) -> String {
    let colour = match finding.severity {
        Severity::Fine => AnsiColor::Green,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Unfit => AnsiColor::Red,
    };
    let (style, word) = (
        Style::new().fg_color(Some(colour.into())).bold(),
        severity(finding),
    );
    let mut text = format!("{style}{word:8}{style:#} {}\n", print::clean(&finding.what));
    if !finding.remedy.is_empty() {
        let _ = writeln!(text, "         {}", print::clean(&finding.remedy));
    }
    text
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Fine => "fine",
        Severity::Warning => "warning",
        Severity::Unfit => "unfit",
    }
}

fn finding_as_json(finding: &Finding) -> Value {
    json!({ "severity": severity(finding), "what": finding.what, "remedy": finding.remedy })
}

fn promises_as_json(promises: &Promises) -> Value {
    json!({
        "reach": promises.reach.to_string(),
        "fair": promises.fair,
        "rwlock": promises.rwlock,
        "semaphore": promises.semaphore,
        "fence": promises.fence.to_string(),
        "crash": promises.crash.to_string(),
        "durable": promises.durable,
    })
}
