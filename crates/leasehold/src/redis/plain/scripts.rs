//! The scripts, each with its head comment in `lua/`.

use std::fmt;

use ::redis::Script;

pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) release: Script,
    pub(super) renew: Script,
    pub(super) evict: Script,
    pub(super) queue: Script,
    pub(super) check: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            acquire: Script::new(include_str!("lua/acquire.lua")),
            release: Script::new(include_str!("lua/release.lua")),
            renew: Script::new(include_str!("lua/renew.lua")),
            evict: Script::new(include_str!("lua/evict.lua")),
            queue: Script::new(include_str!("lua/queue.lua")),
            check: Script::new(include_str!("lua/check.lua")),
        }
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripts")
    }
}
