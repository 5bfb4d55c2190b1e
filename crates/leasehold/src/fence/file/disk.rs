//! How files get to the disk, and what they are called beside one another.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

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
    let (mut new, temporary) = scratch(path)?;
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

/// A new file beside this one. Whatever has its name was left there by a process
/// that was killed, since no other has the sidecar locked.
fn scratch(path: &Path) -> io::Result<(File, PathBuf)> {
    let scratch = beside(path, ".leasehold-new")?;
    match std::fs::remove_file(&scratch) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok((File::create_new(&scratch)?, scratch)),
    }
}

/// The same while there is no sidecar to lock: under a name that nobody else
/// has. A process that is killed leaves it behind.
fn temporary(path: &Path) -> io::Result<(File, PathBuf)> {
    let unique = format!(".{:016x}.leasehold-new", crate::random::random_u64());
    let temporary = beside(path, &unique)?;
    Ok((File::create_new(&temporary)?, temporary))
}

/// Creates a file with this content, like another one, unless there is one.
pub(super) fn found(path: &Path, content: &[u8], like: &Path) -> io::Result<()> {
    let (mut new, temporary) = temporary(path)?;
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
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
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
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
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
