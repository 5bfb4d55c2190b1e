//! Where `cargo xtask` puts what it builds for the tests, and where tests keep what takes
//! long to make.

use std::path::PathBuf;
use std::{env, fs};

/// What `cargo xtask tools` has built.
pub fn tools() -> PathBuf {
    target().unwrap_or_else(env::temp_dir).join("tools")
}

/// A folder that stays until cargo cleans up.
pub fn scratch() -> PathBuf {
    let folder = target().map_or_else(env::temp_dir, |target| target.join("tmp"));
    let made = fs::create_dir_all(&folder);
    made.expect("there is room for a folder");
    folder
}

/// The folder that cargo builds this program into.
fn target() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let mut folders = program.ancestors();
    let target = folders.find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.map(PathBuf::from)
}
