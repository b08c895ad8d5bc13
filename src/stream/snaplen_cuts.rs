//! Ranges of a stream that a packet carried and the capture's snaplen cut off.

use std::collections::BTreeMap;

/// Disjoint ranges of positions, merged where they touch. At most `most` of them are kept.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// Start to end (exclusive).
    ranges: BTreeMap<u64, u64>,
}

impl Cuts {
    /// What one range costs in memory, bytes: its share of a tree node.
    pub(super) const COST: usize = 40;

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The lowest position cut.
    pub(super) fn first(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(start, _)| *start)
    }

    /// The end of the highest range.
    pub(super) fn end(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, end)| *end)
    }

    /// Adds `start..end`. False when it touches no other range and there are already `most`: it is then forgotten.
    /// Logarithmic, apart from the ranges it swallows, each of which was paid for when it came.
    pub(super) fn insert(&mut self, mut start: u64, mut end: u64, most: usize) -> bool {
        if start >= end {
            return true;
        }
        let mut merged = false;
        while let Some((&s, &e)) = self.ranges.range(..=end).next_back() {
            if e < start {
                break;
            }
            self.ranges.remove(&s);
            start = start.min(s);
            end = end.max(e);
            merged = true;
        }
        if !merged && self.ranges.len() >= most {
            return false;
        }
        self.ranges.insert(start, end);
        true
    }

    /// From `at` on and before `limit`: up to where, and whether all of that was cut or none of it.
    pub(super) fn run(&self, at: u64, limit: u64) -> (u64, bool) {
        if let Some((_, &end)) = self.ranges.range(..=at).next_back()
            && end > at
        {
            return (end.min(limit), true);
        }
        match self.ranges.range(at..).next() {
            Some((&start, _)) if start < limit => (start, false),
            _ => (limit, false),
        }
    }

    /// Forgets what lies wholly before `position`.
    pub(super) fn forget_before(&mut self, position: u64) {
        while let Some(entry) = self.ranges.first_entry() {
            if *entry.get() > position {
                break;
            }
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_what_touches_and_tells_runs() {
        let mut cuts = Cuts::default();
        assert!(cuts.insert(10, 20, 3) && cuts.insert(30, 40, 3) && cuts.insert(50, 60, 3));
        assert!(!cuts.insert(70, 80, 3));
        assert!(cuts.insert(20, 30, 3));
        assert_eq!((cuts.len(), cuts.first(), cuts.end()), (2, Some(10), Some(60)));
        assert_eq!(cuts.run(0, 100), (10, false));
        assert_eq!(cuts.run(10, 100), (40, true));
        assert_eq!(cuts.run(15, 17), (17, true));
        assert_eq!(cuts.run(40, 100), (50, false));
        assert_eq!(cuts.run(60, 100), (100, false));
        cuts.forget_before(40);
        assert_eq!(cuts.first(), Some(50));
    }
}
