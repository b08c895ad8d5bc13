//! Which segments of a connection its receivers accept, decided as Linux decides it (docs/reassembly.md).
//!
//! A conversation holds both streams of a connection and, for each, what its packets tell of the host that receives it:
//! how far it acknowledged, how far its window reaches, the timestamp it saw last. A segment is accepted and handed on
//! at once, refused for certain, or doubted. What is doubted waits: an acknowledgement that needs its bytes proves that
//! they were delivered (a checksum that the sender's card filled in behind the capture, packets that the capture
//! lost), and without one they are dropped and counted.

use super::copies::Copies;
use super::event::{Event, Piece, StreamCounters};
use super::{Assembler, AssemblerLimits, Direction, FlowRecord, PacketRef};
use crate::frame::{Checksum, Segment, verify_checksum};
use crate::net::Endpoint;
use crate::time::Timestamp;

/// Segments of a stream that may wait for an acknowledgement…
const DOUBTED_SEGMENTS: usize = 64;
/// …and bytes of them.
const DOUBTED_BYTES: usize = 256 << 10;
/// The scale of a window whose handshake was not seen: the largest (RFC 7323, 2.3).
const LARGEST_SHIFT: u8 = 14;
/// Segments of an unanswered connection after which the capture is taken to hold one direction only.
const UNANSWERED: usize = 3;
/// Refused segments that are kept, to be shown.
const REFUSED: usize = 4;
/// Bytes of a refused segment that are kept.
const REFUSED_BYTES: usize = 64;
/// A packet this much later than a FIN or RST of its sender was not merely captured out of order, in nanoseconds.
const LATER_NANOS: i64 = 1_000_000;

/// Whether `a` comes before `b` in sequence.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Why a receiver does not take a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The TCP checksum is wrong.
    Checksum,
    /// It has none of ACK, RST and SYN.
    NoAck,
    /// The connection is not established: its handshake was not completed.
    NotEstablished,
    /// Payload of a SYN or RST.
    Control,
    /// Outside the receive window.
    Window,
    /// Its timestamp is older than the last one (PAWS, RFC 7323).
    Timestamp,
    /// It acknowledges what was never sent, or too little (RFC 5961).
    Acknowledgement,
    /// After the FIN, or after the receiver had closed.
    Closed,
}

/// A segment that its receiver refused, or about which nothing is known but that nobody acknowledged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which way it went.
    pub direction: Direction,
    /// When it was seen.
    pub time: Timestamp,
    /// Its packet.
    pub packet: PacketRef,
    /// Sequence number of its first byte.
    pub seq: u32,
    /// The beginning of its payload.
    pub bytes: Vec<u8>,
    /// Why.
    pub reason: Refusal,
}

/// A segment that waits for an acknowledgement.
#[derive(Debug)]
struct Doubted {
    seq: u32,
    ack: Option<u32>,
    bytes: Box<[u8]>,
    wire_length: u32,
    fin: bool,
    urgent: Option<u16>,
    time: Timestamp,
    packet: PacketRef,
    reason: Refusal,
    /// The receiver answered it with a RST.
    reset: bool,
}

/// What one segment did.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outcome {
    /// It was captured before: the same header, the same bytes, a moment ago.
    pub duplicate: bool,
    /// Its checksum is wrong.
    pub bad_checksum: bool,
    /// It is a FIN that the receiver took.
    pub fin: bool,
    /// It is a RST that the receiver took.
    pub rst: bool,
    /// It contradicts a FIN or RST of its sender that was seen before: that one was not the sender's.
    pub undoes_close: bool,
    /// The receiver took it.
    pub accepted: bool,
}

enum Ruling {
    Accept,
    /// All of it lies before what the receiver acknowledged.
    Old,
    Reset,
    /// For certain.
    Refuse(Refusal),
    /// Unless it is acknowledged.
    Doubt(Refusal),
}

/// One stream: what one host sends and the other receives.
#[derive(Debug)]
struct Stream {
    to_server: bool,
    assembler: Assembler,
    copies: Copies,
    duplicates: u64,
    /// The sender's initial sequence number, where a SYN or the SYN-ACK told it.
    isn: Option<u32>,
    /// The number after the last one that the sender sent.
    sent: Option<u32>,
    /// The largest window that the sender advertised, in bytes.
    largest_window: u32,
    /// How the sender's windows are to be shifted.
    shift: u8,
    /// Whether the receiver takes data: the sender completed the handshake.
    established: bool,
    /// The last acknowledgement that the receiver sent.
    acknowledged: Option<u32>,
    /// The right edge of the receiver's window, as it advertised it.
    edge: Option<u32>,
    /// The highest acknowledgement of the sender that the receiver took.
    confirmed: Option<u32>,
    /// The timestamp of the sender that the receiver saw last, where both use them.
    recent: Option<u32>,
    timestamps: bool,
    sack: bool,
    /// The receiver's socket is gone, or does not read any more.
    closed: bool,
    /// The receiver sent a RST.
    rejected: bool,
    /// It follows another connection of the same ports, and no SYN was seen: its bytes may still be strays of that one.
    unopened: bool,
    /// How the sender ended it.
    ended: Option<Ended>,
    /// The sender's card fills checksums in.
    offloads: bool,
    doubted: Vec<Doubted>,
    doubted_bytes: usize,
}

impl Stream {
    fn new(limits: AssemblerLimits, record: &FlowRecord, packet: PacketRef, direction: Direction) -> Self {
        let isn = record.isn(direction);
        let answered = record.isn(Direction::ToClient).is_some();
        let mut assembler = Assembler::new(limits);
        if let Some(isn) = isn {
            assembler.syn(isn);
        }
        let to_server = direction == Direction::ToServer;
        // The SYN and another packet came before: the connection stands, whichever of the two sides speaks first.
        let spoken = record.client_packet().is_some_and(|first| first != packet) || record.bytes[1] > 0;
        // Of a connection that the capture joined midway: its server spoke, and did not merely refuse.
        let unopened = record.follows_without_syn();
        let seen = isn.is_none() && record.packets[1] > 0 && record.rst[1].get().is_none() && !unopened;
        Stream {
            to_server,
            assembler,
            copies: Copies::default(),
            duplicates: 0,
            isn,
            sent: isn.map(|n| n.wrapping_add(1)),
            largest_window: 0,
            shift: record.shift(direction).unwrap_or(LARGEST_SHIFT),
            established: if to_server {
                spoken && answered || seen
            } else {
                answered || record.isn(Direction::ToServer).is_none()
            },
            acknowledged: None,
            edge: None,
            confirmed: record.isn(direction.reverse()).filter(|_| answered).map(|n| n.wrapping_add(1)),
            recent: (to_server && record.syn_timestamp != 0).then_some(record.syn_timestamp),
            timestamps: record.bits & FlowRecord::TIMESTAMPS != 0,
            sack: record.bits & FlowRecord::SACK != 0,
            closed: record.rst.iter().any(|t| t.get().is_some())
                || to_server && record.fin.iter().all(|t| t.get().is_some()),
            rejected: record.rst[1 - direction.index()].get().is_some(),
            unopened: unopened && to_server,
            ended: None,
            offloads: record.bits & if to_server { FlowRecord::BAD_SYN } else { FlowRecord::BAD_SYN_ACK } != 0
                && answered,
            doubted: Vec::new(),
            doubted_bytes: 0,
        }
    }

    /// What the receiver makes of a segment of this stream; `back` is the stream that the receiver sends.
    fn rule(&self, s: &Segment<'_>, back: &Stream, bad_checksum: bool) -> Ruling {
        if bad_checksum && !self.offloads {
            return Ruling::Doubt(Refusal::Checksum);
        }
        let flags = s.flags;
        if !flags.ack() && !flags.rst() && !flags.syn() {
            return Ruling::Refuse(Refusal::NoAck);
        }
        if !self.established {
            return self.rule_handshake(s, back);
        }
        if self.is_old_timestamp(s, 1) && !flags.rst() {
            return Ruling::Doubt(Refusal::Timestamp);
        }
        let taken = s.wire_length.wrapping_add(u32::from(flags.syn()) + u32::from(flags.fin()));
        let end = s.seq.wrapping_add(taken);
        let expected = self.assembler.expected();
        let exact = |n: u32| expected == Some(n) || self.acknowledged == Some(n);
        if flags.rst() {
            let lost = self.acknowledged.zip(expected).is_some_and(|(a, e)| before(e, a));
            let selective = self.sack && self.assembler.selected_until() == Some(s.seq);
            let after_fin = self.assembler.is_complete() && exact(s.seq.wrapping_add(1));
            let unknown = expected.is_none() || lost && self.sent == Some(s.seq);
            let reset = exact(s.seq) || selective || after_fin || unknown;
            return if reset { Ruling::Reset } else { Ruling::Refuse(Refusal::Control) };
        }
        if self.acknowledged.is_some_and(|a| before(end, a)) {
            return Ruling::Old;
        }
        if flags.syn() {
            return Ruling::Refuse(Refusal::Control);
        }
        // The window reaches at least to what is expected next; where that is all, no byte is taken.
        if let Some(edge) = self.edge {
            let edge = expected.filter(|e| before(edge, *e)).unwrap_or(edge);
            if before(edge, s.seq) || edge == s.seq && s.wire_length > 0 {
                return Ruling::Doubt(Refusal::Window);
            }
        }
        // What a server acknowledges and nobody saw sent, the capture lost.
        if self.to_server && back.sent.is_some_and(|sent| before(sent, s.ack)) {
            return Ruling::Doubt(Refusal::Acknowledgement);
        }
        let from = back.isn.map(|n| n.wrapping_add(1));
        if let Some(confirmed) = self.confirmed {
            let range = from.map_or(u32::MAX, |from| confirmed.wrapping_sub(from)).min(self.largest_window);
            if before(s.ack, confirmed.wrapping_sub(range)) {
                return Ruling::Doubt(Refusal::Acknowledgement);
            }
        }
        match expected {
            Some(next) if s.wire_length == 0 || !before(next, end) => Ruling::Accept,
            Some(_) if self.assembler.is_complete() => Ruling::Refuse(Refusal::Closed),
            _ if self.closed && s.wire_length > 0 => Ruling::Doubt(Refusal::Closed),
            _ => Ruling::Accept,
        }
    }

    /// Before the handshake is complete: `LISTEN`, `SYN_RECV` and `SYN_SENT`.
    fn rule_handshake(&self, s: &Segment<'_>, back: &Stream) -> Ruling {
        if s.flags.syn() {
            return if s.wire_length > 0 { Ruling::Doubt(Refusal::Control) } else { Ruling::Accept };
        }
        let acknowledges = |isn: u32| s.flags.ack() && s.ack == isn.wrapping_add(1);
        if s.flags.rst() && !self.to_server {
            // SYN_SENT: whoever refuses the SYN acknowledges it.
            return if back.isn.is_none_or(acknowledges) { Ruling::Reset } else { Ruling::Refuse(Refusal::Control) };
        }
        let Some(isn) = back.isn else {
            // The receiver sent no SYN that was seen. It did send one if it sent anything else; where it sent nothing,
            // the capture may hold one direction only.
            let spoke = if self.unopened { self.acknowledged.is_some() } else { back.sent.is_some() };
            return match (spoke, s.flags.rst()) {
                (_, true) => Ruling::Reset,
                (true, _) if s.flags.ack() => Ruling::Accept,
                _ => Ruling::Doubt(Refusal::NotEstablished),
            };
        };
        if s.flags.ack() && !acknowledges(isn) {
            return Ruling::Doubt(Refusal::Acknowledgement);
        }
        if self.is_old_timestamp(s, 0) {
            return Ruling::Doubt(Refusal::Timestamp);
        }
        let end = s.seq.wrapping_add(s.wire_length).wrapping_add(u32::from(s.flags.fin()));
        let next = self.isn.map(|n| n.wrapping_add(1));
        if let (Some(next), Some(edge)) = (next, self.edge) {
            let inside = s.seq == next || before(next, end) && before(s.seq, edge) || s.seq == edge && s.seq == end;
            if !inside {
                return Ruling::Doubt(Refusal::Window);
            }
        }
        match (s.flags.rst(), s.flags.ack()) {
            // Since Linux 6.13 only the exact number ends a connection that is not established yet.
            (true, _) if next == Some(s.seq) => Ruling::Reset,
            (true, _) => Ruling::Refuse(Refusal::Control),
            (false, true) if self.closed && s.wire_length > 0 => Ruling::Doubt(Refusal::Closed),
            (false, true) => Ruling::Accept,
            (false, false) => Ruling::Refuse(Refusal::NoAck),
        }
    }

    /// Whether a timestamp is older than the last one by more than `slack`.
    fn is_old_timestamp(&self, s: &Segment<'_>, slack: i32) -> bool {
        self.timestamps
            && self.recent.is_some_and(|recent| {
                recent != 0 && s.timestamp().is_some_and(|value| (recent.wrapping_sub(value) as i32) > slack)
            })
    }

    /// Notes what an accepted segment tells the receiver of its sender.
    fn accepted(&mut self, s: &Segment<'_>) {
        if !s.flags.ack() {
            return;
        }
        if self.timestamps
            && !self.confirmed.is_some_and(|c| before(s.ack, c))
            && let Some(value) = s.timestamp()
            && !self.acknowledged.is_some_and(|a| before(a, s.seq))
            && self.recent.is_none_or(|recent| value.wrapping_sub(recent) as i32 >= 0)
        {
            self.recent = Some(value);
        }
        if self.confirmed.is_none_or(|c| before(c, s.ack)) {
            self.confirmed = Some(s.ack);
        }
    }

    /// Whether an acknowledgement is not of this stream, as far as its numbers tell, but of the connection that had these ports
    /// before; `answered`: the receiver's SYN-ACK was seen.
    fn is_foreign(&self, ack: u32, answered: bool) -> bool {
        let fits = |d: &Doubted| ack.wrapping_sub(d.seq) <= 1 << 22;
        let far = |isn: u32| ack.wrapping_sub(isn) > 1 << 26;
        let open = self.acknowledged.is_none() && !answered && self.to_server;
        open && (self.unopened && !self.doubted.iter().any(fits) || self.isn.is_some_and(far))
    }

    /// The receiver sent a segment with this acknowledgement and window.
    fn heard(&mut self, ack: u32, window: u32) {
        if self.acknowledged.is_none_or(|a| before(a, ack)) {
            self.acknowledged = Some(ack);
        }
        let edge = ack.wrapping_add(window);
        if self.edge.is_none_or(|e| before(e, edge)) {
            self.edge = Some(edge);
        }
        self.assembler.acknowledged(ack);
    }

    /// Takes the payload and FIN of a segment; whether it brought only what was there.
    fn take(&mut self, piece: Piece<'_>, fin: bool, urgent: Option<u16>, sink: &mut impl FnMut(Event<'_>)) -> bool {
        if let Some(pointer) = urgent {
            // Linux counts the pointer from the first byte, as BSD did: it names the byte after the urgent one.
            self.assembler.urgent(piece.seq.wrapping_add(u32::from(pointer.max(1)) - 1));
        }
        let seq_after = piece.seq.wrapping_add(piece.wire_length);
        let open = !self.assembler.is_complete();
        let whole = piece.payload.len() == piece.wire_length as usize;
        let again = piece.wire_length > 0 && self.assembler.push_with(piece, fin && whole && open, sink);
        if fin && open && (piece.wire_length == 0 || !whole) {
            self.assembler.fin(seq_after);
        }
        again
    }

    fn doubt(&mut self, s: &Segment<'_>, seq: u32, time: Timestamp, packet: PacketRef, reason: Refusal) -> bool {
        let room = self.doubted.len() < DOUBTED_SEGMENTS && self.doubted_bytes + s.payload.len() <= DOUBTED_BYTES;
        if s.wire_length == 0 && !s.flags.fin() {
            return true;
        }
        if room {
            self.doubted_bytes += s.payload.len();
            self.doubted.push(Doubted {
                seq,
                ack: s.flags.ack().then_some(s.ack),
                bytes: s.payload.into(),
                wire_length: s.wire_length,
                fin: s.flags.fin(),
                urgent: s.urgent_pointer(),
                time,
                packet,
                reason,
                reset: false,
            });
        }
        room
    }

    /// Hands on what was doubted and is proven by the acknowledgement, then lets go what it has overtaken. At the end of
    /// a capture without any acknowledgement (`finally`), what nothing else contradicts is taken as well. Returns what the
    /// last segment that was proven acknowledges.
    fn settle(
        &mut self,
        finally: bool,
        refused: &mut Vec<Refused>,
        direction: Direction,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Option<u32> {
        if self.acknowledged.is_none() && !finally {
            return None;
        }
        let (mut rest, mut answered) = (Vec::new(), None);
        // Whoever acknowledges bytes that it was sent after its end had not ended: all that was doubted for that comes
        // first, in the order in which it came.
        let lives = |d: &Doubted| d.reason == Refusal::Closed && self.lacks(d);
        if self.doubted.iter().any(lives) {
            self.closed = false;
            self.doubted.sort_by_key(|d| d.reason != Refusal::Closed);
        }
        for d in std::mem::take(&mut self.doubted) {
            let end = d.seq.wrapping_add(d.wire_length).wrapping_add(u32::from(d.fin));
            let unseen = finally && self.acknowledged.is_none() && !self.rejected;
            let plausible = matches!(
                d.reason,
                Refusal::Checksum | Refusal::NotEstablished | Refusal::Acknowledgement | Refusal::Closed
            );
            // Whoever answers, and does not refuse, has a connection.
            let opened = d.reason == Refusal::NotEstablished && self.acknowledged.is_some() && !d.reset;
            let needed = opened || self.lacks(&d) || d.reason == Refusal::Closed && !self.closed;
            let proven = d.reason != Refusal::Control || d.wire_length > 0;
            if needed && !unseen && proven || unseen && plausible {
                self.doubted_bytes -= d.bytes.len();
                self.offloads |= d.reason == Refusal::Checksum && !unseen;
                let Doubted { seq, ack, bytes, wire_length, fin, urgent, time, packet, .. } = d;
                answered = ack.or(answered);
                self.take(Piece { seq, payload: &bytes, wire_length, time, packet }, fin, urgent, sink);
            } else if finally || self.acknowledged.is_some_and(|a| !before(a, end)) {
                self.doubted_bytes -= d.bytes.len();
                self.refuse(d.reason, d.wire_length);
                if refused.len() < REFUSED && !d.bytes.is_empty() {
                    let bytes = d.bytes.get(..REFUSED_BYTES).unwrap_or(&d.bytes).to_vec();
                    let Doubted { seq, time, packet, reason, .. } = d;
                    refused.push(Refused { direction, time, packet, seq, bytes, reason });
                }
            } else {
                rest.push(d);
            }
        }
        self.doubted = rest;
        answered
    }

    /// Whether the receiver acknowledged all of a doubted segment, and some of its bytes are not there without it.
    fn lacks(&self, d: &Doubted) -> bool {
        let Some(acknowledged) = self.acknowledged else { return false };
        let end = d.seq.wrapping_add(d.wire_length).wrapping_add(u32::from(d.fin));
        let missing = self.assembler.expected().is_none_or(|next| before(next, acknowledged) && before(next, end));
        missing && !before(acknowledged, end)
    }

    fn refuse(&mut self, reason: Refusal, bytes: u32) {
        let c = self.assembler.counters_mut();
        let count = if reason == Refusal::Window { &mut c.out_of_window } else { &mut c.refused };
        *count = count.saturating_add(u64::from(bytes));
    }

    fn bytes(&self) -> usize {
        self.assembler.counters().allocated_bytes as usize + self.doubted_bytes
    }
}

/// Both streams of one connection. Directions are told by the record of its flow, whose sides may be turned round when
/// a SYN is captured late.
#[derive(Debug)]
pub struct Conversation {
    client: Endpoint,
    streams: [Stream; 2],
    refused: Vec<Refused>,
}

impl Conversation {
    /// A conversation of which no payload was seen yet; `packet` is the first one that it is to be given.
    pub fn new(limits: AssemblerLimits, record: &FlowRecord, packet: PacketRef) -> Self {
        let mut streams = [Direction::ToServer, Direction::ToClient].map(|d| Stream::new(limits, record, packet, d));
        if let (Some(isn), true) = (record.isn(Direction::ToServer), record.server_window > 0) {
            streams[0].heard(isn.wrapping_add(1), u32::from(record.server_window));
        }
        Conversation { client: record.client(), streams, refused: Vec::new() }
    }

    /// What was counted of the stream of a direction.
    pub fn counters(&self, direction: Direction) -> &StreamCounters {
        self.streams[direction.index()].assembler.counters()
    }

    /// Packets of a direction that were captured twice.
    pub fn duplicates(&self, direction: Direction) -> u64 {
        self.streams[direction.index()].duplicates
    }

    /// How many bytes of a stream its receiver acknowledged; `None` when the capture holds no acknowledgement.
    pub fn acknowledged(&self, direction: Direction) -> Option<u64> {
        self.streams[direction.index()].assembler.acknowledged_bytes()
    }

    /// Sequence number of the first byte of a stream, once that is settled.
    pub fn base(&self, direction: Direction) -> Option<u32> {
        let stream = &self.streams[direction.index()];
        stream.assembler.first_sequence().or(stream.isn.map(|n| n.wrapping_add(1)))
    }

    /// Segments that were refused; the first few.
    pub fn refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> usize {
        self.streams.iter().map(Stream::bytes).sum()
    }

    /// Takes one segment of the flow; `sink` is told of bytes, gaps and conflicts of either direction.
    pub fn segment(
        &mut self,
        record: &FlowRecord,
        s: &Segment<'_>,
        time: Timestamp,
        packet: PacketRef,
        sink: &mut impl FnMut(Direction, Event<'_>),
    ) -> Outcome {
        if record.client() != self.client {
            self.client = record.client();
            self.streams.swap(0, 1);
        }
        let direction = if s.src == self.client { Direction::ToServer } else { Direction::ToClient };
        let stream = &mut self.streams[direction.index()];
        let checksum = verify_checksum(s);
        let bad_checksum = checksum.is_wrong();
        // Of a connection that was joined midway, the first segment shows what a SYN would: whether its host offloads.
        stream.offloads |= checksum == Checksum::Unfinished && stream.isn.is_none() && stream.sent.is_none();
        let mut outcome = Outcome { bad_checksum: checksum == Checksum::Bad, ..Outcome::default() };
        let copy = stream.copies.is_copy(s, time).then(|| *stream.assembler.counters());
        if s.flags.syn() && !bad_checksum {
            stream.open(s);
        }
        let [a, b] = &mut self.streams;
        let (stream, back) = if direction == Direction::ToServer { (a, b) } else { (b, a) };
        let seq = s.seq.wrapping_add(u32::from(s.flags.syn()));
        let mut again = s.wire_length == 0;
        let ruling = stream.rule(s, back, bad_checksum);
        // Of a client that goes on after its RST the server tells: it answers, or it does not.
        if direction == Direction::ToClient
            && matches!(ruling, Ruling::Accept | Ruling::Old | Ruling::Doubt(Refusal::Closed))
            && stream.ended.take_if(|ended| ended.is_contradicted_by(s, time)).is_some()
        {
            outcome.undoes_close = true;
            stream.assembler.reopen();
            (stream.closed, back.closed) = (false, false);
        }
        match ruling {
            Ruling::Accept => {
                outcome.accepted = true;
                outcome.fin = s.flags.fin();
                stream.established |= s.flags.ack() && !s.flags.syn();
                stream.accepted(s);
                let urgent = s.urgent_pointer();
                if s.wire_length > 0 || outcome.fin || urgent.is_some() {
                    let piece = Piece { seq, payload: s.payload, wire_length: s.wire_length, time, packet };
                    again |= stream.take(piece, outcome.fin, urgent, &mut |e| sink(direction, e));
                }
                if outcome.fin {
                    // Whoever closed may not read any more; what it acknowledges, it has read.
                    stream.ended.get_or_insert(Ended { time, fin: Some(seq.wrapping_add(s.wire_length)) });
                    back.closed = true;
                }
            }
            Ruling::Old => {
                outcome.accepted = true;
                if s.wire_length > 0 {
                    let piece = Piece { seq, payload: s.payload, wire_length: s.wire_length, time, packet };
                    again = stream.assembler.push(piece, &mut |e| sink(direction, e));
                }
            }
            Ruling::Reset => {
                outcome.rst = true;
                stream.refuse(Refusal::Control, s.wire_length);
                keep(&mut self.refused, direction, s, time, packet, Refusal::Control);
                (stream.closed, back.closed, back.rejected) = (true, true, true);
                stream.ended = Some(Ended { time, fin: None });
            }
            Ruling::Refuse(reason) => {
                stream.refuse(reason, s.wire_length);
                keep(&mut self.refused, direction, s, time, packet, reason);
                // A host without the connection answers with the number that it was told to have sent.
                for d in back.doubted.iter_mut().filter(|d| s.flags.rst() && !s.flags.ack() && d.ack == Some(s.seq)) {
                    (d.reset, back.rejected) = (true, true);
                }
                // Whoever answers a second SYN with a RST gave the half-open connection up (`embryonic_reset`).
                if direction == Direction::ToClient && s.flags.rst() && s.flags.ack() && !back.established {
                    (back.closed, back.rejected) = (true, true);
                }
            }
            Ruling::Doubt(reason) => {
                if !stream.doubt(s, seq, time, packet, reason) {
                    stream.refuse(reason, s.wire_length);
                    keep(&mut self.refused, direction, s, time, packet, reason);
                }
                // Who goes on in spite of the silence has a peer, and the capture holds one direction.
                let silent = !stream.closed && !stream.rejected;
                if reason == Refusal::NotEstablished && stream.doubted.len() >= UNANSWERED && silent {
                    stream.established = true;
                    stream.settle(true, &mut self.refused, direction, &mut |e| sink(direction, e));
                }
            }
        }
        let speaks = matches!(ruling, Ruling::Accept | Ruling::Old | Ruling::Doubt(Refusal::Closed));
        stream.speaks(s, seq, back, speaks);
        let (answers, shakes) = (s.flags.syn() && s.flags.ack() && outcome.accepted, direction == Direction::ToClient);
        let reverse = direction.reverse();
        back.assembler.hand_on_beyond_fin(&mut |e| sink(reverse, e));
        if !back.doubted.is_empty()
            && let Some(ack) = back.settle(false, &mut self.refused, reverse, &mut |e| sink(reverse, e))
        {
            stream.heard(ack, 0);
        }
        if let Some(before) = copy.filter(|_| again) {
            // What was captured twice was not sent twice.
            outcome.duplicate = true;
            stream.duplicates += 1;
            *stream.assembler.counters_mut() = before;
        }
        if answers && shakes {
            self.learn(record);
        }
        outcome
    }

    /// Takes over what a SYN-ACK settled that came after the first payload.
    fn learn(&mut self, record: &FlowRecord) {
        for (stream, direction) in self.streams.iter_mut().zip([Direction::ToServer, Direction::ToClient]) {
            stream.shift = record.shift(direction).unwrap_or(LARGEST_SHIFT);
            stream.timestamps = record.bits & FlowRecord::TIMESTAMPS != 0;
            stream.sack = record.bits & FlowRecord::SACK != 0;
            stream.confirmed = stream.confirmed.or(record.isn(direction.reverse()).map(|n| n.wrapping_add(1)));
        }
        // The client that took the SYN-ACK reads from then on.
        self.streams[1].established = true;
    }

    /// The end of the capture or of the flow.
    pub fn finish(&mut self, sink: &mut impl FnMut(Direction, Event<'_>)) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let stream = &mut self.streams[direction.index()];
            stream.settle(true, &mut self.refused, direction, &mut |e| sink(direction, e));
            stream.assembler.drop_unreached(&mut |e| sink(direction, e));
            stream.assembler.finish(&mut |e| sink(direction, e));
        }
    }
}

impl Stream {
    /// A SYN of the sender.
    fn open(&mut self, s: &Segment<'_>) {
        if self.isn.is_some() {
            return;
        }
        self.isn = Some(s.seq);
        self.sent = self.sent.or(Some(s.seq.wrapping_add(1)));
        self.assembler.syn(s.seq);
    }

    /// What a segment says of its sender: how far it has sent, and as the receiver of `back`, how far it has read.
    fn speaks(&mut self, s: &Segment<'_>, seq: u32, back: &mut Stream, counts: bool) {
        if s.flags.ack() && !s.flags.rst() && back.is_foreign(s.ack, self.isn.is_some()) {
            back.rejected = true;
            return;
        }
        let end = seq.wrapping_add(s.wire_length).wrapping_add(u32::from(s.flags.fin()));
        if counts && self.sent.is_none_or(|sent| before(sent, end)) {
            self.sent = Some(end);
        }
        // A RST acknowledges what it refuses.
        if !s.flags.ack() || s.flags.rst() || !counts {
            return;
        }
        let shift = if s.flags.syn() { 0 } else { self.shift };
        let window = u32::from(s.window) << shift;
        self.largest_window = self.largest_window.max(window);
        back.heard(s.ack, window);
    }
}

/// How a host ended its stream.
#[derive(Clone, Copy, Debug)]
struct Ended {
    time: Timestamp,
    /// The number of its FIN; `None` for a RST.
    fin: Option<u32>,
}

impl Ended {
    /// Whether a later segment of the same host shows that the FIN or RST was not its own: after a RST a stack sends
    /// nothing else on a connection, and after a FIN it goes on with the number that follows it.
    fn is_contradicted_by(&self, s: &Segment<'_>, time: Timestamp) -> bool {
        let later = time.0.saturating_sub(self.time.0) > LATER_NANOS;
        let goes_on = |fin: u32| {
            let end = s.seq.wrapping_add(s.wire_length);
            !s.flags.fin() && (s.seq == fin && s.wire_length != 1 || before(s.seq, fin) && before(fin, end))
        };
        later && s.flags.ack() && !s.flags.rst() && !s.flags.syn() && self.fin.is_none_or(goes_on)
    }
}

fn keep(
    refused: &mut Vec<Refused>,
    direction: Direction,
    s: &Segment<'_>,
    time: Timestamp,
    packet: PacketRef,
    reason: Refusal,
) {
    if refused.len() < REFUSED && !s.payload.is_empty() {
        let bytes = s.payload.get(..REFUSED_BYTES).unwrap_or(s.payload).to_vec();
        let seq = s.seq.wrapping_add(u32::from(s.flags.syn()));
        refused.push(Refused { direction, time, packet, seq, bytes, reason });
    }
}
