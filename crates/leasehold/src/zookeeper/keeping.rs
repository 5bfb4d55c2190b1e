//! Memos that are kept for a time. A memo says for how long, and it ends so long after
//! its write, both by the leader's clock, which stands in every node that was written.
//! Beside it, in the same step, comes a note in a folder of that time: so whoever
//! writes later finds what has ended without a list of all memos.

use std::time::Duration;

use super::fault::Refusal;
use super::inspect::{all_data, children};
use super::memo::Kept;
use super::session::Session;
use super::wire::{Mode, Reply, Request, Stat};
use super::{ZookeeperEngine, lock};
use crate::clock::{Moment, boot_time};
use crate::engine::Memo;
use crate::random::random_u64;

/// How many notes are looked at in one go.
const FEW: usize = 100;
/// How many writes there are for one that does so.
const SELDOM: u64 = 8;
/// In seconds; `Paths::end` knows it too.
const HOUR: u64 = 3600;
/// By how much a folder's time is rounded up at most.
const ROUNDED: u64 = 60;

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
    fn note(&self, path: String) -> Request {
        Request::Create {
            path,
            data: Vec::new(),
            mode: Mode::Persistent,
            is_private: self.config.user.is_some(),
        }
    }

    /// Removes some memos that have ended by then. Nothing depends on it.
    pub(super) async fn sweep_seldom(&self, session: &Session, now: u64) {
        if random_u64().is_multiple_of(SELDOM)
            && let Err(why) = self.sweep(session, now).await
        {
            tracing::debug!(?why, "what has ended stays for now");
        }
    }

    async fn sweep(&self, session: &Session, now: u64) -> Result<(), Refusal> {
        let (ends, second) = (self.paths.ends(), now / 1000);
        let Some(hour) = first(session, &ends, second / HOUR).await? else {
            return Ok(());
        };
        let above = format!("{ends}/{hour}");
        let Some(folder) = first(session, &above, second).await? else {
            return match hour < second / HOUR {
                true => self.remove_folder(session, above).await,
                false => Ok(()),
            };
        };
        let folder = format!("{above}/{folder}");
        let mut notes = children(session, &folder).await?;
        if notes.is_empty() {
            return self.remove_folder(session, folder).await;
        }
        notes.truncate(FEW);
        let notes: Vec<_> = notes.iter().filter_map(|note| Note::read(note)).collect();
        let paths = notes.iter().map(|note| self.paths.memo_node(note.node));
        let memos = all_data(session, paths.collect()).await?;
        let mut requests = Vec::new();
        for (note, memo) in notes.iter().zip(memos) {
            let path = format!("{folder}/{}", note.name);
            let memo = memo.and_then(|(data, stat)| Some((Kept::read(&data, stat)?, stat.version)));
            let memo = memo.filter(|(kept, _)| note.is_on(&kept.memo));
            let mut steps = match memo {
                Some((Kept { end: Some(end), .. }, version)) => {
                    self.steps(session, note, end, version, now).await?
                }
                // Written again since, or removed.
                _ => Vec::new(),
            };
            steps.push(Request::Delete { path });
            requests.push(Request::Multi(steps));
        }
        for answer in session.ask(requests).await? {
            settled(answer)?;
        }
        Ok(())
    }

    /// What becomes of a memo beside its note. It must still be the one that was read;
    /// and with the note of that very write goes the right to remove it, so that nobody
    /// who is late removes one that was made anew.
    async fn steps(
        &self,
        session: &Session,
        note: &Note<'_>,
        end: u64,
        version: i32,
        now: u64,
    ) -> Result<Vec<Request>, Refusal> {
        let path = self.paths.memo_node(note.node);
        let check = Request::Check {
            path: path.clone(),
            version,
        };
        if end <= now {
            return Ok(vec![check, Request::Delete { path }]);
        }
        let later = self.paths.end(end / 1000 + 1, note.name);
        let folder = later.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.make_all(session, folder).await?;
        Ok(vec![check, self.note(later)])
    }

    /// Whoever is about to put something there finds out and makes it anew.
    async fn remove_folder(&self, session: &Session, path: String) -> Result<(), Refusal> {
        settled(session.ask_one(Request::Delete { path }).await)
    }
}

/// Somebody else may have been there first.
fn settled(answer: Result<Reply, Refusal>) -> Result<(), Refusal> {
    use Refusal::{NoNode, NodeExists, NotEmpty, OtherVersion};
    match answer {
        Ok(_) | Err(NoNode | NodeExists | NotEmpty | OtherVersion) => Ok(()),
        Err(why) => Err(why),
    }
}

/// The path of the note on a memo that is written now, and its request.
pub(super) fn note_on(
    engine: &ZookeeperEngine,
    memo: &Memo,
    node: &str,
    keep: u64,
    now: u64,
) -> (String, Request) {
    let name = format!("{}-{}-{node}", memo.token, memo.edition);
    let path = engine.paths.end(folder_of(now, keep), &name);
    (path.clone(), engine.note(path))
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

/// The smallest number among the children, if it is not above this.
async fn first(session: &Session, path: &str, most: u64) -> Result<Option<u64>, Refusal> {
    let list = children(session, path).await?;
    let numbers = list.iter().filter_map(|child| child.parse().ok());
    Ok(numbers.min().filter(|number| *number <= most))
}

/// What the name of a note says: which write of which memo it is about.
struct Note<'a> {
    name: &'a str,
    token: u64,
    edition: u64,
    /// The memo's node.
    node: &'a str,
}

impl<'a> Note<'a> {
    fn read(name: &'a str) -> Option<Self> {
        let mut parts = name.splitn(3, '-');
        let (token, edition) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let node = parts.next()?;
        Some(Self {
            name,
            token,
            edition,
            node,
        })
    }

    fn is_on(&self, memo: &Memo) -> bool {
        memo.token.get() == self.token && memo.edition == self.edition
    }
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

    #[test]
    fn a_note_says_which_write_it_is_about() {
        let note = Note::read("77-3-dedupe%2Fa-b").unwrap();
        assert_eq!(
            (note.token, note.edition, note.node),
            (77, 3, "dedupe%2Fa-b")
        );
        assert!(Note::read("77-x").is_none());
    }
}
