//! Shared by the tests of this room: captures turned into connections by the crate's own rooms.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Decoding, Facts};
use super::{Event, Framing};
use crate::capture::{Limits, Reader};
use crate::frame::{Decoder, Frame};
use crate::stream::{
    Assembler, AssemblerLimits, Chunk, Direction, Event as Stream, FlowRecord, FlowTable, PacketRef, Piece, PortSet,
};
use crate::time::Timestamp;

/// One delivered chunk.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) direction: Direction,
    pub(super) offset: u64,
    pub(super) time: Timestamp,
    pub(super) packet: PacketRef,
    pub(super) bytes: Vec<u8>,
}

/// One connection of a capture.
pub(super) struct Seen {
    pub(super) record: FlowRecord,
    pub(super) held: Vec<Held>,
    pub(super) facts: Facts,
    /// The last packet of the capture.
    pub(super) until: Timestamp,
}

impl Seen {
    pub(super) fn flow(&self) -> super::Flow<'_> {
        super::Flow { record: &self.record, facts: (!self.held.is_empty()).then_some(&self.facts), until: self.until }
    }
}

/// Below `testdata`, unless the name is absolute.
pub(super) fn path(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

pub(super) fn decoding(held: &[Held], framing: Framing, bytewise: bool) -> Facts {
    let mut d = Decoding::new(framing, false);
    feed(held, bytewise, |direction, chunk| d.chunk(direction, chunk));
    d.end()
}

pub(super) fn events(held: &[Held], bytewise: bool) -> Vec<Event> {
    let mut events = Vec::new();
    let mut c = super::NcclConnection::new(Framing::Auto);
    feed(held, bytewise, |direction, chunk| match direction {
        Direction::ToServer => c.client(chunk, &mut |e| events.push(e)),
        Direction::ToClient => c.server(chunk, &mut |e| events.push(e)),
    });
    c.end(Direction::ToServer, &mut |e| events.push(e));
    c.end(Direction::ToClient, &mut |e| events.push(e));
    events
}

fn feed(held: &[Held], bytewise: bool, mut take: impl FnMut(Direction, &Chunk<'_>)) {
    for h in held {
        for (i, bytes) in h.bytes.chunks(if bytewise { 1 } else { usize::MAX }).enumerate() {
            let offset = h.offset + i as u64;
            take(h.direction, &Chunk { offset, time: h.time, packet: h.packet, bytes });
        }
    }
}

/// Every connection of a capture, in order of arrival.
pub(super) fn capture(name: &str) -> Vec<Seen> {
    let mut reader = Reader::open(&path(name), &Limits::default()).unwrap();
    let mut decoder = Decoder::new(Default::default());
    let mut table = FlowTable::new(100_000, PortSet::default());
    let mut sides: BTreeMap<u32, [Assembler; 2]> = BTreeMap::new();
    let mut held: BTreeMap<u32, Vec<Held>> = BTreeMap::new();
    let mut until = Timestamp::MIN;
    while let Some(packet) = reader.next().unwrap() {
        let (time, at) = (packet.time, PacketRef { capture: 0, number: packet.number });
        let Frame::Tcp(segment) = decoder.decode(&packet) else { continue };
        until = until.max(time);
        let found = table.observe(&segment, time, at);
        let sides = sides.entry(found.flow).or_insert_with(|| {
            [Assembler::new(AssemblerLimits::default()), Assembler::new(AssemblerLimits::default())]
        });
        let held = held.entry(found.flow).or_default();
        let i = found.direction.index();
        let mut note = |e: Stream<'_>| {
            if let Stream::Chunk(c) = e {
                let (offset, bytes) = (c.offset, c.bytes.to_vec());
                held.push(Held { direction: found.direction, offset, time: c.time, packet: c.packet, bytes });
            }
        };
        if segment.flags.syn() {
            sides[i].syn(segment.seq);
        }
        let seq = segment.seq.wrapping_add(u32::from(segment.flags.syn()));
        if segment.wire_length > 0 {
            let piece = Piece { seq, payload: segment.payload, wire_length: segment.wire_length, time, packet: at };
            sides[i].push(piece, &mut note);
        }
        if segment.flags.fin() {
            sides[i].fin(seq.wrapping_add(segment.wire_length));
        }
    }
    let records = table.into_records();
    records
        .into_iter()
        .enumerate()
        .map(|(i, record)| {
            let held = held.remove(&(i as u32)).unwrap_or_default();
            let facts = decoding(&held, Framing::Auto, false);
            Seen { record, held, facts, until }
        })
        .collect()
}

/// The recorded truth of `nccl/`.
pub(super) fn truth(name: &str) -> serde_json::Value {
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(path("nccl/truth.json")).unwrap()).unwrap();
    all[name].clone()
}

/// Endpoints of a truth entry's lists, as `address:port`.
pub(super) fn truth_listeners(truth: &serde_json::Value) -> BTreeSet<String> {
    let lists = truth["during"]["listeners"].as_object().into_iter().flat_map(|o| o.values());
    lists
        .flat_map(|l| l.as_array().cloned().unwrap_or_default())
        .filter_map(|l| l[0].as_str().map(str::to_string))
        .collect()
}
