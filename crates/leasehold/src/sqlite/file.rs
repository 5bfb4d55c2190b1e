//! The store's file and its folders: whether they can hold locks, and making
//! them.
//!
//! The database file is never opened here, only named. A process that closes
//! any descriptor of a file drops all POSIX locks it has on it, also those
//! SQLite took through another descriptor.

use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatxAttributes, StatxFlags, Uid,
};
use rustix::io::Errno;

use super::fault::Fault;
use crate::error::ErrorKind;

/// Where a store is and what its files have to look like.
#[derive(Debug, Clone)]
pub(super) struct StoreFile {
    /// The database.
    pub(super) path: PathBuf,
    /// The folder of the session's files.
    pub(super) sessions: PathBuf,
}

/// Tells one file from another that later has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl StoreFile {
    /// Checks the path and makes what is missing.
    pub(super) fn prepare(path: &Path) -> Result<Self, Fault> {
        let path = std::path::absolute(path)
            .map_err(|error| Fault::new(ErrorKind::Config, error.to_string()))?;
        let folder = path.parent().unwrap_or(&path).to_owned();
        make_folders(&folder)?;
        // Following links first makes all users agree on the folder of sessions
        // beside the real file, whichever name they came by.
        let folder = std::fs::canonicalize(&folder).unwrap_or(folder);
        let path = path
            .file_name()
            .map_or(folder.clone(), |name| folder.join(name));
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        if path.is_dir() {
            return Err(Fault::new(
                ErrorKind::Config,
                "the path is a folder; name a file in it",
            ));
        }
        // A device or a pipe would take what is written and keep nothing.
        if path.exists() && !path.is_file() {
            return Err(Fault::new(
                ErrorKind::Config,
                "the path is not a regular file; name another",
            ));
        }
        let folder = path.parent().unwrap_or(&path).to_owned();
        refuse_network(&folder)?;
        if make(&path, FileType::RegularFile, Mode::RUSR | Mode::WUSR)? {
            sync_folder(&folder)?;
        }
        refuse_second_name(&path)?;
        let mut sessions = path.clone().into_os_string();
        sessions.push(".d");
        let file = Self {
            path,
            sessions: sessions.into(),
        };
        file.make_sessions_folder()?;
        Ok(file)
    }

    /// Which file has the store's name now.
    pub(super) fn identity(&self) -> Result<Identity, Errno> {
        identity(&self.path)
    }

    /// Which file has the name of the log's index now. SQLite keeps the one it
    /// opened for as long as anybody uses the database.
    pub(super) fn index_identity(&self) -> Result<Identity, Errno> {
        identity(&self.beside("-shm"))
    }

    /// A handle to the file that only asks about it: it can neither be read nor
    /// drop anybody's locks when it is closed.
    pub(super) fn handle(&self) -> Result<OwnedFd, Fault> {
        let open = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::open(&self.path, open, Mode::empty())
            .map_err(|errno| Fault::system(self.path.display(), errno))
    }

    /// Makes a pipe that whoever may use the database may use.
    pub(super) fn make_pipe(&self, pipe: &Path) -> Result<(), Fault> {
        let database = self.stat()?;
        make(pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR)?;
        let mode = Mode::from_raw_mode(database.st_mode & 0o666);
        self.resemble(pipe, &database, mode)
    }

    pub(super) fn stat(&self) -> Result<Stat, Fault> {
        rustix::fs::stat(&self.path).map_err(|errno| Fault::system(self.path.display(), errno))
    }

    /// The name of SQLite's log.
    pub(super) fn log(&self) -> PathBuf {
        self.beside("-wal")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    pub(super) fn make_sessions_folder(&self) -> Result<(), Fault> {
        match rustix::fs::mkdir(&self.sessions, Mode::RWXU) {
            Ok(()) => {
                let database = self.stat()?;
                let read = database.st_mode & 0o444;
                let mode = Mode::from_raw_mode(database.st_mode & 0o666 | read >> 2);
                self.resemble(&self.sessions, &database, mode)
            }
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(Fault::system(self.sessions.display(), errno)),
        }
    }

    /// Gives a file of ours the mode and owners of the database, as SQLite does
    /// with its own, so that sharing the database is sharing the store.
    fn resemble(&self, path: &Path, database: &Stat, mode: Mode) -> Result<(), Fault> {
        let ours = rustix::fs::stat(path).map_err(|errno| Fault::system(path.display(), errno))?;
        let owner = Some(Uid::from_raw(database.st_uid))
            .filter(|_| rustix::process::geteuid().is_root() && ours.st_uid != database.st_uid);
        let group = Some(Gid::from_raw(database.st_gid)).filter(|_| ours.st_gid != database.st_gid);
        if owner.is_some() || group.is_some() {
            // Whoever is not in the group cannot give files to it; then those
            // who are fall back on the ttl for this session.
            let _ = rustix::fs::chownat(CWD, path, owner, group, AtFlags::empty());
        }
        if ours.st_mode & 0o777 == mode.as_raw_mode() {
            return Ok(());
        }
        rustix::fs::chmod(path, mode).map_err(|errno| Fault::system(path.display(), errno))
    }
}

fn identity(path: &Path) -> Result<Identity, Errno> {
    let stat = rustix::fs::stat(path)?;
    Ok(Identity {
        device: stat.st_dev,
        inode: stat.st_ino,
    })
}

/// The name of the file system, and whether its locks hold on this machine.
pub(super) fn file_system(path: &Path) -> Result<(String, bool), Errno> {
    let magic = rustix::fs::statfs(path)?.f_type & 0xffff_ffff;
    let (name, is_local) = match magic {
        0xef53 => ("ext4", true),
        0x5846_5342 => ("xfs", true),
        0x9123_683e => ("btrfs", true),
        0x0102_1994 => ("tmpfs", true),
        0x794c_7630 => ("overlayfs", true),
        0x2fc1_2fc1 => ("zfs", true),
        0xf2f5_2010 => ("f2fs", true),
        0x6969 => ("nfs", false),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => ("smb", false),
        0x0102_1997 => ("9p", false),
        0x6573_5546 => ("fuse", false),
        0x00c3_6400 => ("ceph", false),
        0x0116_1970 => ("gfs2", false),
        0x7461_636f => ("ocfs2", false),
        0x0bd0_0bd0 => ("lustre", false),
        0x4750_4653 => ("gpfs", false),
        0x1983_0326 => ("beegfs", false),
        0x2003_0528 => ("orangefs", false),
        0x5346_414f | 0x6b41_4653 => ("afs", false),
        0x7375_7245 => ("coda", false),
        0x786f_4256 => ("vboxsf", false),
        0x7c7c_6673 => ("prl_fs", false),
        0xbacb_acbc => ("vmhgfs", false),
        _ => return Ok((format!("file system {magic:#x}"), true)),
    };
    Ok((name.to_owned(), is_local))
}

fn refuse_network(folder: &Path) -> Result<(), Fault> {
    let (name, is_local) =
        file_system(folder).map_err(|errno| Fault::system(folder.display(), errno))?;
    if is_local {
        return Ok(());
    }
    let folder = folder.display();
    Err(Fault::new(
        ErrorKind::Config,
        format!(
            "{folder} is on {name}; SQLite locks need a local file system: \
             use another path or a network store"
        ),
    ))
}

/// A file that can be come by in another folder or under another name has
/// another log there, and whoever comes that way sees none of our locks.
fn refuse_second_name(path: &Path) -> Result<(), Fault> {
    let wanted = StatxFlags::NLINK;
    let stat = match rustix::fs::statx(CWD, path, AtFlags::empty(), wanted) {
        Ok(stat) => stat,
        // A sandbox may forbid the call.
        Err(Errno::NOSYS | Errno::PERM) => return Ok(()),
        Err(errno) => return Err(Fault::system(path.display(), errno)),
    };
    let why = if stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        "the file is mounted by itself, without SQLite's files beside it: mount its folder"
    } else if stat.stx_nlink > 1 {
        "the file has another name (a hard link), where SQLite would keep another log: \
         remove one of them"
    } else {
        return Ok(());
    };
    Err(Fault::new(ErrorKind::Config, why))
}

fn make_folders(folder: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| match error.raw_os_error() {
        Some(code) => Fault::system(folder.display(), Errno::from_raw_os_error(code)),
        None => Fault::new(ErrorKind::Config, error.to_string()),
    })
}

/// Makes an empty file without opening it; `false` if it is there already.
fn make(path: &Path, kind: FileType, mode: Mode) -> Result<bool, Fault> {
    match rustix::fs::mknodat(CWD, path, kind, mode, 0) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(Fault::system(path.display(), errno)),
    }
}

/// Makes a new name in the folder outlive a power loss.
fn sync_folder(folder: &Path) -> Result<(), Fault> {
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(folder, open, Mode::empty())
        .and_then(rustix::fs::fsync)
        .map_err(|errno| Fault::system(folder.display(), errno))
}
