//! The compact record that every flow gets, whatever its port.

use crate::frame::Segment;
use crate::net::{Address, Endpoint};
use crate::stream::{CompactRef, PacketRef};
use crate::time::Timestamp;

/// How many bytes of each direction a record keeps.
pub const HEAD_BYTES: usize = 64;

/// Which way bytes of a flow go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// From the side that opened the connection to the listener.
    ToServer,
    /// From the listener back.
    ToClient,
}

impl Direction {
    /// 0 to the server, 1 to the client: the index used by the two-element arrays of this room.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The other direction.
    #[inline]
    pub fn reverse(self) -> Self {
        match self {
            Direction::ToServer => Direction::ToClient,
            Direction::ToClient => Direction::ToServer,
        }
    }

    /// `to-server` or `to-client`.
    pub fn name(self) -> &'static str {
        match self {
            Direction::ToServer => "to-server",
            Direction::ToClient => "to-client",
        }
    }
}

/// Both endpoints of a flow in a fixed order, so that either direction finds the same record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(Rust, packed(4))]
pub(crate) struct FlowKey {
    // Packed, and words rather than u128: 36 bytes in all, because there are millions.
    low: [u64; 2],
    high: [u64; 2],
    low_port: u16,
    high_port: u16,
}

impl FlowKey {
    /// The key, and whether `src` is the low endpoint.
    #[inline]
    pub(crate) fn new(src: Endpoint, dst: Endpoint) -> (Self, bool) {
        let s = (src.address.0, src.port);
        let d = (dst.address.0, dst.port);
        let src_is_low = s <= d;
        let ((a, ap), (b, bp)) = if src_is_low { (s, d) } else { (d, s) };
        (FlowKey { low: split(a), high: split(b), low_port: ap, high_port: bp }, src_is_low)
    }

    /// The same for IPv4 addresses, given as numbers in host order.
    #[inline]
    pub(crate) fn of_v4(src: (u32, u16), dst: (u32, u16)) -> (Self, bool) {
        let packed = |(address, port): (u32, u16)| u64::from(address) << 16 | u64::from(port);
        let src_is_low = packed(src) <= packed(dst);
        let (low, high) = if src_is_low { (src, dst) } else { (dst, src) };
        let mapped = |address: u32| [0, 0xffff_0000_0000 | u64::from(address)];
        let key = FlowKey { low: mapped(low.0), high: mapped(high.0), low_port: low.1, high_port: high.1 };
        (key, src_is_low)
    }

    /// The words a hash is made of.
    #[inline]
    pub(crate) fn words(&self) -> [u64; 5] {
        let (low, high) = (self.low, self.high);
        let ports = u64::from(self.low_port) << 16 | u64::from(self.high_port);
        [low[0], low[1], high[0], high[1], ports]
    }

    fn low(&self) -> Endpoint {
        Endpoint::new(join(self.low), self.low_port)
    }

    fn high(&self) -> Endpoint {
        Endpoint::new(join(self.high), self.high_port)
    }
}

#[inline]
fn split(a: u128) -> [u64; 2] {
    [(a >> 64) as u64, a as u64]
}

fn join(w: [u64; 2]) -> Address {
    Address(u128::from(w[0]) << 64 | u128::from(w[1]))
}

/// A time that may not have come: eight bytes instead of an `Option`'s sixteen, because there are millions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionalTime(i64);

impl OptionalTime {
    /// It has not come.
    pub const NEVER: OptionalTime = OptionalTime(i64::MIN);

    /// The time, if it came.
    pub fn get(self) -> Option<Timestamp> {
        (self != Self::NEVER).then_some(Timestamp(self.0))
    }

    /// Notes the first occurrence; later ones change nothing.
    pub(crate) fn first(&mut self, time: Timestamp) {
        if *self == Self::NEVER {
            self.0 = time.0;
        }
    }
}

impl From<Timestamp> for OptionalTime {
    fn from(t: Timestamp) -> Self {
        OptionalTime(t.0)
    }
}

/// Programs that make their SYNs themselves, told by marks that no operating system's stack leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum SynMaker {
    /// An ordinary stack, or nothing that tells.
    #[default]
    Unknown,
    /// nmap's SYN scan: window 1024 and one option, the segment size.
    Nmap,
    /// masscan: window 1024 and no option.
    Masscan,
    /// ZMap: IP identification 54321.
    Zmap,
}

impl SynMaker {
    /// From the first SYN of a flow.
    pub(crate) fn of(segment: &crate::frame::Segment<'_>) -> SynMaker {
        let header = segment.tcp.get(12).map_or(0, |b| usize::from(b >> 4) * 4);
        match (segment.ip_id, segment.window, header) {
            (54321, ..) => SynMaker::Zmap,
            (_, 1024, 24) => SynMaker::Nmap,
            (_, 1024, 20) => SynMaker::Masscan,
            _ => SynMaker::Unknown,
        }
    }

    /// The tool's name.
    pub fn tool(self) -> Option<&'static str> {
        match self {
            SynMaker::Unknown => None,
            SynMaker::Nmap => Some("nmap"),
            SynMaker::Masscan => Some("masscan"),
            SynMaker::Zmap => Some("ZMap"),
        }
    }
}

/// What became of a flow in the scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowState {
    /// No payload yet.
    Silent,
    /// Nobody wants it (now); only its counts go on.
    Dismissed,
    /// Reassembled and decoded; the number is the caller's slot.
    Tracked(u32),
}

/// One flow: both directions between two endpoints, from one SYN to the next with the same ports.
#[derive(Clone, Debug)]
pub struct FlowRecord {
    pub(crate) key: FlowKey,
    /// What became of it.
    pub state: FlowState,
    pub(crate) client_is_low: bool,
    /// Whether a SYN or SYN-ACK says who opened it; otherwise the direction is a guess from the ports.
    pub direction_known: bool,
    /// It was decoded, and is like others that were kept: it is known by their number.
    pub folded: bool,
    /// Who made the first SYN, where its marks tell.
    pub syn_maker: SynMaker,
    /// What is known of the handshake: the constants below.
    pub(crate) bits: u8,
    /// The shifts of windows, `to server` in the low half; 15 where nothing is known.
    pub(crate) shifts: u8,
    /// The window of the SYN-ACK; 0 where it was not seen.
    pub(crate) server_window: u16,
    /// The timestamp of the SYN; 0 where it has none.
    pub(crate) syn_timestamp: u32,
    /// Initial sequence numbers (of the SYN and of the SYN-ACK), valid where `isn()` says so.
    pub(crate) isns: [u32; 2],
    /// Packets seen each way, `[to server, to client]`. Saturates.
    pub packets: [u32; 2],
    /// Payload bytes on the wire each way, retransmissions included.
    pub bytes: [u64; 2],
    /// Time of the last packet.
    pub last: Timestamp,
    /// The first packet.
    pub first_packet: PacketRef,
    /// Time of the first packet.
    pub first: Timestamp,
    /// First SYN.
    pub syn: OptionalTime,
    /// First SYN-ACK.
    pub syn_ack: OptionalTime,
    /// First FIN each way.
    pub fin: [OptionalTime; 2],
    /// First RST each way.
    pub rst: [OptionalTime; 2],
    /// The packet with each side's first FIN or RST, `[client's, server's]`. Of a client that has not closed: its first
    /// packet after the SYN.
    pub(crate) close_packets: [CompactRef; 2],
    /// First payload each way, while the flow is dismissed or after.
    pub(crate) heads: Option<Box<Heads>>,
}

/// The first payload bytes of each direction, as far as they arrived in order.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// Up to [`HEAD_BYTES`] each way.
    pub bytes: [Vec<u8>; 2],
    /// The packet and time of the first payload each way.
    pub first: [Option<(PacketRef, Timestamp)>; 2],
}

impl FlowRecord {
    /// Of `bits`: the initial sequence number of the client is known.
    pub(crate) const CLIENT_ISN: u8 = 1;
    /// Both sides use timestamps (the bit between is for the server's number).
    pub(crate) const TIMESTAMPS: u8 = 4;
    /// Both sides use selective acknowledgements.
    pub(crate) const SACK: u8 = 8;
    /// The next packets need a closer look: the connection has ended, or a SYN came inside it.
    pub(crate) const WATCHED: u8 = 16;
    /// It is still the flow that its endpoints' packets belong to.
    pub(crate) const LIVE: u8 = 32;
    /// The SYN has a wrong checksum. Where it is answered all the same, the capture is wrong about checksums, not the sender.
    pub(crate) const BAD_SYN: u8 = 64;
    /// The SYN-ACK has.
    pub(crate) const BAD_SYN_ACK: u8 = 128;

    pub(crate) fn isn_seen(&self, i: usize) -> bool {
        self.bits & (Self::CLIENT_ISN << i) != 0
    }

    /// Whether it began without a SYN on the ports of a connection that was seen before.
    pub(crate) fn follows_without_syn(&self) -> bool {
        self.direction_known && self.bits & (Self::CLIENT_ISN | Self::CLIENT_ISN << 1) == 0
    }

    /// The number of the SYN-ACK is as if it had not been told.
    pub(crate) fn forget_answer(&mut self) {
        self.bits &= !(Self::CLIENT_ISN << 1);
        (self.isns[1], self.server_window) = (0, 0);
    }

    /// Notes an initial sequence number.
    pub(crate) fn set_isn(&mut self, i: usize, isn: u32) {
        self.bits |= Self::CLIENT_ISN << i;
        if let Some(slot) = self.isns.get_mut(i) {
            *slot = isn;
        }
    }

    /// Notes what a SYN or SYN-ACK says about windows and options.
    pub(crate) fn note_offer(&mut self, segment: &crate::frame::Segment<'_>) {
        let offer = segment.offer();
        if !segment.flags.ack() {
            self.shifts = self.shifts & 0xf0 | offer.scale.unwrap_or(15);
            self.syn_timestamp = offer.timestamp.unwrap_or(0);
            return;
        }
        self.server_window = segment.window;
        // A SYN-ACK repeats what both sides will use, and nothing else.
        self.shifts = match (offer.scale, offer.whole) {
            (Some(scale), _) => self.shifts & 15 | scale << 4,
            (None, true) => 0,
            (None, false) => 0xff,
        };
        let uses = |used: bool, bit: u8| if used { bit } else { 0 };
        self.bits &= !(Self::TIMESTAMPS | Self::SACK);
        self.bits |= uses(offer.timestamp.is_some(), Self::TIMESTAMPS) | uses(offer.sack, Self::SACK);
    }

    /// How windows that the sender of a direction advertises are to be shifted, where the handshake told it.
    pub(crate) fn shift(&self, d: Direction) -> Option<u8> {
        let shift = self.shifts >> (4 * d.index()) & 15;
        (self.server_window > 0 && shift < 15).then_some(shift)
    }

    /// Whether the connection has ended: a RST, or a FIN each way.
    pub(crate) fn has_ended(&self) -> bool {
        self.rst.iter().any(|t| *t != OptionalTime::NEVER) || self.fin.iter().all(|t| *t != OptionalTime::NEVER)
    }

    /// The side that opened the connection (a guess unless `direction_known`).
    pub fn client(&self) -> Endpoint {
        if self.client_is_low { self.key.low() } else { self.key.high() }
    }

    /// The listener's side.
    pub fn server(&self) -> Endpoint {
        if self.client_is_low { self.key.high() } else { self.key.low() }
    }

    /// The sender of a direction.
    pub fn sender(&self, d: Direction) -> Endpoint {
        match d {
            Direction::ToServer => self.client(),
            Direction::ToClient => self.server(),
        }
    }

    /// The initial sequence number of a direction, where its SYN was seen.
    pub fn isn(&self, d: Direction) -> Option<u32> {
        self.isn_seen(d.index()).then_some(self.isns[d.index()])
    }

    /// Whether the listener accepted: a SYN-ACK, or payload from its side.
    pub fn accepted(&self) -> bool {
        self.syn_ack.get().is_some() || self.bytes[1] > 0
    }

    /// Whether a SYN was answered by a reset alone. Where the client sent something it had been accepted, and the capture
    /// lost the SYN-ACK.
    pub fn refused(&self) -> bool {
        self.syn.get().is_some() && !self.accepted() && self.bytes[0] == 0 && self.rst[1].get().is_some()
    }

    /// Whether the client answered the SYN-ACK with a reset, as the kernel of a host does whose scanner sent the SYN: the
    /// connection never reached the process. A capture may hold every packet several times.
    pub fn half_open(&self) -> bool {
        let reset = self.rst[0].get().is_some() && self.fin[0].get().is_none();
        let bare = self.bytes == [0, 0] && self.server_closed().is_none();
        reset && (self.packets[0] <= 2 || bare && self.packets[0] <= self.packets[1].saturating_mul(2))
    }

    /// When the listener's side first sent FIN or RST.
    pub fn server_closed(&self) -> Option<Timestamp> {
        earliest(self.fin[1].get(), self.rst[1].get())
    }

    /// When the client's side first sent FIN or RST.
    pub fn client_closed(&self) -> Option<Timestamp> {
        earliest(self.fin[0].get(), self.rst[0].get())
    }

    /// The packet with the first FIN or RST of the listener's side.
    pub fn server_close_packet(&self) -> PacketRef {
        self.close_packets[1].into()
    }

    /// The packet with the first FIN or RST of the client's side; while it has not closed, its first packet after the
    /// SYN that acknowledges the SYN-ACK; `None` where it sent no more than the SYN.
    pub fn client_packet(&self) -> Option<PacketRef> {
        self.close_packets[0].is_set().then_some(self.close_packets[0].into())
    }

    /// Whether a client's segment acknowledges the SYN-ACK, where one was seen and no byte of the server since: with another
    /// number the connection is not established (`SYN_RECV`).
    pub(crate) fn is_completed_by(&self, segment: &Segment<'_>) -> bool {
        !self.isn_seen(1) || self.bytes[1] > 0 || segment.ack == self.isns[1].wrapping_add(1)
    }

    /// The first payload bytes each way.
    pub fn heads(&self) -> Option<&Heads> {
        self.heads.as_deref()
    }

    /// Whether it is still the flow that its endpoints' packets belong to.
    pub fn is_live(&self) -> bool {
        self.bits & Self::LIVE != 0
    }

    /// Keeps the beginning of the first payload that `sender` sent.
    pub fn keep_head(&mut self, sender: Endpoint, payload: &[u8], packet: PacketRef, time: Timestamp) {
        let i = usize::from(sender != self.client());
        let heads = self.heads.get_or_insert_default();
        if heads.first[i].is_none() {
            heads.first[i] = Some((packet, time));
            heads.bytes[i] = payload[..payload.len().min(HEAD_BYTES)].to_vec();
        }
    }

    /// Replaces what was kept of the first payload.
    pub fn set_heads(&mut self, heads: Option<Heads>) {
        self.heads = heads.map(Box::new);
    }

    /// Turns client and server round: what was counted for one is the other's.
    pub(crate) fn swap_sides(&mut self) {
        self.client_is_low = !self.client_is_low;
        let isns = self.bits & 3;
        self.bits = self.bits & !3 | isns >> 1 | isns << 1 & 2;
        self.shifts = self.shifts.rotate_left(4);
        self.isns.swap(0, 1);
        self.packets.swap(0, 1);
        self.bytes.swap(0, 1);
        self.fin.swap(0, 1);
        self.rst.swap(0, 1);
        self.close_packets.swap(0, 1);
        if let Some(h) = &mut self.heads {
            h.bytes.swap(0, 1);
            h.first.swap(0, 1);
        }
    }
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_stays_small() {
        // A million flows are to fit into the memory that is promised for them.
        assert!(size_of::<FlowRecord>() <= 192, "{}", size_of::<FlowRecord>());
    }

    #[test]
    fn both_makers_of_keys_agree() {
        for (src, dst) in
            [((1u32, 5u16), (1u32, 4u16)), ((7, 1), (9, 65535)), ((u32::MAX, 1), (0, 0)), ((3, 3), (3, 3))]
        {
            let end = |(a, p): (u32, u16)| Endpoint::new(Address::v4(a.to_be_bytes()), p);
            assert_eq!(FlowKey::of_v4(src, dst), FlowKey::new(end(src), end(dst)));
        }
    }
}
