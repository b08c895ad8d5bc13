//! A red-black tree that takes the same shape as the kernel's, whatever is inserted and removed.
//!
//! Linux looks at the nodes on the way down when it queues a segment, and which nodes these are depends on how the tree
//! was balanced before: nothing but the same tree gives the same bytes. Balancing is that of any textbook (Cormen et al.,
//! chapter 13), with the successor taking a removed node's place.

/// No node.
pub(super) const NONE: u32 = u32::MAX;
/// Left and right.
pub(super) const LEFT: usize = 0;
pub(super) const RIGHT: usize = 1;

#[derive(Clone, Debug)]
struct Node<T> {
    parent: u32,
    child: [u32; 2],
    red: bool,
    value: Option<T>,
}

/// Values in the order in which they were linked; nodes are known by numbers that stay.
#[derive(Clone, Debug)]
pub(super) struct Tree<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    root: u32,
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Tree { nodes: Vec::new(), free: Vec::new(), root: NONE }
    }
}

impl<T> Tree<T> {
    #[inline]
    pub(super) fn root(&self) -> u32 {
        self.root
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub(super) fn get(&self, n: u32) -> Option<&T> {
        self.nodes.get(n as usize)?.value.as_ref()
    }

    pub(super) fn get_mut(&mut self, n: u32) -> Option<&mut T> {
        self.nodes.get_mut(n as usize)?.value.as_mut()
    }

    pub(super) fn child(&self, n: u32, side: usize) -> u32 {
        self.nodes.get(n as usize).and_then(|node| node.child.get(side)).copied().unwrap_or(NONE)
    }

    fn parent(&self, n: u32) -> u32 {
        self.nodes.get(n as usize).map_or(NONE, |node| node.parent)
    }

    fn is_red(&self, n: u32) -> bool {
        self.nodes.get(n as usize).is_some_and(|node| node.red)
    }

    fn set_red(&mut self, n: u32, red: bool) {
        if let Some(node) = self.nodes.get_mut(n as usize) {
            node.red = red;
        }
    }

    fn set_parent(&mut self, n: u32, parent: u32) {
        if let Some(node) = self.nodes.get_mut(n as usize) {
            node.parent = parent;
        }
    }

    fn set_child(&mut self, n: u32, side: usize, child: u32) {
        if let Some(slot) = self.nodes.get_mut(n as usize).and_then(|node| node.child.get_mut(side)) {
            *slot = child;
        }
        self.set_parent(child, n);
    }

    fn side_of(&self, parent: u32, n: u32) -> usize {
        usize::from(self.child(parent, LEFT) != n)
    }

    /// Puts `new` where `old` was under its parent.
    fn put_in_place(&mut self, old: u32, new: u32) {
        let parent = self.parent(old);
        if parent == NONE {
            self.root = new;
            self.set_parent(new, NONE);
        } else {
            self.set_child(parent, self.side_of(parent, old), new);
        }
    }

    /// Turns `n` down to `side`; its child of the other side takes its place.
    fn rotate(&mut self, n: u32, side: usize) {
        let up = self.child(n, 1 - side);
        self.put_in_place(n, up);
        self.set_child(n, 1 - side, self.child(up, side));
        self.set_child(up, side, n);
    }

    pub(super) fn first(&self) -> u32 {
        let mut n = self.root;
        while self.child(n, LEFT) != NONE {
            n = self.child(n, LEFT);
        }
        n
    }

    /// The neighbour of a node.
    pub(super) fn beside(&self, n: u32, side: usize) -> u32 {
        let mut at = self.child(n, side);
        if at != NONE {
            while self.child(at, 1 - side) != NONE {
                at = self.child(at, 1 - side);
            }
            return at;
        }
        let mut at = n;
        loop {
            let parent = self.parent(at);
            if parent == NONE || self.child(parent, 1 - side) == at {
                return parent;
            }
            at = parent;
        }
    }

    /// Links a value under `parent`, at a side where it has no child; under [`NONE`], as the root of an empty tree.
    pub(super) fn link(&mut self, parent: u32, side: usize, value: T) -> u32 {
        let node = Node { parent, child: [NONE; 2], red: true, value: Some(value) };
        let n = match self.free.pop() {
            Some(n) => {
                if let Some(slot) = self.nodes.get_mut(n as usize) {
                    *slot = node;
                }
                n
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        if parent == NONE {
            self.root = n;
        } else {
            self.set_child(parent, side, n);
        }
        self.balance_linked(n);
        n
    }

    fn balance_linked(&mut self, mut n: u32) {
        loop {
            let mut parent = self.parent(n);
            if parent == NONE {
                return self.set_red(n, false);
            }
            if !self.is_red(parent) {
                return;
            }
            // A red node has a parent.
            let grandparent = self.parent(parent);
            let side = self.side_of(grandparent, parent);
            let uncle = self.child(grandparent, 1 - side);
            if self.is_red(uncle) {
                self.set_red(uncle, false);
                self.set_red(parent, false);
                self.set_red(grandparent, true);
                n = grandparent;
                continue;
            }
            if self.child(parent, 1 - side) == n {
                self.rotate(parent, side);
                parent = n;
            }
            self.rotate(grandparent, 1 - side);
            self.set_red(parent, false);
            self.set_red(grandparent, true);
            return;
        }
    }

    /// Removes a node.
    pub(super) fn remove(&mut self, n: u32) -> Option<T> {
        let value = self.nodes.get_mut(n as usize)?.value.take()?;
        let (left, right) = (self.child(n, LEFT), self.child(n, RIGHT));
        // Where a black node is missing now: under this parent, at this side.
        let mut missing = None;
        if left == NONE || right == NONE {
            let (only, parent) = (if left == NONE { right } else { left }, self.parent(n));
            let side = self.side_of(parent, n);
            self.put_in_place(n, only);
            if only != NONE {
                self.set_red(only, self.is_red(n));
            } else if !self.is_red(n) && parent != NONE {
                missing = Some((parent, side));
            }
        } else {
            let mut successor = right;
            while self.child(successor, LEFT) != NONE {
                successor = self.child(successor, LEFT);
            }
            let (orphan, was_red) = (self.child(successor, RIGHT), self.is_red(successor));
            let hole = if successor == right {
                (successor, RIGHT)
            } else {
                let parent = self.parent(successor);
                self.set_child(parent, LEFT, orphan);
                self.set_child(successor, RIGHT, right);
                (parent, LEFT)
            };
            self.set_child(successor, LEFT, left);
            self.put_in_place(n, successor);
            self.set_red(successor, self.is_red(n));
            if orphan != NONE {
                self.set_red(orphan, false);
            } else if !was_red {
                missing = Some(hole);
            }
        }
        if let Some((parent, side)) = missing {
            self.balance_removed(parent, side);
        }
        self.free.push(n);
        Some(value)
    }

    fn balance_removed(&mut self, mut parent: u32, mut side: usize) {
        loop {
            let mut sibling = self.child(parent, 1 - side);
            if self.is_red(sibling) {
                self.rotate(parent, side);
                self.set_red(sibling, false);
                self.set_red(parent, true);
                sibling = self.child(parent, 1 - side);
            }
            if !self.is_red(self.child(sibling, 1 - side)) {
                let near = self.child(sibling, side);
                if !self.is_red(near) {
                    self.set_red(sibling, true);
                    if self.is_red(parent) {
                        return self.set_red(parent, false);
                    }
                    let above = self.parent(parent);
                    if above == NONE {
                        return;
                    }
                    side = self.side_of(above, parent);
                    parent = above;
                    continue;
                }
                self.rotate(sibling, 1 - side);
                self.set_red(near, false);
                self.set_red(sibling, true);
                sibling = near;
            }
            self.rotate(parent, side);
            self.set_red(sibling, self.is_red(parent));
            self.set_red(parent, false);
            self.set_red(self.child(sibling, 1 - side), false);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The height of black nodes below `n`, having checked that no red node has a red child.
    fn checked(tree: &Tree<u32>, n: u32) -> usize {
        if n == NONE {
            return 1;
        }
        let heights = [LEFT, RIGHT].map(|side| {
            let child = tree.child(n, side);
            assert!(!(tree.is_red(n) && tree.is_red(child)));
            assert!(child == NONE || tree.parent(child) == n);
            checked(tree, child)
        });
        assert_eq!(heights[0], heights[1]);
        heights[0] + usize::from(!tree.is_red(n))
    }

    fn insert(tree: &mut Tree<u32>, value: u32) -> u32 {
        let (mut parent, mut side, mut at) = (NONE, LEFT, tree.root());
        while let Some(there) = tree.get(at) {
            (parent, side) = (at, usize::from(value >= *there));
            at = tree.child(at, side);
        }
        tree.link(parent, side, value)
    }

    #[test]
    fn it_stays_balanced_and_in_order() {
        let mut tree = Tree::default();
        let mut numbers: Vec<u32> = (0..500u32).map(|i| i * 7919 % 503).collect();
        let mut nodes: Vec<u32> = numbers.iter().map(|n| insert(&mut tree, *n)).collect();
        for round in 0..500usize {
            checked(&tree, tree.root());
            let mut inside = Vec::new();
            let mut at = tree.first();
            while at != NONE {
                inside.push(*tree.get(at).unwrap());
                at = tree.beside(at, RIGHT);
            }
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            assert_eq!((inside, tree.len()), (sorted, numbers.len()));
            let out = round * 31 % numbers.len();
            assert_eq!(tree.remove(nodes.swap_remove(out)), Some(numbers.swap_remove(out)));
        }
        assert!(tree.root() == NONE && tree.first() == NONE);
    }

    #[test]
    fn three_in_zigzag_turn_the_middle_up() {
        let mut tree = Tree::default();
        for n in [7, 12, 9] {
            insert(&mut tree, n);
        }
        assert_eq!(tree.get(tree.root()), Some(&9));
    }
}
