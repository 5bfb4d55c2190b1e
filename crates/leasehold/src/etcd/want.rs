//! One thing that is watched, and what the stream has said of it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::sync::Notify;

use super::keys::Range;
use super::watching::one;
use super::wire::watch_request::Request;
use super::wire::{Event, KeyValue, WatchCreateRequest};

/// Leaves out what is put.
const NO_PUTS: i32 = 0;
/// The kind of an event that tells of a key that went.
const GONE: i32 = 1;
/// Asks for what happens from now on.
const NOW: i64 = 0;

#[derive(Debug)]
pub(super) struct Want {
    pub(super) range: Range,
    /// The revision that made the key, if it is one claim that is watched.
    pub(super) made: Option<i64>,
    /// The first revision that we have not been told of.
    from: AtomicI64,
    pub(super) sees_puts: bool,
    /// The server has not begun with it. It tells of the past only every tenth
    /// of a second, and at once of what happens from now on. So it is asked for
    /// the latter, and whoever waits looks once at what may have been before.
    is_new: AtomicBool,
    /// Something has happened in the store before the server began.
    is_in_doubt: AtomicBool,
    /// Whether a key that is watched for anything went.
    is_gone: AtomicBool,
    pub(super) bell: Notify,
}

impl Want {
    /// A claim that goes.
    pub(super) fn departure(claim: &KeyValue, from: i64) -> Self {
        Self {
            made: Some(claim.create_revision),
            ..Self::departures(one(&claim.key), from)
        }
    }

    /// Claims that go.
    pub(super) fn departures(range: Range, from: i64) -> Self {
        Self {
            range,
            made: None,
            from: AtomicI64::new(from),
            sees_puts: false,
            is_new: AtomicBool::new(true),
            is_in_doubt: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            bell: Notify::new(),
        }
    }

    /// Anything. Nobody waits for it so hard that the past could not come late.
    pub(super) fn changes(range: Range, from: i64) -> Self {
        Self {
            sees_puts: true,
            is_new: AtomicBool::new(false),
            ..Self::departures(range, from)
        }
    }

    pub(super) fn request(&self, watch_id: i64) -> Request {
        let start_revision = match self.is_new.load(Ordering::Acquire) {
            true => NOW,
            false => self.from.load(Ordering::Acquire),
        };
        Request::Create(WatchCreateRequest {
            key: self.range.start.clone(),
            range_end: self.range.end.clone(),
            start_revision,
            filters: match self.sees_puts {
                true => Vec::new(),
                false => vec![NO_PUTS],
            },
            watch_id,
        })
    }

    /// The server has begun, and tells of everything after this revision.
    pub(super) fn begins_after(&self, revision: i64) {
        if !self.is_new.swap(false, Ordering::AcqRel) {
            return;
        }
        let from = self.from.fetch_max(revision + 1, Ordering::AcqRel);
        if revision >= from {
            self.is_in_doubt.store(true, Ordering::Release);
            self.bell.notify_one();
        }
    }

    /// The server has forgotten what happened before this revision.
    pub(super) fn starts_over(&self, revision: i64) {
        self.from.store(revision, Ordering::Release);
        self.bell.notify_one();
    }

    pub(super) fn take_in(&self, events: &[Event]) {
        for event in events {
            let Some(kv) = &event.kv else { continue };
            self.from.fetch_max(kv.mod_revision + 1, Ordering::AcqRel);
            if self.sees_puts && event.kind == GONE {
                self.is_gone.store(true, Ordering::Release);
            }
            if kv.value.is_empty() {
                self.bell.notify_one();
            }
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Whether it may have happened before the server began; told once.
    pub(super) fn take_doubt(&self) -> bool {
        self.is_in_doubt.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_of(want: &Want) -> i64 {
        match want.request(1) {
            Request::Create(create) => create.start_revision,
            _ => panic!("it is asked for"),
        }
    }

    #[test]
    fn what_happened_before_the_server_began_is_in_doubt() {
        let want = Want::departures(one(b"a/1"), 10);
        assert_eq!(start_of(&want), NOW);
        want.begins_after(9);
        assert!(!want.take_doubt());
        assert_eq!(start_of(&want), 10);

        let want = Want::departures(one(b"a/1"), 10);
        want.begins_after(12);
        assert!(want.take_doubt());
        assert!(!want.take_doubt());
        // From then on nothing is missed, also on another stream.
        assert_eq!(start_of(&want), 13);
        want.begins_after(20);
        assert!(!want.take_doubt());
        assert_eq!(start_of(&want), 13);
    }

    #[test]
    fn an_inbox_is_watched_from_the_past_on() {
        let want = Want::changes(one(b"inbox"), 10);
        assert_eq!(start_of(&want), 10);
        want.begins_after(12);
        assert!(!want.take_doubt());
        assert_eq!(start_of(&want), 10);
    }
}
