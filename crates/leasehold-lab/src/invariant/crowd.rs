//! PURE: more at once than there is room for, whatever it is that takes room.

use crate::history::Moment;

/// Something that takes one place of a lock for a time.
pub(super) trait Lasts {
    /// The lock.
    fn name(&self) -> &str;
    /// From when to when.
    fn span(&self) -> (Moment, Moment);
    /// The line of the history that tells of it first.
    fn line(&self) -> usize;
}

/// One that came when all places were taken.
#[derive(Debug)]
pub(super) struct Crowd<'a, T> {
    /// Of those who were there, the one that stayed longest.
    pub(super) earlier: &'a T,
    /// Who came.
    pub(super) later: &'a T,
    /// How many there were then.
    pub(super) count: usize,
}

impl<T: Lasts> Crowd<'_, T> {
    /// The two lines that prove it.
    pub(super) fn lines(&self) -> [usize; 2] {
        [self.earlier.line(), self.later.line()]
    }

    /// From when to when both were there.
    pub(super) fn span(&self) -> (Moment, Moment) {
        let (from, to) = self.later.span();
        (from, to.min(self.earlier.span().1))
    }
}

/// All that came to a lock when as many stood as it has room for.
pub(super) fn crowds<T: Lasts>(all: &[T], room: usize) -> Vec<Crowd<'_, T>> {
    let mut all: Vec<&T> = all.iter().collect();
    all.sort_by_key(|it| (it.name(), it.span().0, it.line()));
    let mut here: Vec<&T> = Vec::new();
    let mut crowds = Vec::new();
    for later in all {
        here.retain(|it| it.name() == later.name() && it.span().1 > later.span().0);
        let longest = here.iter().copied().max_by_key(|it| it.span().1);
        let longest = longest.filter(|_| here.len() >= room);
        crowds.extend(longest.map(|earlier| Crowd {
            earlier,
            later,
            count: here.len() + 1,
        }));
        here.push(later);
    }
    crowds
}
