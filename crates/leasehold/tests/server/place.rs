//! Where `cargo xtask` puts what it builds for the tests.

use std::path::{Path, PathBuf};

pub(crate) fn tools() -> PathBuf {
    // Only tests are told where; a program lies in `target/debug` or the like.
    let scratch = option_env!("CARGO_TARGET_TMPDIR").map(PathBuf::from);
    let program = || std::env::current_exe().unwrap_or_default();
    let target = match scratch {
        Some(scratch) => scratch.parent().map(Path::to_owned),
        None => program().ancestors().nth(2).map(Path::to_owned),
    };
    target.unwrap_or_default().join("tools")
}
