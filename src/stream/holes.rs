//! What came before its time: bytes held until the hole in front of them is filled or given up.

use std::collections::BTreeMap;

use super::PacketRef;
use crate::time::Timestamp;

/// Bytes of one packet, or of the part of it that filled a hole.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Box<[u8]>,
    pub(super) time: Timestamp,
    pub(super) packet: PacketRef,
}

/// Disjoint pieces by position.
///
/// Invariants: pieces are not empty and do not overlap; `runs` is the number of maximal sequences of pieces that touch,
/// which is the number of holes in front of them; `held` is the sum of their lengths.
#[derive(Debug, Default)]
pub(super) struct Holes {
    pieces: BTreeMap<u64, Held>,
    runs: usize,
    held: usize,
}

impl Holes {
    /// What one piece costs beside its bytes, in bytes: its share of a tree node that is half full, and the
    /// allocator's rounding. It keeps streams of one-byte segments from costing a hundred times what is counted.
    pub(super) const COST: usize = 128;

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Holes in front of what is held.
    pub(super) fn count(&self) -> usize {
        self.runs
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Bytes of memory taken by what is held.
    pub(super) fn allocated(&self) -> usize {
        self.held.saturating_add(self.pieces.len().saturating_mul(Self::COST))
    }

    /// Position of the first byte held.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        self.pieces.first_key_value().map(|(start, _)| *start)
    }

    /// When the first piece held was seen.
    pub(super) fn first_time(&self) -> Option<Timestamp> {
        self.pieces.first_key_value().map(|(_, held)| held.time)
    }

    /// The piece that covers `position`, and where it starts.
    pub(super) fn covering(&self, position: u64) -> Option<(u64, &Held)> {
        let (start, held) = self.pieces.range(..=position).next_back()?;
        (end_of(*start, held) > position).then_some((*start, held))
    }

    /// Start of the first piece after `position`.
    pub(super) fn next_after(&self, position: u64) -> Option<u64> {
        self.pieces.range(position..).next().map(|(start, _)| *start)
    }

    /// Holds `bytes` at `start`. The caller has made sure that nothing is held there.
    pub(super) fn insert(&mut self, start: u64, bytes: &[u8], time: Timestamp, packet: PacketRef) {
        if bytes.is_empty() {
            return;
        }
        let end = start.saturating_add(bytes.len() as u64);
        let joins_left = self.pieces.range(..start).next_back().is_some_and(|(s, h)| end_of(*s, h) == start);
        let joins_right = self.pieces.contains_key(&end);
        match (joins_left, joins_right) {
            (false, false) => self.runs += 1,
            (true, true) => self.runs = self.runs.saturating_sub(1),
            _ => {}
        }
        self.held = self.held.saturating_add(bytes.len());
        self.pieces.insert(start, Held { bytes: bytes.into(), time, packet });
    }

    /// Takes the piece that starts at `position`, when there is one. Pieces are taken from the front only.
    pub(super) fn take(&mut self, position: u64) -> Option<Held> {
        let entry = self.pieces.first_entry().filter(|e| *e.key() == position)?;
        let held = entry.remove();
        self.held = self.held.saturating_sub(held.bytes.len());
        if self.first() != Some(end_of(position, &held)) {
            self.runs = self.runs.saturating_sub(1);
        }
        Some(held)
    }

    /// Drops what lies before `position`, and says how many bytes that were.
    pub(super) fn drop_before(&mut self, position: u64) -> u64 {
        let mut dropped = 0;
        while let Some(start) = self.first().filter(|start| *start < position) {
            let Some(held) = self.take(start) else { break };
            let before = usize::try_from(position - start).unwrap_or(usize::MAX).min(held.bytes.len());
            dropped += before as u64;
            if let Some(rest) = held.bytes.get(before..) {
                self.insert(position, rest, held.time, held.packet);
            }
        }
        dropped
    }
}

fn end_of(start: u64, held: &Held) -> u64 {
    start.saturating_add(held.bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(holes: &mut Holes, start: u64, bytes: &[u8]) {
        holes.insert(start, bytes, Timestamp(0), PacketRef::default());
    }

    #[test]
    fn counts_holes_and_bytes() {
        let mut holes = Holes::default();
        hold(&mut holes, 10, b"ab");
        hold(&mut holes, 14, b"ef");
        assert_eq!((holes.count(), holes.held()), (2, 4));
        hold(&mut holes, 12, b"cd");
        assert_eq!((holes.count(), holes.held(), holes.allocated()), (1, 6, 6 + 3 * Holes::COST));
        assert_eq!(holes.covering(13).map(|(s, _)| s), Some(12));
        assert!(holes.covering(16).is_none() && holes.take(12).is_none());
        assert_eq!(holes.take(10).map(|h| h.bytes.to_vec()), Some(b"ab".to_vec()));
        assert_eq!(holes.count(), 1);
        assert!(holes.take(12).is_some() && holes.take(14).is_some());
        assert_eq!((holes.count(), holes.allocated()), (0, 0));
    }

    #[test]
    fn drops_the_front() {
        let mut holes = Holes::default();
        hold(&mut holes, 10, b"abcd");
        hold(&mut holes, 20, b"x");
        assert_eq!(holes.drop_before(12), 2);
        assert_eq!((holes.first(), holes.count(), holes.held()), (Some(12), 2, 3));
        assert_eq!(holes.drop_before(30), 3);
        assert!(holes.is_empty() && holes.count() == 0);
    }
}
