//! Nothing is left in the store when all are gone.

use super::Violation;
use crate::history::History;

/// One violation that names all that is left, in words, if something is. What is
/// in a store is not in a history: whoever looked at it tells.
#[must_use]
pub fn nothing_left(history: &History, left: &[String]) -> Vec<Violation> {
    if left.is_empty() {
        return Vec::new();
    }
    let last = history.lines.len().saturating_sub(1);
    vec![Violation {
        invariant: "nothing left behind",
        text: format!("this is left when all are gone: {}", left.join(", ")),
        lines: [last, last],
        span: history.span(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Event;
    use crate::history::tests::line;

    #[test]
    fn what_is_left_is_named() {
        let history = History::new(vec![line(1, "a", Event::Killed)]);
        assert_eq!(nothing_left(&history, &[]), []);
        let found = nothing_left(&history, &["2 claims".into(), "a key".into()]);
        assert_eq!(found.len(), 1);
        assert!(found[0].text.ends_with("gone: 2 claims, a key"));
    }
}
