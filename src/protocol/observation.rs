//! What was seen of one flow: facts, from which everything else is computed.

use std::any::Any;
use std::sync::Arc;

use super::seam::{Decoded, ProtocolSet};
use crate::net::Endpoint;
use crate::stream::{Direction, FlowRecord, PacketRef, Refused, StreamCounters};
use crate::time::Timestamp;

/// Bytes and the packet that carried them, kept from the beginning of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Offset of the first byte in its stream.
    pub offset: u64,
    /// When the packet was seen.
    pub time: Timestamp,
    /// The packet.
    pub packet: PacketRef,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Two readings of the same bytes of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Which stream.
    pub direction: Direction,
    /// Offset of the first byte that differs.
    pub offset: u64,
    /// What came first.
    pub first: Vec<u8>,
    /// What came second.
    pub second: Vec<u8>,
    /// The packets that carried them.
    pub packets: [PacketRef; 2],
    /// When the second one was seen.
    pub time: Timestamp,
}

/// One flow as one capture set saw it.
#[derive(Clone, Debug)]
pub struct FlowObservation {
    /// The compact record.
    pub record: FlowRecord,
    /// The capture set it was seen in.
    pub set: u32,
    /// Beginnings of both streams, `[to server, to client]`, as packets carried them; bounded.
    pub kept: [Vec<Kept>; 2],
    /// Whether `kept` holds all that was delivered of that stream.
    pub kept_whole: [bool; 2],
    /// Sequence number of offset 0 of each stream.
    pub base: [Option<u32>; 2],
    /// How many bytes of each stream its receiver acknowledged; `None` where the capture holds no acknowledgement.
    pub acknowledged: [Option<u64>; 2],
    /// What was counted of each stream.
    pub counters: [StreamCounters; 2],
    /// Segments that their receivers refused; the first few.
    pub refused: Vec<Refused>,
    /// The protocols whose decoders read it.
    pub read_by: ProtocolSet,
    /// What they make of it.
    pub decoded: Vec<Arc<dyn Decoded>>,
    /// How many gaps both streams have.
    pub gaps: u64,
    /// Places where overlapping segments differ; bounded.
    pub overlaps: Vec<Overlap>,
    /// How many there were.
    pub overlap_count: u64,
    /// The encapsulations it arrived in, outermost first.
    pub outer: Vec<crate::frame::OuterLayer>,
}

impl FlowObservation {
    /// The side that opened the connection.
    pub fn client(&self) -> Endpoint {
        self.record.client()
    }

    /// The listener.
    pub fn server(&self) -> Endpoint {
        self.record.server()
    }

    /// What the decoder whose facts are of this type makes of it; `None` when it was not tried.
    pub fn decoded<T: Decoded>(&self) -> Option<&T> {
        self.decoded.iter().find_map(|d| (&**d as &dyn Any).downcast_ref())
    }

    /// What its record says now, of a connection that was read no further and only counted since.
    pub fn count_again(&mut self, record: &FlowRecord) {
        self.record = record.clone();
        self.decoded.iter_mut().filter_map(Arc::get_mut).for_each(|d| d.count(record.bytes));
    }

    /// How the connection ended: the server closed at once or later, the client did, or nobody.
    pub fn ending(&self) -> u8 {
        let after = |t: Timestamp| self.last_client_byte().map_or(0.0, |last| t.seconds_since(last));
        let (server, client) = (self.record.server_closed(), self.record.client_closed());
        match (server, client) {
            (Some(s), c) if c.is_none_or(|c| s <= c) => 1 + u8::from(after(s) > 0.25) + u8::from(after(s) > 0.85),
            (_, Some(c)) => 4 + u8::from(after(c) > 0.85),
            _ => 6 + u8::from(self.record.rst[Direction::ToServer.index()].get().is_some()),
        }
    }

    /// The first kept bytes of a stream, at most `max`, as long as no byte is missing between them.
    pub fn head(&self, direction: Direction, max: usize) -> Vec<u8> {
        self.bytes_from(direction, 0, max)
    }

    /// Kept bytes of a stream from `offset` on, at most `max`, up to the first byte missing.
    pub fn bytes_from(&self, direction: Direction, offset: u64, max: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = offset;
        for k in &self.kept[direction.index()] {
            let end = k.offset + k.bytes.len() as u64;
            if end <= at {
                continue;
            }
            if k.offset > at || out.len() >= max {
                break;
            }
            let fresh = k.bytes.get((at - k.offset) as usize..).unwrap_or_default();
            out.extend_from_slice(&fresh[..fresh.len().min(max - out.len())]);
            at = end;
        }
        out
    }

    /// The packet that carried the byte at `offset`, where it was kept.
    pub fn packet_at(&self, direction: Direction, offset: u64) -> Option<&Kept> {
        self.kept[direction.index()].iter().find(|k| k.offset <= offset && offset < k.offset + k.bytes.len() as u64)
    }

    /// Absolute sequence number of the byte at `offset`; `offset` itself where no sequence number is known.
    pub fn sequence(&self, direction: Direction, offset: u64) -> u32 {
        self.base[direction.index()].unwrap_or(0).wrapping_add(offset as u32)
    }

    /// Time of the client's last kept byte.
    pub fn last_client_byte(&self) -> Option<Timestamp> {
        self.kept[0].last().map(|k| k.time)
    }
}
