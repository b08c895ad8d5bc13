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
