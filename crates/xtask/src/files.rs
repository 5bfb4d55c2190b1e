//! The files of the repository that people write.

use crate::shell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Every file with one of these extensions, sorted, by its path from the root.
///
/// # Errors
/// If a directory cannot be read.
pub(crate) fn with_extension(extensions: &[&str]) -> Result<Vec<PathBuf>, String> {
    let root = shell::root();
    let mut files = Vec::new();
    walk(&root, &mut files).map_err(|error| format!("reading {}: {error}", root.display()))?;
    let mut files: Vec<_> = files
        .iter()
        .filter(|file| {
            extensions
                .iter()
                .any(|e| file.extension().is_some_and(|x| x == *e))
        })
        .filter_map(|file| Some(file.strip_prefix(&root).ok()?.to_path_buf()))
        .collect();
    files.sort();
    Ok(files)
}

/// The text of a file given by its path from the root.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn text(file: &Path) -> Result<String, String> {
    fs::read_to_string(shell::root().join(file))
        .map_err(|error| format!("reading {}: {error}", file.display()))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() && is_ours(&entry.path()) {
            walk(&entry.path(), files)?;
        }
    }
    Ok(())
}

fn is_ours(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_built = folder == shell::root().join("target") || folder == shell::target();
    !is_built && !name.starts_with('.') && name != "node_modules"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_found_and_built_files_are_not() {
        let files = with_extension(&["rs", "sh"]).unwrap();
        assert!(files.contains(&PathBuf::from("crates/xtask/src/files.rs")));
        assert!(files.contains(&PathBuf::from("crates/xtask/src/apt.sh")));
        assert!(files.iter().all(|file| !file.starts_with("target")));
    }
}
