//! Our note on a lock: the node's counter, and who was granted it last. Pure.

use std::time::Duration;

use crate::engine::{Claimant, LeaseId, Owner};
use crate::fence::Token;
use crate::redis::inspect::owner;
use crate::redis::keys::{Hex, field};

/// Who is granted a lock.
pub(super) struct Note<'a> {
    pub(super) id: &'a str,
    pub(super) holder: u64,
    pub(super) owner: &'a Owner,
    pub(super) label: &'a str,
    pub(super) lease: LeaseId,
    /// When, in wall-clock time since 1970. For people only.
    pub(super) since: Duration,
}

impl Note<'_> {
    /// What stands behind the counter: ` id token holder since pid host label lease`.
    pub(super) fn rest(&self, token: u64) -> String {
        format!(
            " {} {token} {} {} {} {} {} {}",
            self.id,
            self.holder,
            self.since.as_millis(),
            self.owner.pid(),
            field(self.owner.host()),
            field(self.label),
            Hex::of(self.lease.0).as_str()
        )
    }
}

/// Fills in what the note says of the holder.
pub(super) fn read(note: &str, now: Duration, claimant: &mut Claimant) -> Option<()> {
    let fields: Vec<_> = note.split(' ').collect();
    let [
        _counter,
        _id,
        token,
        holder,
        since,
        pid,
        host,
        label,
        _lease,
    ] = fields[..]
    else {
        return None;
    };
    let token: u64 = token.parse().ok()?;
    claimant.token = (token > 0).then(|| Token::new(token));
    claimant.holder = holder.parse().ok()?;
    claimant.age = now.saturating_sub(Duration::from_millis(since.parse().ok()?));
    claimant.owner = owner(host, pid, label)?;
    Some(())
}
