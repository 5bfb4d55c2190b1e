//! A file's sidecar, locked, and what may be done only then.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk;
use super::sidecar::{Append, Sidecar};
use crate::clock::{self, Moment};
use crate::fence::Fence;

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// No sidecar of ours is longer.
const LONGEST: u64 = 4096;

/// The sidecar of a file, in our hands until this is dropped.
#[derive(Debug)]
pub(super) struct Locked {
    data: PathBuf,
    path: PathBuf,
    sidecar: Sidecar,
    /// What the name stands for; `flock` is on it.
    _flocked: File,
}

impl Locked {
    pub(super) fn open(data: &Path, patience: Duration) -> io::Result<Self> {
        let data = disk::real(data)?;
        let path = disk::beside(&data, ".fence")?;
        let until = clock::boot_time() + patience;
        loop {
            let mut file = match File::options().read(true).write(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    disk::found(&path, Sidecar::default().text().as_bytes(), &data)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            lock(&file, until)?;
            // Whoever had it locked may have put a new one in its place.
            if !is_named(&file, &path)? {
                continue;
            }
            let mut text = String::new();
            (&mut file).take(LONGEST).read_to_string(&mut text)?;
            let sidecar = Sidecar::read(&text).map_err(|why| {
                damaged(format!(
                    "{}: {why}; to begin anew, make sure that no holder is at work and delete it",
                    path.display()
                ))
            })?;
            return Ok(Self {
                data,
                path,
                sidecar,
                _flocked: file,
            });
        }
    }

    /// The one name of the file.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    pub(super) fn sidecar(&self) -> &Sidecar {
        &self.sidecar
    }

    /// Raises the mark, on the disk.
    pub(super) fn raise(&mut self, mark: Fence) -> io::Result<()> {
        if self.sidecar.mark == Some(mark) {
            return Ok(());
        }
        self.write(Sidecar {
            mark: Some(mark),
            ..self.sidecar
        })
    }

    /// Adds to the file: all of it or, after a crash and [`settle`](Self::settle),
    /// none.
    pub(super) fn append(&mut self, content: &[u8]) -> io::Result<()> {
        let mut options = File::options();
        let mut file = options.append(true).create(true).open(&self.data)?;
        let from = file.metadata()?.len();
        if from == 0 {
            disk::sync_folder(&self.data)?;
        }
        self.announce(Some(Append {
            from,
            to: from + content.len() as u64,
            sum: crc32fast::hash(content),
        }))?;
        file.write_all(content)?;
        file.sync_all()?;
        // It is there. If this fails, the next one to come finds it complete.
        _ = self.announce(None);
        Ok(())
    }

    /// Finishes or undoes an append that broke off.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let Some(append) = self.sidecar.append else {
            return Ok(());
        };
        match File::options().read(true).write(true).open(&self.data) {
            Ok(file) => undo_unless_complete(&file, append)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && append.from == 0 => {}
            Err(error) => return Err(error),
        }
        self.announce(None)
    }

    pub(super) fn announce(&mut self, append: Option<Append>) -> io::Result<()> {
        let mark = self.sidecar.mark;
        self.write(Sidecar { mark, append })
    }

    /// Puts this in place of the sidecar. The new one is locked before it has a
    /// name, so that nobody comes in between.
    fn write(&mut self, sidecar: Sidecar) -> io::Result<()> {
        let text = sidecar.text();
        self._flocked = disk::put(&self.path, text.as_bytes(), |new| {
            new.try_lock()?;
            // Whoever may write the file must be able to raise its mark.
            let has_data = self.data.try_exists()?;
            disk::be_like(new, if has_data { &self.data } else { &self.path })
        })?;
        self.sidecar = sidecar;
        Ok(())
    }
}

fn undo_unless_complete(file: &File, append: Append) -> io::Result<()> {
    let length = file.metadata()?.len();
    if is_complete(file, append)? {
        // So that what was read is also there after the next crash.
        return file.sync_all();
    }
    if length < append.from || length > append.to {
        return Err(damaged(
            "somebody else wrote to it while an append was under way; \
             put it right, make sure that no holder is at work and delete its sidecar",
        ));
    }
    file.set_len(append.from)?;
    file.sync_all()
}

/// Whether all that was to be added is there.
fn is_complete(mut file: &File, append: Append) -> io::Result<bool> {
    if file.metadata()?.len() < append.to {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(append.from))?;
    let mut hasher = crc32fast::Hasher::new();
    let mut rest = file.take(append.to.saturating_sub(append.from));
    let mut buffer = [0; 8192];
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(hasher.finalize() == append.sum),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match path.metadata() {
        Ok(named) => Ok((named.dev(), named.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// `flock` has no time limit of its own.
fn lock(file: &File, until: Moment) -> io::Result<()> {
    let mut pause = FIRST_PAUSE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if clock::boot_time() >= until => {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "another process is in the middle of a read or write; is it stopped?",
                ));
            }
            Err(TryLockError::WouldBlock) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn damaged(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
