//! States that differ only in which node is which are one state.

use super::world::{Stage, World};

impl<const N: usize, const T: usize> World<N, T> {
    /// The same state with the nodes in a fixed order. All that is known of a
    /// node goes into the order, so equal nodes are really equal.
    pub(super) fn in_order(&self) -> Self {
        let mut order: [usize; N] = std::array::from_fn(|node| node);
        let known: [u64; N] = std::array::from_fn(|node| self.known_of(node));
        order.sort_unstable_by_key(|&node| (known[node], self.nodes[node]));
        if order.is_sorted() {
            return *self;
        }
        let mut sorted = *self;
        sorted.nodes = order.map(|node| self.nodes[node]);
        sorted.waits_for = order.map(|node| self.waits_for[node]);
        for it in &mut sorted.tries {
            it.taking = it.taking.renamed(&order);
            it.raising = it.raising.renamed(&order);
            it.releasing = it.releasing.renamed(&order);
            it.raised = it.raised.renamed(&order);
            match &mut it.stage {
                Stage::Idle | Stage::Over => {}
                Stage::Asking(quorum) => *quorum = quorum.renamed(&order),
                Stage::Loosely { acknowledged } => *acknowledged = acknowledged.renamed(&order),
                Stage::Holding(renewal) => {
                    renewal.asking = renewal.asking.renamed(&order);
                    renewal.yes = renewal.yes.renamed(&order);
                    renewal.no = renewal.no.renamed(&order);
                }
            }
        }
        if let Some(it) = &mut sorted.readmission {
            it.plan = it.plan.renamed(&order);
            it.target = order
                .iter()
                .position(|&node| node == it.target)
                .unwrap_or(it.target);
            it.looking = it.looking.renamed(&order);
            it.lifting = it.lifting.renamed(&order);
        }
        sorted
    }

    /// All that the rest of the state knows of a node, in a number.
    fn known_of(&self, node: usize) -> u64 {
        let mut known = u64::from(self.waits_for[node]);
        let mut add = |is: bool| known = known << 1 | u64::from(is);
        for it in &self.tries {
            add(it.taking.contains(node));
            add(it.raising.contains(node));
            add(it.releasing.contains(node));
            add(it.raised.contains(node));
            let three = match &it.stage {
                Stage::Idle | Stage::Over => [false; 3],
                Stage::Asking(quorum) => quorum.standing(node),
                Stage::Loosely { acknowledged } => [acknowledged.contains(node), false, false],
                Stage::Holding(renewal) => [
                    renewal.asking.contains(node),
                    renewal.yes.contains(node),
                    renewal.no.contains(node),
                ],
            };
            three.into_iter().for_each(&mut add);
        }
        if let Some(it) = &self.readmission {
            it.plan.standing(node).into_iter().for_each(&mut add);
            add(it.looking.contains(node));
            add(it.lifting.contains(node));
        }
        known
    }
}
