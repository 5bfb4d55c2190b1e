//! The scripts, each with its head comment in `lua/`.

use std::fmt;

use ::redis::Script;

pub(super) struct Scripts {
    pub(super) lock: Script,
    pub(super) unlock: Script,
    pub(super) renew: Script,
    pub(super) check: Script,
    pub(super) queue: Script,
    pub(super) alive: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            lock: Script::new(include_str!("lua/lock.lua")),
            unlock: Script::new(include_str!("lua/unlock.lua")),
            renew: Script::new(include_str!("lua/renew.lua")),
            check: Script::new(include_str!("lua/check.lua")),
            queue: Script::new(include_str!("lua/queue.lua")),
            alive: Script::new(include_str!("lua/alive.lua")),
        }
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripts")
    }
}
