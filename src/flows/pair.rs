//! A connection between two ranks of Gloo, as messages: one record a direction.

use super::other_protocols::{BULK, OtherProtocols};
use crate::protocol::gloo::{FirstBytes, HEAD_BYTES, first_bytes};
use crate::stream::{Chunk, Direction, PacketRef};
use crate::time::Timestamp;

/// One connection to an endpoint that a store has named as a pair's.
#[derive(Default)]
pub(super) struct Pair {
    midstream: bool,
    heads: [Vec<u8>; 2],
    ends: [u64; 2],
    last: [(Timestamp, PacketRef); 2],
}

impl Pair {
    pub(super) fn new(midstream: bool) -> Self {
        Pair { midstream, ..Pair::default() }
    }

    pub(super) fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        let i = direction.index();
        let head = &mut self.heads[i];
        if head.len() as u64 == chunk.offset {
            let room = HEAD_BYTES.saturating_sub(head.len());
            head.extend_from_slice(chunk.bytes.get(..room).unwrap_or(chunk.bytes));
        }
        self.last[i] = (chunk.time, chunk.packet);
        self.ends[i] = chunk.offset.saturating_add(chunk.bytes.len() as u64);
    }

    /// At the end. Nothing, where it was somebody else's connection.
    pub(super) fn end(self) -> Vec<OtherProtocols> {
        let [client, server] = &self.heads;
        if !self.midstream && first_bytes(client, server) != FirstBytes::Pair {
            return Vec::new();
        }
        let told = |direction: Direction| {
            let i = direction.index();
            let (time, packet) = self.last[i];
            let length = self.ends[i];
            (length > 0).then(|| OtherProtocols {
                direction,
                offset: 0,
                length,
                time,
                packet,
                query: BULK,
                detail: String::new(),
                number: None,
                bytes: Some(length),
                unfinished: None,
                fields: Vec::new(),
            })
        };
        [Direction::ToServer, Direction::ToClient].into_iter().filter_map(told).collect()
    }
}
