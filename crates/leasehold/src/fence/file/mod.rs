//! A file that refuses a stale holder.
//!
//! The mark is kept in a sidecar, `FILE.fence`. Whoever reads or writes through
//! here has the sidecar locked (`flock`), so that nothing comes between the
//! look at the mark and the write. Writers that do not go through here are not
//! stopped. A file system must have working `flock`, which some network file
//! systems have not.
//!
//! Order of writes: the mark is on the disk before a claim returns; what is
//! appended is announced in the sidecar, on the disk, before it is written; a
//! replacement is on the disk before it takes the file's name. So a crash at
//! any step leaves the old content or the new one, and never lets a stale
//! holder in later.

mod disk;
mod locked;
mod sidecar;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use locked::Locked;

use super::{Fence, Policy, mark};
use crate::error::{Effect, Error, ErrorKind, Result};

/// How long to wait for another process that is just reading or writing.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file of which only the newest holder reads and writes.
///
/// All calls do blocking I/O; in async code use `spawn_blocking`.
///
/// ```
/// # fn show(guard: &leasehold::Guard) -> leasehold::Result<()> {
/// let ledger = leasehold::fence::FencedFile::new("ledger.json");
/// let mut ledger = ledger.claim(guard.fence())?; // before anything is read
/// let mut text = ledger.read()?;
/// text.extend_from_slice(b"one more\n");
/// ledger.replace(&text) // `Stale` if another has claimed it since
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FencedFile {
    path: PathBuf,
    policy: Policy,
    patience: Duration,
}

impl FencedFile {
    /// The file need not exist yet; its folder must.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            policy: Policy::default(),
            patience: PATIENCE,
        }
    }

    /// Which claims are accepted. Everyone who uses the file must agree.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How long to wait for a process that is in the middle of a read or write,
    /// 10 seconds unless told. One that is stopped there keeps others out until
    /// it goes on or ends.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Raises the mark, on the disk, before anything is read.
    ///
    /// # Errors
    /// `Stale` if another has come later; `Config` if the sidecar is damaged or
    /// of a newer version; `Denied`; `Unavailable` if a process is stopped in
    /// the middle of a write, and for all other trouble with the disk.
    pub fn claim(&self, fence: Fence) -> Result<ClaimedFile> {
        if self.policy == Policy::Ordered && fence.token.get() == 0 {
            return Err(Error::new(
                ErrorKind::Usage,
                self.doing("claim"),
                "this lock has no ordered token; choose `Policy::Exact`",
            ));
        }
        let mut locked = self.lock("claim")?;
        let claimed = self.policy.claim(locked.sidecar().mark, fence);
        let mark = claimed.map_err(|stale| Error::stale(stale, self.doing("claim")))?;
        disk::sweep(locked.data());
        let marked = locked.settle().and_then(|()| locked.raise(mark));
        marked.map_err(|error| self.trouble("claim", error))?;
        Ok(ClaimedFile {
            file: self.clone(),
            fence,
        })
    }

    /// The fence that the file goes by now, for people.
    ///
    /// # Errors
    /// As for [`claim`](Self::claim), but never `Stale`.
    pub fn mark(&self) -> Result<Option<Fence>> {
        Ok(self.lock("look at")?.sidecar().mark)
    }

    fn lock(&self, doing: &str) -> Result<Locked> {
        Locked::open(&self.path, self.patience).map_err(|error| self.trouble(doing, error))
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} {}", self.path.display())
    }

    fn trouble(&self, doing: &str, error: io::Error) -> Error {
        let kind = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ErrorKind::Denied
            }
            io::ErrorKind::InvalidData
            | io::ErrorKind::NotFound
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory => ErrorKind::Config,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, self.doing(doing), error.to_string()).from_source(error)
    }
}

/// A file under a claim. Each call passes only while the claim is the newest.
#[derive(Debug)]
pub struct ClaimedFile {
    file: FencedFile,
    fence: Fence,
}

impl ClaimedFile {
    /// Whose claim it is.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The file's name, as it was given.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The whole content; empty if there is no file yet.
    ///
    /// # Errors
    /// As for [`FencedFile::claim`].
    pub fn read(&self) -> Result<Vec<u8>> {
        let locked = self.enter("read")?;
        match std::fs::read(locked.data()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read.map_err(|error| self.file.trouble("read", error)),
        }
    }

    /// Puts this in place of the content, in one step.
    ///
    /// # Errors
    /// As for [`FencedFile::claim`].
    pub fn replace(&mut self, content: &[u8]) -> Result<()> {
        let locked = self.enter("replace")?;
        let replaced = disk::replace(locked.data(), content);
        replaced.map_err(|error| self.broken_off("replace", error))
    }

    /// Adds this at the end: all of it or, after a crash, none.
    ///
    /// # Errors
    /// As for [`FencedFile::claim`].
    pub fn append(&mut self, content: &[u8]) -> Result<()> {
        let mut locked = self.enter("append to")?;
        let appended = locked.append(content);
        appended.map_err(|error| self.broken_off("append to", error))
    }

    /// A write failed, and may have been done all the same.
    fn broken_off(&self, doing: &str, error: io::Error) -> Error {
        let error = self.file.trouble(doing, error);
        error.effect_is(Effect::Unknown)
    }

    /// Locks the file, looks at the mark and ends what broke off.
    fn enter(&self, doing: &str) -> Result<Locked> {
        let mut locked = self.file.lock(doing)?;
        mark::access(locked.sidecar().mark, self.fence)
            .map_err(|stale| Error::stale(stale, self.file.doing(doing)))?;
        let settled = locked.settle();
        settled.map_err(|error| self.file.trouble(doing, error))?;
        Ok(locked)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::sidecar::Append;
    use super::*;
    use crate::fence::{Stale, Token};

    fn fence(token: u64, holder: u64) -> Fence {
        Fence {
            token: Token::new(token),
            holder,
        }
    }

    /// In memory where that is possible: a disk would take minutes.
    fn fast_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir_in("/dev/shm");
        folder.or_else(|_| tempfile::tempdir()).unwrap()
    }

    fn stale(result: Result<impl std::fmt::Debug>) -> Stale {
        match result.unwrap_err().kind() {
            ErrorKind::Stale(stale) => stale,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_torn_append_is_undone_and_a_whole_one_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = FencedFile::new(folder.path().join("ledger"));
        let added = b"one more line\n";
        let claimed = file.claim(fence(1, 1)).unwrap();
        for written in 0..=added.len() {
            std::fs::write(claimed.path(), "old\n").unwrap();
            let mut locked = file.lock("test").unwrap();
            let append = Append {
                from: 4,
                to: 4 + added.len() as u64,
                sum: crc32fast::hash(added),
            };
            locked.announce(Some(append)).unwrap();
            // What a disk may hold of it: a part, or all of its length with
            // nothing in it.
            let mut torn = [b"old\n", &added[..written]].concat();
            if written % 2 == 1 {
                torn.resize(4 + added.len(), 0);
            }
            std::fs::write(claimed.path(), &torn).unwrap();
            drop(locked);
            let expected = if written == added.len() {
                &torn
            } else {
                &b"old\n"[..]
            };
            assert_eq!(claimed.read().unwrap(), expected, "{written}");
        }
    }

    #[test]
    fn a_file_that_others_wrote_to_is_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let file = FencedFile::new(folder.path().join("ledger"));
        let claimed = file.claim(fence(1, 1)).unwrap();
        let append = Append {
            from: 4,
            to: 8,
            sum: 0,
        };
        file.lock("test").unwrap().announce(Some(append)).unwrap();
        for content in ["old\nnew\nforeign\n", "ol"] {
            std::fs::write(claimed.path(), content).unwrap();
            assert_eq!(claimed.read().unwrap_err().kind(), ErrorKind::Config);
            assert_eq!(std::fs::read_to_string(claimed.path()).unwrap(), content);
        }
    }

    #[test]
    fn whoever_is_in_the_middle_of_a_write_is_waited_for_and_then_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = FencedFile::new(folder.path().join("ledger"));
        let stopped = file.lock("test").unwrap();
        let impatient = file.clone().patience(Duration::ZERO);
        let error = impatient.claim(fence(1, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("is it stopped?"), "{error}");
        let waits = std::thread::spawn(move || file.claim(fence(1, 1)).map(drop));
        drop(stopped);
        waits.join().unwrap().unwrap();
    }

    #[test]
    fn fencing_writes_alone_would_lose_an_update() {
        let folder = tempfile::tempdir().unwrap();
        let file = FencedFile::new(folder.path().join("counter"));
        file.claim(fence(1, 1)).unwrap().replace(b"0").unwrap();
        let plus_one = |content: Vec<u8>| vec![content[0] + 1];
        // Two holders read without a claim; each claims only to write.
        let read = || std::fs::read(folder.path().join("counter")).unwrap();
        let (first, second) = (plus_one(read()), plus_one(read()));
        file.claim(fence(2, 2)).unwrap().replace(&first).unwrap();
        file.claim(fence(3, 3)).unwrap().replace(&second).unwrap();
        assert_eq!(read(), b"1", "both were accepted, and one is lost");
        // With the claim first, the one that is overtaken is told.
        let mut first = file.claim(fence(4, 4)).unwrap();
        let by_first = plus_one(first.read().unwrap());
        let mut second = file.claim(fence(5, 5)).unwrap();
        let by_second = plus_one(second.read().unwrap());
        let refused = stale(first.replace(&by_first));
        assert_eq!(
            (refused.shown, refused.mark),
            (fence(4, 4), Some(fence(5, 5)))
        );
        second.replace(&by_second).unwrap();
        assert_eq!(second.read().unwrap(), b"2");
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Claim,
        Read,
        Replace(u8),
        Append(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Claim),
            Just(Step::Read),
            any::<u8>().prop_map(Step::Replace),
            any::<u8>().prop_map(Step::Append),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn any_interleaving_of_holders_is_what_the_rule_says(
            is_exact: bool,
            steps in prop::collection::vec((0..4_usize, step()), 1..30),
        ) {
            let policy = if is_exact { Policy::Exact } else { Policy::Ordered };
            let folder = fast_folder();
            let file = FencedFile::new(folder.path().join("ledger")).policy(policy);
            // Two of the four have the same token.
            let fences = [fence(1, 1), fence(2, 2), fence(2, 3), fence(3, 4)];
            let mut claims: Vec<Option<ClaimedFile>> = vec![None, None, None, None];
            let (mut mark, mut content) = (None, Vec::new());
            for (who, step) in steps {
                let allowed = mark::access(mark, fences[who]).is_ok();
                if matches!(step, Step::Claim) {
                    let expected = policy.claim(mark, fences[who]);
                    match file.claim(fences[who]) {
                        Ok(claimed) => {
                            prop_assert_eq!(Ok(fences[who]), expected);
                            mark = Some(fences[who]);
                            claims[who] = Some(claimed);
                        }
                        Err(error) => {
                            let refused = expected.unwrap_err();
                            prop_assert_eq!(error.kind(), ErrorKind::Stale(refused));
                        }
                    }
                    continue;
                }
                let Some(claimed) = &mut claims[who] else { continue };
                let done = match step {
                    Step::Replace(byte) => claimed.replace(&[byte]),
                    Step::Append(byte) => claimed.append(&[byte, byte]),
                    _ => claimed.read().map(|read| assert_eq!(read, content)),
                };
                prop_assert_eq!(done.is_ok(), allowed);
                match step {
                    Step::Replace(byte) if allowed => content = vec![byte],
                    Step::Append(byte) if allowed => content.extend([byte, byte]),
                    _ => {}
                }
            }
            prop_assert_eq!(file.mark().unwrap(), mark);
        }
    }
}
