//! A flow that may matter: reassembled, and read in every dialect that may be its own.

use crate::frame::{OuterLayer, Segment};
use crate::protocol::nccl;
use crate::protocol::observation::{FlowObservation, Kept, Overlap};
use crate::protocol::tcpstore::{Candidates, Decoding, Dialect, Facts, first_bytes};
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
/// An undecided flow whose listener sent this much first is nobody's store.
const SERVER_FIRST_BYTES: usize = 64;

/// Whether a flow is a protocol's, as far as its bytes tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    /// It is not.
    No,
    /// More bytes will tell.
    Undecided,
    /// It is, or may be and somebody wants to know.
    Yes,
}

impl From<bool> for Match {
    fn from(yes: bool) -> Self {
        if yes { Match::Yes } else { Match::No }
    }
}

/// Which protocols a flow may speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interest {
    /// TCPStore.
    pub(crate) store: Match,
    /// NCCL's out-of-band protocol.
    pub(crate) nccl: Match,
}

impl Interest {
    /// From the client's first bytes. `midstream`: they need not be the first.
    fn of_bytes(bytes: &[u8], midstream: bool) -> Interest {
        let settle = |m: Match| if midstream && m == Match::Undecided { Match::No } else { m };
        let store = match first_bytes(bytes) {
            Candidates::No => Match::No,
            Candidates::NotEnoughBytes => Match::Undecided,
            Candidates::Store { .. } => Match::Yes,
        };
        let nccl = match nccl::first_bytes(bytes) {
            nccl::FirstBytes::No => Match::No,
            nccl::FirstBytes::NotEnoughBytes => Match::Undecided,
            nccl::FirstBytes::Nccl { .. } => Match::Yes,
        };
        Interest { store: settle(store), nccl: settle(nccl) }
    }

    /// From the first segment with payload, on a port that nobody named.
    pub(crate) fn of_first(record: &FlowRecord, segment: &Segment<'_>) -> Interest {
        let from_client = segment.src == record.client();
        if record.direction_known && !from_client {
            // The listener speaks first: neither protocol does, but the client's bytes may merely be late.
            let late = if segment.payload.len() > SERVER_FIRST_BYTES { Match::No } else { Match::Undecided };
            return Interest { store: late, nccl: late };
        }
        Interest::of_bytes(segment.payload, !record.direction_known)
    }

    /// The magic of a communicator that these first bytes of a client begin with, where they are NCCL's for certain or
    /// by their shape. It is random, so connections that begin with it are that communicator's.
    fn magic(self, client: &[u8]) -> Option<u64> {
        let magic = u64::from_le_bytes(client.get(..8)?.try_into().ok()?);
        let bare = magic as u32 <= 0xffff || magic == nccl::SOCKET_MAGIC;
        (self.nccl == Match::Yes && !bare).then_some(magic)
    }

    /// This, where it says anything, else what `other` says.
    pub(crate) fn or(self, other: impl FnOnce() -> Interest) -> Interest {
        if self.is_none() { other() } else { self }
    }

    /// Whether nobody wants the flow.
    pub(crate) fn is_none(self) -> bool {
        self.store == Match::No && self.nccl == Match::No
    }

    fn is_decided(self) -> bool {
        self.store == Match::Yes || self.nccl == Match::Yes
    }
}

/// What one segment did to a tracked flow.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) dismissed: bool,
    /// The magic of the communicator that it is known to belong to since this segment.
    pub(crate) magic: Option<u64>,
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
    readings: Vec<Decoding>,
    nccl: Option<Box<nccl::Decoding>>,
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
                for reading in &mut self.readings {
                    reading.chunk(direction, &chunk);
                }
                if let Some(nccl) = &mut self.nccl {
                    nccl.chunk(direction, &chunk);
                }
            }
            Event::Gap { offset, length, .. } => {
                self.gaps += 1;
                self.gap_bytes += length;
                for reading in &mut self.readings {
                    reading.gap(direction, offset, length);
                }
                if let Some(nccl) = &mut self.nccl {
                    nccl.gap(direction, offset, length);
                }
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
    /// Whether its magic was told, or will not be.
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

    /// From here on it is decoded, from its first byte on: in every dialect of a store, as NCCL's, or both where that
    /// is not settled yet.
    fn decide(&mut self, interest: Interest) {
        self.decided = true;
        if interest.store != Match::No {
            self.heard.readings = Dialect::ALL.iter().map(|d| Decoding::new(*d, self.midstream)).collect();
        }
        if interest.nccl != Match::No {
            self.heard.nccl = Some(Box::new(nccl::Decoding::new(nccl::Framing::Auto, self.midstream)));
        }
        // What was kept while it was undecided is replayed in the order in which packets came.
        let mut kept: Vec<(Direction, Kept)> = Vec::new();
        for direction in [Direction::ToServer, Direction::ToClient] {
            kept.extend(self.sides[direction.index()].keeper.kept.iter().cloned().map(|k| (direction, k)));
        }
        kept.sort_by_key(|(_, k)| (k.time, k.packet));
        for (direction, k) in &kept {
            let chunk = Chunk { offset: k.offset, time: k.time, packet: k.packet, bytes: &k.bytes };
            self.heard.readings.iter_mut().for_each(|r| r.chunk(*direction, &chunk));
            if let Some(nccl) = &mut self.heard.nccl {
                nccl.chunk(*direction, &chunk);
            }
        }
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.decided
    }

    /// The magic of its communicator, once its first bytes say that it is NCCL's.
    fn magic(&self) -> Option<u64> {
        let head = self.sides[0].keeper.head(HEAD_BYTES);
        Interest::of_bytes(&head, self.midstream).magic(&head)
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
            step.magic = self.magic();
            self.told = step.magic.is_some() || record.bytes[0] > HEAD_BYTES as u64;
        }
        step.bulk = self.heard.nccl.as_ref().is_some_and(|n| n.is_bulk());
        step
    }

    /// Decides an undecided flow if its bytes allow it; whether it is dismissed.
    fn settle(&mut self, record: &FlowRecord) -> bool {
        let interest = Interest::of_bytes(&self.sides[0].keeper.head(HEAD_BYTES), false);
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
        let DecodedFlow { readings, nccl, gaps, gap_bytes, overlaps, overlap_count } = self.heard;
        let [mut a, mut b] = self.sides;
        a.keeper.kept.shrink_to_fit();
        b.keeper.kept.shrink_to_fit();
        // Collected in place they would keep the room of the decoders they come from, for as long as the analysis runs.
        let mut store = Vec::with_capacity(readings.len());
        store.extend(readings.into_iter().map(Decoding::end));
        Facts::share(&mut store);
        FlowObservation {
            record,
            set,
            kept_whole: [a.keeper.whole, b.keeper.whole],
            kept: [a.keeper.kept, b.keeper.kept],
            base: [a.base, b.base],
            store,
            nccl: nccl.map(|d| Box::new(d.end())),
            gaps,
            gap_bytes,
            overlaps,
            overlap_count,
            outer: self.outer,
        }
    }
}
