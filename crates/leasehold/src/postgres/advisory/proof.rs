//! Whether a lock that a side connection got is covered by the lease. Pure.
//!
//! The lease's deadline counts from the last renewal. A side connection that
//! the server heard of last before that renewal may be ended before the
//! deadline, so what it holds does not count yet.

/// The renewals of a lease so far.
#[derive(Debug)]
pub(super) struct Renewals {
    /// The last token that had been drawn at the last one.
    last: u64,
    count: u64,
}

/// How many renewals there had been when a side connection was asked for a sign
/// of life. Tokens cannot say that: between two renewals none may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked(u64);

impl Renewals {
    pub(super) fn new(last: u64) -> Self {
        Self { last, count: 0 }
    }

    /// All that is held was renewed.
    pub(super) fn add(&mut self, last: u64) {
        self.last = last;
        self.count += 1;
    }

    pub(super) fn asked(&self) -> Asked {
        Asked(self.count)
    }

    /// Whether a grant is later than the last renewal, or its connection
    /// answered something that was asked after it.
    pub(super) fn cover(&self, token: u64, answered: Option<Asked>) -> bool {
        token > self.last || answered == Some(self.asked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_after_the_last_renewal_is_covered() {
        let mut renewals = Renewals::new(32);
        assert!(renewals.cover(64, None));
        renewals.add(64);
        assert!(!renewals.cover(64, None));
    }

    #[test]
    fn a_sign_of_life_from_before_a_renewal_proves_nothing_after_it() {
        let mut renewals = Renewals::new(64);
        let asked = renewals.asked();
        assert!(renewals.cover(64, Some(asked)));
        // Nobody drew a token meanwhile.
        renewals.add(64);
        assert!(!renewals.cover(64, Some(asked)));
        assert!(renewals.cover(64, Some(renewals.asked())));
    }
}
