//! A Redis server with lines of configuration, in a folder of its own.

use std::fs;
use std::ops::{Deref, DerefMut};

use tempfile::TempDir;
use testbed::redis::{RedisServer, Version};

use crate::world::World;

pub(crate) struct Server {
    server: RedisServer,
    _folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With these lines of configuration. They stand in a file: what is in arguments is
    /// public.
    pub(crate) fn with(lines: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("lines.conf");
        fs::write(&file, lines.join("\n")).unwrap();
        let options = ["--include", &file.to_string_lossy()];
        Self {
            server: RedisServer::start(folder.path(), &options),
            _folder: folder,
        }
    }

    /// One that is older than anything we support.
    pub(crate) fn too_old() -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            server: RedisServer::start_version(Version::Redis5, folder.path(), &[]),
            _folder: folder,
        }
    }

    /// Host and port.
    pub(crate) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Its URL with a password.
    pub(crate) fn url_with(&self, password: &str) -> String {
        format!("redis://:{password}@{}", self.place())
    }

    /// A folder for processes whose locks are here.
    pub(crate) fn world(&self) -> World {
        World::on(self.url())
    }
}

impl Deref for Server {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.server
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut RedisServer {
        &mut self.server
    }
}
