//! The protected resource: it takes an access unless it has seen a higher token.

use super::world::World;

/// What the resource has seen, and what an onlooker makes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Resource {
    /// The highest token it has taken.
    highest: u64,
    last: Option<u8>,
    /// The holds that were followed by another.
    closed: u8,
    seen: u8,
    /// A hold was taken up again after another's access.
    pub(super) is_interleaved: bool,
    /// An access was taken after one of a hold that began later.
    pub(super) is_stale: bool,
}

impl<const N: usize, const T: usize> World<N, T> {
    pub(super) fn access(&mut self, attempt: usize, width: u64) {
        let token = self.tries[attempt].token;
        if token + width <= self.resource.highest {
            return;
        }
        self.tries[attempt].accesses += 1;
        let bit = 1 << attempt;
        let began_later = self.mask(|it| it.is_granted && it.before & bit != 0);
        let resource = &mut self.resource;
        resource.highest = resource.highest.max(token + width - 1);
        resource.is_interleaved |= resource.closed & bit != 0;
        resource.is_stale |= resource.seen & began_later != 0;
        let this = u8::try_from(attempt).expect("a small number");
        if let Some(last) = resource.last.replace(this)
            && last != this
        {
            resource.closed |= 1 << last;
        }
        resource.seen |= bit;
    }
}
