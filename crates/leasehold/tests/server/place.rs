//! Where `cargo xtask` puts what it builds for the tests.

use std::path::PathBuf;

pub(crate) fn tools() -> PathBuf {
    // Only tests are told where; a program lies somewhere below `target`.
    let scratch = option_env!("CARGO_TARGET_TMPDIR").map(PathBuf::from);
    let start = scratch.or_else(|| std::env::current_exe().ok());
    let start = start.unwrap_or_default();
    let mut folders = start.ancestors().map(|folder| folder.join("tools"));
    let found = folders.find(|folder| folder.is_dir());
    found.unwrap_or_else(|| start.with_file_name("tools"))
}
