//! The blocks that a receiver acknowledges selectively: Linux keeps four, the newest first (`tcp_sack_new_ofo_skb`).

/// Blocks kept (`TCP_NUM_SACKS`).
const BLOCKS: usize = 4;

/// Blocks of positions `start..end` that came out of order, the one that grew last first.
#[derive(Debug, Default)]
pub(super) struct SelectiveBlocks(Vec<(u64, u64)>);

impl SelectiveBlocks {
    /// A segment came out of order: the block that it touches grows, takes in others that it touches now, and stands first;
    /// without one a new block pushes out the last.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        let touches = |a: &(u64, u64), b: &(u64, u64)| a.0 <= b.1 && b.0 <= a.1;
        let segment = (start, end);
        let Some(at) = self.0.iter().position(|block| touches(&segment, block)) else {
            self.0.truncate(BLOCKS - 1);
            self.0.insert(0, segment);
            return;
        };
        let block = self.0.remove(at);
        let mut grown = (block.0.min(start), block.1.max(end));
        self.0.retain(|block| {
            let joined = touches(&grown, block);
            if joined {
                grown = (grown.0.min(block.0), grown.1.max(block.1));
            }
            !joined
        });
        self.0.insert(0, grown);
    }

    /// Everything before `next` is acknowledged; `waiting`: whether anything still waits out of order.
    pub(super) fn remove_before(&mut self, next: u64, waiting: bool) {
        self.0.retain(|block| waiting && block.0 > next);
    }

    /// The right edge of the block farthest ahead.
    pub(super) fn end(&self) -> Option<u64> {
        self.0.iter().map(|block| block.1).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_blocks_are_kept_and_the_one_that_grew_stands_first() {
        let mut blocks = SelectiveBlocks::default();
        for start in [50, 10, 20, 30] {
            blocks.add(start, start + 2);
        }
        assert_eq!(blocks.end(), Some(52));
        blocks.add(40, 42);
        assert_eq!((blocks.end(), blocks.0.len()), (Some(42), 4), "the first one is forgotten");
        blocks.add(32, 40);
        assert_eq!(blocks.0, [(30, 42), (20, 22), (10, 12)], "it joins two");
        blocks.remove_before(20, true);
        assert_eq!(blocks.0, [(30, 42)]);
        blocks.remove_before(21, false);
        assert_eq!(blocks.end(), None);
    }
}
