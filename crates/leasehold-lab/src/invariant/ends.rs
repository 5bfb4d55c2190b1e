//! A worker ends well, unless it is killed.

use super::{Violation, clock};
use crate::history::{Event, History};

/// Workers that crashed, ended with an error, or did not end when they were
/// told to.
#[must_use]
pub fn ends_well(history: &History) -> Vec<Violation> {
    let failed = history.lines.iter().enumerate();
    let failed = failed.filter_map(|(number, line)| match &line.event {
        Event::Failed { why } => Some(Violation {
            invariant: "ends well",
            text: format!("{} at {}: {why}", line.by, clock(history, line.at)),
            lines: [number, number],
            span: (line.at, line.at),
        }),
        _ => None,
    });
    failed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::line;

    #[test]
    fn a_worker_that_fails_is_found_and_one_that_is_killed_is_not() {
        let why = "exit status: 101: panicked".to_owned();
        let history = History::new(vec![
            line(1, "a", Event::Killed),
            line(2, "b", Event::Failed { why }),
        ]);
        let found = ends_well(&history);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.ends_with("101: panicked"), "{found:?}");
        assert_eq!(found[0].lines, [1, 1]);
    }
}
