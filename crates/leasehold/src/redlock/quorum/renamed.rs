//! The same attempt with its nodes in another order. No decision depends on
//! which node is which, so the models look at one order of many.

use super::{Attempt, NodeSet, Readmission, Stage, readmission};

impl NodeSet {
    /// The set with the node `order[place]` at `place`.
    #[must_use]
    #[inline]
    pub fn renamed(self, order: &[usize]) -> Self {
        let places = (0..order.len()).filter(|&place| self.contains(order[place]));
        places.collect()
    }
}

impl Attempt {
    /// All that the attempt knows of one node.
    #[inline]
    pub fn standing(&self, node: usize) -> [bool; 3] {
        let asked = matches!(self.stage, Stage::Raising { asked, .. } if asked.contains(node));
        [
            self.heard.contains(node),
            self.granted.contains(node),
            asked,
        ]
    }

    /// The attempt with the node `order[place]` at `place`.
    #[must_use]
    #[inline]
    pub fn renamed(mut self, order: &[usize]) -> Self {
        self.heard = self.heard.renamed(order);
        self.granted = self.granted.renamed(order);
        if let Stage::Raising { asked, .. } = &mut self.stage {
            *asked = asked.renamed(order);
        }
        self
    }
}

impl Readmission {
    /// All that the plan knows of one node.
    pub fn standing(&self, node: usize) -> [bool; 4] {
        let asked =
            matches!(self.stage, readmission::Stage::Raising { asked, .. } if asked.contains(node));
        [
            node == self.target,
            self.heard.contains(node),
            self.good.contains(node),
            asked,
        ]
    }

    /// The plan with the node `order[place]` at `place`.
    #[must_use]
    #[inline]
    pub fn renamed(mut self, order: &[usize]) -> Self {
        self.heard = self.heard.renamed(order);
        self.good = self.good.renamed(order);
        self.target = (0..order.len())
            .find(|&place| order[place] == self.target)
            .unwrap_or(self.target);
        if let readmission::Stage::Raising { asked, .. } = &mut self.stage {
            *asked = asked.renamed(order);
        }
        self
    }
}
