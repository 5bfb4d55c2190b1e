//! When the faults are over, everybody gets the lock again.

use std::collections::BTreeSet;

use super::Violation;
use crate::history::{Event, History, Moment};
use crate::hold::holds;

/// Workers that did not get the lock within so many nanoseconds after this
/// phase had begun.
#[must_use]
pub fn progress(
    history: &History,
    phase: &str,
    workers: &[String],
    bound: Moment,
) -> Vec<Violation> {
    let begins = history.lines.iter().enumerate().find_map(|(number, line)| {
        matches!(&line.event, Event::Phase { name } if name == phase).then_some((number, line.at))
    });
    let Some((line, begin)) = begins else {
        return vec![missing(
            format!("the phase {phase} was never reached"),
            0,
            (0, 0),
        )];
    };
    let served: BTreeSet<_> = holds(history)
        .into_iter()
        .filter(|hold| (begin..=begin.saturating_add(bound)).contains(&hold.from))
        // One whose time was over when it was told is nothing.
        .filter(|hold| hold.from < hold.to)
        .map(|hold| hold.by)
        .collect();
    let starved = workers.iter().filter(|worker| !served.contains(*worker));
    starved
        .map(|worker| {
            let text = format!("{worker} got nothing within {} ms", bound / 1_000_000);
            missing(text, line, (begin, begin.saturating_add(bound)))
        })
        .collect()
}

fn missing(text: String, line: usize, span: (Moment, Moment)) -> Violation {
    Violation {
        invariant: "progress",
        text,
        lines: [line, line],
        span,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{granted, line};

    #[test]
    fn a_worker_that_gets_nothing_after_the_faults_is_found() {
        let workers = ["a".to_owned(), "b".to_owned()];
        let history = History::new(vec![
            line(1, "b", granted(1, 5)),
            line(
                10,
                "lab",
                Event::Phase {
                    name: "liveness".into(),
                },
            ),
            line(12, "a", granted(2, 20)),
            line(13, "a", Event::Releases),
            line(15, "b", granted(3, 14)),
            line(16, "b", Event::Lost { why: "over".into() }),
        ]);
        let found = progress(&history, "liveness", &workers, 50_000_000);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.starts_with("b got nothing"));
        assert_eq!(progress(&history, "another", &workers, 1).len(), 1);
    }
}
