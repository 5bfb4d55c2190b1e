//! What is in a store, as its own tools show it: raw keys, rows and leases.

use std::collections::BTreeMap;

/// How many keys or rows of each shape there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<String, usize>);

impl Contents {
    /// Counts these names. Names that differ in their numbers only are of one
    /// shape.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let mut shapes = BTreeMap::new();
        for name in names {
            *shapes.entry(shape(&name)).or_default() += 1;
        }
        Self(shapes)
    }

    /// The same but for names of these shapes.
    #[must_use]
    pub fn without(mut self, shapes: &[&str]) -> Self {
        self.0.retain(|shape, _| !shapes.contains(&shape.as_str()));
        self
    }

    /// What there is more of than before, in words.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Vec<String> {
        let more = self.0.iter().filter_map(|(shape, count)| {
            let known = before.0.get(shape).copied().unwrap_or(0);
            let more = count.saturating_sub(known);
            (more > 0).then(|| format!("{more} × {shape}"))
        });
        more.collect()
    }
}

/// The name with a sign for every word in it that has a digit.
fn shape(name: &str) -> String {
    let is_end = |character: char| !character.is_alphanumeric();
    let mut shape = String::new();
    for part in name.split_inclusive(is_end) {
        let word = part.trim_end_matches(is_end);
        match word.contains(|character: char| character.is_ascii_digit()) {
            true => shape.push('#'),
            false => shape.push_str(word),
        }
        shape.push_str(&part[word.len()..]);
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_by_their_shape() {
        assert_eq!(shape("lh:{lab/x}:s:3fa9-77"), "lh:{lab/x}:s:#-#");
        assert_eq!(shape("/lab/lock-0000000012"), "/lab/lock-#");
        assert_eq!(shape("claim"), "claim");
    }

    #[test]
    fn what_was_there_before_is_not_left_behind() {
        let names = |names: &[&str]| Contents::of(names.iter().map(|&name| name.to_owned()));
        let before = names(&["meta", "token:1"]);
        assert_eq!(names(&["meta", "token:2"]).beyond(&before), [""; 0]);
        let left = names(&["meta", "token:2", "claim:1", "claim:2", "meta"]);
        assert_eq!(left.beyond(&before), ["2 × claim:#", "1 × meta"]);
    }
}
