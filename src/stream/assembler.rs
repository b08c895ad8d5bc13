//! Exact reassembly of one direction of one flow.
//!
//! Rules: bytes are handed on in order, once, in the pieces that packets carried; what was handed on stays; which bytes of
//! overlapping segments stay that wait is in [`holes`](super::holes). What is in order is handed on at once and is not
//! copied, except into the short history that retransmissions are compared with. A byte that the urgent pointer marks
//! is left out, as a socket leaves it out of what it reads.
//! A stream whose SYN was seen starts after it. One that was joined midway starts at its lowest byte: its bytes are
//! [held back](HOLD_BACK_SEGMENTS) until packets that were captured slightly out of order had a chance to come.
//!
//! Work is logarithmic a segment, plus a term for each byte of it, in whatever order segments come.

use super::conflict::{Pending, Verdict, difference};
use super::event::{Event, GapCause, Piece, StreamCounters};
use super::history::{History, Recent};
use super::holes::{Held, Holes, Taken};
use super::sack::SelectiveBlocks;
use super::sequence::Anchor;
use super::snaplen_cuts::Cuts;
use super::{Chunk, PacketRef};
use crate::time::Timestamp;

/// Segments with payload after which a stream without SYN settles where it starts…
pub const HOLD_BACK_SEGMENTS: u64 = 32;
/// …or bytes held after which it does, whichever comes first.
pub const HOLD_BACK_BYTES: usize = 64 << 10;
/// Ranges of given-up holes remembered, to tell late bytes from retransmissions.
const GIVEN_UP: usize = 32;

/// Bounds on what one direction may keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssemblerLimits {
    /// Memory for bytes that wait behind holes, in bytes, bookkeeping included.
    pub max_buffered_bytes: usize,
    /// Holes at one time.
    pub max_holes: usize,
    /// Bytes handed on last that retransmissions are compared with; 0 compares with what waits only.
    pub history_bytes: usize,
}

impl Default for AssemblerLimits {
    /// 4 MiB (a window of today's receivers), 1024 holes, 16 KiB.
    fn default() -> Self {
        AssemblerLimits { max_buffered_bytes: 4 << 20, max_holes: 1024, history_bytes: 16 << 10 }
    }
}

/// One direction of one flow.
///
/// Positions are what sequence numbers become without wrapping; offsets are positions counted from `start`.
/// Invariants: everything before `next` was handed on or given up, nothing held lies before it; after every call
/// what is held takes no more than the limits allow.
#[derive(Debug)]
pub struct Assembler {
    limits: AssemblerLimits,
    anchor: Option<Anchor>,
    /// Position of offset 0, once it is settled.
    start: Option<u64>,
    /// The next position to hand on; before `start` is settled, the anchor's.
    next: u64,
    /// The highest acknowledgement, as a position once there is an anchor to read it by.
    acknowledged: Option<u64>,
    early_ack: Option<u32>,
    /// The highest FIN seen: a proof of bytes before it.
    fin: Option<u64>,
    /// Whether a FIN was reached: nothing comes after it.
    finished: bool,
    /// The byte that the urgent pointer marks, not reached yet.
    urgent: Option<u64>,
    /// Where the next segment starts that would continue one beyond every window, and how many there were.
    far: Option<(u32, u8)>,
    holes: Holes,
    /// What the receiver acknowledges selectively.
    blocks: SelectiveBlocks,
    /// What some kernels hand on although it stands beyond the FIN that was reached.
    beyond: Vec<Held>,
    cuts: Cuts,
    history: History,
    given_up: std::collections::VecDeque<(u64, u64)>,
    pending: Vec<Pending>,
    counters: StreamCounters,
}

impl Assembler {
    /// A stream of which nothing was seen yet. Allocates nothing.
    pub fn new(limits: AssemblerLimits) -> Self {
        Assembler {
            limits,
            anchor: None,
            start: None,
            next: 0,
            acknowledged: None,
            early_ack: None,
            fin: None,
            finished: false,
            urgent: None,
            far: None,
            holes: Holes::default(),
            blocks: SelectiveBlocks::default(),
            beyond: Vec::new(),
            cuts: Cuts::default(),
            history: History::new(limits.history_bytes),
            given_up: Default::default(),
            pending: Vec::new(),
            counters: StreamCounters::default(),
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> &StreamCounters {
        &self.counters
    }

    /// Offset of the next byte to be handed on, once it is settled where the stream starts.
    pub fn next_offset(&self) -> Option<u64> {
        self.start.map(|start| self.offset(self.next, start))
    }

    /// Urgent bytes are no part of the stream that is handed on.
    fn offset(&self, position: u64, start: u64) -> u64 {
        position.saturating_sub(start).saturating_sub(self.counters.urgent_bytes)
    }

    /// Whether everything up to a FIN was handed on.
    pub fn is_complete(&self) -> bool {
        self.finished
    }

    /// The sequence number that is expected next, a FIN that was reached counted; `None` before the start is settled.
    pub(super) fn expected(&self) -> Option<u32> {
        let anchor = self.anchor.filter(|_| self.start.is_some())?;
        Some(anchor.sequence(self.next).wrapping_add(u32::from(self.finished)))
    }

    /// Sequence number of offset 0, once that is settled.
    pub(super) fn first_sequence(&self) -> Option<u32> {
        Some(self.anchor?.sequence(self.start?))
    }

    /// The right edge of what is acknowledged selectively.
    pub(super) fn selected_until(&self) -> Option<u32> {
        Some(self.anchor?.sequence(self.blocks.end()?))
    }

    /// How many bytes from the start on the peer acknowledged; `None` when no acknowledgement was seen.
    pub fn acknowledged_bytes(&self) -> Option<u64> {
        let (start, acknowledged) = (self.start?, self.acknowledged?);
        Some(self.offset(acknowledged, start))
    }

    /// When the packet was seen whose bytes have waited longest in order of the stream: they are held back because a
    /// hole lies before them, or because the start is not settled. `None` when nothing waits.
    pub fn waiting_since(&self) -> Option<Timestamp> {
        self.holes.first_time()
    }

    /// A SYN with sequence number `seq`: data starts at `seq + 1`. Without effect once bytes were handed on; a SYN
    /// that was captured after data of its stream still sets the start.
    pub fn syn(&mut self, seq: u32) {
        if self.start.is_some() {
            return;
        }
        let first = seq.wrapping_add(1);
        let anchor = self.anchored(first);
        let Some(start) = anchor.position(first, self.next) else { return };
        self.counters.before_start = self.counters.before_start.saturating_add(self.holes.drop_before(start));
        self.cuts.forget_before(start);
        self.start = Some(start);
        self.next = start;
        self.account();
    }

    /// A FIN: `seq_after_payload` is the number after the last payload byte of its segment, which is the FIN's own.
    /// The one that is reached counts. Push the segment's payload first.
    pub fn fin(&mut self, seq_after_payload: u32) {
        let anchor = self.anchored(seq_after_payload);
        let Some(position) = anchor.position(seq_after_payload, self.next) else { return };
        self.fin = self.fin.max(Some(position));
        if self.start.is_none() || position > self.next {
            let none = Held { bytes: Box::default(), time: Timestamp::MIN, packet: PacketRef::default() };
            self.holes.insert(position, none, true, &mut |_, _, _, _, _| {});
            self.blocks.add(position, position.saturating_add(1));
        } else if position == self.next {
            self.finish_at_fin();
        }
    }

    /// The FIN was reached: what was queued behind it is dropped.
    fn finish_at_fin(&mut self) {
        self.finished = true;
        self.counters.refused = self.counters.refused.saturating_add(self.holes.clear());
    }

    /// The FIN was not the sender's: the stream goes on.
    pub(super) fn reopen(&mut self) {
        self.finished = false;
        self.fin = None;
    }

    pub(super) fn counters_mut(&mut self) -> &mut StreamCounters {
        &mut self.counters
    }

    /// The urgent pointer of a segment marks the byte with this sequence number. A later mark takes the place of one
    /// that was not reached yet; one that lies behind is nothing.
    pub(super) fn urgent(&mut self, seq: u32) {
        let Some(anchor) = self.anchor.filter(|_| self.start.is_some()) else { return };
        let Some(position) = anchor.position(seq, self.next).filter(|p| *p >= self.next) else { return };
        self.urgent = self.urgent.max(Some(position));
    }

    /// The peer acknowledged all bytes before `ack`. Tells bytes that the capture lost from bytes that never arrived.
    pub fn acknowledged(&mut self, ack: u32) {
        let Some(anchor) = self.anchor else {
            let later = self.early_ack.is_none_or(|seen| (ack.wrapping_sub(seen) as i32) > 0);
            self.early_ack = if later { Some(ack) } else { self.early_ack };
            return;
        };
        let near = self.next.max(self.acknowledged.unwrap_or(0));
        // An acknowledgement is never far behind: what seems so is far ahead, and the capture lost the bytes between.
        self.acknowledged = self.acknowledged.max(anchor.position(ack, near).or_else(|| anchor.ahead(ack, near)));
    }

    fn anchored(&mut self, seq: u32) -> Anchor {
        if let Some(anchor) = self.anchor {
            return anchor;
        }
        let anchor = Anchor::new(seq);
        self.anchor = Some(anchor);
        self.next = anchor.origin();
        if let Some(ack) = self.early_ack.take() {
            self.acknowledged(ack);
        }
        anchor
    }

    /// Takes the payload of one segment and hands on what is in order now. Returns whether it brought only bytes that
    /// were there already, all the same.
    pub fn push(&mut self, piece: Piece<'_>, sink: &mut impl FnMut(Event<'_>)) -> bool {
        self.push_with(piece, false, sink)
    }

    /// [`push`](Self::push) of a segment whose payload was captured whole, with the FIN that stands after it.
    pub(super) fn push_with(&mut self, piece: Piece<'_>, fin: bool, sink: &mut impl FnMut(Event<'_>)) -> bool {
        let wire = u64::from(piece.wire_length).max(piece.payload.len() as u64);
        let anchor = self.anchored(piece.seq);
        let Some(position) = self.placed(anchor, piece.seq, wire as u32) else {
            self.counters.out_of_window = self.counters.out_of_window.saturating_add(wire);
            return false;
        };
        let probes = self.start.is_some_and(|start| self.next > start) && position.checked_add(1) == Some(self.next);
        if wire == 0 {
            self.counters.keep_alives += u64::from(probes);
            return false;
        }
        if self.finished && position >= self.next {
            self.counters.refused = self.counters.refused.saturating_add(wire);
            return false;
        }
        self.counters.segments += 1;
        let end = position.saturating_add(piece.payload.len() as u64);
        if probes && !fin && wire == 1 && self.is_garbage(position, piece.payload) {
            self.counters.keep_alives += 1;
            return false;
        }
        let mut again = false;
        if fin {
            self.fin = self.fin.max(Some(end));
        }
        if self.start.is_some() && self.next == position && self.holes.is_empty() {
            self.hand_on(piece.payload, piece.time, piece.packet, sink);
            if fin {
                self.finish_at_fin();
            }
        } else {
            again = self.place(&piece, position, end, fin, sink);
        }
        self.cut(end, position.saturating_add(wire));
        self.hold_back(sink);
        self.drain(sink);
        self.enforce(sink);
        self.account();
        again
    }

    /// The position of a segment. No window reaches further than 2^30 bytes; where the capture lost more than that, the
    /// acknowledgements lead on, and where it holds none, three segments that follow each other do.
    fn placed(&mut self, anchor: Anchor, seq: u32, wire: u32) -> Option<u64> {
        let near = self.next.max(self.acknowledged.unwrap_or(0));
        if let Some(position) = anchor.position(seq, near) {
            self.far = None;
            return Some(position);
        }
        let count = self.far.filter(|(next, _)| *next == seq).map_or(1, |(_, n)| n + 1);
        self.far = Some((seq.wrapping_add(wire), count));
        if count < 3 || self.acknowledged.is_some() {
            return None;
        }
        anchor.ahead(seq, near)
    }

    /// A keep-alive may carry one byte of rubbish (RFC 1122, 4.2.3.6): it is no second reading of the stream.
    fn is_garbage(&self, position: u64, payload: &[u8]) -> bool {
        let mut other = false;
        self.history.recent(position, position.saturating_add(1), |recent| other = recent.parts.concat() != payload);
        other
    }

    /// Places a segment that is not simply the next one. Returns whether it brought nothing new.
    fn place(
        &mut self,
        piece: &Piece<'_>,
        position: u64,
        end: u64,
        fin: bool,
        sink: &mut impl FnMut(Event<'_>),
    ) -> bool {
        let mut verdict = Verdict::default();
        let mut at = position;
        if let Some(start) = self.start.filter(|start| at < *start) {
            self.counters.before_start = self.counters.before_start.saturating_add(start.min(end) - at);
            at = start;
        }
        let part = |from: u64, to: u64| {
            piece.payload.get((from - position) as usize..(to - position) as usize).unwrap_or_default()
        };
        let behind = match self.start {
            // The FIN takes the position after the last byte.
            Some(_) if self.finished => end,
            Some(_) => self.next.min(end),
            None => 0,
        };
        if at < behind {
            self.compare_old(at, part(at, behind), piece.packet, &mut verdict, sink);
            at = behind;
        }
        if at < end {
            let held = Held { bytes: part(at, end).into(), time: piece.time, packet: piece.packet };
            let (counters, mut found) = (&mut self.counters, Vec::new());
            let mut compare = |from: u64, first: &[u8], by: PacketRef, second: &[u8], of: PacketRef| {
                found.extend(difference(counters, &mut verdict, from, [first, &[]], by, second, of));
            };
            if self.start.is_some() && at == self.next {
                self.holes.compare(at, &held, &mut compare);
                self.hand_on(&held.bytes, held.time, held.packet, sink);
                verdict.other = true;
                if fin {
                    self.finish_at_fin();
                }
            } else {
                verdict.other |= self.holes.insert(at, held, fin, &mut compare);
                self.blocks.add(at, end.saturating_add(u64::from(fin)));
            }
            for pending in found {
                self.tell(Some(pending), sink);
            }
        } else if fin && self.start.is_some() && self.next == end {
            self.finish_at_fin();
        }
        let again = verdict.same > 0 && !verdict.other;
        self.counters.duplicates += u64::from(again);
        again
    }

    /// Bytes for places that are behind: given-up holes, or handed on already.
    fn compare_old(
        &mut self,
        position: u64,
        bytes: &[u8],
        packet: PacketRef,
        verdict: &mut Verdict,
        sink: &mut impl FnMut(Event<'_>),
    ) {
        let end = position.saturating_add(bytes.len() as u64);
        let late: u64 = self.given_up.iter().map(|(a, b)| b.min(&end).saturating_sub(position.max(*a))).sum();
        let again = (bytes.len() as u64).saturating_sub(late);
        self.counters.given_up = self.counters.given_up.saturating_add(late);
        let mut known = 0u64;
        let mut found = Vec::new();
        let counters = &mut self.counters;
        self.history.recent(position, end, |Recent { start, parts, packet: first }| {
            let length = parts[0].len() + parts[1].len();
            let from = (start - position) as usize;
            let second = bytes.get(from..from + length).unwrap_or_default();
            known += length as u64;
            found.extend(difference(counters, verdict, start, parts, first, second, packet));
        });
        let unverified = again.saturating_sub(known);
        counters.unverified_bytes = counters.unverified_bytes.saturating_add(unverified);
        counters.retransmitted_bytes = counters.retransmitted_bytes.saturating_add(unverified);
        verdict.other |= late > 0 || unverified > 0;
        for pending in found {
            self.tell(Some(pending), sink);
        }
    }

    /// Hands a conflict on, or keeps it until the start is settled.
    fn tell(&mut self, conflict: Option<Pending>, sink: &mut impl FnMut(Event<'_>)) {
        let Some(pending) = conflict else { return };
        match self.start {
            Some(start) => pending.tell(start, sink),
            None => self.pending.push(pending),
        }
    }

    /// Notes that the snaplen cut `from..to`.
    fn cut(&mut self, from: u64, to: u64) {
        let from = self.start.map_or(from, |_| from.max(self.next));
        if from < to && !self.cuts.insert(from, to, self.limits.max_holes.max(1)) {
            self.counters.forgotten_cuts += 1;
        }
    }

    /// Settles the start of a stream without SYN once enough was seen.
    fn hold_back(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        let enough = self.counters.segments >= HOLD_BACK_SEGMENTS || self.holes.held() >= HOLD_BACK_BYTES;
        if self.start.is_none() && enough {
            self.settle(sink);
        }
    }

    /// The stream starts at the lowest byte held; without one, at the lowest that was cut.
    fn settle(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        let lowest = self.holes.first().or(self.cuts.first());
        if let (None, Some(start)) = (self.start, lowest) {
            self.start = Some(start);
            self.next = start;
            self.cuts.forget_before(start);
        }
        self.drain(sink);
    }

    /// Hands on bytes at `next`.
    #[inline]
    fn hand_on(&mut self, bytes: &[u8], time: Timestamp, packet: PacketRef, sink: &mut impl FnMut(Event<'_>)) {
        if let Some(urgent) = self.urgent {
            return self.hand_on_around(urgent, bytes, time, packet, sink);
        }
        let (Some(start), false) = (self.start, bytes.is_empty()) else { return };
        let offset = self.offset(self.next, start);
        self.history.record(self.next, bytes, packet);
        self.next = self.next.saturating_add(bytes.len() as u64);
        self.counters.delivered = self.counters.delivered.saturating_add(bytes.len() as u64);
        sink(Event::Chunk(Chunk { offset, time, packet, bytes }));
    }

    /// Hands on bytes at `next` without the one that the urgent pointer marks.
    #[cold]
    fn hand_on_around(
        &mut self,
        urgent: u64,
        bytes: &[u8],
        time: Timestamp,
        packet: PacketRef,
        sink: &mut impl FnMut(Event<'_>),
    ) {
        let at = usize::try_from(urgent.saturating_sub(self.next)).unwrap_or(usize::MAX);
        self.urgent = None;
        let Some((before, rest)) = bytes.split_at_checked(at).filter(|(_, rest)| !rest.is_empty()) else {
            self.hand_on(bytes, time, packet, sink);
            // A hole that was stepped over may have taken the mark with it.
            self.urgent = Some(urgent).filter(|u| *u >= self.next);
            return;
        };
        self.hand_on(before, time, packet, sink);
        if let Some((one, after)) = rest.split_at_checked(1) {
            self.history.record(self.next, one, packet);
            self.next = self.next.saturating_add(1);
            self.counters.urgent_bytes += 1;
            self.hand_on(after, time, packet, sink);
        }
    }

    /// Hands on what is held and has no hole before it any more.
    fn drain(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        let Some(start) = self.start else { return };
        if !self.pending.is_empty() {
            std::mem::take(&mut self.pending).iter().for_each(|pending| pending.tell(start, sink));
        }
        while let Some(Taken { parts, fin, beyond }) = self.holes.take(self.next) {
            for held in parts {
                self.hand_on(&held.bytes, held.time, held.packet, sink);
            }
            if fin {
                self.finish_at_fin();
                self.beyond = beyond;
            }
        }
        self.cuts.forget_before(self.next);
        self.blocks.remove_before(self.next, !self.holes.is_empty());
    }

    /// Hands on what stands beyond the FIN that was reached, where the acknowledgements count it.
    pub(super) fn hand_on_beyond_fin(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        // The FIN itself is counted too.
        let read = self.acknowledged.unwrap_or(0).saturating_sub(1);
        if self.beyond.is_empty() || self.acknowledged <= Some(self.next) {
            return;
        }
        for held in std::mem::take(&mut self.beyond) {
            let length = (read.saturating_sub(self.next) as usize).min(held.bytes.len());
            self.hand_on(&held.bytes[..length], held.time, held.packet, sink);
        }
    }

    fn over_budget(&self) -> bool {
        let allocated = self.holes.allocated().saturating_add(self.cuts.len().saturating_mul(Cuts::COST));
        allocated > self.limits.max_buffered_bytes || self.holes.count() > self.limits.max_holes
    }

    /// Makes room while what waits takes more than it may. A hole that the peer acknowledged is given up: its bytes were
    /// delivered, and will not come again. The bytes of any other may yet come, so what lies farthest ahead is dropped,
    /// as Linux drops it; but where no acknowledgement is to be seen and the stream has begun, the oldest hole goes.
    fn enforce(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        while self.over_budget() && !self.holes.is_empty() {
            self.settle(sink);
            if !self.over_budget() {
                break;
            }
            self.counters.evictions += 1;
            let Some(first) = self.holes.first() else { break };
            let acknowledged = self.acknowledged.map(|ack| ack.min(first)).filter(|ack| *ack > self.next);
            let unseen = self.acknowledged.is_none() && self.start != Some(self.next);
            if let Some(to) = acknowledged.or(unseen.then_some(first)) {
                self.give_up(to, GapCause::Evicted, sink);
                self.drain(sink);
            } else {
                self.counters.given_up = self.counters.given_up.saturating_add(self.holes.drop_last());
            }
        }
    }

    /// Declares `next..to` a gap.
    fn give_up(&mut self, to: u64, cause: GapCause, sink: &mut impl FnMut(Event<'_>)) {
        let from = self.next;
        self.declare(to, cause, sink);
        self.counters.gap_bytes = self.counters.gap_bytes.saturating_add(to.saturating_sub(from));
        if self.given_up.len() >= GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back((from, to));
    }

    /// Tells the gap `next..to`, split by cause, and steps over it. Returns how much of it was cut.
    fn declare(&mut self, to: u64, cause: GapCause, sink: &mut impl FnMut(Event<'_>)) -> u64 {
        let Some(start) = self.start else { return 0 };
        let acknowledged = self.acknowledged.unwrap_or(0);
        let mut cut_bytes = 0;
        while self.next < to {
            let at = self.next;
            let (run, cut) = self.cuts.run(at, to);
            let (upto, cause) = if cut {
                cut_bytes += run - at;
                (run, GapCause::Cut)
            } else if at < acknowledged {
                (run.min(acknowledged), GapCause::Missed)
            } else {
                (run, cause)
            };
            let offset = self.offset(at, start);
            sink(Event::Gap { offset, length: upto - at, cause });
            self.next = upto;
        }
        self.cuts.forget_before(self.next);
        cut_bytes
    }

    /// Settles the start and gives up those holes that the peer acknowledged: their bytes were delivered and are only
    /// missing here. For live captures, once [`waiting_since`](Self::waiting_since) is longer ago than packets arrive
    /// out of order.
    pub fn release_acknowledged(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.settle(sink);
        self.release_to_acknowledged(false, sink);
        self.account();
    }

    /// `at_end`: what is missing before a FIN alone is missing after the last byte, not between bytes.
    fn release_to_acknowledged(&mut self, at_end: bool, sink: &mut impl FnMut(Event<'_>)) {
        loop {
            if at_end {
                self.holes.drop_bare_fins();
            }
            let Some(first) = self.holes.first().filter(|first| self.acknowledged >= Some(*first)) else { break };
            self.give_up(first, GapCause::Missed, sink);
            self.drain(sink);
        }
    }

    /// At the end: what waits behind a hole that the peer never acknowledged did not reach whoever reads.
    pub(super) fn drop_unreached(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.settle(sink);
        self.release_to_acknowledged(true, sink);
        let cut = self.cuts.run(self.next, self.next.saturating_add(1)).1;
        // Whoever acknowledges exactly what came before the hole is waiting at it.
        if self.acknowledged == Some(self.next) && !cut {
            self.counters.given_up = self.counters.given_up.saturating_add(self.holes.clear());
        }
    }

    /// Hands on everything held, with the gaps before it (as `Evicted` where no acknowledgement was seen). The stream
    /// goes on; this is how memory is taken back from it.
    pub fn release(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.release_as(GapCause::Evicted, sink);
    }

    fn release_as(&mut self, cause: GapCause, sink: &mut impl FnMut(Event<'_>)) {
        self.settle(sink);
        self.holes.drop_bare_fins();
        while let Some(first) = self.holes.first() {
            self.counters.evictions += u64::from(cause == GapCause::Evicted);
            self.give_up(first, cause, sink);
            self.drain(sink);
            self.holes.drop_bare_fins();
        }
        self.account();
    }

    /// The end of the capture or of the flow: hands on what is held, with gaps, and tells what is known to be missing
    /// after it.
    pub fn finish(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.release_as(GapCause::NeverCame, sink);
        // An acknowledgement may count a FIN that was not seen: one less is certain.
        let sent = self.fin.or(self.acknowledged.map(|ack| ack.saturating_sub(1))).unwrap_or(0);
        let end = sent.max(self.cuts.end().unwrap_or(0));
        if self.start.is_some() && end > self.next {
            let missing = end - self.next;
            let cut = self.declare(end, GapCause::NeverCame, sink);
            self.counters.cut_bytes = self.counters.cut_bytes.saturating_add(cut);
            self.counters.tail_missed = self.counters.tail_missed.saturating_add(missing - cut);
        }
        self.account();
    }

    #[inline]
    fn account(&mut self) {
        let cuts = self.cuts.len().saturating_mul(Cuts::COST);
        let allocated = self.holes.allocated().saturating_add(cuts).saturating_add(self.history.allocated());
        self.counters.held_bytes = self.holes.held() as u64;
        self.counters.allocated_bytes = allocated as u64;
    }
}

#[cfg(test)]
mod tests;
