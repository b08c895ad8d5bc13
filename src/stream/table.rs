//! The flow table: one look-up a packet.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::frame::{Flags, Glance, Segment};
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
            if segment.flags.0 & CONTROL == 0 {
                if i == 0 && !record.close_packets[0].is_set() {
                    record.close_packets[0] = packet.into();
                }
                return Found { flow, direction, state: record.state };
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
        let unwanted = record.state == FlowState::Dismissed
            || record.state == FlowState::Silent && glance.wire_length == 0 && record.close_packets[0].is_set();
        if unwanted {
            let i = usize::from(src_is_low != record.client_is_low);
            record.last = record.last.max(time);
            record.packets[i] = record.packets[i].saturating_add(1);
            record.bytes[i] += u64::from(glance.wire_length);
        }
        unwanted
    }

    /// SYN, FIN and RST: the rare segments that change a record's times.
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
        let record = &mut self.records[flow as usize];
        let flags = segment.flags;
        if flags.syn() && !flags.ack() {
            let i = direction.index();
            // Same ports, another initial sequence number: a new flow (RFC 9293 calls it a new incarnation).
            let reopened = record.isn_seen[i] && record.isns[i] != segment.seq
                || !record.isn_seen[i] && (record.bytes[0] + record.bytes[1] > u64::from(segment.wire_length))
                || direction == Direction::ToClient && record.direction_known;
            if reopened {
                // The counts of this segment belong to the new record.
                record.packets[i] -= 1;
                record.bytes[i] -= u64::from(segment.wire_length);
                record.live = false;
                let records = &self.records;
                if let Ok(entry) = self.index.find_entry(hash, |i| records[*i as usize].key == key) {
                    entry.remove();
                }
                return self.insert(segment, time, packet, key, hash, src_is_low);
            }
        }
        let direction = note_control(&mut self.records[flow as usize], direction, segment, time, packet);
        Found { flow, direction, state: self.records[flow as usize].state }
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
        let flags = segment.flags;
        let (src_is_client, known) =
            if flags.syn() { (!flags.ack(), true) } else { (self.src_looks_like_client(segment), false) };
        let direction = if src_is_client { Direction::ToServer } else { Direction::ToClient };
        let mut record = FlowRecord {
            key,
            state: FlowState::Silent,
            client_is_low: src_is_low == src_is_client,
            direction_known: known,
            live: true,
            folded: false,
            syn_maker: SynMaker::Unknown,
            isn_seen: [false; 2],
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
        record.packets[direction.index()] = 1;
        record.bytes[direction.index()] = u64::from(segment.wire_length);
        let direction = note_control(&mut record, direction, segment, time, packet);
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
        Found { flow, direction, state: FlowState::Silent }
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
                r.live && !matches!(r.state, FlowState::Tracked(_))
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
        for (_, i) in idle {
            let record = &mut self.records[i as usize];
            record.live = false;
            record.heads = None;
            let key = record.key;
            let hash = self.seeds.hash(&key);
            if let Ok(entry) = self.index.find_entry(hash, |j| *j == i) {
                entry.remove();
            }
            self.free.push(i);
            self.evicted += 1;
        }
    }

    /// Takes up a record that was kept; one that is live takes the place of another with the same endpoints.
    pub(crate) fn adopt(&mut self, record: FlowRecord) -> u32 {
        let (key, live) = (record.key, record.live);
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
                self.records[before as usize].live = false;
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
            self.records.sort_by_key(|r| (r.first, r.first_packet));
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
        let i = direction.index();
        if !record.isn_seen[i] {
            record.isn_seen[i] = true;
            record.isns[i] = segment.seq;
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
    let i = direction.index();
    let first_close = record.fin[i].get().is_none() && record.rst[i].get().is_none();
    if flags.fin() {
        record.fin[i].first(time);
    }
    if flags.rst() {
        record.rst[i].first(time);
    }
    if first_close && (flags.fin() || flags.rst()) {
        record.close_packets[i] = packet.into();
    }
    direction
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
