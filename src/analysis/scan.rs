//! One capture set, packet by packet: records for every flow, decoders for those that may matter.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use crate::capture::Packet;
use crate::frame::{Checksum, Decoder, Frame, Segment, glance, verify_checksum};
use crate::net::{Address, Endpoint};
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::{NamedPorts, ProtocolSet};
use crate::stream::{Activity, FlowRecord, FlowState, FlowTable, Ordinary, PacketRef, PortSet};
use crate::time::Timestamp;

use super::flow_decoder::{Interest, Tracked};
pub use super::retention::{FoldKey, Folded};
use super::retention::{Folder, Retention};

/// Tokens of groups that are remembered; a host runs a few communicators.
const MAX_TOKENS: usize = 4096;

/// Connections with claims that are noted between two batches.
const MAX_CLAIMS: usize = 1 << 16;

/// What a scan looks for and what it may keep.
#[derive(Clone)]
pub struct ScanOptions {
    /// Ports that are listeners', whichever side spoke first.
    pub ports: PortSet,
    /// Ports whose flows are read by a protocol whatever their first bytes.
    pub named: NamedPorts,
    /// Only flows to these listeners, all of them read by these protocols: a second reading for what was learnt late.
    pub only: Option<HashMap<Endpoint, ProtocolSet>>,
    /// Every flow is reassembled, none is decoded (`streams`).
    pub max_flows: usize,
    /// Memory for reassembly and decoding, in bytes.
    pub max_tracked_bytes: usize,
    /// Keep first bytes of dismissed flows: the input cannot be read again.
    pub keep_heads: bool,
}

/// Counters of one set.
#[derive(Clone, Debug, Default)]
pub struct ScanCounters {
    /// Packets read.
    pub packets: u64,
    /// TCP segments among them.
    pub segments: u64,
    /// Flows forgotten to stay below the ceiling.
    pub evicted_flows: u64,
    /// Streams whose decoding was given up to stay below the ceiling, in bytes kept for them.
    pub evicted_bytes: u64,
    /// Wrong TCP checksums among segments of decoded flows.
    pub bad_checksums: u64,
    /// The same packet seen twice.
    pub duplicates: u64,
}

/// What a set holds: facts only.
#[derive(Debug, Default)]
pub struct SetObservations {
    /// A record for every flow, in order of arrival.
    pub records: Vec<FlowRecord>,
    /// Ordinary connections that no record is kept of.
    pub ordinary: Vec<Ordinary>,
    /// The flows that were decoded.
    pub flows: Vec<FlowObservation>,
    /// Decoded flows that are like others in `flows`, by kind.
    pub folded: BTreeMap<FoldKey, Folded>,
    /// When each listener of a decoded flow sent anything.
    pub activity: BTreeMap<Endpoint, Activity>,
    /// Counters.
    pub counters: ScanCounters,
    /// Packets that could not be read, by reason.
    pub skipped: BTreeMap<String, u64>,
}

/// The engine of one set. Feed it packets in order of time, then [`SetScan::finish`].
pub struct SetScan {
    set: u32,
    decoder: Decoder,
    flows: Flows,
}

struct Flows {
    set: u32,
    options: ScanOptions,
    only_ports: PortSet,
    table: FlowTable,
    tracked: Vec<Option<Box<Tracked>>>,
    free: Vec<u32>,
    tracked_bytes: usize,
    activity: BTreeMap<Endpoint, Activity>,
    done: Vec<FlowObservation>,
    folder: Folder,
    /// Flows that made room for earlier ones of their kind.
    replaced: Vec<(Timestamp, PacketRef)>,
    /// Flows that ended early, and where in `done` they are.
    early: Vec<(u32, usize)>,
    /// What connections of groups begin with, and whose groups they are: later connections are known by it at once, and
    /// the set need not be read again for those.
    tokens: HashMap<u64, ProtocolSet>,
    counters: ScanCounters,
    /// Connections that may hold a claim since they were taken, by client and listener.
    claims: Vec<(Endpoint, Endpoint)>,
    /// What the last segment was, for whoever keeps segments.
    mark: SegmentRole,
    marking: bool,
}

/// What a segment was to the flows that are decoded.
#[derive(Debug, Default)]
pub(super) enum SegmentRole {
    /// None of theirs.
    #[default]
    Other,
    /// The first one of a flow that is decoded from here on; the flow's record with this segment counted.
    Opens(u32, Box<FlowRecord>),
    /// Another one of such a flow.
    Follows(u32),
}

impl SetScan {
    /// An engine for the set with this index.
    pub fn new(set: u32, options: ScanOptions) -> Self {
        let table = FlowTable::new(options.max_flows, options.ports.clone());
        let only_ports = options.only.iter().flatten().map(|(e, _)| e.port).collect();
        SetScan {
            set,
            decoder: Decoder::new(Default::default()),
            flows: Flows {
                set,
                options,
                only_ports,
                table,
                tracked: Vec::new(),
                free: Vec::new(),
                tracked_bytes: 0,
                activity: BTreeMap::new(),
                done: Vec::new(),
                folder: Folder::default(),
                replaced: Vec::new(),
                early: Vec::new(),
                tokens: HashMap::new(),
                counters: ScanCounters::default(),
                claims: Vec::new(),
                mark: SegmentRole::Other,
                marking: false,
            },
        }
    }

    /// The next packet, as [`SetScan::packet`]; then `keep` is told what its segment was, if it has one. Segments from or
    /// to `also` are shown whatever becomes of their flows.
    pub(super) fn packet_kept(
        &mut self,
        capture: u32,
        packet: &Packet<'_>,
        also: &HashSet<Endpoint>,
        keep: &mut dyn FnMut(&Segment<'_>, Timestamp, PacketRef, SegmentRole),
    ) {
        self.flows.counters.packets += 1;
        if also.is_empty()
            && let Some(glance) = glance(packet)
            && self.flows.table.pass(&glance, packet.time)
        {
            self.decoder.passed();
            return;
        }
        if let Frame::Tcp(segment) = self.decoder.decode(packet) {
            let at = PacketRef { capture, number: packet.number };
            self.flows.marking = true;
            self.flows.segment(&segment, packet.time, at);
            keep(&segment, packet.time, at, std::mem::take(&mut self.flows.mark));
        }
    }

    /// A segment that was kept: `opens` is what [`SegmentRole::Opens`] gave for it. The flow, if it is one that is decoded.
    pub(super) fn replay(
        &mut self,
        segment: &Segment<'_>,
        time: Timestamp,
        packet: PacketRef,
        opens: Option<&FlowRecord>,
    ) -> Option<u32> {
        self.flows.counters.packets += 1;
        self.flows.marking = true;
        match opens {
            Some(record) => {
                let record = FlowRecord { state: FlowState::Silent, ..record.clone() };
                let flow = self.flows.table.adopt(record);
                self.flows.first_payload(flow, segment, time, packet);
            }
            // What came before was let go: the rest of such a flow says nothing.
            None if self.flows.options.only.is_none() && !self.flows.table.is_tracked(segment.src, segment.dst) => {}
            None => self.flows.segment(segment, time, packet),
        }
        match std::mem::take(&mut self.flows.mark) {
            SegmentRole::Opens(flow, _) | SegmentRole::Follows(flow) => Some(flow),
            SegmentRole::Other => None,
        }
    }

    /// Takes up records of an earlier run, in order of their first packets; those of flows that were replayed get the
    /// counts of these.
    pub(super) fn restore(&mut self, records: Vec<FlowRecord>) {
        let table = &mut self.flows.table;
        let known: BTreeMap<PacketRef, u32> = table.iter().map(|(i, r)| (r.first_packet, i)).collect();
        for record in records {
            match known.get(&record.first_packet) {
                Some(flow) => table.record_mut(*flow).take_counts(&record),
                None => {
                    table.adopt(record);
                }
            }
        }
    }

    /// Flows that were decoded to their end, so far.
    pub(super) fn decoded(&self) -> &[FlowObservation] {
        &self.flows.done
    }

    /// Forgets what was decoded to its end: of a set that grows only segments and records are kept.
    pub(super) fn forget_decoded(&mut self) {
        self.flows.done.clear();
        self.flows.early.clear();
        self.flows.replaced.clear();
        self.flows.activity.clear();
        self.flows.folder = Folder::default();
    }

    /// Connections that may hold a claim, since this was called last, by client and listener.
    pub(super) fn take_claims(&mut self) -> Vec<(Endpoint, Endpoint)> {
        std::mem::take(&mut self.flows.claims)
    }

    /// Forgets flows that are not being decoded and whose last packet is earlier.
    #[cfg(feature = "live")]
    pub(super) fn forget_before(&mut self, time: Timestamp) {
        self.flows.table.forget_before(time);
    }

    /// Flows that are being decoded.
    pub(super) fn open_flows(&self) -> usize {
        self.flows.tracked.len() - self.flows.free.len()
    }

    /// The records so far.
    pub(super) fn records(&self) -> impl Iterator<Item = &FlowRecord> {
        self.flows.table.iter().map(|(_, r)| r)
    }

    /// Counters so far, and packets without a segment, by reason and by kind.
    pub(super) fn counted(&self) -> (ScanCounters, BTreeMap<String, u64>, BTreeMap<String, u64>) {
        let mut counters = self.flows.counters.clone();
        counters.evicted_flows = self.flows.table.evicted();
        let other = self.decoder.counters().other().into_iter().filter(|(_, n)| *n > 0);
        (
            counters,
            self.decoder.counters().skipped().into_iter().collect(),
            other.map(|(k, n)| (k.to_string(), n)).collect(),
        )
    }

    /// The next packet of the capture with this index.
    #[inline]
    pub fn packet(&mut self, capture: u32, packet: &Packet<'_>) {
        self.flows.counters.packets += 1;
        if let Some(glance) = glance(packet)
            && self.flows.table.pass(&glance, packet.time)
        {
            self.decoder.passed();
            return;
        }
        self.segment_of(capture, packet);
    }

    #[inline(never)]
    fn segment_of(&mut self, capture: u32, packet: &Packet<'_>) {
        if let Frame::Tcp(segment) = self.decoder.decode(packet) {
            let at = PacketRef { capture, number: packet.number };
            self.flows.segment(&segment, packet.time, at);
        }
    }

    /// Ends all streams and hands over what was seen.
    pub fn finish(mut self) -> SetObservations {
        for slot in 0..self.flows.tracked.len() {
            self.flows.close(slot);
        }
        let mut flows = self.flows;
        flows.count_early();
        flows.counters.evicted_flows = flows.table.evicted();
        flows.done.sort_by_key(|f| (f.record.first, f.record.first_packet));
        debug_assert_eq!(self.set, flows.set);
        let mut records = flows.table.into_records();
        flows.replaced.sort_unstable();
        for r in records.iter_mut().filter(|_| !flows.replaced.is_empty()) {
            r.folded |= flows.replaced.binary_search(&(r.first, r.first_packet)).is_ok();
        }
        SetObservations {
            records,
            ordinary: Vec::new(),
            folded: flows.folder.finish(),
            flows: flows.done,
            activity: flows.activity,
            counters: flows.counters,
            skipped: self.decoder.counters().skipped().into_iter().collect(),
        }
    }
}

impl Flows {
    #[inline]
    fn segment(&mut self, segment: &Segment<'_>, time: Timestamp, packet: PacketRef) {
        if let Some(only) = &self.options.only {
            let ports = (segment.src.port, segment.dst.port);
            if !(self.only_ports.contains(ports.0) || self.only_ports.contains(ports.1)) {
                return;
            }
            if !only.contains_key(&segment.src) && !only.contains_key(&segment.dst) {
                return;
            }
        }
        self.counters.segments += 1;
        let found = self.table.observe(segment, time, packet);
        match found.state {
            FlowState::Dismissed => {}
            FlowState::Silent if segment.wire_length == 0 => {
                if self.options.ports.contains(self.table.record(found.flow).server().port) {
                    self.check(segment);
                }
            }
            FlowState::Silent => self.first_payload(found.flow, segment, time, packet),
            FlowState::Tracked(slot) => {
                if self.marking {
                    self.mark = SegmentRole::Follows(found.flow);
                }
                self.follow(slot as usize, segment, time, packet);
            }
        }
    }

    /// Counts a wrong checksum; it drops nothing, because offload leaves checksums to the card behind the capture.
    fn check(&mut self, segment: &Segment<'_>) {
        self.counters.bad_checksums += u64::from(verify_checksum(segment) == Checksum::Bad);
    }

    /// The first segment with payload decides for nearly every flow.
    fn first_payload(&mut self, flow: u32, segment: &Segment<'_>, time: Timestamp, packet: PacketRef) {
        let record = self.table.record(flow);
        let server = record.server();
        let mut sure = self.options.named.at(server.port).with(self.group_of(record, segment));
        let wanted = self.options.only.as_ref().and_then(|only| only.get(&server));
        sure = sure.with(wanted.copied().unwrap_or_default());
        let mut interest = Interest { sure, open: ProtocolSet::default() };
        if sure.is_empty() || wanted.is_some() {
            let told = Interest::of_first(record, segment);
            // Of a second reading the flow is decoded at once: by those that want it and those that know it for certain.
            let open = if sure.is_empty() { told.open } else { interest.open };
            interest = Interest { sure: sure.with(told.sure), open };
        }
        if interest.is_none() {
            self.dismiss(flow, segment, time, packet);
            return;
        }
        if self.marking {
            self.mark = SegmentRole::Opens(flow, Box::new(self.table.record(flow).clone()));
        }
        let tracked = Box::new(Tracked::new(flow, self.table.record(flow), interest, segment, packet));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.tracked[slot as usize] = Some(tracked);
                slot
            }
            None => {
                self.tracked.push(Some(tracked));
                (self.tracked.len() - 1) as u32
            }
        };
        self.table.record_mut(flow).state = FlowState::Tracked(slot);
        self.tracked_bytes += Tracked::BASE_BYTES;
        self.follow(slot as usize, segment, time, packet);
        if self.tracked_bytes > self.options.max_tracked_bytes {
            self.shed(slot as usize);
        }
    }

    /// The protocols that know a client's first eight bytes from other connections of one of their groups.
    fn group_of(&self, record: &FlowRecord, segment: &Segment<'_>) -> ProtocolSet {
        let head = segment.payload.first_chunk().filter(|_| !self.tokens.is_empty() && segment.src == record.client());
        head.and_then(|head| self.tokens.get(&u64::from_le_bytes(*head))).copied().unwrap_or_default()
    }

    fn dismiss(&mut self, flow: u32, segment: &Segment<'_>, time: Timestamp, packet: PacketRef) {
        let keep = self.options.keep_heads;
        let record = self.table.record_mut(flow);
        record.state = FlowState::Dismissed;
        if keep {
            record.keep_head(segment.src, segment.payload, packet, time);
        }
    }

    fn follow(&mut self, slot: usize, segment: &Segment<'_>, time: Timestamp, packet: PacketRef) {
        let Some(tracked) = self.tracked.get_mut(slot).and_then(Option::as_mut) else { return };
        let record = self.table.record(tracked.flow);
        let before = tracked.bytes();
        let step = tracked.segment(record, segment, time, packet);
        let flow = tracked.flow;
        self.counters.duplicates += u64::from(step.outcome.duplicate);
        self.counters.bad_checksums += u64::from(step.outcome.bad_checksum && !step.outcome.duplicate);
        if step.server_active {
            self.activity.entry(record.server()).or_default().note(time, packet);
        }
        if step.claims && self.marking && self.claims.len() < MAX_CLAIMS {
            self.claims.push((record.client(), record.server()));
        }
        self.table.note_outcome(flow, segment, step.outcome, time, packet);
        let after = tracked.bytes();
        self.tracked_bytes = (self.tracked_bytes + after).saturating_sub(before);
        if self.tokens.len() < MAX_TOKENS {
            self.tokens.extend(step.token);
        }
        if step.dismissed {
            let heads = self.options.keep_heads.then(|| tracked.heads());
            self.tracked_bytes = self.tracked_bytes.saturating_sub(after);
            self.tracked[slot] = None;
            self.free.push(slot as u32);
            let record = self.table.record_mut(flow);
            record.state = FlowState::Dismissed;
            record.set_heads(heads);
        } else if step.bulk {
            // Data that is only counted costs one look-up a packet from here on.
            self.early.push((tracked.flow, self.done.len()));
            self.close(slot);
        } else if !self.table.record(tracked.flow).is_live() {
            // Replaced by a flow with the same ports: nothing more will come.
            self.close(slot);
        }
    }

    /// Ends a tracked flow and keeps what was seen of it.
    fn close(&mut self, slot: usize) {
        let Some(tracked) = self.tracked.get_mut(slot).and_then(Option::take) else { return };
        self.tracked_bytes = self.tracked_bytes.saturating_sub(tracked.bytes());
        self.free.push(slot as u32);
        let flow = tracked.flow;
        let decided = tracked.is_decided();
        let record = self.table.record_mut(flow);
        record.state = FlowState::Dismissed;
        if decided {
            let observation = tracked.finish(record.clone(), self.set);
            self.keep(flow, observation);
        } else if self.options.keep_heads {
            let heads = tracked.heads();
            record.set_heads(Some(heads));
        }
    }

    /// Keeps an observation, unless it is one of many alike.
    fn keep(&mut self, flow: u32, observation: FlowObservation) {
        match self.folder.take(&observation, self.done.len()) {
            Retention::Keep => self.done.push(observation),
            Retention::Fold => self.table.record_mut(flow).folded = true,
            Retention::Replace(at) => {
                if let Some(slot) = self.done.get_mut(at) {
                    let later = std::mem::replace(slot, observation);
                    self.replaced.push((later.record.first, later.record.first_packet));
                }
            }
        }
    }

    /// What the records of flows that ended early say now, their observations say too.
    fn count_early(&mut self) {
        for (flow, at) in std::mem::take(&mut self.early) {
            let record = self.table.record(flow);
            let Some(seen) = self.done.get_mut(at) else { continue };
            // The table may have forgotten it and used its place again.
            if record.first_packet == seen.record.first_packet && record.server() == seen.record.server() {
                seen.count_again(record);
            }
        }
    }

    /// Makes room for an eighth of the tracked flows. Those that have ended go first: they lose nothing. Then flows are
    /// given up, of the source that has the most of them the one that has been idle longest, by packet time: whoever
    /// floods pushes out his own.
    fn shed(&mut self, newest: usize) {
        let open =
            || self.tracked.iter().enumerate().filter_map(|(i, t)| t.as_ref().map(|t| (i, self.table.record(t.flow))));
        let now = self
            .tracked
            .get(newest)
            .and_then(Option::as_ref)
            .map_or(Timestamp::MIN, |t| self.table.record(t.flow).last);
        let mut wanted = (open().count() / 8).max(1);
        let ended = |r: &FlowRecord| {
            let closed = r.fin.iter().all(|t| t.get().is_some()) || r.rst.iter().any(|t| t.get().is_some());
            // A retransmission may follow the last FIN.
            closed && now.seconds_since(r.last) > 1.0
        };
        let over: Vec<usize> = open().filter(|(i, r)| *i != newest && ended(r)).map(|(i, _)| i).collect();
        let mut by_source: BTreeMap<Address, BinaryHeap<Reverse<(Timestamp, usize)>>> = BTreeMap::new();
        for (i, r) in open().filter(|(i, r)| *i != newest && !ended(r)) {
            by_source.entry(r.client().address).or_default().push(Reverse((r.last, i)));
        }
        wanted = wanted.saturating_sub(over.len());
        over.into_iter().for_each(|slot| self.close(slot));
        let mut largest: BinaryHeap<(usize, Reverse<Address>)> =
            by_source.iter().map(|(source, flows)| (flows.len(), Reverse(*source))).collect();
        while wanted > 0 {
            let Some((_, Reverse(source))) = largest.pop() else { break };
            let Some(flows) = by_source.get_mut(&source) else { break };
            let Some(Reverse((_, slot))) = flows.pop() else { break };
            largest.push((flows.len(), Reverse(source)));
            if let Some(tracked) = self.tracked.get(slot).and_then(Option::as_ref) {
                self.counters.evicted_bytes += tracked.bytes() as u64;
            }
            self.close(slot);
            wanted -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
