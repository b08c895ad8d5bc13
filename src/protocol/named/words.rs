//! The first bytes of both sides of a connection.

use std::sync::Arc;

use super::super::seam::{Decoded, Decoder};
use super::Speech;
use crate::stream::{Chunk, Direction, PacketRef};
use crate::time::Timestamp;

/// Bytes that are kept of each side, and after how many in all no more is read.
const KEPT: [usize; 2] = [512, 256];
const ENOUGH: u64 = 4096;

/// What both sides began with. Bounded.
#[derive(Clone, Debug, Default)]
pub struct Words {
    heads: [Vec<u8>; 2],
    first: [Option<(Timestamp, PacketRef)>; 2],
}

impl Words {
    pub(super) fn speech(&self, port: u16) -> Speech<'_> {
        Speech { client: &self.heads[0], server: &self.heads[1], port }
    }

    pub(super) fn client(&self) -> &[u8] {
        &self.heads[0]
    }

    /// The packet with the listener's first bytes, else with the client's.
    pub(super) fn packet(&self) -> Option<PacketRef> {
        self.first[1].or(self.first[0]).map(|(_, packet)| packet)
    }

    /// When the client's first bytes came, and in which packet.
    pub(super) fn first_client(&self) -> Option<(Timestamp, PacketRef)> {
        self.first[0]
    }
}

/// Keeps them.
#[derive(Default)]
pub(super) struct Listening {
    words: Words,
    bytes: u64,
}

impl Decoder for Listening {
    fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        let i = direction.index();
        self.bytes = self.bytes.saturating_add(chunk.bytes.len() as u64);
        self.words.first[i].get_or_insert((chunk.time, chunk.packet));
        let head = &mut self.words.heads[i];
        if head.len() as u64 == chunk.offset {
            let room = KEPT[i].saturating_sub(head.len());
            head.extend_from_slice(chunk.bytes.get(..room).unwrap_or(chunk.bytes));
        }
    }

    fn gap(&mut self, _direction: Direction, _offset: u64, length: u64) {
        self.bytes = self.bytes.saturating_add(length);
    }

    fn has_enough(&self) -> bool {
        self.bytes > ENOUGH
    }

    fn end(self: Box<Self>) -> Arc<dyn Decoded> {
        super::finished(self.words)
    }
}
