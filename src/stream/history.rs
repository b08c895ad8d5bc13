//! The last bytes handed on, kept to compare what is sent again with what was sent first.

use std::collections::VecDeque;

use super::PacketRef;

/// Spans kept at most for each 64 bytes of history: one-byte segments shorten the history, they do not widen it.
const BYTES_A_SPAN: usize = 64;

/// A run of bytes in the ring that one packet carried.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Position in the stream.
    start: u64,
    length: usize,
    packet: PacketRef,
}

/// A bounded ring of bytes and, in parallel, the packets that they came from.
///
/// Invariant: the lengths of the spans add up to the bytes in the ring; spans are in order of position.
#[derive(Debug)]
pub(super) struct History {
    bytes: VecDeque<u8>,
    spans: VecDeque<Span>,
    limit: usize,
}

/// One stretch of a range that was asked for.
pub(super) struct Recent<'a> {
    /// Position of the first byte.
    pub(super) start: u64,
    /// The bytes handed on then; in two parts where the ring wraps.
    pub(super) parts: [&'a [u8]; 2],
    /// Who carried them.
    pub(super) packet: PacketRef,
}

impl History {
    /// Keeps `limit` bytes at most; 0 keeps none. Nothing is allocated before there is something to keep.
    pub(super) fn new(limit: usize) -> Self {
        History { bytes: VecDeque::new(), spans: VecDeque::new(), limit }
    }

    /// Bytes of memory taken.
    pub(super) fn allocated(&self) -> usize {
        self.bytes.capacity().saturating_add(self.spans.capacity().saturating_mul(size_of::<Span>()))
    }

    /// Notes bytes handed on at `start`; positions never go back.
    pub(super) fn record(&mut self, start: u64, bytes: &[u8], packet: PacketRef) {
        let skipped = bytes.len().saturating_sub(self.limit);
        let Some(kept) = bytes.get(skipped..).filter(|kept| !kept.is_empty()) else { return };
        let start = start.saturating_add(skipped as u64);
        self.drop_front(self.bytes.len().saturating_add(kept.len()).saturating_sub(self.limit));
        self.make_room(kept.len());
        self.bytes.extend(kept);
        match self.spans.back_mut() {
            Some(last) if last.packet == packet && last.start.saturating_add(last.length as u64) == start => {
                last.length += kept.len();
            }
            _ => self.spans.push_back(Span { start, length: kept.len(), packet }),
        }
        if self.spans.len() > (self.limit / BYTES_A_SPAN).max(1) {
            let oldest = self.spans.front().map_or(0, |span| span.length);
            self.drop_front(oldest);
        }
    }

    /// Grows by doubling as a `Vec` does, but never beyond the limit.
    fn make_room(&mut self, more: usize) {
        let needed = self.bytes.len().saturating_add(more);
        if needed > self.bytes.capacity() {
            let target = self.bytes.capacity().saturating_mul(2).min(self.limit).max(needed);
            self.bytes.reserve_exact(target.saturating_sub(self.bytes.len()));
        }
    }

    fn drop_front(&mut self, count: usize) {
        let mut count = count.min(self.bytes.len());
        self.bytes.drain(..count);
        while count > 0 {
            let Some(front) = self.spans.front_mut() else { break };
            if front.length > count {
                front.start = front.start.saturating_add(count as u64);
                front.length -= count;
                break;
            }
            count -= front.length;
            self.spans.pop_front();
        }
    }

    /// Calls `each` with what is still known of `start..end`, in order.
    pub(super) fn recent(&self, start: u64, end: u64, mut each: impl FnMut(Recent<'_>)) {
        // Bytes are found from the back: what is sent again was mostly sent just now.
        let (mut index, mut first) = (self.bytes.len(), self.spans.len());
        while let Some(span) = first.checked_sub(1).and_then(|i| self.spans.get(i)) {
            if span.start.saturating_add(span.length as u64) <= start {
                break;
            }
            index = index.saturating_sub(span.length);
            first -= 1;
        }
        for span in self.spans.iter().skip(first) {
            let (from, to) = (span.start.max(start), (span.start + span.length as u64).min(end));
            if span.start >= end {
                break;
            }
            if from < to {
                let at = index + (from - span.start) as usize;
                let parts = self.slices(at, at + (to - from) as usize);
                each(Recent { start: from, parts, packet: span.packet });
            }
            index += span.length;
        }
    }

    fn slices(&self, from: usize, to: usize) -> [&[u8]; 2] {
        let (a, b) = self.bytes.as_slices();
        let cut = |n: usize| n.min(a.len());
        let rest = |n: usize| n.saturating_sub(a.len()).min(b.len());
        [a.get(cut(from)..cut(to)).unwrap_or_default(), b.get(rest(from)..rest(to)).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64) -> PacketRef {
        PacketRef { capture: 0, number }
    }

    fn known(history: &History, start: u64, end: u64) -> Vec<(u64, Vec<u8>, u64)> {
        let mut out = Vec::new();
        history.recent(start, end, |r| out.push((r.start, r.parts.concat(), r.packet.number)));
        out
    }

    #[test]
    fn remembers_the_last_bytes_with_their_packets() {
        let mut history = History::new(256);
        let mut all = Vec::new();
        for i in 0..100u64 {
            let bytes: Vec<u8> = (0..70).map(|b| (b as u64 * 3 + i) as u8).collect();
            history.record(i * 70, &bytes, packet(i));
            all.extend(bytes);
        }
        assert!(history.allocated() <= 256 + 8 * size_of::<Span>());
        let found = known(&history, 0, 7000);
        let total: usize = found.iter().map(|f| f.1.len()).sum();
        assert_eq!(total, 256);
        for (start, bytes, number) in found {
            assert_eq!(bytes, all[start as usize..start as usize + bytes.len()]);
            assert_eq!(number, start / 70);
        }
        assert_eq!(known(&history, 6999, 7100), [(6999, vec![all[6999]], 99)]);
    }

    #[test]
    fn gaps_are_not_known_and_large_pieces_keep_their_tail() {
        let mut history = History::new(128);
        history.record(0, b"abc", packet(1));
        history.record(10, b"xyz", packet(2));
        assert_eq!(known(&history, 2, 11), [(2, b"c".to_vec(), 1), (10, b"x".to_vec(), 2)]);
        history.record(20, &[7; 1000], packet(3));
        assert_eq!(known(&history, 0, 5000), [(20 + 872, vec![7; 128], 3)]);
        let mut none = History::new(0);
        none.record(0, b"abc", packet(1));
        assert_eq!((none.allocated(), known(&none, 0, 9).len()), (0, 0));
    }
}
