//! Packets that stand in for those that were captured, when they must name nobody.
//!
//! Nothing is copied but what is known to be harmless: each packet is made anew from the ports, numbers, flags and lengths
//! of the segment. Link headers, encapsulations, IP and TCP options do not come along; addresses and payload are tokens,
//! but for the first bytes of each flagged message, on which the verdict rests.

use std::collections::HashMap;

use super::model::Finding;
use super::pseudonym::Pseudonyms;
use super::redact::KEPT_BYTES;
use crate::frame::Segment;
use crate::net::Endpoint;

const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
/// `next header` of an IPv6 packet that holds nothing more.
const NO_NEXT_HEADER: u8 = 59;
const TCP: u8 = 6;

/// Makes the packets of one capture anew.
pub(super) struct Masks<'v> {
    veil: &'v Pseudonyms,
    /// Where flagged messages begin in the streams of these senders to these receivers, in order.
    offsets: HashMap<(Endpoint, Endpoint), Vec<u32>>,
    /// The sequence numbers of those streams' first bytes.
    origins: HashMap<(Endpoint, Endpoint), u32>,
}

/// One packet that stands in for another: raw IPv6, and its length on the wire.
pub(super) struct StandIn {
    pub(super) data: Vec<u8>,
    pub(super) original_length: u32,
}

impl<'v> Masks<'v> {
    pub(super) fn new(veil: &'v Pseudonyms, findings: &[&Finding]) -> Self {
        let mut offsets: HashMap<_, Vec<u32>> = HashMap::new();
        for f in findings {
            if let (Some(pair), Some(offset)) = (super::carve_flows::pair(f), f.stream_offset) {
                // Sequence numbers are modulo 2^32, and so is what is compared with them.
                offsets.entry(pair).or_default().push(offset as u32);
            }
        }
        offsets.values_mut().for_each(|o| o.sort_unstable());
        Masks { veil, offsets, origins: HashMap::new() }
    }

    /// The stand-in of a segment.
    pub(super) fn segment(&mut self, s: &Segment<'_>) -> StandIn {
        let payload = self.payload(s);
        let mut data = self.header(s.src, s.dst, TCP, TCP_HEADER + s.wire_length as usize);
        data.extend_from_slice(&s.src.port.to_be_bytes());
        data.extend_from_slice(&s.dst.port.to_be_bytes());
        data.extend_from_slice(&s.seq.to_be_bytes());
        data.extend_from_slice(&s.ack.to_be_bytes());
        data.extend_from_slice(&[(TCP_HEADER as u8 / 4) << 4, s.flags.0]);
        data.extend_from_slice(&s.window.to_be_bytes());
        data.extend_from_slice(&[0, 0, 0, 0]);
        data.extend_from_slice(&payload);
        let sum = checksum(&data).to_be_bytes();
        if let Some(place) = data.get_mut(IPV6_HEADER + 16..IPV6_HEADER + 18) {
            place.copy_from_slice(&sum);
        }
        let original = (IPV6_HEADER + TCP_HEADER) as u32;
        StandIn { data, original_length: original.saturating_add(s.wire_length) }
    }

    /// The stand-in of a packet that is no segment: a header that says that nothing follows.
    pub(super) fn nothing(&self) -> StandIn {
        let data = self.header(Endpoint::default(), Endpoint::default(), NO_NEXT_HEADER, 0);
        StandIn { data, original_length: IPV6_HEADER as u32 }
    }

    fn header(&self, src: Endpoint, dst: Endpoint, next: u8, length: usize) -> Vec<u8> {
        let mut data = vec![0x60, 0, 0, 0];
        // A segment that offload made longer than a datagram has no length in its header, as kernels have it.
        data.extend_from_slice(&u16::try_from(length).unwrap_or(0).to_be_bytes());
        data.extend_from_slice(&[next, 64]);
        for end in [src, dst] {
            let none = end == Endpoint::default();
            data.extend_from_slice(&if none { [0; 16] } else { self.veil.stand_in(end.address).octets() });
        }
        data
    }

    /// Tokens in place of the bytes, but for the first ones of flagged messages.
    fn payload(&mut self, s: &Segment<'_>) -> Vec<u8> {
        let pair = (s.src, s.dst);
        let offsets = self.offsets.get(&pair);
        if offsets.is_some() {
            if s.flags.syn() {
                self.origins.insert(pair, s.seq.wrapping_add(1));
            } else if !s.payload.is_empty() {
                self.origins.entry(pair).or_insert(s.seq);
            }
        }
        if s.payload.is_empty() {
            return Vec::new();
        }
        let mut masked = self.veil.token("text", s.payload).into_bytes().repeat(s.payload.len().div_ceil(13));
        masked.truncate(s.payload.len());
        let first = s.seq.wrapping_add(u32::from(s.flags.syn()));
        let (Some(offsets), Some(origin)) = (offsets, self.origins.get(&pair)) else { return masked };
        let start = i64::from(first.wrapping_sub(*origin));
        let end = start.saturating_add(s.payload.len() as i64);
        let kept = KEPT_BYTES as i64;
        let from = offsets.partition_point(|o| i64::from(*o) + kept <= start);
        for offset in offsets.iter().skip(from).map(|o| i64::from(*o)).take_while(|o| *o < end) {
            let range = (offset - start).max(0) as usize..(offset + kept - start).min(end - start) as usize;
            if let (Some(to), Some(bytes)) = (masked.get_mut(range.clone()), s.payload.get(range)) {
                to.copy_from_slice(bytes);
            }
        }
        masked
    }
}

/// The TCP checksum of an IPv6 packet whose checksum field is zero.
fn checksum(packet: &[u8]) -> u16 {
    let tcp = packet.get(IPV6_HEADER..).unwrap_or_default();
    let addresses = packet.get(8..IPV6_HEADER).unwrap_or_default();
    let words = |bytes: &[u8]| -> u64 {
        let pairs = bytes.chunks(2).map(|c| match c {
            [a, b] => u64::from(u16::from_be_bytes([*a, *b])),
            [a] => u64::from(*a) << 8,
            _ => 0,
        });
        pairs.sum()
    };
    let mut sum = words(addresses) + tcp.len() as u64 + u64::from(TCP) + words(tcp);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
