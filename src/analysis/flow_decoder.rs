//! A flow that may matter: reassembled, and read in every dialect that may be its own.

use crate::frame::{OuterLayer, Segment};
use crate::protocol::observation::{FlowObservation, Kept, Overlap};
use crate::protocol::seam::{Decoder, Opening, ProtocolSet, SERVER_FIRST_BYTES};
use crate::protocol::{DISSECTORS, recognise};
use crate::stream::{
    Assembler, AssemblerLimits, Chunk, Direction, Event, FlowRecord, HEAD_BYTES, Heads, PacketRef, Piece,
};
use crate::time::Timestamp;

/// Bytes of each stream's beginning that are kept as packets carried them.
const KEPT_BYTES: usize = 4096;
/// Packets of each stream's beginning that are kept.
const KEPT_PIECES: usize = 64;
/// Overlaps with different bytes that are kept a flow; all are counted.
const KEPT_OVERLAPS: usize = 8;

/// Which protocols a flow may speak: those that take it for theirs, and those that need more bytes to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interest {
    pub(crate) sure: ProtocolSet,
    pub(crate) open: ProtocolSet,
}

impl Interest {
    /// From the first segment with payload, on a port that nobody named.
    pub(crate) fn of_first(record: &FlowRecord, segment: &Segment<'_>) -> Interest {
        let of_server = record.direction_known && segment.src != record.client();
        let (client, server) = if of_server { (&[][..], segment.payload) } else { (segment.payload, &[][..]) };
        Interest::of_bytes(record, [client, server], record.direction_known)
    }

    fn of_bytes(record: &FlowRecord, [client, server]: [&[u8]; 2], whole: bool) -> Interest {
        let (sure, open) = recognise(&Opening { client, server, port: record.server().port, whole });
        Interest { sure, open }
    }

    /// Whether nobody wants the flow.
    pub(crate) fn is_none(self) -> bool {
        self.sure.is_empty() && self.open.is_empty()
    }

    fn is_decided(self) -> bool {
        !self.sure.is_empty()
    }
}

/// What one segment did to a tracked flow.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) dismissed: bool,
    /// What further connections of its group begin with, once this segment has told, and whose group it is.
    pub(crate) token: Option<(u64, ProtocolSet)>,
    /// From here on it carries data that is only counted.
    pub(crate) bulk: bool,
    pub(crate) duplicate: bool,
    pub(crate) server_active: bool,
}

/// What two copies of one packet have in common.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Print {
    seq: u32,
    ack: u32,
    length: u32,
    captured: u32,
    ip_id: u32,
    window: u16,
    flags: u8,
}

/// Copies of one packet are seen within this time; a retransmission takes longer (RFC 6298: 200 ms and more).
const COPY_NANOS: i64 = 20_000_000;

/// Tells a packet that was captured twice (another interface of `any`, a mirror port) from a retransmission.
#[derive(Default)]
pub(super) struct Copies {
    recent: [Option<(Print, Timestamp)>; 4],
    at: usize,
}

impl Copies {
    pub(super) fn is_copy(&mut self, segment: &Segment<'_>, time: Timestamp) -> bool {
        let print = Print {
            seq: segment.seq,
            ack: segment.ack,
            length: segment.wire_length,
            // A copy that a smaller snaplen cut earlier is no copy of all of it.
            captured: segment.payload.len() as u32,
            ip_id: segment.ip_id,
            window: segment.window,
            flags: segment.flags.0,
        };
        let near = |t: Timestamp| time.0.abs_diff(t.0) <= COPY_NANOS as u64;
        if self.recent.iter().flatten().any(|(p, t)| *p == print && near(*t)) {
            return true;
        }
        self.recent[self.at] = Some((print, time));
        self.at = (self.at + 1) % self.recent.len();
        false
    }
}

/// The beginning of a stream, as packets carried it.
struct HeadBuffer {
    kept: Vec<Kept>,
    bytes: usize,
    whole: bool,
}

impl HeadBuffer {
    fn keep(&mut self, chunk: &Chunk<'_>) {
        let room = KEPT_BYTES - self.bytes;
        if room == 0 || self.kept.len() >= KEPT_PIECES {
            self.whole = false;
            return;
        }
        self.whole &= chunk.bytes.len() <= room;
        let bytes = chunk.bytes[..chunk.bytes.len().min(room)].to_vec();
        self.bytes += bytes.len();
        self.kept.push(Kept { offset: chunk.offset, time: chunk.time, packet: chunk.packet, bytes });
    }

    /// The bytes from offset 0 up to the first one missing.
    fn head(&self, max: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(max.min(self.bytes));
        for k in &self.kept {
            if k.offset != head.len() as u64 || head.len() >= max {
                break;
            }
            head.extend_from_slice(&k.bytes[..k.bytes.len().min(max - head.len())]);
        }
        head
    }
}

/// One direction of a tracked flow.
struct Side {
    assembler: Assembler,
    keeper: HeadBuffer,
    copies: Copies,
    base: Option<u32>,
}

impl Side {
    fn new(isn: Option<u32>) -> Self {
        let limits = AssemblerLimits { history_bytes: 1 << 10, ..AssemblerLimits::default() };
        let mut assembler = Assembler::new(limits);
        if let Some(isn) = isn {
            assembler.syn(isn);
        }
        Side {
            assembler,
            keeper: HeadBuffer { kept: Vec::new(), bytes: 0, whole: true },
            copies: Copies::default(),
            base: isn.map(|n| n.wrapping_add(1)),
        }
    }
}

/// What was made of a tracked flow so far.
#[derive(Default)]
struct DecodedFlow {
    decoders: Vec<Box<dyn Decoder>>,
    read_by: ProtocolSet,
    gaps: u64,
    gap_bytes: u64,
    overlaps: Vec<Overlap>,
    overlap_count: u64,
}

impl DecodedFlow {
    fn event(&mut self, direction: Direction, event: Event<'_>, keeper: &mut HeadBuffer, time: Timestamp) {
        match event {
            Event::Chunk(chunk) => {
                keeper.keep(&chunk);
                self.decoders.iter_mut().for_each(|d| d.chunk(direction, &chunk));
            }
            Event::Gap { offset, length, .. } => {
                self.gaps += 1;
                self.gap_bytes += length;
                self.decoders.iter_mut().for_each(|d| d.gap(direction, offset, length));
            }
            Event::Conflict(c) => {
                self.overlap_count += 1;
                if self.overlaps.len() < KEPT_OVERLAPS {
                    self.overlaps.push(Overlap {
                        direction,
                        offset: c.offset,
                        first: c.first.to_vec(),
                        second: c.second.to_vec(),
                        packets: [c.packet_first, c.packet_second],
                        time,
                    });
                }
            }
        }
    }
}

/// A flow under reassembly.
pub(crate) struct Tracked {
    pub(crate) flow: u32,
    sides: [Side; 2],
    decided: bool,
    /// Whether its group's token was told, or will not be.
    told: bool,
    heard: DecodedFlow,
    outer: Vec<OuterLayer>,
    midstream: bool,
}

impl Tracked {
    /// What one costs at least, in bytes.
    pub(crate) const BASE_BYTES: usize = 4096;

    pub(crate) fn new(flow: u32, record: &FlowRecord, interest: Interest, segment: &Segment<'_>) -> Self {
        let mut tracked = Tracked {
            flow,
            sides: [Side::new(record.isn(Direction::ToServer)), Side::new(record.isn(Direction::ToClient))],
            decided: false,
            told: false,
            heard: DecodedFlow::default(),
            outer: segment.outer.to_vec(),
            midstream: record.isn(Direction::ToServer).is_none(),
        };
        if interest.is_decided() {
            tracked.decide(interest);
        }
        tracked
    }

    /// From here on it is decoded, from its first byte on: by every protocol that may be its own, where that is not
    /// settled yet.
    fn decide(&mut self, interest: Interest) {
        self.decided = true;
        self.heard.read_by = interest.sure.with(interest.open);
        for (place, dissector) in DISSECTORS.iter().enumerate() {
            if self.heard.read_by.contains(ProtocolSet::only(place)) {
                self.heard.decoders.push(dissector.decoder(self.midstream));
            }
        }
        // What was kept while it was undecided is replayed in the order in which packets came.
        let mut kept: Vec<(Direction, Kept)> = Vec::new();
        for direction in [Direction::ToServer, Direction::ToClient] {
            kept.extend(self.sides[direction.index()].keeper.kept.iter().cloned().map(|k| (direction, k)));
        }
        kept.sort_by_key(|(_, k)| (k.time, k.packet));
        for (direction, k) in &kept {
            let chunk = Chunk { offset: k.offset, time: k.time, packet: k.packet, bytes: &k.bytes };
            self.heard.decoders.iter_mut().for_each(|d| d.chunk(*direction, &chunk));
        }
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.decided
    }

    /// What further connections of its group begin with, once its first bytes say whose it is.
    fn token(&self, record: &FlowRecord) -> Option<(u64, ProtocolSet)> {
        let head = self.sides[0].keeper.head(HEAD_BYTES);
        let sure = Interest::of_bytes(record, [&head, &[]], !self.midstream).sure;
        let places = (0..).map(ProtocolSet::only).zip(DISSECTORS).filter(|(place, _)| sure.contains(*place));
        places.filter_map(|(place, d)| Some((d.group_token(&head)?, place))).next()
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let held = |s: &Side| s.assembler.counters().allocated_bytes as usize + s.keeper.bytes;
        Self::BASE_BYTES + self.sides.iter().map(held).sum::<usize>()
    }

    /// Takes one segment.
    pub(crate) fn segment(
        &mut self,
        record: &FlowRecord,
        segment: &Segment<'_>,
        time: Timestamp,
        packet: PacketRef,
    ) -> Step {
        let direction = if segment.src == record.client() { Direction::ToServer } else { Direction::ToClient };
        let mut step = Step::default();
        let side = &mut self.sides[direction.index()];
        if side.copies.is_copy(segment, time) {
            step.duplicate = true;
            return step;
        }
        if segment.flags.syn() {
            side.assembler.syn(segment.seq);
            side.base = side.base.or(Some(segment.seq.wrapping_add(1)));
        }
        let seq = segment.seq.wrapping_add(u32::from(segment.flags.syn()));
        if segment.wire_length > 0 {
            side.base = side.base.or(Some(seq));
            let piece = Piece { seq, payload: segment.payload, wire_length: segment.wire_length, time, packet };
            let Side { assembler, keeper, .. } = side;
            assembler.push(piece, &mut |event| self.heard.event(direction, event, keeper, time));
            step.server_active = direction == Direction::ToClient;
        }
        if segment.flags.fin() {
            side.assembler.fin(seq.wrapping_add(segment.wire_length));
        }
        step.server_active |= direction == Direction::ToClient && (segment.flags.fin() || segment.flags.rst());
        if segment.flags.ack() {
            self.sides[direction.reverse().index()].assembler.acknowledged(segment.ack);
        }
        if !self.decided {
            step.dismissed = self.settle(record);
        }
        if self.decided && !self.told && direction == Direction::ToServer && segment.wire_length > 0 {
            step.token = self.token(record);
            self.told = step.token.is_some() || record.bytes[0] > HEAD_BYTES as u64;
        }
        let decoders = &self.heard.decoders;
        let enough = !decoders.is_empty() && decoders.iter().all(|d| d.has_enough());
        step.bulk = enough || decoders.iter().any(|d| d.is_done());
        step
    }

    /// Decides an undecided flow if its bytes allow it; whether it is dismissed.
    fn settle(&mut self, record: &FlowRecord) -> bool {
        let heads = [self.sides[0].keeper.head(HEAD_BYTES), self.sides[1].keeper.head(HEAD_BYTES)];
        let interest = Interest::of_bytes(record, [&heads[0], &heads[1]], true);
        if interest.is_decided() {
            self.decide(interest);
            return false;
        }
        let enough = record.bytes[0] > 4 * HEAD_BYTES as u64 || record.bytes[1] > SERVER_FIRST_BYTES as u64;
        interest.is_none() || enough
    }

    /// The first bytes each way, for a record.
    pub(crate) fn heads(&self) -> Heads {
        let first = |k: &HeadBuffer| k.kept.first().map(|k| (k.packet, k.time));
        Heads {
            bytes: [self.sides[0].keeper.head(HEAD_BYTES), self.sides[1].keeper.head(HEAD_BYTES)],
            first: [first(&self.sides[0].keeper), first(&self.sides[1].keeper)],
        }
    }

    /// Ends both streams. Counts of a flow that ended early are taken from its record.
    pub(crate) fn finish(mut self, record: FlowRecord, set: u32) -> FlowObservation {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let Side { assembler, keeper, .. } = &mut self.sides[direction.index()];
            assembler.finish(&mut |event| self.heard.event(direction, event, keeper, record.last));
        }
        let DecodedFlow { decoders, read_by, gaps, gap_bytes, overlaps, overlap_count } = self.heard;
        let [mut a, mut b] = self.sides;
        a.keeper.kept.shrink_to_fit();
        b.keeper.kept.shrink_to_fit();
        FlowObservation {
            record,
            set,
            kept_whole: [a.keeper.whole, b.keeper.whole],
            kept: [a.keeper.kept, b.keeper.kept],
            base: [a.base, b.base],
            read_by,
            decoded: decoders.into_iter().map(|d| d.end()).collect(),
            gaps,
            gap_bytes,
            overlaps,
            overlap_count,
            outer: self.outer,
        }
    }
}
