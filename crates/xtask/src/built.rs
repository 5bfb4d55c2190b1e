//! What is built for the tests below `target/tools`: once, and again only when
//! what it is built from has changed.

use crate::shell::{self, Outcome};
use std::fs;
use std::path::{Path, PathBuf};

/// Where everything is that the tests need and no package brings.
pub(crate) fn tools() -> PathBuf {
    shell::target().join("tools")
}

/// Builds into a folder of `target/tools`, empty at first, unless what is in it
/// was built from these very files.
///
/// # Errors
/// If a file cannot be read or written, or the build fails.
pub(crate) fn unless_built(
    name: &str,
    sources: &[&str],
    build: impl FnOnce(&Path) -> Outcome,
) -> Outcome {
    let folder = tools().join(name);
    let stamp = folder.join("built-from");
    let mut text = String::new();
    for source in sources {
        text += &format!("== {source}\n");
        text += &crate::files::text(Path::new(source))?;
    }
    if fs::read_to_string(&stamp).is_ok_and(|built_from| built_from == text) {
        return Ok(());
    }
    let wrong = |error| format!("writing {}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(wrong)?;
    }
    fs::create_dir_all(&folder).map_err(wrong)?;
    build(&folder)?;
    // Last, so that a build that was broken off is done again.
    fs::write(&stamp, text).map_err(wrong)
}

/// The path of a file, as text for a command line.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
