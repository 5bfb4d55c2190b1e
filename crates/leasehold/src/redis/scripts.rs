//! The scripts, each with its head comment in `lua/`.

use std::fmt;

use ::redis::Script;

pub(super) struct Scripts {
    pub(super) enqueue: Script,
    pub(super) look: Script,
    pub(super) withdraw: Script,
    pub(super) renew: Script,
    pub(super) queue: Script,
    pub(super) alive: Script,
}

const HEAD: &str = include_str!("lua/head.lua");
const COMMON: &str = include_str!("lua/common.lua");

impl Scripts {
    pub(super) fn new() -> Self {
        let on_a_lock =
            |quick: &str, script: &str| Script::new(&[HEAD, quick, COMMON, script].join("\n"));
        Self {
            enqueue: on_a_lock(
                include_str!("lua/enqueue_alone.lua"),
                include_str!("lua/enqueue.lua"),
            ),
            look: on_a_lock("", include_str!("lua/look.lua")),
            withdraw: on_a_lock("", include_str!("lua/withdraw.lua")),
            queue: on_a_lock("", include_str!("lua/queue.lua")),
            renew: Script::new(include_str!("lua/renew.lua")),
            alive: Script::new(include_str!("lua/alive.lua")),
        }
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripts")
    }
}
