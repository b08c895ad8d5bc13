//! The flow table: one look-up a packet.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::frame::{Flags, Glance, Segment, verify_checksum};
use crate::net::Endpoint;
use crate::stream::record::{Direction, FlowKey, FlowRecord, FlowState, OptionalTime, SynMaker};
use crate::stream::{CompactRef, PacketRef};
use crate::time::Timestamp;

/// The control bits that change a record's times.
const CONTROL: u8 = Flags::SYN | Flags::FIN | Flags::RST;

/// Where a segment belongs.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Index of the flow's record.
    pub flow: u32,
    /// Which way the segment goes.
    pub direction: Direction,
    /// State of the flow.
    pub state: FlowState,
    /// Whether the flow begins with this segment.
    pub fresh: bool,
}

/// Flow records by endpoints. Invariants: every live record is in the index exactly once; a record that was
/// replaced (ports reused) or evicted is not; records keep their place in order of arrival.
///
/// The hash is seeded: whoever sends packets chooses the keys.
pub struct FlowTable {
    records: Vec<FlowRecord>,
    index: HashTable<u32>,
    seeds: Seeds,
    max_flows: usize,
    /// Flows forgotten to stay below the ceiling.
    evicted: u64,
    free: Vec<u32>,
    /// Called for ports when a flow starts without a SYN: true where the port is a listener's.
    server_ports: PortSet,
    /// SYNs and SYN-ACKs that came inside a connection, by its flow: records that take its place if the other side
    /// agrees. A receiver answers such a SYN with a challenge and goes on.
    challengers: BTreeMap<u32, Box<FlowRecord>>,
}

/// Challengers that are kept at a time.
const MAX_CHALLENGERS: usize = 4096;
/// Bytes beyond those that were seen that a sequence number may be away and still belong to a connection: what a
/// capture may have lost, or a sender have in flight.
const SLACK: u32 = 1 << 20;

/// Which record takes the place of a flow's.
enum Successor {
    /// None does.
    None,
    /// One that begins with the segment at hand.
    Segment,
    /// The challenger.
    Challenger,
    /// None yet: the segment begins a challenger.
    Challenges,
}

/// Six random words, drawn once a table.
struct Seeds([u64; 6]);

impl Default for Seeds {
    fn default() -> Self {
        let random = RandomState::new();
        Seeds(std::array::from_fn(|i| random.hash_one(i)))
    }
}

impl Seeds {
    /// Three folded multiplications (as in wyhash and foldhash) over the five words of a key: a general hasher took
    /// more time than all the rest of a packet.
    #[inline]
    fn hash(&self, key: &FlowKey) -> u64 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let ([a, b, c, d, ports], s) = (key.words(), &self.0);
        let addresses = fold(a ^ s[0], b ^ s[1]) ^ fold(c ^ s[2], d ^ s[3]).rotate_left(32);
        fold(addresses ^ s[4], ports ^ s[5])
    }
}

/// A set of ports, one bit each.
#[derive(Clone)]
pub struct PortSet(Box<[u64; 1024]>);

impl Default for PortSet {
    fn default() -> Self {
        PortSet(Box::new([0; 1024]))
    }
}

impl PortSet {
    /// Adds a port.
    pub fn insert(&mut self, port: u16) {
        self.0[usize::from(port >> 6)] |= 1 << (port & 63);
    }

    /// Whether it holds `port`.
    #[inline]
    pub fn contains(&self, port: u16) -> bool {
        self.0[usize::from(port >> 6)] >> (port & 63) & 1 != 0
    }

    /// The ports, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..=u16::MAX).filter(|p| self.contains(*p))
    }
}

impl FromIterator<u16> for PortSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ports: I) -> Self {
        let mut set = PortSet::default();
        ports.into_iter().for_each(|p| set.insert(p));
        set
    }
}

impl FlowTable {
    /// A table that holds at most `max_flows` flows (at least 64).
    pub fn new(max_flows: usize, server_ports: PortSet) -> Self {
        FlowTable {
            records: Vec::new(),
            index: HashTable::new(),
            seeds: Seeds::default(),
            max_flows: max_flows.clamp(64, u32::MAX as usize - 1),
            evicted: 0,
            free: Vec::new(),
            server_ports,
            challengers: BTreeMap::new(),
        }
    }

    /// Finds the flow of a segment, making a record when it is new, and counts the segment in it.
    #[inline]
    pub fn observe(&mut self, segment: &Segment<'_>, time: Timestamp, packet: PacketRef) -> Found {
        let (key, src_is_low) = FlowKey::new(segment.src, segment.dst);
        let hash = self.seeds.hash(&key);
        let records = &self.records;
        if let Some(&flow) = self.index.find(hash, |i| records[*i as usize].key == key) {
            let record = &mut self.records[flow as usize];
            let direction = if src_is_low == record.client_is_low { Direction::ToServer } else { Direction::ToClient };
            let i = direction.index();
            record.last = record.last.max(time);
            record.packets[i] = record.packets[i].saturating_add(1);
            record.bytes[i] += u64::from(segment.wire_length);
            if segment.flags.0 & CONTROL == 0 && record.bits & FlowRecord::WATCHED == 0 {
                if i == 0 && !record.close_packets[0].is_set() && record.is_completed_by(segment) {
                    record.close_packets[0] = packet.into();
                }
                return Found { flow, direction, state: record.state, fresh: false };
            }
            return self.control(flow, direction, segment, time, packet, key, hash, src_is_low);
        }
        self.insert(segment, time, packet, key, hash, src_is_low)
    }

    /// Counts a plain packet of a flow that nobody wants (or without payload, of one that is silent so far): one
    /// look-up. False, and nothing done, for any other.
    #[inline]
    pub fn pass(&mut self, glance: &Glance, time: Timestamp) -> bool {
        if glance.flags.0 & CONTROL != 0 {
            return false;
        }
        let (key, src_is_low) = FlowKey::of_v4(glance.src, glance.dst);
        let hash = self.seeds.hash(&key);
        let records = &self.records;
        let Some(&flow) = self.index.find(hash, |i| records[*i as usize].key == key) else { return false };
        let record = &mut self.records[flow as usize];
        let unwanted = record.bits & FlowRecord::WATCHED == 0
            && (record.state == FlowState::Dismissed
                || record.state == FlowState::Silent && glance.wire_length == 0 && record.close_packets[0].is_set());
        if unwanted {
            let i = usize::from(src_is_low != record.client_is_low);
            record.last = record.last.max(time);
            record.packets[i] = record.packets[i].saturating_add(1);
            record.bytes[i] += u64::from(glance.wire_length);
        }
        unwanted
    }

    /// SYN, FIN and RST, and whatever comes after the end of a connection: the rare segments that need a closer look.
    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn control(
        &mut self,
        flow: u32,
        direction: Direction,
        segment: &Segment<'_>,
        time: Timestamp,
        packet: PacketRef,
        key: FlowKey,
        hash: u64,
        src_is_low: bool,
    ) -> Found {
        self.drop_challenger(flow, direction, segment);
        let successor = match self.successor(flow, direction, segment) {
            Successor::None => None,
            Successor::Challenger => self.challengers.remove(&flow).map(|mut challenger| {
                // The SYN, or SYN-ACK, was counted as the connection's in which it came.
                let sent = if challenger.syn.get().is_some() { 0 } else { 1 };
                challenger.packets[sent] = 1;
                let record = &mut self.records[flow as usize];
                let same_sides = record.client_is_low == challenger.client_is_low;
                let before = &mut record.packets[if same_sides { sent } else { 1 - sent }];
                *before = before.saturating_sub(1);
                *challenger
            }),
            Successor::Segment => Some(self.record_of(segment, time, packet, key, src_is_low, flow)),
            Successor::Challenges => {
                if self.challengers.len() < MAX_CHALLENGERS || self.challengers.contains_key(&flow) {
                    let challenger = self.record_of(segment, time, packet, key, src_is_low, flow);
                    self.challengers.insert(flow, Box::new(challenger));
                    self.records[flow as usize].bits |= FlowRecord::WATCHED;
                }
                return Found { flow, direction, state: self.records[flow as usize].state, fresh: false };
            }
        };
        let Some(successor) = successor else {
            let direction = note_control(&mut self.records[flow as usize], direction, segment, time, packet);
            return Found { flow, direction, state: self.records[flow as usize].state, fresh: false };
        };
        // The counts of this segment belong to the new record.
        let record = &mut self.records[flow as usize];
        let i = direction.index();
        record.packets[i] -= 1;
        record.bytes[i] -= u64::from(segment.wire_length);
        record.bits &= !FlowRecord::LIVE;
        self.challengers.remove(&flow);
        let records = &self.records;
        if let Ok(entry) = self.index.find_entry(hash, |i| records[*i as usize].key == key) {
            entry.remove();
        }
        self.install(successor, hash);
        Found { fresh: true, ..self.observe(segment, time, packet) }
    }

    /// Forgets a SYN inside a connection when its server goes on with this connection: it did not take the SYN.
    fn drop_challenger(&mut self, flow: u32, direction: Direction, segment: &Segment<'_>) {
        let flags = segment.flags;
        let goes_on = |c: &FlowRecord| {
            c.syn.get().is_some() && c.syn_ack.get().is_none() && segment.ack != c.isns[0].wrapping_add(1)
        };
        let speaks = direction == Direction::ToClient && flags.ack() && !flags.syn() && !flags.rst();
        if speaks && self.challengers.get(&flow).is_some_and(|c| goes_on(c)) {
            self.challengers.remove(&flow);
        }
    }

    /// Whether a segment shows that its endpoints have begun another connection.
    fn successor(&self, flow: u32, direction: Direction, segment: &Segment<'_>) -> Successor {
        let record = &self.records[flow as usize];
        let (i, flags) = (direction.index(), segment.flags);
        let ended = record.has_ended();
        let reset = record.rst.iter().any(|t| *t != OptionalTime::NEVER);
        let challenger = self.challengers.get(&flow);
        if flags.syn() && !flags.ack() {
            // Same ports, another initial sequence number: a new flow (RFC 9293 calls it a new incarnation).
            let other = record.isn_seen(i) && record.isns[i] != segment.seq
                || !record.isn_seen(i) && (record.bytes[0] + record.bytes[1] > u64::from(segment.wire_length))
                || direction == Direction::ToClient && record.direction_known;
            // Inside a connection that goes on, or whose last FIN is not acknowledged, a receiver drops it; the SYN-ACK
            // tells.
            let goes_on = !reset && record.accepted() && record.packets[1 - i] > 0;
            return match (other, goes_on && other || !other && ended && record.accepted()) {
                (true, false) => Successor::Segment,
                (_, true) => Successor::Challenges,
                (false, false) => Successor::None,
            };
        }
        if flags.syn() {
            let answers = |r: &FlowRecord| r.isn_seen(0) && segment.ack == r.isns[0].wrapping_add(1);
            let other = record.isn_seen(1) && record.isns[1] != segment.seq;
            return match challenger {
                Some(c) if answers(c) && (other || !answers(record)) => Successor::Challenger,
                _ if direction != Direction::ToClient && record.direction_known => Successor::None,
                _ if ended && (other || !answers(record) && record.isn_seen(0)) => Successor::Segment,
                _ if !answers(record) && record.isn_seen(0) && record.accepted() => Successor::Challenges,
                _ => Successor::None,
            };
        }
        // A SYN-ACK that fits no SYN: the client takes it up, or does not. A SYN whose SYN-ACK was lost, after the end: its
        // client goes on, or it is refused.
        let takes_up = |c: &FlowRecord| {
            let first = c.isns[0].wrapping_add(1);
            let opened = c.syn_ack.get().is_some() && segment.ack == c.isns[1].wrapping_add(1);
            match direction {
                Direction::ToServer => {
                    flags.ack()
                        && !flags.rst()
                        && segment.seq == first
                        && (opened || ended && c.syn_ack.get().is_none())
                }
                Direction::ToClient => flags.rst() && flags.ack() && segment.ack == first && ended,
            }
        };
        if challenger.is_some_and(|c| takes_up(c)) {
            return Successor::Challenger;
        }
        // Data of a connection whose beginning the capture missed, on ports that were closed.
        let known = u32::try_from(record.bytes[i]).unwrap_or(u32::MAX).saturating_add(SLACK);
        let ahead = segment.seq.wrapping_sub(record.isns[i]);
        let strange = record.isn_seen(i) && ahead > known && ahead < SLACK.wrapping_neg();
        let speaks = ended && segment.wire_length > 0 && flags.ack() && !flags.rst();
        if speaks && strange { Successor::Segment } else { Successor::None }
    }

    #[cold]
    #[inline(never)]
    fn insert(
        &mut self,
        segment: &Segment<'_>,
        time: Timestamp,
        packet: PacketRef,
        key: FlowKey,
        hash: u64,
        src_is_low: bool,
    ) -> Found {
        if self.index.len() >= self.max_flows {
            self.evict();
        }
        let record = self.record_of(segment, time, packet, key, src_is_low, u32::MAX);
        let flow = self.install(record, hash);
        let record = &mut self.records[flow as usize];
        let direction = if src_is_low == record.client_is_low { Direction::ToServer } else { Direction::ToClient };
        record.packets[direction.index()] = 1;
        record.bytes[direction.index()] = u64::from(segment.wire_length);
        Found { flow, direction, state: FlowState::Silent, fresh: true }
    }

    /// A record that begins with this segment, in which it is not counted yet. Without a SYN the sides are those of
    /// `before`, the flow that had the same ports, where there is one.
    fn record_of(
        &self,
        segment: &Segment<'_>,
        time: Timestamp,
        packet: PacketRef,
        key: FlowKey,
        src_is_low: bool,
        before: u32,
    ) -> FlowRecord {
        let flags = segment.flags;
        let before = self.records.get(before as usize);
        let (client_is_low, known) = match (flags.syn(), before) {
            (true, _) => (src_is_low != flags.ack(), true),
            (false, Some(before)) => (before.client_is_low, before.direction_known),
            (false, None) => (src_is_low == self.src_looks_like_client(segment), false),
        };
        let mut record = FlowRecord {
            key,
            state: FlowState::Silent,
            client_is_low,
            direction_known: known,
            folded: false,
            syn_maker: SynMaker::Unknown,
            bits: FlowRecord::LIVE,
            shifts: 0xff,
            server_window: 0,
            syn_timestamp: 0,
            isns: [0; 2],
            packets: [0; 2],
            bytes: [0; 2],
            last: time,
            first_packet: packet,
            first: time,
            syn: OptionalTime::NEVER,
            syn_ack: OptionalTime::NEVER,
            fin: [OptionalTime::NEVER; 2],
            rst: [OptionalTime::NEVER; 2],
            close_packets: [CompactRef::default(); 2],
            heads: None,
        };
        let direction = if src_is_low == client_is_low { Direction::ToServer } else { Direction::ToClient };
        note_control(&mut record, direction, segment, time, packet);
        if flags.syn() && flags.ack() {
            // The SYN was missed; its number is the one before the acknowledged one.
            record.set_isn(0, segment.ack.wrapping_sub(1));
        }
        record
    }

    fn install(&mut self, record: FlowRecord, hash: u64) -> u32 {
        let flow = match self.free.pop() {
            Some(slot) => {
                self.records[slot as usize] = record;
                slot
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as u32
            }
        };
        let (records, seeds) = (&self.records, &self.seeds);
        self.index.insert_unique(hash, flow, |i| seeds.hash(&records[*i as usize].key));
        flow
    }

    /// Notes that a decoded flow's receiver took a FIN or RST, or that one that was noted proved to be forged.
    pub(crate) fn note_outcome(
        &mut self,
        flow: u32,
        segment: &Segment<'_>,
        outcome: super::Outcome,
        time: Timestamp,
        packet: PacketRef,
    ) {
        let Some(record) = self.records.get_mut(flow as usize) else { return };
        let direction = if segment.src == record.client() { Direction::ToServer } else { Direction::ToClient };
        if outcome.undoes_close {
            record.fin[direction.index()] = OptionalTime::NEVER;
            record.rst[direction.index()] = OptionalTime::NEVER;
            record.close_packets[direction.index()] = CompactRef::default();
        }
        note_close(record, direction, outcome.fin, outcome.rst, time, packet);
    }

    /// Without a SYN the listener is the side with a known port, else the lower port.
    fn src_looks_like_client(&self, segment: &Segment<'_>) -> bool {
        let (s, d) = (segment.src.port, segment.dst.port);
        match (self.server_ports.contains(s), self.server_ports.contains(d)) {
            (true, false) => false,
            (false, true) => true,
            _ => (s, segment.src.address) > (d, segment.dst.address),
        }
    }

    /// Forgets the eighth of the untracked flows that has been idle longest, by packet time. Amortised over the
    /// inserts that led here this is constant work a flow.
    fn evict(&mut self) {
        let mut idle: Vec<(Timestamp, u32)> = (0..self.records.len() as u32)
            .filter(|i| {
                let r = &self.records[*i as usize];
                r.is_live() && !matches!(r.state, FlowState::Tracked(_))
            })
            .map(|i| (self.records[i as usize].last, i))
            .collect();
        let count = (idle.len() / 8).max(1).min(idle.len());
        if count == 0 {
            return;
        }
        idle.select_nth_unstable(count - 1);
        idle.truncate(count);
        idle.sort_unstable();
        self.evicted += idle.len() as u64;
        idle.into_iter().for_each(|(_, i)| self.forget(i));
    }

    /// Forgets the flows that are not decoded and whose last packet is earlier: whoever keeps records elsewhere has let
    /// them go.
    #[cfg(feature = "live")]
    pub(crate) fn forget_before(&mut self, time: Timestamp) {
        let old = |r: &FlowRecord| r.last < time && !matches!(r.state, FlowState::Tracked(_));
        let gone: Vec<u32> = self.iter().filter(|(_, r)| old(r)).map(|(i, _)| i).collect();
        gone.into_iter().for_each(|i| self.forget(i));
    }

    fn forget(&mut self, flow: u32) {
        let record = &mut self.records[flow as usize];
        record.bits &= !FlowRecord::LIVE;
        record.heads = None;
        self.challengers.remove(&flow);
        let hash = self.seeds.hash(&record.key);
        if let Ok(entry) = self.index.find_entry(hash, |j| *j == flow) {
            entry.remove();
        }
        self.free.push(flow);
    }

    /// Takes up a record that was kept; one that is live takes the place of another with the same endpoints.
    pub(crate) fn adopt(&mut self, record: FlowRecord) -> u32 {
        let (key, live) = (record.key, record.is_live());
        if live && self.index.len() >= self.max_flows {
            self.evict();
        }
        let flow = self.records.len() as u32;
        self.records.push(record);
        if live {
            let hash = self.seeds.hash(&key);
            let records = &self.records;
            if let Ok(entry) = self.index.find_entry(hash, |i| records[*i as usize].key == key) {
                let (before, _) = entry.remove();
                self.records[before as usize].bits &= !FlowRecord::LIVE;
            }
            let (records, seeds) = (&self.records, &self.seeds);
            self.index.insert_unique(hash, flow, |i| seeds.hash(&records[*i as usize].key));
        }
        flow
    }

    /// Whether the flow between two endpoints is decoded now.
    pub(crate) fn is_tracked(&self, src: Endpoint, dst: Endpoint) -> bool {
        let (key, _) = FlowKey::new(src, dst);
        let records = &self.records;
        let flow = self.index.find(self.seeds.hash(&key), |i| records[*i as usize].key == key);
        flow.is_some_and(|i| matches!(records[*i as usize].state, FlowState::Tracked(_)))
    }

    /// The record of a flow.
    pub fn record(&self, flow: u32) -> &FlowRecord {
        &self.records[flow as usize]
    }

    /// The record of a flow, to change its state.
    pub fn record_mut(&mut self, flow: u32) -> &mut FlowRecord {
        &mut self.records[flow as usize]
    }

    /// Flows forgotten so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Flows seen and still known.
    pub fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Whether no flow was seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the table itself holds, allocated.
    pub fn allocated(&self) -> usize {
        self.records.capacity() * size_of::<FlowRecord>() + self.index.capacity() * 5
    }

    /// All records that were not evicted, with their indices, in order of these.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &FlowRecord)> {
        let mut free = self.free.clone();
        free.sort_unstable();
        let mut free = free.into_iter().peekable();
        (0u32..).zip(&self.records).filter(move |(i, _)| free.next_if_eq(i).is_none())
    }

    /// All records that were not evicted, in order of arrival.
    pub fn into_records(mut self) -> Vec<FlowRecord> {
        let mut gone = vec![false; self.records.len()];
        for i in &self.free {
            gone[*i as usize] = true;
        }
        let mut i = 0;
        self.records.retain(|_| {
            i += 1;
            !gone[i - 1]
        });
        if !self.free.is_empty() {
            self.records.sort_unstable_by_key(|r| (r.first, r.first_packet));
        }
        self.records
    }
}

/// Notes SYN, FIN and RST in a record; returns the direction, which a SYN-ACK may turn round.
fn note_control(
    record: &mut FlowRecord,
    mut direction: Direction,
    segment: &Segment<'_>,
    time: Timestamp,
    packet: PacketRef,
) -> Direction {
    let flags = segment.flags;
    if flags.syn() {
        let sender = if flags.ack() { Direction::ToClient } else { Direction::ToServer };
        if !record.direction_known && direction != sender {
            record.swap_sides();
            direction = sender;
        }
        record.direction_known = true;
        if direction != sender {
            // A client sends no SYN-ACK, and a listener no SYN.
            return direction;
        }
        let i = direction.index();
        let wrong = if verify_checksum(segment).is_wrong() { FlowRecord::BAD_SYN << i } else { 0 };
        let reborn = flags.ack() && record.bytes == [0, 0] && record.isn_seen(1) && record.isns[1] != segment.seq;
        if !record.isn_seen(i) || reborn {
            // The server's last SYN-ACK before any payload: it may have forgotten the first attempt.
            record.set_isn(i, segment.seq);
            record.note_offer(segment);
            record.bits |= wrong;
        } else if wrong == 0 {
            record.bits &= !(FlowRecord::BAD_SYN << i);
        }
        if flags.ack() {
            record.syn_ack.first(time);
        } else {
            if record.syn.get().is_none() {
                record.syn_maker = SynMaker::of(segment);
            }
            record.syn.first(time);
        }
    }
    // Whether the receiver of a decoded flow takes a FIN or RST is known once it was reassembled.
    if matches!(record.state, FlowState::Tracked(_)) {
        return direction;
    }
    let gives_up = direction == Direction::ToClient && flags.rst() && flags.ack() && record.syn_ack.get().is_some();
    if takes(record, direction, segment) {
        note_close(record, direction, flags.fin(), flags.rst(), time, packet);
    } else if gives_up {
        // The answer to a second SYN: the server has given the half-open connection up (`embryonic_reset`).
        record.forget_answer();
    }
    direction
}

/// Whether the receiver takes a RST, as far as a handshake without payload tells.
fn takes(record: &FlowRecord, direction: Direction, segment: &Segment<'_>) -> bool {
    let payload = record.bytes[0] + record.bytes[1] > u64::from(segment.wire_length);
    if !segment.flags.rst() || payload || !record.isn_seen(0) {
        return true;
    }
    let after = |i: usize| {
        let ahead = segment.seq.wrapping_sub(record.isns[i]);
        ahead == 1 || ahead == 2 && record.fin[i].get().is_some()
    };
    match direction {
        Direction::ToServer => after(0),
        Direction::ToClient if record.isn_seen(1) => after(1),
        Direction::ToClient => !segment.flags.ack() || segment.ack.wrapping_sub(record.isns[0]) == 1,
    }
}

fn note_close(record: &mut FlowRecord, direction: Direction, fin: bool, rst: bool, time: Timestamp, packet: PacketRef) {
    let i = direction.index();
    let first_close = record.fin[i].get().is_none() && record.rst[i].get().is_none();
    if fin {
        record.fin[i].first(time);
    }
    if rst {
        record.rst[i].first(time);
    }
    if first_close && (fin || rst) {
        record.close_packets[i] = packet.into();
    }
    if record.has_ended() {
        record.bits |= FlowRecord::WATCHED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Address;

    const CLIENT: (u8, u16) = (1, 40000);
    const SERVER: (u8, u16) = (2, 29500);

    fn end((host, port): (u8, u16)) -> Endpoint {
        Endpoint::new(Address::v4([192, 0, 2, host]), port)
    }

    fn segment(from: (u8, u16), to: (u8, u16), seq: u32, flags: u8, payload: &[u8]) -> Segment<'_> {
        Segment {
            src: end(from),
            dst: end(to),
            seq,
            ack: 0,
            flags: Flags(flags),
            window: 1,
            payload,
            wire_length: payload.len() as u32,
            ip_id: 0,
            outer: &[],
            tcp: &[],
        }
    }

    fn at(n: u64) -> (Timestamp, PacketRef) {
        (Timestamp::new(n as i64, 0), PacketRef { capture: 0, number: n })
    }

    fn table() -> FlowTable {
        FlowTable::new(1000, [29500].into_iter().collect())
    }

    fn see(t: &mut FlowTable, n: u64, s: Segment<'_>) -> Found {
        let (time, packet) = at(n);
        t.observe(&s, time, packet)
    }

    #[test]
    fn a_handshake_names_client_and_server() {
        let mut t = table();
        let f = see(&mut t, 1, segment(CLIENT, SERVER, 9, Flags::SYN, b""));
        see(&mut t, 2, segment(SERVER, CLIENT, 5, Flags::SYN | Flags::ACK, b""));
        see(&mut t, 3, segment(CLIENT, SERVER, 10, Flags::ACK, b"abc"));
        see(&mut t, 4, segment(SERVER, CLIENT, 6, Flags::RST, b""));
        let r = t.record(f.flow);
        assert_eq!((r.client(), r.server()), (end(CLIENT), end(SERVER)));
        assert_eq!((r.isn(Direction::ToServer), r.isn(Direction::ToClient)), (Some(9), Some(5)));
        assert_eq!((r.bytes, r.packets), ([3, 0], [2, 2]));
        assert_eq!(r.server_closed(), Some(at(4).0));
        assert_eq!(r.server_close_packet().number, 4);
        assert!(r.accepted() && !r.refused());
    }

    #[test]
    fn a_syn_ack_first_still_names_the_listener() {
        let mut t = table();
        let f = see(&mut t, 1, segment((2, 1000), (1, 9), 5, Flags::SYN | Flags::ACK, b""));
        assert_eq!(t.record(f.flow).server(), end((2, 1000)));
    }

    #[test]
    fn without_a_handshake_the_known_port_listens_else_the_lower_one() {
        let mut t = table();
        let f = see(&mut t, 1, segment(SERVER, (1, 80), 5, Flags::ACK, b"x"));
        assert_eq!(t.record(f.flow).server(), end(SERVER));
        let f = see(&mut t, 2, segment((3, 80), (4, 50000), 5, Flags::ACK, b"x"));
        assert_eq!(t.record(f.flow).server(), end((3, 80)));
        assert!(!t.record(f.flow).direction_known);
    }

    #[test]
    fn ports_used_again_are_another_flow() {
        let mut t = table();
        let a = see(&mut t, 1, segment(CLIENT, SERVER, 9, Flags::SYN, b""));
        let again = see(&mut t, 2, segment(CLIENT, SERVER, 9, Flags::SYN, b""));
        assert_eq!(a.flow, again.flow, "a retransmitted SYN is the same flow");
        let b = see(&mut t, 3, segment(CLIENT, SERVER, 77, Flags::SYN, b""));
        assert_ne!(a.flow, b.flow);
        let c = see(&mut t, 4, segment(SERVER, CLIENT, 1, Flags::SYN | Flags::ACK, b""));
        assert_eq!(b.flow, c.flow);
        assert_eq!(t.record(a.flow).packets, [2, 0]);
        assert_eq!(t.into_records().len(), 2);
    }

    #[test]
    fn the_ceiling_holds_and_what_is_forgotten_is_counted() {
        let mut t = FlowTable::new(64, PortSet::default());
        for i in 0..1000u64 {
            see(&mut t, i, segment((1, 1024 + i as u16), SERVER, 9, Flags::SYN, b""));
            assert!(t.len() <= 64);
        }
        assert_eq!(t.evicted() + t.len() as u64, 1000);
        // The latest is still there.
        let last = see(&mut t, 1001, segment((1, 1024 + 999), SERVER, 9, Flags::SYN, b""));
        assert_eq!(t.record(last.flow).packets, [2, 0]);
    }
}
