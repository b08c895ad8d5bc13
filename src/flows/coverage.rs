//! Which bytes of a stream messages account for.

use std::collections::VecDeque;

/// Ranges that are kept of each kind; beyond that they are joined.
const MAX_RANGES: usize = 4096;

/// The captured bytes of one stream that no message accounts for. Messages come in order of their offsets.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// Bytes before the first message do not count: the stream was joined in the middle.
    midstream: bool,
    begun: bool,
    /// Captured and not yet accounted for, `from..to`, ascending.
    open: VecDeque<(u64, u64)>,
    left: Vec<(u64, u64)>,
}

impl Coverage {
    pub(super) fn new(midstream: bool) -> Self {
        Coverage { midstream, ..Coverage::default() }
    }

    /// `length` bytes from `offset` on were captured.
    pub(super) fn captured(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        match self.open.back_mut() {
            Some((_, to)) if *to >= offset => *to = end.max(*to),
            _ => self.open.push_back((offset, end)),
        }
        if self.open.len() > MAX_RANGES
            && let Some((from, to)) = self.open.pop_front()
        {
            self.leave(from, to);
        }
    }

    /// A message accounts for `length` bytes from `offset` on, captured or not.
    pub(super) fn message(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        while let Some((from, to)) = self.open.front().copied().filter(|(from, _)| *from < end) {
            self.open.pop_front();
            if from < offset {
                self.leave(from, to.min(offset));
            }
            if to > end {
                self.open.push_front((end, to));
            }
        }
        self.begun = true;
    }

    fn leave(&mut self, from: u64, to: u64) {
        if self.midstream && !self.begun {
            return;
        }
        let full = self.left.len() >= MAX_RANGES;
        match self.left.last_mut() {
            Some((_, end)) if *end == from || full => *end = to,
            _ => self.left.push((from, to)),
        }
    }

    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        (self.open.capacity() + self.left.capacity()) * 16
    }

    /// At the end of the stream: what is left, as offset and length.
    pub(super) fn finish(mut self) -> Vec<(u64, u64)> {
        for (from, to) in std::mem::take(&mut self.open) {
            self.leave(from, to);
        }
        self.left.into_iter().map(|(from, to)| (from, to - from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_behind_and_before_messages_is_left() {
        let mut c = Coverage::new(false);
        c.captured(0, 10);
        c.captured(10, 10);
        // 20..30 is a gap, inside a message.
        c.captured(30, 20);
        c.message(5, 5);
        c.message(12, 20);
        c.message(40, 5);
        assert_eq!(c.finish(), [(0, 5), (10, 2), (32, 8), (45, 5)]);
    }

    #[test]
    fn a_stream_joined_in_the_middle_counts_from_its_first_message() {
        let mut c = Coverage::new(true);
        c.captured(0, 10);
        c.message(4, 2);
        assert_eq!(c.finish(), [(6, 4)]);
        let mut c = Coverage::new(true);
        c.captured(0, 10);
        assert_eq!(c.finish(), []);
    }

    #[test]
    fn memory_is_bounded() {
        let mut c = Coverage::new(false);
        for i in 0..20_000 {
            c.captured(i * 10, 5);
        }
        assert!(c.bytes() < 1 << 20);
        assert!(c.finish().len() <= MAX_RANGES);
    }
}
