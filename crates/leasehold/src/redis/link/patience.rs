//! How long an answer is waited for on a connection that may lead nowhere.

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
pub(in crate::redis) struct Patience<'a> {
    link: &'a Link,
    number: u64,
    sent: Moment,
    is_over: bool,
}

impl<'a> Patience<'a> {
    pub(super) fn new(link: &'a Link, number: u64) -> Self {
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
}

impl Patience<'_> {
    /// As `ends`, for whoever did not send it: that the server was heard is noted
    /// by the one who did.
    pub(in crate::redis) fn is_answered(mut self) {
        self.is_over = true;
    }
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        let heard = self.link.heard.load(Relaxed);
        let is_silent = heard < self.sent.nanos() && boot_time().since(self.sent) >= SILENCE;
        if !self.is_over && is_silent {
            self.link.end(self.number);
        }
    }
}
