//! Marks: a map, and when each of them was made.

use std::time::Duration;

use super::{Memory, Record, State};
use crate::clock::Moment;
use crate::engine::Mark;
use crate::name::Name;
use crate::random::random_u64;
use crate::rule;

/// When the mark of a lock that nobody uses is forgotten.
const OLD: Duration = Duration::from_secs(86_400);

/// So many marks are never too many.
const FEW: usize = 64;

impl Memory {
    /// The lock's mark, made if it is not there; none if there is a writer.
    pub(super) fn mark(&self, name: &Name) -> Option<Mark> {
        let now = self.clock.now();
        let mut state = self.state();
        let State {
            marks,
            locks,
            most_marks,
            ..
        } = &mut *state;
        let queue = locks.get(name).map_or(&[][..], Vec::as_slice);
        let is_writer = |record: &Record| {
            let ticket = &record.ticket;
            rule::is_writer(ticket.capacity, ticket.weight)
        };
        if queue.iter().any(is_writer) {
            return None;
        }
        if !marks.contains_key(name) {
            // Only when they have doubled: looking at all of them for each that is made
            // would cost more with each.
            if marks.len() >= FEW.max(*most_marks) {
                let is_old = |made: Moment| now.since(made) >= OLD;
                marks.retain(|name, (_, made)| !is_old(*made) || locks.contains_key(name));
                *most_marks = 2 * marks.len();
            }
            marks.insert(name.clone(), (random_u64(), now));
        }
        let mark = marks.get(name);
        mark.map(|(mark, _)| Mark(mark.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn old_marks_are_swept_when_there_are_many_and_come_back_as_others() {
        let store = Memory::new();
        let [old, young] = ["old", "young"].map(|name| Name::new(name).unwrap());
        let mark = store.mark(&old);
        tokio::time::advance(OLD - Duration::from_secs(1)).await;
        let recent = store.mark(&young);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(store.mark(&old), mark, "nobody swept it");
        for number in 0..FEW - 1 {
            store.mark(&Name::new(format!("other {number}")).unwrap());
        }
        assert_ne!(store.mark(&old), mark);
        assert_eq!(store.mark(&young), recent);
    }

    #[tokio::test(start_paused = true)]
    async fn marks_that_are_all_young_are_looked_at_seldom() {
        let store = Memory::new();
        for number in 0..10 * FEW {
            store.mark(&Name::new(format!("lock {number}")).unwrap());
        }
        let state = store.state();
        assert_eq!((state.marks.len(), state.most_marks), (10 * FEW, 16 * FEW));
    }
}
