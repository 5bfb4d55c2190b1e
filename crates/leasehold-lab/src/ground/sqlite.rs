//! A file: it has no server to break.

use std::path::{Path, PathBuf};

use super::Ground;
use crate::story::Error;

#[derive(Debug)]
struct Sqlite(PathBuf);

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    Ok(Box::new(Sqlite(folder.join("locks.db"))))
}

impl Ground for Sqlite {
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    fn url(&self, _: &[u16], ttl_millis: u64) -> String {
        format!("sqlite:{}?ttl={ttl_millis}ms", self.0.display())
    }

    fn kill(&mut self, _: usize) {}

    fn start_again(&mut self, _: usize) {}

    fn forget(&mut self, _: usize) -> bool {
        false
    }

    fn pause(&mut self, _: usize) {}

    fn resume(&mut self, _: usize) {}
}
