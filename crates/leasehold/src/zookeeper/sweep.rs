//! Memos that have ended are removed by those who write others: a little now and then,
//! on a session of its own, so that no lock waits for it. Which of many is left to
//! chance: those who sweep at the same time then seldom meet, and what cannot be
//! removed, because it is not ours, is in nobody's way.

use std::time::Duration;

use super::ZookeeperEngine;
use super::fault::Refusal;
use super::inspect::{Looking, children};
use super::keeping::settled;
use super::memo::Kept;
use super::session::Session;
use super::wire::{Reply, Request};
use crate::clock::boot_time;
use crate::engine::Memo;
use crate::random::random_u64;

/// How many writes there are for one that sweeps.
const SELDOM: u64 = 8;
/// How many hours, folders and notes are looked at in one go. More folders than there
/// are writes for it: where little is written, each note has a folder of its own.
const HOURS: usize = 4;
const FOLDERS: usize = 3 * SELDOM as usize;
const NOTES: usize = 100;
/// Whoever writes waits for it, for so long at most.
const LONGEST: Duration = Duration::from_secs(1);
/// In seconds; `Paths::end` knows it too.
const HOUR: u64 = 3600;

impl ZookeeperEngine {
    /// Removes some memos that have ended by then. Nothing depends on it.
    pub(super) async fn sweep_seldom(&self, now: u64) {
        if !random_u64().is_multiple_of(SELDOM) {
            return;
        }
        let sweeping = async {
            match self.sweep(now).await {
                // Nobody keeps that session, so it may be over; the next one is new.
                Err(why) if why.is_of_the_connection() => self.sweep(now).await,
                swept => swept,
            }
        };
        let swept = tokio::time::timeout(LONGEST, sweeping).await;
        if !matches!(swept, Ok(Ok(()))) {
            tracing::debug!(?swept, "what has ended stays for now");
        }
    }

    async fn sweep(&self, now: u64) -> Result<(), Refusal> {
        let looking = Looking::apart(self).await?;
        let session = looking.session();
        let (ends, second) = (self.paths.ends(), now / 1000);
        let hours = children(session, &ends).await?;
        let hours = hours.iter().filter_map(|hour| hour.parse().ok());
        let hours: Vec<u64> = hours.filter(|hour| *hour <= second / HOUR).collect();
        let hours = some(hours, HOURS);
        let paths = hours.iter().map(|hour| format!("{ends}/{hour}")).collect();
        let mut emptied = Vec::new();
        let mut folders = Vec::new();
        for (hour, (path, list)) in hours.into_iter().zip(lists(session, paths).await?) {
            // Somebody may be about to put something into the present one.
            if list.is_empty() && hour < second / HOUR {
                emptied.push(path.clone());
            }
            let due = list.iter().filter(|folder| is_due(folder, second));
            folders.extend(due.map(|folder| format!("{path}/{folder}")));
        }
        let mut notes = Vec::new();
        for (folder, list) in lists(session, some(folders, FOLDERS)).await? {
            if list.is_empty() {
                emptied.push(folder.clone());
            }
            let read = list.into_iter().filter_map(Note::read);
            notes.extend(read.map(|note| (folder.clone(), note)));
        }
        let notes = some(notes, NOTES);
        emptied.extend(notes.iter().map(|(folder, _)| folder.clone()));
        self.remove(session, &notes, now).await?;
        // One that is not empty stays, and so does one that is not ours. Whoever is
        // about to put something there finds out and makes it anew.
        emptied.sort_unstable();
        emptied.dedup();
        let delete = |path| Request::Delete { path };
        session
            .ask(emptied.into_iter().map(delete).collect())
            .await?;
        Ok(())
    }

    /// Removes what these notes, each in its folder, are on, and the notes.
    async fn remove(
        &self,
        session: &Session,
        notes: &[(String, Note)],
        now: u64,
    ) -> Result<(), Refusal> {
        let data = |(_, note): &(String, Note)| Request::Data {
            path: self.paths.memo_node(&note.node),
            watch: false,
        };
        let read = boot_time();
        let memos = session.ask(notes.iter().map(data).collect()).await?;
        let mut requests = Vec::new();
        for ((folder, note), memo) in notes.iter().zip(memos) {
            let memo = match memo {
                Ok(Reply::Data(data, stat)) => match Kept::read(&data, stat) {
                    Some(kept) => Some((kept, stat.version)),
                    // Of a version that we do not know.
                    None => continue,
                },
                Err(Refusal::NoNode) => None,
                // Not ours to look at.
                _ => continue,
            };
            let memo = memo.filter(|(kept, _)| note.is_on(&kept.memo));
            let mut steps = match memo {
                Some((Kept { end: Some(end), .. }, version)) => {
                    self.steps(session, note, end, version, now).await?
                }
                // Written again since, or removed.
                _ => Vec::new(),
            };
            steps.push(Request::Delete {
                path: format!("{folder}/{}", note.name),
            });
            requests.push(Request::Multi(steps));
        }
        // Whoever is late leaves it to others: what was read may have gone, and been made
        // anew with the same version.
        if boot_time().since(read) > LONGEST {
            return Ok(());
        }
        // Somebody else may have been there first, or it may not be removed.
        session.ask(requests).await?;
        Ok(())
    }

    /// What becomes of a memo beside its note. It must still be the one that was read;
    /// and with the note of that very write goes the right to remove it, so that nobody
    /// who is late removes one that was made anew.
    async fn steps(
        &self,
        session: &Session,
        note: &Note,
        end: u64,
        version: i32,
        now: u64,
    ) -> Result<Vec<Request>, Refusal> {
        let path = self.paths.memo_node(&note.node);
        let check = Request::Check {
            path: path.clone(),
            version,
        };
        if end <= now {
            return Ok(vec![check, Request::Delete { path }]);
        }
        let folder = self.paths.end(end / 1000 + 1, None);
        settled(self.make_all(session, &folder).await)?;
        let later = format!("{folder}/{}", note.name);
        Ok(vec![check, self.note(later)])
    }
}

/// Whether the notes in a folder of this name, `SECOND` or `SECOND-NUMBER`, are of memos
/// that ended before that second.
fn is_due(folder: &str, second: u64) -> bool {
    let time = folder.split_once('-').map_or(folder, |(time, _)| time);
    time.parse().is_ok_and(|time: u64| time <= second)
}

/// What is in each of these folders; those that nobody may look at are left out.
async fn lists(
    session: &Session,
    folders: Vec<String>,
) -> Result<Vec<(String, Vec<String>)>, Refusal> {
    let list = |path: &String| Request::Children {
        path: path.clone(),
        watch: false,
    };
    let answered = session.ask(folders.iter().map(list).collect()).await?;
    let listed = folders.into_iter().zip(answered);
    let listed = listed.filter_map(|(folder, answer)| match answer {
        Ok(Reply::Children(list)) => Some((folder, list)),
        _ => None,
    });
    Ok(listed.collect())
}

/// So many of them, by chance.
fn some<T>(mut all: Vec<T>, most: usize) -> Vec<T> {
    let count = most.min(all.len());
    for at in 0..count {
        let left = u64::try_from(all.len() - at).unwrap_or(u64::MAX);
        let chosen = usize::try_from(random_u64() % left).unwrap_or(0);
        all.swap(at, at + chosen);
    }
    all.truncate(count);
    all
}

/// What the name of a note says: which write of which memo it is about.
#[derive(Debug)]
struct Note {
    name: String,
    token: u64,
    edition: u64,
    /// The memo's node.
    node: String,
}

impl Note {
    fn read(name: String) -> Option<Self> {
        let mut parts = name.splitn(3, '-');
        let (token, edition) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let node = parts.next()?.to_owned();
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
    fn a_note_says_which_write_it_is_about() {
        let note = Note::read("77-3-dedupe%2Fa-b".into()).unwrap();
        assert_eq!(
            (note.token, note.edition, &*note.node),
            (77, 3, "dedupe%2Fa-b")
        );
        assert!(Note::read("77-x".into()).is_none());
    }

    #[test]
    fn a_folder_is_due_when_its_second_has_come_and_a_foreign_one_never() {
        for (folder, expected) in [
            ("99", true),
            ("100", true),
            ("101", false),
            ("100-63", true),
            ("101-0", false),
            ("notes", false),
            ("", false),
        ] {
            assert_eq!(is_due(folder, 100), expected, "{folder}");
        }
    }

    #[test]
    fn some_are_different_ones_and_all_get_their_turn() {
        assert!(some(Vec::<u8>::new(), 3).is_empty());
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let mut chosen = some((0..10).collect(), 3);
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), 3);
            seen.extend(chosen);
        }
        assert_eq!(seen.len(), 10);
    }
}
