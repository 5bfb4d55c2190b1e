//! Memos that are kept for a time. A memo says for how long, and it ends so long after
//! its write, both by the leader's clock, which stands in every node that was written.
//! Beside it, in the same step, comes a note in a folder of that time: so whoever
//! writes later finds what has ended without a list of all memos.

use std::time::Duration;

use super::fault::Refusal;
use super::session::Session;
use super::wire::{Mode, Reply, Request, Stat};
use super::{ZookeeperEngine, lock};
use crate::clock::{Moment, boot_time};
use crate::engine::Memo;
use crate::random::random_u64;

/// By how much a folder's time is rounded up at most, in seconds.
const ROUNDED: u64 = 60;
/// With so many notes a folder is full, so that no list of them is long: the next go
/// into one of so many others for the same time.
const FULL: i32 = 1000;
const OTHERS: u64 = 64;

/// What the leader's clock showed when it made a write of ours, in milliseconds since
/// 1970, and when we sent that.
#[derive(Debug, Default)]
pub(super) struct LeaderTime(Option<(u64, Moment)>);

impl LeaderTime {
    /// What it shows at most, unless it was set forward or another one leads: it made
    /// the write after we sent it. Two clocks do not go alike to the last thousandth.
    fn at_most(&self, now: Moment) -> Option<u64> {
        let (millis, sent) = self.0?;
        let since = as_millis(now.since(sent)).saturating_add(1);
        Some(millis.saturating_add(since).saturating_add(since / 1000))
    }
}

pub(super) fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// When the node's data was written, by the leader's clock.
pub(super) fn written(stat: &Stat) -> u64 {
    stat.mtime.unsigned_abs()
}

impl ZookeeperEngine {
    /// Keeps in mind what a node tells that we wrote.
    pub(super) fn hears_time(&self, stat: &Stat, sent: Moment) {
        lock(&self.leader_time).0 = Some((written(stat), sent));
    }

    /// What the leader's clock shows at most, as far as we know.
    pub(super) fn latest_time(&self) -> Option<u64> {
        lock(&self.leader_time).at_most(boot_time())
    }

    /// What the leader's clock shows. Nothing but a write tells.
    pub(super) async fn ask_leader_time(&self, session: &Session) -> Result<u64, Refusal> {
        let path = self.paths.clock();
        let write = Request::Write {
            path: path.clone(),
            data: Vec::new(),
            version: -1,
        };
        let mut sent = boot_time();
        let mut answer = session.ask_one(write.clone()).await;
        if answer == Err(Refusal::NoNode) {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            self.make_all(session, folder).await?;
            settled(session.ask_one(self.note(path)).await)?;
            sent = boot_time();
            answer = session.ask_one(write).await;
        }
        let Reply::Stat(stat) = answer? else {
            return Err(Refusal::Garbled);
        };
        self.hears_time(&stat, sent);
        Ok(written(&stat))
    }

    /// A node without data that stays.
    pub(super) fn note(&self, path: String) -> Request {
        Request::Create {
            path,
            data: Vec::new(),
            mode: Mode::Persistent,
            is_private: self.config.user.is_some(),
        }
    }
}

/// Somebody else may have been there first.
pub(super) fn settled<T>(answer: Result<T, Refusal>) -> Result<(), Refusal> {
    use Refusal::{NoNode, NodeExists, NotEmpty, OtherVersion};
    match answer {
        Ok(_) | Err(NoNode | NodeExists | NotEmpty | OtherVersion) => Ok(()),
        Err(why) => Err(why),
    }
}

/// The folder for the note on a memo that is written about now. `known` is what the
/// server says of the one that would be the first choice.
pub(super) fn folder_for(
    engine: &ZookeeperEngine,
    now: u64,
    keep: u64,
    known: Option<Stat>,
) -> String {
    let is_full = known.is_some_and(|stat| stat.children >= FULL);
    let number = is_full.then(|| random_u64() % OTHERS);
    engine.paths.end(folder_of(now, keep), number)
}

/// The name of the note on a memo.
pub(super) fn note_name(memo: &Memo, node: &str) -> String {
    format!("{}-{}-{node}", memo.token, memo.edition)
}

/// In which second's folder the note is of a memo that is written about now: after its
/// end, so that few are found before. Rounded, so that many share one.
fn folder_of(now: u64, keep: u64) -> u64 {
    let (end, width) = (
        now.saturating_add(keep) / 1000 + 1,
        (keep / 8000).clamp(1, ROUNDED),
    );
    (end / width + 1) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_after_the_end_and_not_long_after() {
        for now in [0, 999, 1000, 1_700_000_000_123] {
            for keep in [1000, 8000, 3_600_000, 86_400_000] {
                let (folder, end) = (folder_of(now, keep) * 1000, now + keep);
                assert!(folder > end, "{now} {keep}");
                assert!(folder <= end + 2000 + 2 * (keep / 8).clamp(1000, 60_000));
            }
        }
    }

    #[test]
    fn the_leaders_time_is_never_taken_for_earlier_than_it_is() {
        let at = |seconds| Moment::from_nanos(0) + Duration::from_secs(seconds);
        assert_eq!(LeaderTime::default().at_most(at(1)), None);
        let time = LeaderTime(Some((5000, at(1))));
        assert_eq!(time.at_most(at(1)), Some(5001));
        assert_eq!(time.at_most(at(3)), Some(7003));
    }
}
