//! The scripts, each with its head comment in `lua/`.

use std::fmt;

use ::redis::Script;

pub(super) struct Scripts {
    pub(super) enqueue: Script,
    pub(super) enqueue_all: Script,
    pub(super) together: Script,
    pub(super) look: Script,
    pub(super) withdraw: Script,
    pub(super) renew: Script,
    pub(super) renew_alone: Script,
    pub(super) queue: Script,
    pub(super) alive: Script,
    pub(super) memo_write: Script,
    pub(super) memo_read: Script,
    pub(super) stamp: Script,
    pub(super) holders: Script,
}

const CLOCK: &str = include_str!("lua/clock.lua");
const HEAD: &str = include_str!("lua/head.lua");
const HOLD_ALONE: &str = include_str!("lua/hold_alone.lua");
const ENQUEUE_ALONE: &str = include_str!("lua/enqueue_alone.lua");
const MEMORY: &str = include_str!("lua/memory.lua");
const ENQUEUE_BEHIND: &str = include_str!("lua/enqueue_behind.lua");
const PROOF: &str = include_str!("lua/proof.lua");
const WITHDRAW_NEXT: &str = include_str!("lua/withdraw_next.lua");
const COMMON: &str = include_str!("lua/common.lua");

impl Scripts {
    pub(super) fn new() -> Self {
        let of = |parts: &[&str]| Script::new(&parts.join("\n"));
        let on_a_lock = |script: &str| of(&[CLOCK, HEAD, MEMORY, COMMON, script]);
        let enqueue = include_str!("lua/enqueue.lua");
        let withdraw = include_str!("lua/withdraw.lua");
        let queue = include_str!("lua/queue.lua");
        Self {
            enqueue: of(&[
                CLOCK,
                HEAD,
                HOLD_ALONE,
                ENQUEUE_ALONE,
                MEMORY,
                ENQUEUE_BEHIND,
                COMMON,
                enqueue,
            ]),
            together: of(&[
                CLOCK,
                HOLD_ALONE,
                "local function enqueue(KEYS, ARGV)",
                HEAD,
                ENQUEUE_ALONE,
                MEMORY,
                ENQUEUE_BEHIND,
                COMMON,
                enqueue,
                "end",
                include_str!("lua/together.lua"),
            ]),
            enqueue_all: of(&[CLOCK, HOLD_ALONE, include_str!("lua/enqueue_all.lua")]),
            look: on_a_lock(include_str!("lua/look.lua")),
            withdraw: of(&[CLOCK, WITHDRAW_NEXT, HEAD, MEMORY, COMMON, withdraw]),
            queue: on_a_lock(queue),
            renew: Script::new(include_str!("lua/renew.lua")),
            renew_alone: of(&[CLOCK, include_str!("lua/renew_alone.lua")]),
            alive: Script::new(include_str!("lua/alive.lua")),
            memo_write: on_a_lock(include_str!("lua/memo_write.lua")),
            memo_read: of(&[CLOCK, include_str!("lua/memo_read.lua")]),
            stamp: of(&[
                CLOCK,
                HEAD,
                MEMORY,
                COMMON,
                PROOF,
                include_str!("lua/stamp.lua"),
            ]),
            holders: of(&[CLOCK, HEAD, MEMORY, COMMON, PROOF, queue]),
        }
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripts")
    }
}
