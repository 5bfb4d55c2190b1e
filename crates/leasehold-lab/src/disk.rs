//! A disk that can be full: a small file system in memory, mounted for one run.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How an error begins that says that this machine does not let us.
pub const REFUSED: &str = "no small disk can be mounted";

/// A mounted file system. It is gone when it is dropped.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts one with room for so many megabytes on this folder.
    ///
    /// # Errors
    /// Why it cannot be, for people: it takes the rights of root.
    pub fn mount(folder: &Path, megabytes: u32) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(folder)
            .stdin(Stdio::null())
            .output();
        let output = output.map_err(|error| format!("mount: {error}"))?;
        match output.status.success() {
            true => Ok(Self {
                folder: folder.to_owned(),
            }),
            false => {
                let text = String::from_utf8_lossy(&output.stderr);
                Err(format!("{REFUSED}: {}", text.trim()))
            }
        }
    }

    /// Takes all the room that is left.
    ///
    /// # Errors
    /// Of any other kind than that there is no room.
    pub fn fill(&self) -> std::io::Result<()> {
        let mut file = File::create(self.ballast())?;
        for size in [1 << 20, 1 << 12, 1] {
            let zeros = vec![0; size];
            while is_written(file.write_all(&zeros))? {}
        }
        Ok(())
    }

    /// Gives the room back.
    ///
    /// # Errors
    /// As removing a file does.
    pub fn clear(&self) -> std::io::Result<()> {
        std::fs::remove_file(self.ballast())
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

fn is_written(written: std::io::Result<()>) -> std::io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::StorageFull => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, because a server that was killed just now may still be in it.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_nothing_until_it_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let disk = match Disk::mount(&folder.path().join("disk"), 1) {
            Ok(disk) => disk,
            Err(why) => {
                // The right to do it is nothing that could be installed.
                assert!(why.starts_with(REFUSED), "{why}");
                println!("skipped: {why}");
                return;
            }
        };
        let file = folder.path().join("disk/file");
        disk.fill().unwrap();
        let error = std::fs::write(&file, [7; 5000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        disk.clear().unwrap();
        std::fs::write(&file, [7; 5000]).unwrap();
        drop(disk);
        assert!(!file.exists());
    }
}
