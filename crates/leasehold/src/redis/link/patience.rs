//! How long an answer is waited for on a connection that may lead nowhere.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Link;
use crate::clock::{Moment, boot_time};

/// How long a connection may be silent while somebody waits for an answer that
/// then gives up.
const SILENCE: Duration = Duration::from_millis(300);

/// A request that waits for its answer. Whoever sent it may give up before the
/// connection's own limit; if nothing at all was heard meanwhile, the connection
/// is not used again: it may lead nowhere.
pub(in crate::redis) struct Patience<L: Deref<Target = Link>> {
    link: L,
    number: u64,
    sent: Moment,
    is_over: bool,
}

impl<L: Deref<Target = Link>> Patience<L> {
    pub(super) fn new(link: L, number: u64) -> Self {
        Self {
            link,
            number,
            sent: boot_time(),
            is_over: false,
        }
    }

    pub(super) fn ends(mut self) {
        self.is_over = true;
        self.link.heard.store(boot_time().nanos(), Relaxed);
    }

    /// As `ends`, for whoever did not send it: that the server was heard is noted
    /// by the one who did.
    pub(in crate::redis) fn ends_by_another(mut self) {
        self.is_over = true;
    }

    /// Whether nothing at all was heard since it was sent, for a while.
    pub(super) fn is_met_by_silence(&self) -> bool {
        let heard = self.link.heard.load(Relaxed);
        heard < self.sent.nanos() && boot_time().since(self.sent) >= SILENCE
    }
}

impl<L: Deref<Target = Link>> Drop for Patience<L> {
    fn drop(&mut self) {
        if !self.is_over && self.is_met_by_silence() {
            self.link.end(self.number);
        }
    }
}
