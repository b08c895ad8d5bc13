//! A flow that may matter: reassembled, and read in every dialect that may be its own.

use crate::frame::{OuterLayer, Segment};
use crate::protocol::observation::{FlowObservation, Kept, Overlap};
use crate::protocol::seam::{Decoder, Opening, ProtocolSet, SERVER_FIRST_BYTES};
use crate::protocol::{DISSECTORS, recognise};
use crate::stream::{
    AssemblerLimits, Chunk, Conversation, Direction, Event, FlowRecord, HEAD_BYTES, Heads, Outcome, PacketRef,
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
    pub(crate) server_active: bool,
    /// It declares more than before: it may hold a claim.
    pub(crate) claims: bool,
    /// What its receiver made of it.
    pub(crate) outcome: Outcome,
}

/// The beginning of a stream, as packets carried it.
struct HeadBuffer {
    kept: Vec<Kept>,
    bytes: usize,
    whole: bool,
}

impl Default for HeadBuffer {
    fn default() -> Self {
        HeadBuffer { kept: Vec::new(), bytes: 0, whole: true }
    }
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

/// What was made of a tracked flow so far.
#[derive(Default)]
struct DecodedFlow {
    decoders: Vec<Box<dyn Decoder>>,
    read_by: ProtocolSet,
    gaps: u64,
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
    conversation: Conversation,
    keepers: [HeadBuffer; 2],
    decided: bool,
    /// Whether its group's token was told, or will not be.
    told: bool,
    heard: DecodedFlow,
    outer: Vec<OuterLayer>,
    midstream: bool,
    /// Lengths and counts declared so far that may be claims.
    claims: u64,
}

impl Tracked {
    /// What one costs at least, in bytes.
    pub(crate) const BASE_BYTES: usize = 4096;

    pub(crate) fn new(
        flow: u32,
        record: &FlowRecord,
        interest: Interest,
        segment: &Segment<'_>,
        packet: PacketRef,
    ) -> Self {
        let mut tracked = Tracked {
            flow,
            conversation: Conversation::new(
                AssemblerLimits { history_bytes: 1 << 10, ..AssemblerLimits::default() },
                record,
                packet,
            ),
            keepers: Default::default(),
            decided: false,
            told: false,
            heard: DecodedFlow::default(),
            outer: segment.outer.to_vec(),
            midstream: record.isn(Direction::ToServer).is_none(),
            claims: 0,
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
            kept.extend(self.keepers[direction.index()].kept.iter().cloned().map(|k| (direction, k)));
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
        let head = self.keepers[0].head(HEAD_BYTES);
        let sure = Interest::of_bytes(record, [&head, &[]], !self.midstream).sure;
        let places = (0..).map(ProtocolSet::only).zip(DISSECTORS).filter(|(place, _)| sure.contains(*place));
        places.filter_map(|(place, d)| Some((d.group_token(&head)?, place))).next()
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        Self::BASE_BYTES + self.conversation.bytes() + self.keepers.iter().map(|k| k.bytes).sum::<usize>()
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
        let (heard, keepers) = (&mut self.heard, &mut self.keepers);
        let outcome = self.conversation.segment(record, segment, time, packet, &mut |direction, event| {
            heard.event(direction, event, &mut keepers[direction.index()], time);
        });
        let ends = outcome.fin || outcome.rst;
        let server_active = direction == Direction::ToClient && outcome.accepted && segment.wire_length > 0 || ends;
        let mut step =
            Step { outcome, server_active: direction == Direction::ToClient && server_active, ..Step::default() };
        if !self.decided {
            step.dismissed = self.settle(record);
        }
        if self.decided && !self.told && direction == Direction::ToServer && segment.wire_length > 0 {
            step.token = self.token(record);
            self.told = step.token.is_some() || record.bytes[0] > HEAD_BYTES as u64;
        }
        let decoders = &self.heard.decoders;
        let enough = !decoders.is_empty() && decoders.iter().all(|d| d.has_enough());
        let claims = decoders.iter().map(|d| d.claims().unwrap_or(record.bytes[0])).fold(0, u64::saturating_add);
        step.claims = claims > std::mem::replace(&mut self.claims, claims);
        step.bulk = enough || decoders.iter().any(|d| d.is_done());
        step
    }

    /// Decides an undecided flow if its bytes allow it; whether it is dismissed.
    fn settle(&mut self, record: &FlowRecord) -> bool {
        let heads = [self.keepers[0].head(HEAD_BYTES), self.keepers[1].head(HEAD_BYTES)];
        let interest = Interest::of_bytes(record, [&heads[0], &heads[1]], true);
        if interest.is_decided() {
            self.decide(interest);
            return false;
        }
        // What was handed on, for a capture may hold every packet twice; of bytes that wait behind a hole, more.
        let handed = [Direction::ToServer, Direction::ToClient].map(|d| self.conversation.counters(d).delivered);
        let over = |i: usize, most: usize| handed[i] > most as u64 || record.bytes[i] > 4 * most as u64;
        let enough = over(0, 4 * HEAD_BYTES) || over(1, SERVER_FIRST_BYTES);
        interest.is_none() || enough
    }

    /// The first bytes each way, for a record.
    pub(crate) fn heads(&self) -> Heads {
        let first = |k: &HeadBuffer| k.kept.first().map(|k| (k.packet, k.time));
        Heads {
            bytes: [self.keepers[0].head(HEAD_BYTES), self.keepers[1].head(HEAD_BYTES)],
            first: [first(&self.keepers[0]), first(&self.keepers[1])],
        }
    }

    /// Ends both streams. Counts of a flow that ended early are taken from its record.
    pub(crate) fn finish(mut self, record: FlowRecord, set: u32) -> FlowObservation {
        let (heard, keepers) = (&mut self.heard, &mut self.keepers);
        self.conversation.finish(&mut |direction, event| {
            heard.event(direction, event, &mut keepers[direction.index()], record.last);
        });
        let DecodedFlow { decoders, read_by, gaps, overlaps, overlap_count } = self.heard;
        let [mut a, mut b] = self.keepers;
        a.kept.shrink_to_fit();
        b.kept.shrink_to_fit();
        let both = [Direction::ToServer, Direction::ToClient];
        FlowObservation {
            record,
            set,
            kept_whole: [a.whole, b.whole],
            kept: [a.kept, b.kept],
            base: both.map(|d| self.conversation.base(d)),
            acknowledged: both.map(|d| self.conversation.acknowledged(d)),
            counters: both.map(|d| *self.conversation.counters(d)),
            refused: self.conversation.refused(),
            read_by,
            decoded: decoders.into_iter().map(|d| d.end()).collect(),
            gaps,
            overlaps,
            overlap_count,
            outer: self.outer,
        }
    }
}
