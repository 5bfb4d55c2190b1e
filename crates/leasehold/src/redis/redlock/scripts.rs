//! The scripts, each with its head comment in `lua/`.

use std::fmt;

use ::redis::Script;

pub(super) struct Scripts {
    pub(super) take: Script,
    pub(super) take_plain: Script,
    pub(super) raise: Script,
    pub(super) renew: Script,
    pub(super) release: Script,
    pub(super) evict: Script,
    pub(super) look: Script,
    pub(super) announce: Script,
    pub(super) floor: Script,
    pub(super) admit: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            take: Script::new(include_str!("lua/take.lua")),
            take_plain: Script::new(include_str!("lua/take_plain.lua")),
            raise: Script::new(include_str!("lua/raise.lua")),
            renew: Script::new(include_str!("lua/renew.lua")),
            release: Script::new(include_str!("lua/release.lua")),
            evict: Script::new(include_str!("lua/evict.lua")),
            look: Script::new(include_str!("lua/look.lua")),
            announce: Script::new(include_str!("lua/announce.lua")),
            floor: Script::new(include_str!("lua/floor.lua")),
            admit: Script::new(include_str!("lua/admit.lua")),
        }
    }

    /// Those that sessions need. Operators need the others, and can wait.
    pub(super) fn of_sessions(&self) -> impl Iterator<Item = &Script> {
        let round_1 = [&self.take, &self.take_plain];
        let rest = [&self.raise, &self.renew, &self.release];
        round_1.into_iter().chain(rest)
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripts")
    }
}
