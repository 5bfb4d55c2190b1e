//! How files get to the disk, and what they are called beside one another.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

/// How the names of files end that are to take another's place.
const NEW: &str = ".leasehold-new";
/// The same of the very first sidecar, which is written without a lock.
const FIRST: &str = ".leasehold-first";

/// Puts a new file with this content into the place of one, or of none.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    put(path, content, |new| be_like(new, path)).map(drop)
}

/// Gives a new file the owner and the mode of an old one, if there is one.
pub(super) fn be_like(new: &File, old: &Path) -> io::Result<()> {
    let old = match old.metadata() {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if old.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    // Only root may give a file away; whoever may not keeps it.
    _ = fchown(new, Some(old.uid()), Some(old.gid()));
    new.set_permissions(old.permissions())
}

/// Writes a new file, gets it to the disk and gives it this name. Only for whom
/// has the sidecar locked.
pub(super) fn put(
    path: &Path,
    content: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<File> {
    let (mut new, temporary) = scratch(path, NEW)?;
    let named = prepare(&new)
        .and_then(|()| new.write_all(content))
        .and_then(|()| new.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = named {
        _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder(path)?;
    Ok(new)
}

/// A new file beside this one, under a name that nobody else has. Should two be
/// at work at the same time (a sidecar that somebody deleted, a file system
/// whose `flock` does nothing), neither gives the file's name to what the other
/// has half written.
fn scratch(path: &Path, end: &str) -> io::Result<(File, PathBuf)> {
    let unique = format!(".{:016x}{end}", crate::random::random_u64());
    let scratch = beside(path, &unique)?;
    Ok((File::create_new(&scratch)?, scratch))
}

/// Removes what was left beside a file and its sidecar by processes that were
/// killed, as far as that can be done. Only for whom has the sidecar locked.
pub(super) fn sweep(path: &Path) {
    let Some(name) = path.file_name() else {
        return;
    };
    let entries = std::fs::read_dir(folder(path));
    for entry in entries.into_iter().flatten().flatten() {
        if is_scratch_of(name, &entry.file_name()) {
            _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_scratch_of(name: &OsStr, found: &OsStr) -> bool {
    let (name, found) = (name.as_encoded_bytes(), found.as_encoded_bytes());
    let unique = found
        .strip_prefix(name)
        .map(|rest| rest.strip_prefix(b".fence").unwrap_or(rest))
        .and_then(|rest| rest.strip_prefix(b"."))
        .and_then(|rest| rest.strip_suffix(NEW.as_bytes()));
    unique.is_some_and(|unique| unique.len() == 16 && unique.iter().all(u8::is_ascii_hexdigit))
}

/// Creates a file with this content, like another one, unless there is one. A
/// process that is killed here leaves its scratch file behind.
pub(super) fn found(path: &Path, content: &[u8], like: &Path) -> io::Result<()> {
    let (mut new, temporary) = scratch(path, FIRST)?;
    let linked = be_like(&new, like)
        .and_then(|()| new.write_all(content))
        .and_then(|()| new.sync_all())
        .and_then(|()| std::fs::hard_link(&temporary, path));
    _ = std::fs::remove_file(&temporary);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(path),
    }
}

/// Gets the names beside this one to the disk.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// The one name of a file, however it was spelled, whether or not it exists.
pub(super) fn real(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        real => return real,
    }
    if path.is_symlink() {
        let why = "a link that points to nothing";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let folder = folder(path).canonicalize()?;
    match path.file_name() {
        Some(name) => Ok(folder.join(name)),
        None => Err(io::Error::from(io::ErrorKind::IsADirectory)),
    }
}

pub(super) fn beside(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    let name = path.file_name();
    let mut name = name
        .ok_or(io::Error::from(io::ErrorKind::IsADirectory))?
        .to_owned();
    name.push(suffix);
    Ok(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_at_work_do_not_name_what_the_other_has_half_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let (mut stopped, whole) = scratch(&path, NEW).unwrap();
        let (mut next, half) = scratch(&path, NEW).unwrap();
        next.write_all(b"ha").unwrap();
        stopped.write_all(b"whole").unwrap();
        std::fs::rename(whole, &path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert!(half.exists());
    }

    #[test]
    fn only_what_we_left_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ours = ["ledger", "ledger.fence"].map(|name| folder.path().join(name));
        for path in &ours {
            scratch(path, NEW).unwrap();
        }
        let others = [
            "ledger",
            "ledger.0123456789abcdeX.leasehold-new",
            "ledger.0123456789abcdef.leasehold-new.txt",
            "ledger.fence",
            "ledger.fence.0123456789abcdef.leasehold-first",
            "ledger.leasehold-new",
            "ledger2.0123456789abcdef.leasehold-new",
        ];
        for name in others {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        sweep(&path);
        let left = std::fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, others);
    }
}
