//! A small set of nodes, by their place in the list.

/// Up to 64 nodes, by their place in the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSet(u64);

impl NodeSet {
    /// Nodes from this place on are never in a set.
    pub const ROOM: usize = 64;

    /// Puts the node in.
    #[inline]
    pub fn insert(&mut self, node: usize) {
        self.0 |= Self::bit(node);
    }

    /// Takes the node out.
    #[inline]
    pub fn remove(&mut self, node: usize) {
        self.0 &= !Self::bit(node);
    }

    /// Whether the node is in.
    #[inline]
    pub fn contains(self, node: usize) -> bool {
        self.0 & Self::bit(node) != 0
    }

    /// How many are in.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether none is.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in, in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let node = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (node < Self::ROOM).then_some(node)
        })
    }

    #[inline]
    fn bit(node: usize) -> u64 {
        if node < Self::ROOM { 1 << node } else { 0 }
    }
}

impl FromIterator<usize> for NodeSet {
    #[inline]
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        let mut set = Self::default();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}
