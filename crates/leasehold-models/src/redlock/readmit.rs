//! How a forgetful node comes back: by the jump of `quorum.rs`, or in ways that
//! are not enough.

use leasehold::redlock::quorum::{NodeSet, Plan, Readmission};

use super::Remedy;
use super::action::Action;
use super::world::{Readmitting, Redlock, World};

impl<const N: usize, const T: usize> Redlock<N, T> {
    pub(super) fn readmission_actions(&self, world: &World<N, T>, actions: &mut Vec<Action>) {
        if self.rules.remedy != Remedy::Jump {
            return;
        }
        let Some(it) = world.readmission else {
            let quarantined = (0..N).filter(|&node| world.nodes[node].is_quarantined());
            actions.extend(quarantined.map(Action::Readmit));
            return;
        };
        actions.extend(it.looking.iter().map(Action::Look));
        actions.extend(it.lifting.iter().map(Action::Lift));
        if it.may_end {
            actions.push(Action::Admit);
        }
    }
}

impl<const N: usize, const T: usize> World<N, T> {
    pub(super) fn readmit(&mut self, target: usize, jump: u64) {
        self.readmission = Some(Readmitting {
            plan: Readmission::with_jump(N, target, jump),
            target,
            run: self.nodes[target].run,
            looking: (0..N).filter(|&node| node != target).collect(),
            lifting: NodeSet::default(),
            floor: 0,
            may_end: false,
        });
    }

    pub(super) fn look(&mut self, node: usize) {
        let highest = self.nodes[node].highest().ok();
        if let Some(it) = &mut self.readmission {
            it.looking.remove(node);
            let plan = it.plan.saw(node, highest);
            self.go_on(plan);
        }
    }

    pub(super) fn lift(&mut self, node: usize) {
        if let Some(it) = &mut self.readmission {
            it.lifting.remove(node);
            let is_lifted = self.nodes[node].lift(it.floor).is_ok();
            let plan = it.plan.raised(node, is_lifted);
            self.go_on(plan);
        }
    }

    pub(super) fn admit(&mut self) {
        if let Some(it) = self.readmission.take() {
            // Refused if the node has restarted again, and then it stays out.
            self.nodes[it.target].admit(it.floor, it.run);
        }
    }

    /// Broken: the node comes back with what the others know now, or with a jump
    /// from there, and the others learn nothing.
    pub(super) fn copy(&mut self, target: usize, jump: u64) {
        let others = self.nodes.iter().filter_map(|node| node.highest().ok());
        if let Some(highest) = others.max() {
            let run = self.nodes[target].run;
            self.nodes[target].admit(highest + jump, run);
        }
    }

    fn go_on(&mut self, plan: Plan) {
        let Some(it) = &mut self.readmission else {
            return;
        };
        match plan {
            Plan::Wait => {}
            Plan::Raise { floor, nodes } => {
                it.floor = floor;
                it.lifting = nodes.into_iter().collect();
            }
            Plan::Admit { .. } => it.may_end = true,
            Plan::Failed(_) => self.readmission = None,
        }
    }
}
