//! Flow records as bytes: what is kept of them between runs.
//!
//! All numbers are little-endian. A record begins with the version of its layout.

use super::record::{FlowKey, FlowRecord, FlowState, OptionalTime, SynMaker};
use super::{CompactRef, Direction, PacketRef};
use crate::net::{Address, Endpoint};
use crate::time::Timestamp;

/// Version of the layout. The first one does not have the client's packet at its end.
const LAYOUT: u8 = 2;

/// Reads numbers off the front of bytes; `None` where they end too early.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[b]| b)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn time(&mut self) -> Option<Timestamp> {
        self.array().map(i64::from_le_bytes).map(Timestamp)
    }

    pub(crate) fn address(&mut self) -> Option<Address> {
        self.array().map(u128::from_le_bytes).map(Address)
    }

    pub(crate) fn endpoint(&mut self) -> Option<Endpoint> {
        Some(Endpoint::new(self.address()?, self.u16()?))
    }

    pub(crate) fn packet(&mut self) -> Option<PacketRef> {
        Some(PacketRef { capture: self.u32()?, number: self.u64()? })
    }

    fn moment(&mut self) -> Option<OptionalTime> {
        self.time().map(OptionalTime::from)
    }
}

pub(crate) fn put_endpoint(out: &mut Vec<u8>, e: Endpoint) {
    out.extend_from_slice(&e.address.0.to_le_bytes());
    out.extend_from_slice(&e.port.to_le_bytes());
}

pub(crate) fn put_packet(out: &mut Vec<u8>, p: PacketRef) {
    out.extend_from_slice(&p.capture.to_le_bytes());
    out.extend_from_slice(&p.number.to_le_bytes());
}

fn put_moment(out: &mut Vec<u8>, m: OptionalTime) {
    out.extend_from_slice(&m.get().map_or(i64::MIN, |t| t.0).to_le_bytes());
}

impl FlowRecord {
    /// Bytes of a record in each layout, from the first.
    const LAYOUT_BYTES: [usize; LAYOUT as usize] = [158, 170];

    /// A record from what is read next; `None` when that is none.
    pub(crate) fn read_from(input: &mut impl std::io::Read) -> Option<FlowRecord> {
        let mut bytes = [0u8; 170];
        let (layout, rest) = bytes.split_first_mut()?;
        input.read_exact(std::slice::from_mut(layout)).ok()?;
        let length = Self::LAYOUT_BYTES.get(usize::from(*layout).checked_sub(1)?)?;
        input.read_exact(rest.get_mut(..length - 1)?).ok()?;
        Self::from_bytes(&mut Take(bytes.get(..*length)?))
    }

    /// The record as bytes. The first payload bytes are not among them, nor the slot of a flow that is decoded.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(192);
        let flags = [
            (self.direction_known, 1u8),
            (self.live, 2),
            (self.isn_seen[0], 4),
            (self.isn_seen[1], 8),
            (self.state == FlowState::Dismissed, 16),
            (matches!(self.state, FlowState::Tracked(_)), 32),
        ];
        out.push(LAYOUT);
        let set: u8 = flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
        out.push(set | (self.syn_maker as u8) << 6);
        put_endpoint(&mut out, self.client());
        put_endpoint(&mut out, self.server());
        for i in 0..2 {
            out.extend_from_slice(&self.isns[i].to_le_bytes());
            out.extend_from_slice(&self.packets[i].to_le_bytes());
            out.extend_from_slice(&self.bytes[i].to_le_bytes());
            put_moment(&mut out, self.fin[i]);
            put_moment(&mut out, self.rst[i]);
        }
        out.extend_from_slice(&self.first.0.to_le_bytes());
        out.extend_from_slice(&self.last.0.to_le_bytes());
        put_moment(&mut out, self.syn);
        put_moment(&mut out, self.syn_ack);
        put_packet(&mut out, self.first_packet);
        put_packet(&mut out, self.server_close_packet());
        put_packet(&mut out, self.close_packets[0].into());
        out
    }

    /// A record from the front of `take`; `None` when the bytes are none. A flow that was decoded comes back as one that
    /// is not: what decodes it again says so.
    pub(crate) fn from_bytes(take: &mut Take<'_>) -> Option<FlowRecord> {
        let layout = take.u8()?;
        if !(1..=LAYOUT).contains(&layout) {
            return None;
        }
        let flags = take.u8()?;
        let (client, server) = (take.endpoint()?, take.endpoint()?);
        let (key, client_is_low) = FlowKey::new(client, server);
        let mut r = FlowRecord {
            key,
            state: if flags & 48 != 0 { FlowState::Dismissed } else { FlowState::Silent },
            client_is_low,
            direction_known: flags & 1 != 0,
            live: flags & 2 != 0,
            folded: false,
            syn_maker: match flags >> 6 {
                1 => SynMaker::Nmap,
                2 => SynMaker::Masscan,
                3 => SynMaker::Zmap,
                _ => SynMaker::Unknown,
            },
            isn_seen: [flags & 4 != 0, flags & 8 != 0],
            isns: [0; 2],
            packets: [0; 2],
            bytes: [0; 2],
            last: Timestamp::MIN,
            first_packet: PacketRef::default(),
            first: Timestamp::MIN,
            syn: OptionalTime::NEVER,
            syn_ack: OptionalTime::NEVER,
            fin: [OptionalTime::NEVER; 2],
            rst: [OptionalTime::NEVER; 2],
            close_packets: [CompactRef::default(); 2],
            heads: None,
        };
        for i in [Direction::ToServer.index(), Direction::ToClient.index()] {
            r.isns[i] = take.u32()?;
            r.packets[i] = take.u32()?;
            r.bytes[i] = take.u64()?;
            r.fin[i] = take.moment()?;
            r.rst[i] = take.moment()?;
        }
        r.first = take.time()?;
        r.last = take.time()?;
        r.syn = take.moment()?;
        r.syn_ack = take.moment()?;
        r.first_packet = take.packet()?;
        r.close_packets[1] = take.packet()?.into();
        if layout > 1 {
            r.close_packets[0] = take.packet()?.into();
        }
        Some(r)
    }

    /// Gives the captures that it speaks of other numbers; `false` where one has none.
    pub(crate) fn renumber(&mut self, number: &impl Fn(u32) -> Option<u32>) -> bool {
        for close in self.close_packets.iter_mut().filter(|c| c.is_set()) {
            let packet = PacketRef::from(*close);
            if let Some(capture) = number(packet.capture) {
                *close = PacketRef { capture, ..packet }.into();
            }
        }
        match number(self.first_packet.capture) {
            Some(n) => {
                self.first_packet.capture = n;
                true
            }
            None => false,
        }
    }

    /// Takes over what another record of the same flow counted; what decodes the flow stays as it is.
    pub(crate) fn take_counts(&mut self, other: &FlowRecord) {
        if self.client_is_low != other.client_is_low {
            self.swap_sides();
        }
        let (state, live, heads) = (self.state, self.live, self.heads.take());
        *self = other.clone();
        (self.state, self.live, self.heads) = (state, live, heads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was() {
        let ends =
            (Endpoint::new(Address::v4([192, 0, 2, 9]), 40000), Endpoint::new(Address::v4([192, 0, 2, 1]), 29500));
        let (key, client_is_low) = FlowKey::new(ends.0, ends.1);
        let r = FlowRecord {
            key,
            state: FlowState::Dismissed,
            client_is_low,
            direction_known: true,
            live: true,
            folded: false,
            syn_maker: SynMaker::Masscan,
            isn_seen: [true, false],
            isns: [7, 8],
            packets: [1, 2],
            bytes: [3, u64::MAX],
            last: Timestamp(9),
            first_packet: PacketRef { capture: 4, number: 11 },
            first: Timestamp(-5),
            syn: Timestamp(1).into(),
            syn_ack: OptionalTime::NEVER,
            fin: [OptionalTime::NEVER, Timestamp(3).into()],
            rst: [Timestamp(4).into(), OptionalTime::NEVER],
            close_packets: [PacketRef { capture: 4, number: 12 }.into(), PacketRef { capture: 5, number: 6 }.into()],
            heads: None,
        };
        let bytes = r.to_bytes();
        assert_eq!(Some(&bytes.len()), FlowRecord::LAYOUT_BYTES.last());
        let read = FlowRecord::read_from(&mut bytes.as_slice()).unwrap();
        assert_eq!(format!("{r:?}"), format!("{read:?}"));
        let back = FlowRecord::from_bytes(&mut Take(&bytes)).unwrap();
        assert_eq!(format!("{r:?}"), format!("{back:?}"));
        // What was kept before the client's packet was is read too.
        let old = [&[1], &bytes[1..bytes.len() - 12]].concat();
        let back = FlowRecord::from_bytes(&mut Take(&old)).unwrap();
        assert_eq!((back.client_packet(), back.server_close_packet()), (None, r.server_close_packet()));
        for cut in 0..bytes.len() {
            assert!(FlowRecord::from_bytes(&mut Take(&bytes[..cut])).is_none(), "{cut}");
        }
    }
}
