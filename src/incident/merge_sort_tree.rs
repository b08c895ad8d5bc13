//! Claims in order of time, searched by size: the first of a span of time that is neither too small nor too large.
//!
//! An attacker chooses how many claims reach a host, and a log how many kills it has: to hold each kill against each claim is
//! quadratic. Blocks of 1, 2, 4, … neighbours are kept sorted by size, so that a search looks into a few of them:
//! O(log² n) a search, n log n numbers in memory.

/// Sizes by place, and the blocks.
#[derive(Debug, Default)]
pub(crate) struct MergeSortTree {
    /// Step k: the sizes with every whole block of 2^k of them sorted.
    steps: Vec<Vec<u64>>,
}

impl MergeSortTree {
    /// Of sizes in order of time.
    pub(crate) fn new(sizes: Vec<u64>) -> MergeSortTree {
        let mut steps = vec![sizes];
        while let Some(last) = steps.last().filter(|s| s.len() >> steps.len() > 0) {
            let mut next = last.clone();
            next.chunks_exact_mut(1 << steps.len()).for_each(<[u64]>::sort_unstable);
            steps.push(next);
        }
        MergeSortTree { steps }
    }

    /// Whether the block of 2^k at `at` holds a size from `least` to `most`.
    fn holds(&self, k: usize, at: usize, (least, most): (u64, u64)) -> bool {
        let block = self.steps.get(k).and_then(|s| s.get(at..at + (1 << k))).unwrap_or_default();
        block.get(block.partition_point(|s| *s < least)).is_some_and(|s| *s <= most)
    }

    /// The first place from `from` on, before `to`, with a size from `least` to `most`.
    pub(crate) fn first(&self, from: usize, to: usize, sizes: (u64, u64)) -> Option<usize> {
        let to = to.min(self.steps.first().map_or(0, Vec::len));
        let mut at = from;
        while at < to {
            let mut k = (0..self.steps.len()).rev().find(|k| at.is_multiple_of(1 << k) && at + (1 << k) <= to)?;
            if !self.holds(k, at, sizes) {
                at += 1 << k;
                continue;
            }
            while k > 0 {
                k -= 1;
                if !self.holds(k, at, sizes) {
                    at += 1 << k;
                }
            }
            return Some(at);
        }
        None
    }

    /// The last place before `to`, from `from` on, with a size from `least` to `most`.
    pub(crate) fn last(&self, from: usize, to: usize, sizes: (u64, u64)) -> Option<usize> {
        let mut end = to.min(self.steps.first().map_or(0, Vec::len));
        while end > from {
            let fits = |k: &usize| end.is_multiple_of(1 << k) && end.checked_sub(1 << k).is_some_and(|at| at >= from);
            let mut k = (0..self.steps.len()).rev().find(fits)?;
            if !self.holds(k, end - (1 << k), sizes) {
                end -= 1 << k;
                continue;
            }
            while k > 0 {
                k -= 1;
                if !self.holds(k, end - (1 << k), sizes) {
                    end -= 1 << k;
                }
            }
            return Some(end - 1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_walk_finds(
            sizes in prop::collection::vec(0u64..40, 0..70), from in 0usize..80, to in 0usize..80, a in 0u64..40, b in 0u64..40,
        ) {
            let ladder = MergeSortTree::new(sizes.clone());
            let fits = |i: &usize| sizes.get(*i).is_some_and(|s| a <= *s && *s <= b);
            prop_assert_eq!(ladder.first(from, to, (a, b)), (from..to).find(fits));
            prop_assert_eq!(ladder.last(from, to, (a, b)), (from..to).rev().find(fits));
        }
    }
}
