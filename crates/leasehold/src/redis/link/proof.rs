//! Messages to ourselves: whether everything arrives that the server tells.

use ::redis::Value;

use super::super::lock;
use super::Link;
use crate::clock::{Moment, boot_time};

/// How a message to ourselves starts; over which link and when it was sent follow.
pub(super) const ALIVE: &str = "alive ";

/// How long it is certain that no message was missed: until when our own
/// messages to ourselves arrived.
#[derive(Debug, Default)]
pub(super) struct Proof {
    asked: Option<Moment>,
    proven: Option<Moment>,
}

impl Link {
    /// What is behind `ALIVE`.
    pub(super) fn hear_ourselves(&self, message: &[u8]) {
        let read = || {
            let (number, sent) = std::str::from_utf8(message).ok()?.split_once(' ')?;
            // In a cluster what another node was told comes here too, by a way
            // that proves nothing of this node.
            (number.parse() == Ok(self.number)).then(|| sent.parse().ok())?
        };
        if let Some(sent) = read() {
            self.note_proof(Moment::from_nanos(sent));
        }
    }

    /// Sends a message to ourselves, unless the last one is on its way, and
    /// subscribes again if it does not come.
    ///
    /// A plain `PING` would prove the connection but not the subscription.
    pub(in crate::redis) async fn prove(&self, channel: &str) {
        let asked = lock(&self.proof).asked;
        if asked.is_some_and(|asked| !self.is_proven(asked)) {
            let _ = self.subscribe(channel).await;
            self.common.ears.missed();
        }
        let now = boot_time();
        lock(&self.proof).asked = Some(now);
        let mut publish = ::redis::cmd("PUBLISH");
        let message = format!("{ALIVE}{} {}", self.number, now.nanos());
        publish.arg(channel).arg(message);
        // If it fails the claims that wait find out, each by itself.
        let _: Result<u64, _> = self.ask(&publish).await;
    }

    /// Proves the connection by an answer. Enough where no subscription has to
    /// be proven too.
    pub(in crate::redis) async fn ping(&self) {
        let now = boot_time();
        lock(&self.proof).asked = Some(now);
        let answer: Result<Value, _> = self.ask(&::redis::cmd("PING")).await;
        if answer.is_ok() {
            self.note_proof(now);
        }
    }

    /// When the last message to ourselves left, unless the connection was lost
    /// since.
    pub(in crate::redis) fn asked(&self) -> Option<Moment> {
        lock(&self.proof).asked
    }

    /// Whether no message from before that moment can have been missed.
    pub(in crate::redis) fn is_proven(&self, since: Moment) -> bool {
        let proven = lock(&self.proof).proven;
        proven.is_some_and(|proven| proven >= since)
    }

    fn note_proof(&self, moment: Moment) {
        let proven = &mut lock(&self.proof).proven;
        *proven = (*proven).max(Some(moment));
    }
}
