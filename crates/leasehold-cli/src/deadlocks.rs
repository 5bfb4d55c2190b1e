//! `leasehold doctor --deadlocks`: who waits for each other, and whom to break.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use leasehold::Inspector;
use leasehold::deadlock::{self, Cycle, Lock, Wait};
use leasehold::engine::{Claimant, LeaseId};
use serde_json::{Value, json};

use crate::args::Common;
use crate::exit::{self, Failure};
use crate::nested;
use crate::print::{self, Console, HEADING};
use crate::store;
use crate::view::ClaimView;

/// Between the two looks. One moment would be enough for those that can never
/// end; tasks that share a session get a chance to prove that they can.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn deadlocks(common: &Common, console: Console) -> Result<u8, Failure> {
    let url = store::url(common)?;
    let inspector = leasehold::inspect(&url).await?;
    if !inspector.promises().fair {
        return Err(Failure::usage(
            "this store keeps no queue: it cannot tell who waits, and so no deadlocks",
        ));
    }
    let cycles = twice(&inspector).await?;
    let store = store::identity(&url);
    if console.json {
        let cycles: Vec<_> = cycles.iter().map(|it| as_json(it, common)).collect();
        print::json_line(&json!({ "store": store, "deadlocks": cycles }))?;
    } else {
        let mut text = format!("{HEADING}{}{HEADING:#}\n", print::clean(&store));
        if cycles.is_empty() {
            let style = bold(AnsiColor::Green);
            let _ = writeln!(text, "{style}fine{style:#}     nobody waits in a circle");
        }
        for cycle in &cycles {
            text.push_str(&describe(cycle, common));
        }
        print::text(&text)?;
    }
    Ok(match cycles.is_empty() {
        true => exit::OK,
        false => exit::HELD,
    })
}

async fn twice(inspector: &Inspector) -> Result<Vec<Cycle>, Failure> {
    let first = as_jobs(inspector.locks("").await?);
    if deadlock::cycles(&first).is_empty() {
        return Ok(Vec::new());
    }
    tokio::time::sleep(PAUSE).await;
    let second = as_jobs(inspector.locks("").await?);
    Ok(deadlock::cycles(&deadlock::standing(&first, &second)))
}

/// A run inside another has a session of its own, but the outer one holds until
/// the inner one has ended: together they are one.
fn as_jobs(mut locks: Vec<Lock>) -> Vec<Lock> {
    let mut known: HashMap<String, (Option<LeaseId>, Option<String>)> = HashMap::new();
    for claim in locks.iter().flat_map(|lock| &lock.queue.claims) {
        let outer = nested::outer(claim.owner.label()).map(str::to_owned);
        known.insert(process(claim), (claim.session, outer));
    }
    let outermost = |mut process: String| {
        let mut session = None;
        // Labels are only text: a circle of them must not keep us for ever.
        for _ in 0..known.len() {
            let Some((its, outer)) = known.get(&process) else {
                break;
            };
            session = *its;
            match outer {
                Some(outer) => process.clone_from(outer),
                None => break,
            }
        }
        session
    };
    for claim in locks.iter_mut().flat_map(|lock| &mut lock.queue.claims) {
        if let Some(outer) = nested::outer(claim.owner.label())
            && let Some(session) = outermost(outer.to_owned())
        {
            claim.session = Some(session);
        }
    }
    locks
}

fn process(claim: &Claimant) -> String {
    format!("{}:{}", claim.owner.host(), claim.owner.pid())
}

fn describe(cycle: &Cycle, common: &Common) -> String {
    let style = bold(AnsiColor::Red);
    let count = cycle.waits().len();
    let mut text = format!("{style}deadlock{style:#} {count} wait for each other\n");
    for wait in cycle.waits() {
        let _ = writeln!(text, "         {}", print::clean(&describe_wait(wait)));
    }
    let _ = writeln!(text, "         to end it: {}", command(cycle, common));
    if has_unseen_url(common) {
        text.push_str("         with the --url that you gave here\n");
    }
    text
}

fn describe_wait(wait: &Wait) -> String {
    let Wait {
        name,
        waiter,
        blocker,
    } = wait;
    let (waited, stood) = (print::duration(waiter.age), print::duration(blocker.age));
    let token = blocker
        .token
        .map_or_else(String::new, |token| format!(", token {token}"));
    let how = match blocker.is_holder {
        true => "held by",
        false => "behind",
    };
    format!(
        "{} waits for {name} ({waited}), {how} {} ({stood}{token})",
        waiter.owner, blocker.owner
    )
}

/// The command that ends it, as a shell reads it.
fn command(cycle: &Cycle, common: &Common) -> String {
    let victim = cycle.victim();
    let mut words = vec!["leasehold".to_owned(), "break".to_owned()];
    if let Some(url) = common.url.as_ref().filter(|_| !has_unseen_url(common)) {
        words.extend(["--url".to_owned(), quoted(url)]);
    }
    if let Some(token) = victim.blocker.token {
        words.extend(["--token".to_owned(), token.to_string()]);
    }
    words.extend(["--reason".to_owned(), "deadlock".to_owned()]);
    words.extend(["--".to_owned(), quoted(victim.name.as_str())]);
    words.join(" ")
}

/// Whether there is a URL that may have a secret in it, and so is not shown.
fn has_unseen_url(common: &Common) -> bool {
    common
        .url
        .as_ref()
        .is_some_and(|url| url.contains(['@', '?']))
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+=%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn as_json(cycle: &Cycle, common: &Common) -> Value {
    let wait = |wait: &Wait| {
        // Whether it is exclusive or shared is for whoever looks at the lock.
        let view = |claim| serde_json::to_value(ClaimView::new(claim, 1)).map(without_mode);
        json!({
            "name": wait.name.as_str(),
            "waiter": view(&wait.waiter).unwrap_or_default(),
            "blocker": view(&wait.blocker).unwrap_or_default(),
            "is_held": wait.blocker.is_holder,
        })
    };
    let victim = cycle.victim();
    json!({
        "waits": cycle.waits().iter().map(wait).collect::<Vec<_>>(),
        "break": {
            "name": victim.name.as_str(),
            "token": victim.blocker.token.map(u64::from),
            "command": command(cycle, common),
        },
    })
}

fn without_mode(mut view: Value) -> Value {
    if let Some(fields) = view.as_object_mut() {
        fields.remove("mode");
    }
    view
}

fn bold(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into())).bold()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_a_shell_reads_as_that_word() {
        assert_eq!(quoted("jobs/nightly"), "jobs/nightly");
        assert_eq!(quoted("it's 100%"), r"'it'\''s 100%'");
        assert_eq!(quoted("$(x)"), "'$(x)'");
    }
}
