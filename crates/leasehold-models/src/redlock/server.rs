//! What befalls the nodes.

use super::action::Action;
use super::world::{LOCK, Redlock, Stage, World};
use super::{Remedy, Scheme};

impl<const N: usize, const T: usize> Redlock<N, T> {
    pub(super) fn server_actions(
        &self,
        world: &World<N, T>,
        node: usize,
        actions: &mut Vec<Action>,
    ) {
        let server = &world.nodes[node];
        if self.may_expire(world, node) {
            actions.push(Action::Expire(node));
        }
        if self.rules.counters_expire && server.locks[LOCK].counter.is_some() {
            actions.push(Action::ExpireCounter(node));
        }
        if world.amnesias > 0 && !server.is_quarantined() {
            actions.push(Action::Forget(node));
        }
        let is_alone = matches!(self.rules.remedy, Remedy::Copy | Remedy::JumpAlone);
        if server.is_quarantined() && is_alone {
            actions.push(Action::Copy(node));
        }
    }

    pub(super) fn forget(&self, world: &mut World<N, T>, node: usize) {
        world.amnesias -= 1;
        let run = world.nodes[node].run + 1;
        world.nodes[node].restart(run, false);
        match self.rules.remedy {
            Remedy::None => assert!(world.nodes[node].admit(0, run), "this is its run"),
            Remedy::Delay => {
                world.waits_for[node] =
                    world.mask(|it| !matches!(it.stage, Stage::Idle | Stage::Over));
            }
            Remedy::Quarantine | Remedy::Copy | Remedy::JumpAlone | Remedy::Jump => {}
        }
    }

    /// Whether tokens are what the row is about.
    pub(super) fn has_tokens(&self) -> bool {
        self.rules.scheme != Scheme::Plain
    }
}
