//! Exact reassembly of one direction of one flow.
//!
//! Rules: the first copy of a byte wins; bytes are handed on in order, once, in the pieces that packets carried; what is
//! in order is handed on at once and is not copied, except into the short history that retransmissions are compared with.
//! A stream whose SYN was seen starts after it. One that was joined midway starts at its lowest byte: its bytes are
//! [held back](HOLD_BACK_SEGMENTS) until packets that were captured slightly out of order had a chance to come.
//!
//! Work is logarithmic a segment, plus a term for each byte of it, in whatever order segments come.

use super::conflict::{Pending, Verdict, difference};
use super::event::{Event, GapCause, Piece, StreamCounters};
use super::history::{History, Recent};
use super::holes::Holes;
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
    fin: Option<u64>,
    holes: Holes,
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
            holes: Holes::default(),
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
        self.start.map(|start| self.next.saturating_sub(start))
    }

    /// Whether everything up to a FIN was handed on.
    pub fn is_complete(&self) -> bool {
        self.start.is_some() && self.fin == Some(self.next)
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
    /// The first one counts. Push the segment's payload as well.
    pub fn fin(&mut self, seq_after_payload: u32) {
        let anchor = self.anchored(seq_after_payload);
        if self.fin.is_none() {
            self.fin = anchor.position(seq_after_payload, self.next);
        }
    }

    /// The peer acknowledged all bytes before `ack`. Tells bytes that the capture lost from bytes that never arrived.
    pub fn acknowledged(&mut self, ack: u32) {
        let Some(anchor) = self.anchor else {
            let later = self.early_ack.is_none_or(|seen| (ack.wrapping_sub(seen) as i32) > 0);
            self.early_ack = if later { Some(ack) } else { self.early_ack };
            return;
        };
        self.acknowledged = self.acknowledged.max(anchor.position(ack, self.next));
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

    /// Takes the payload of one segment and hands on what is in order now.
    pub fn push(&mut self, piece: Piece<'_>, sink: &mut impl FnMut(Event<'_>)) {
        let wire = u64::from(piece.wire_length).max(piece.payload.len() as u64);
        let anchor = self.anchored(piece.seq);
        let Some(position) = anchor.position(piece.seq, self.next) else {
            self.counters.out_of_window += 1;
            return;
        };
        let probes = self.start.is_some_and(|start| self.next > start) && position.checked_add(1) == Some(self.next);
        if wire == 0 {
            self.counters.keep_alives += u64::from(probes);
            return;
        }
        self.counters.segments += 1;
        let end = position.saturating_add(piece.payload.len() as u64);
        if probes && wire == 1 && self.is_garbage(position, piece.payload) {
            self.counters.keep_alives += 1;
            return;
        }
        if self.start.is_some() && self.next == position && self.holes.is_empty() {
            self.hand_on(piece.payload, piece.time, piece.packet, sink);
        } else {
            self.place(&piece, position, end, sink);
        }
        self.cut(end, position.saturating_add(wire));
        self.hold_back(sink);
        self.drain(sink);
        self.enforce(sink);
        self.account();
    }

    /// A keep-alive may carry one byte of rubbish (RFC 1122, 4.2.3.6): it is no second reading of the stream.
    fn is_garbage(&self, position: u64, payload: &[u8]) -> bool {
        let mut other = false;
        self.history.recent(position, position.saturating_add(1), |recent| other = recent.parts.concat() != payload);
        other
    }

    /// Fills the holes that the piece fits in, and compares the rest of it with what is there.
    fn place(&mut self, piece: &Piece<'_>, position: u64, end: u64, sink: &mut impl FnMut(Event<'_>)) {
        let mut verdict = Verdict::default();
        let mut at = position;
        if let Some(start) = self.start.filter(|start| at < *start) {
            self.counters.before_start = self.counters.before_start.saturating_add(start.min(end) - at);
            at = start;
        }
        let part = |from: u64, to: u64| {
            piece.payload.get((from - position) as usize..(to - position) as usize).unwrap_or_default()
        };
        let fresh_from = if self.start.is_some() { self.next } else { 0 };
        while at < end {
            let upto;
            if at < fresh_from {
                upto = fresh_from.min(end);
                self.compare_old(at, part(at, upto), piece.packet, &mut verdict, sink);
            } else if let Some((start, held)) = self.holes.covering(at) {
                upto = start.saturating_add(held.bytes.len() as u64).min(end);
                let first = held.bytes.get((at - start) as usize..(upto - start) as usize).unwrap_or_default();
                let (packet, second) = (held.packet, part(at, upto));
                let differs =
                    difference(&mut self.counters, &mut verdict, at, [first, &[]], packet, second, piece.packet);
                self.tell(differs, sink);
            } else {
                upto = self.holes.next_after(at).unwrap_or(end).min(end);
                verdict.other = true;
                if self.start.is_some() && at == self.next {
                    self.hand_on(part(at, upto), piece.time, piece.packet, sink);
                } else {
                    self.holes.insert(at, part(at, upto), piece.time, piece.packet);
                }
            }
            at = upto;
        }
        if verdict.same > 0 && !verdict.other {
            self.counters.duplicates += 1;
        }
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
        self.counters.dropped_over_budget = self.counters.dropped_over_budget.saturating_add(late);
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
        let (Some(start), false) = (self.start, bytes.is_empty()) else { return };
        let offset = self.next.saturating_sub(start);
        self.history.record(self.next, bytes, packet);
        self.next = self.next.saturating_add(bytes.len() as u64);
        self.counters.delivered = self.counters.delivered.saturating_add(bytes.len() as u64);
        sink(Event::Chunk(Chunk { offset, time, packet, bytes }));
    }

    /// Hands on what is held and has no hole before it any more.
    fn drain(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        let Some(start) = self.start else { return };
        if !self.pending.is_empty() {
            std::mem::take(&mut self.pending).iter().for_each(|pending| pending.tell(start, sink));
        }
        while let Some(held) = self.holes.take(self.next) {
            self.hand_on(&held.bytes, held.time, held.packet, sink);
        }
        self.cuts.forget_before(self.next);
    }

    fn over_budget(&self) -> bool {
        let allocated = self.holes.allocated().saturating_add(self.cuts.len().saturating_mul(Cuts::COST));
        allocated > self.limits.max_buffered_bytes || self.holes.count() > self.limits.max_holes
    }

    /// Gives up the oldest holes while what waits behind them takes more than it may.
    fn enforce(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        while self.over_budget() && !self.holes.is_empty() {
            self.settle(sink);
            if !self.over_budget() {
                break;
            }
            let Some(first) = self.holes.first() else { break };
            self.counters.evictions += 1;
            self.give_up(first, GapCause::Evicted, sink);
            self.drain(sink);
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
            sink(Event::Gap { offset: at - start, length: upto - at, cause });
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
        while let Some(first) = self.holes.first().filter(|first| self.acknowledged >= Some(*first)) {
            self.give_up(first, GapCause::Missed, sink);
            self.drain(sink);
        }
        self.account();
    }

    /// Hands on everything held, with the gaps before it (as `Evicted` where no acknowledgement was seen). The stream
    /// goes on; this is how memory is taken back from it.
    pub fn release(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.release_as(GapCause::Evicted, sink);
    }

    fn release_as(&mut self, cause: GapCause, sink: &mut impl FnMut(Event<'_>)) {
        self.settle(sink);
        while let Some(first) = self.holes.first() {
            self.counters.evictions += u64::from(cause == GapCause::Evicted);
            self.give_up(first, cause, sink);
            self.drain(sink);
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
