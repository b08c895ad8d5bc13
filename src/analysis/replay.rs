//! Every flow of every capture set, reassembled in bounded memory, for whoever wants bytes rather than findings.
//!
//! One set after the other, one packet after the other: what a visitor is told does not depend on anything else.

use super::learn::Knowledge;
use crate::capture::Reader;
use crate::frame::{Decoder, Frame, Segment};
use crate::stream::{
    AssemblerLimits, Conversation, Direction, Event, FlowRecord, FlowState, FlowTable, PacketRef, PortSet,
    StreamCounters,
};
use crate::time::Timestamp;

/// What one reassembled flow costs at least, in bytes, with what the visitor keeps of it at rest.
const SLOT_BYTES: usize = 4096;
/// A flow's number and, in the highest bit, whether it was given up.
const GIVEN_UP: u64 = 1 << 63;

/// Whoever wants the bytes of flows.
pub trait FlowVisitor {
    /// What it keeps of one flow while the flow goes on.
    type Flow;

    /// The flow is about to deliver its first payload. `None`: nothing more is wanted of it.
    fn open(&mut self, number: u64, record: &FlowRecord) -> Option<Self::Flow>;

    /// Bytes, a gap or a conflict in one direction; `packet` is the one that brought it about.
    fn event(&mut self, flow: &mut Self::Flow, direction: Direction, event: Event<'_>, packet: PacketRef);

    /// Memory that it takes for the flow now, in bytes.
    fn bytes(&self, _flow: &Self::Flow) -> usize {
        0
    }

    /// The flow is over. Flows come in order of their numbers, but for those that had to be given up early.
    fn close(&mut self, number: u64, record: &FlowRecord, closed: Closed<Self::Flow>);

    /// A flow without payload is over.
    fn silent(&mut self, _number: u64, _record: &FlowRecord) {}

    /// Whether to stop: nobody reads the output any more.
    fn stop(&self) -> bool {
        false
    }
}

/// A flow, done. Arrays are `[to server, to client]`.
#[derive(Debug)]
pub struct Closed<F> {
    /// What the visitor kept.
    pub flow: F,
    /// What was seen of each stream.
    pub counters: [StreamCounters; 2],
    /// Packets that were captured twice.
    pub duplicates: [u64; 2],
}

/// Counts of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Packets read.
    pub packets: u64,
    /// Flows seen.
    pub flows: u64,
    /// Packets of flows that were captured twice.
    pub duplicates: u64,
    /// Flows given up before they had ended, or forgotten before they carried a byte, to stay below the memory limit.
    pub evicted_flows: u64,
    /// Payload bytes that came after their flow was given up.
    pub evicted_bytes: u64,
}

/// Reads all sets again and shows their flows to `visitor`. `memory`: bytes for flows and streams of a set.
/// Flows are numbered from 1, in order of their first packets, set after set.
pub fn walk<V: FlowVisitor>(known: &Knowledge, ports: &PortSet, memory: u64, visitor: &mut V) -> Totals {
    let memory = usize::try_from(memory).unwrap_or(usize::MAX);
    let ports: PortSet = known.ports().iter().chain(ports.iter()).collect();
    let mut totals = Totals::default();
    for set in &known.sets {
        let mut decoder = Decoder::new(Default::default());
        let mut engine = Engine::new(ports.clone(), memory, totals, &mut *visitor);
        for index in set {
            let Some(path) = known.captures.get(*index as usize) else { continue };
            // What cannot be read was said when the captures were read first.
            let Ok(mut reader) = Reader::open(path, &known.limits) else { continue };
            while let Ok(Some(packet)) = reader.next() {
                engine.totals.packets += 1;
                if let Frame::Tcp(segment) = decoder.decode(&packet) {
                    engine.segment(&segment, packet.time, PacketRef { capture: *index, number: packet.number });
                }
                if engine.visitor.stop() {
                    return engine.totals;
                }
            }
        }
        totals = engine.finish();
    }
    totals
}

/// A reassembled flow.
struct Slot<F> {
    flow: u32,
    conversation: Conversation,
    bytes: usize,
    kept: F,
}

/// The walk through one set.
struct Engine<'v, V: FlowVisitor> {
    table: FlowTable,
    /// By index of the flow in the table.
    numbers: Vec<u64>,
    slots: Vec<Option<Box<Slot<V::Flow>>>>,
    free: Vec<u32>,
    /// Flows of this set of which nothing was said yet: they carried no payload.
    silent: u64,
    bytes: usize,
    max_bytes: usize,
    limits: AssemblerLimits,
    totals: Totals,
    visitor: &'v mut V,
}

impl<'v, V: FlowVisitor> Engine<'v, V> {
    fn new(ports: PortSet, memory: usize, totals: Totals, visitor: &'v mut V) -> Self {
        let record = size_of::<FlowRecord>() + 16;
        Engine {
            table: FlowTable::new((memory / 2 / record).max(1024), ports),
            numbers: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            silent: 0,
            bytes: 0,
            max_bytes: (memory / 2).max(1 << 20),
            limits: AssemblerLimits {
                max_buffered_bytes: (memory / 8).max(1 << 18),
                max_holes: 1 << 16,
                history_bytes: 1 << 10,
            },
            totals,
            visitor,
        }
    }

    fn segment(&mut self, segment: &Segment<'_>, time: Timestamp, packet: PacketRef) {
        let found = self.table.observe(segment, time, packet);
        if found.fresh {
            self.totals.flows += 1;
            self.silent += 1;
            let at = found.flow as usize;
            if self.numbers.len() <= at {
                self.numbers.resize(at + 1, 0);
            }
            self.numbers[at] = self.totals.flows;
        }
        match found.state {
            FlowState::Dismissed => {
                let given_up = self.number(found.flow) & GIVEN_UP != 0;
                self.totals.evicted_bytes += if given_up { u64::from(segment.wire_length) } else { 0 };
            }
            FlowState::Silent if segment.wire_length == 0 => {}
            FlowState::Silent => {
                self.silent = self.silent.saturating_sub(1);
                if let Some(slot) = self.open(found.flow, packet) {
                    self.follow(slot, segment, time, packet);
                    self.shed(slot);
                }
            }
            FlowState::Tracked(slot) => {
                self.follow(slot, segment, time, packet);
                self.shed(slot);
            }
        }
    }

    fn number(&self, flow: u32) -> u64 {
        self.numbers.get(flow as usize).copied().unwrap_or(0)
    }

    fn open(&mut self, flow: u32, packet: PacketRef) -> Option<u32> {
        let record = self.table.record(flow);
        let Some(kept) = self.visitor.open(self.number(flow) & !GIVEN_UP, record) else {
            self.table.record_mut(flow).state = FlowState::Dismissed;
            return None;
        };
        let conversation = Conversation::new(self.limits, record, packet);
        let slot = Box::new(Slot { flow, conversation, bytes: SLOT_BYTES, kept });
        self.bytes += SLOT_BYTES;
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[at as usize] = Some(slot);
        self.table.record_mut(flow).state = FlowState::Tracked(at);
        Some(at)
    }

    fn follow(&mut self, slot: u32, segment: &Segment<'_>, time: Timestamp, packet: PacketRef) {
        let Some(slot) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let Slot { flow, conversation, bytes, kept } = &mut **slot;
        let (record, visitor) = (self.table.record(*flow), &mut *self.visitor);
        let outcome = conversation.segment(record, segment, time, packet, &mut |direction, event| {
            visitor.event(kept, direction, event, packet);
        });
        self.totals.duplicates += u64::from(outcome.duplicate);
        let now = SLOT_BYTES + conversation.bytes() + self.visitor.bytes(kept);
        self.table.note_outcome(*flow, segment, outcome, time, packet);
        self.bytes = self.bytes.saturating_sub(*bytes).saturating_add(now);
        *bytes = now;
    }

    /// Above the limit, gives up the eighth of the flows that has been idle longest, by packet time.
    fn shed(&mut self, newest: u32) {
        if self.bytes <= self.max_bytes {
            return;
        }
        let mut idle: Vec<(Timestamp, u64, u32)> = (0u32..)
            .zip(&self.slots)
            .filter(|(i, _)| *i != newest)
            .filter_map(|(i, s)| s.as_ref().map(|s| (self.table.record(s.flow).last, self.number(s.flow), i)))
            .collect();
        idle.sort_unstable();
        idle.truncate((idle.len() / 8).max(1));
        for (_, number, slot) in idle {
            let Some(flow) = self.slots.get(slot as usize).and_then(Option::as_ref).map(|s| s.flow) else { continue };
            let r = self.table.record(flow);
            let ended = r.rst.iter().any(|t| t.get().is_some()) || r.fin.iter().all(|t| t.get().is_some());
            self.totals.evicted_flows += u64::from(!ended);
            if let Some(n) = self.numbers.get_mut(flow as usize) {
                *n = number | GIVEN_UP;
            }
            self.close(slot);
        }
    }

    fn close(&mut self, slot: u32) {
        let Some(closed) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        let Slot { flow, mut conversation, bytes, mut kept } = *closed;
        self.bytes = self.bytes.saturating_sub(bytes);
        let number = self.number(flow) & !GIVEN_UP;
        self.table.record_mut(flow).state = FlowState::Dismissed;
        let (record, visitor) = (self.table.record(flow), &mut *self.visitor);
        conversation.finish(&mut |direction, event| visitor.event(&mut kept, direction, event, PacketRef::default()));
        let both = [Direction::ToServer, Direction::ToClient];
        let counters = both.map(|d| *conversation.counters(d));
        let duplicates = both.map(|d| conversation.duplicates(d));
        visitor.close(number, record, Closed { flow: kept, counters, duplicates });
    }

    /// Ends all flows, in order of their numbers.
    fn finish(mut self) -> Totals {
        let mut left: Vec<(u64, u32, FlowState)> =
            self.table.iter().map(|(flow, r)| (self.number(flow) & !GIVEN_UP, flow, r.state)).collect();
        left.sort_unstable_by_key(|(number, flow, _)| (*number, *flow));
        for (number, flow, state) in left {
            match state {
                FlowState::Tracked(slot) => self.close(slot),
                FlowState::Silent => {
                    self.silent = self.silent.saturating_sub(1);
                    self.visitor.silent(number, self.table.record(flow));
                }
                FlowState::Dismissed => {}
            }
            // Flows that nobody wants to see any more were not forgotten.
            if self.visitor.stop() {
                return self.totals;
            }
        }
        // The table forgot the rest.
        self.totals.evicted_flows += self.silent;
        self.totals
    }
}
