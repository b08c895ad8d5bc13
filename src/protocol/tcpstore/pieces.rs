//! A short run of stream bytes that still know their packets, kept until it is clear what they are.

use crate::stream::{Chunk, PacketRef};
use crate::time::Timestamp;

/// Bytes in order, from `offset` on, each with the packet that carried it.
#[derive(Default, Debug)]
pub(super) struct Pieces {
    offset: u64,
    bytes: Vec<u8>,
    /// For each packet: the index behind its last byte.
    marks: Vec<(usize, PacketRef, Timestamp)>,
}

impl Pieces {
    /// Appends bytes that follow those already held.
    pub(super) fn push(&mut self, offset: u64, bytes: &[u8], packet: PacketRef, time: Timestamp) {
        if self.bytes.is_empty() {
            self.offset = offset;
        }
        self.bytes.extend_from_slice(bytes);
        match self.marks.last_mut() {
            Some((end, p, t)) if *p == packet && *t == time => *end = self.bytes.len(),
            _ => self.marks.push((self.bytes.len(), packet, time)),
        }
    }

    /// Forgets the first `n` bytes.
    pub(super) fn drop_front(&mut self, n: usize) {
        let n = n.min(self.bytes.len());
        self.bytes.drain(..n);
        self.offset += n as u64;
        self.marks.retain(|(end, ..)| *end > n);
        for (end, ..) in &mut self.marks {
            *end -= n;
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Pieces::default();
    }

    /// Whether `packet` carried the last byte.
    pub(super) fn ends_in(&self, packet: PacketRef) -> bool {
        self.marks.last().is_some_and(|(_, p, _)| *p == packet)
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Offset in the stream of the first byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// One chunk a packet.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        let mut start = 0;
        self.marks.iter().filter_map(move |(end, packet, time)| {
            let bytes = self.bytes.get(start..*end)?;
            let offset = self.offset + start as u64;
            start = *end;
            (!bytes.is_empty()).then_some(Chunk { offset, time: *time, packet: *packet, bytes })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_packets() {
        let packet = |number| PacketRef { capture: 0, number };
        let mut p = Pieces::default();
        p.push(10, b"ab", packet(1), Timestamp(1));
        p.push(12, b"cd", packet(2), Timestamp(2));
        p.drop_front(1);
        let got: Vec<_> = p.chunks().map(|c| (c.offset, c.packet.number, c.bytes.to_vec())).collect();
        assert_eq!(got, [(11, 1, b"b".to_vec()), (12, 2, b"cd".to_vec())]);
        p.drop_front(1);
        assert_eq!((p.offset(), p.chunks().count()), (12, 1));
    }
}
