//! What reassembly hands on: ordered bytes that still know their packet.

use crate::time::Timestamp;

/// One packet of one capture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PacketRef {
    /// Index of the capture in the analysis' list of captures.
    pub capture: u32,
    /// Number of the packet in that capture, from 1.
    pub number: u64,
}

/// A [`PacketRef`] in eight bytes, for records of which there are millions: 24 bits of the capture's index and 40 of the
/// packet's number. A reference that does not fit is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompactRef(u64);

impl CompactRef {
    const NUMBER_BITS: u32 = 40;

    /// Whether a packet is named.
    pub(crate) fn is_set(self) -> bool {
        self.0 != 0
    }
}

impl From<PacketRef> for CompactRef {
    fn from(p: PacketRef) -> Self {
        let fits = p.capture >> (u64::BITS - Self::NUMBER_BITS) == 0 && p.number >> Self::NUMBER_BITS == 0;
        CompactRef(if fits { u64::from(p.capture) << Self::NUMBER_BITS | p.number } else { 0 })
    }
}

impl From<CompactRef> for PacketRef {
    fn from(c: CompactRef) -> Self {
        let number = c.0 & ((1 << CompactRef::NUMBER_BITS) - 1);
        PacketRef { capture: (c.0 >> CompactRef::NUMBER_BITS) as u32, number }
    }
}

/// Bytes of a stream in order, as one packet carried them. Segment boundaries are kept:
/// some servers behave differently when a request arrives in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Offset of the first byte in its stream; 0 is the byte after the SYN, or the first byte seen.
    pub offset: u64,
    /// When the packet was seen.
    pub time: Timestamp,
    /// The packet that carried the bytes.
    pub packet: PacketRef,
    /// The bytes, never empty.
    pub bytes: &'a [u8],
}
