//! Tokens are unique, and whoever is granted later has a greater one.

use super::Violation;
use crate::history::History;
use crate::hold::{Hold, holds};

/// Pairs of grants of one lock with equal tokens, or with tokens that go back
/// although the later worker asked after the earlier one had been granted. Each
/// grant is told with the last one before it that had a greater token, so that
/// what happened between the two is as little as can be.
#[must_use]
pub fn token_order(history: &History) -> Vec<Violation> {
    let mut holds = holds(history);
    holds.retain(|hold| hold.token.is_some());
    holds.sort_by(|a, b| (&a.name, a.token).cmp(&(&b.name, b.token)));
    let mut violations = Vec::new();
    for pair in holds.windows(2) {
        if pair[0].name == pair[1].name && pair[0].token == pair[1].token {
            violations.push(violation("granted twice", &pair[0], &pair[1]));
        }
    }
    holds.sort_by(|a, b| (&a.name, a.from).cmp(&(&b.name, b.from)));
    for grants in holds.chunk_by(|a, b| a.name == b.name) {
        let mut later: Vec<_> = grants.iter().collect();
        later.sort_by_key(|hold| hold.asked);
        let mut earlier = grants.iter().peekable();
        // Of those before, the ones that none after them is greater than: from
        // the greatest to the last.
        let mut greater: Vec<&Hold> = Vec::new();
        for hold in later {
            while let Some(next) = earlier.next_if(|next| next.from < hold.asked) {
                while greater.pop_if(|it| it.token <= next.token).is_some() {}
                greater.push(next);
            }
            let count = greater.partition_point(|it| it.token > hold.token);
            let last = greater[..count].last();
            violations.extend(last.map(|it| violation("went back", it, hold)));
        }
    }
    violations.sort_by_key(|it| it.lines[1]);
    violations
}

fn violation(what: &str, a: &Hold, b: &Hold) -> Violation {
    let [x, y] = [a, b].map(|hold| hold.token.unwrap_or_default());
    Violation {
        invariant: "token order",
        text: format!(
            "tokens of {} {what}: {x} of {}, then {y} of {}",
            a.name, a.by, b.by
        ),
        lines: [a.granted_line, b.granted_line],
        span: (a.from.min(b.from), a.from.max(b.from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Event;
    use crate::history::tests::{granted, line};

    fn asks() -> Event {
        Event::Asks { name: "l".into() }
    }

    #[test]
    fn a_token_that_comes_twice_or_goes_back_is_found() {
        let twice = History::new(vec![
            line(1, "a", granted(7, 5)),
            line(9, "b", granted(7, 15)),
        ]);
        assert_eq!(token_order(&twice).len(), 1);
        let back = History::new(vec![
            line(1, "a", asks()),
            line(2, "a", granted(9, 5)),
            line(3, "a", Event::Releases),
            line(4, "b", asks()),
            line(5, "b", granted(8, 15)),
        ]);
        let found = token_order(&back);
        assert_eq!(found.len(), 1);
        assert!(found[0].text.contains("went back: 9 of a, then 8 of b"));
    }

    #[test]
    fn a_token_that_goes_back_is_told_with_the_last_greater_one() {
        let mut lines = Vec::new();
        for (number, token) in [4, 9, 5, 6, 10].into_iter().enumerate() {
            let at = 10 * number as u64 + 1;
            lines.push(line(at, "a", asks()));
            lines.push(line(at + 1, "a", granted(token, at + 9)));
            lines.push(line(at + 2, "a", Event::Releases));
        }
        let found = token_order(&History::new(lines));
        let lines: Vec<_> = found.iter().map(|it| it.lines).collect();
        assert_eq!(lines, [[4, 7], [4, 10]]);
    }

    #[test]
    fn grants_that_were_asked_for_at_the_same_time_may_be_told_in_any_order() {
        let history = History::new(vec![
            line(1, "a", asks()),
            line(2, "b", asks()),
            line(5, "b", granted(9, 15)),
            line(6, "b", Event::Releases),
            line(7, "a", granted(8, 15)),
        ]);
        assert_eq!(token_order(&history), []);
    }
}
