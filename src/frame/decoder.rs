//! One packet, layer by layer.

use super::counters::{Counters, Other, Skip};
use super::cursor::{End, Ip, Layer, Span, Tunnel};
use super::fragments::{Fragment, Fragments, Key};
use super::ip::{Read, protocol};
pub use super::limits::Limits;
use super::limits::MAX_DEPTH;
use super::segment::{Flags, OuterLayer, Segment};
use super::{cooked, ethernet, ip, tcp, tunnel};
use crate::capture::{LinkType, Packet};
use crate::net::{Address, Endpoint};
use crate::time::Timestamp;

/// No packet that a kernel hands to a capture is longer, segmentation offload included (512 KiB): a larger length in
/// the capture is not believed, since where an IP header leaves its own out it becomes the segment's.
const LONGEST_FRAME: usize = 1 << 20;

/// How many reassembled datagrams may hold one another.
const MAX_NESTED: usize = 4;

/// What a packet turned out to be.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// It holds a segment, or completes a datagram that does.
    Tcp(Segment<'a>),
    /// It was read, and holds none.
    NotTcp(Other),
    /// It could not be read to the end, or waits for other fragments.
    Skipped(Skip),
}

/// Reads packets down to their segments; keeps the fragments that wait, and the counts.
///
/// One decoder serves one capture set, in the order of its packets. No packet makes it fail or panic.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    counters: Counters,
    fragments: Fragments,
    layers: Layers,
    /// Datagrams reassembled for the packet at hand; one may hold a fragment that completes the next.
    joined: [Vec<u8>; MAX_NESTED],
}

impl Decoder {
    /// A decoder that keeps no more than these limits say.
    pub fn new(limits: Limits) -> Self {
        Decoder {
            limits: Limits { depth: limits.depth.min(MAX_DEPTH), ..limits },
            counters: Counters::default(),
            fragments: Fragments::default(),
            layers: Layers::default(),
            joined: Default::default(),
        }
    }

    /// Reads one packet. The segment borrows its bytes, or this decoder's own for a reassembled datagram.
    #[inline]
    pub fn decode<'a>(&'a mut self, packet: &Packet<'a>) -> Frame<'a> {
        self.counters.packets += 1;
        match plain(packet) {
            Some(segment) => {
                self.counters.tcp += 1;
                Frame::Tcp(segment)
            }
            None => self.general(packet),
        }
    }

    /// Counts a packet that [`glance`] read and that nobody needs the segment of.
    #[inline]
    pub fn passed(&mut self) {
        self.counters.packets += 1;
        self.counters.tcp += 1;
    }

    /// What became of all packets so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    #[inline(never)]
    fn general<'a>(&'a mut self, packet: &Packet<'a>) -> Frame<'a> {
        self.layers.length = 0;
        let mut walk = Walk {
            limits: &self.limits,
            counters: &mut self.counters,
            fragments: &mut self.fragments,
            layers: &mut self.layers,
            joined: &mut self.joined,
            time: packet.time,
        };
        let wire = usize::try_from(packet.original_length).unwrap_or(usize::MAX).min(LONGEST_FRAME);
        let end = walk.run(packet.link_type, Span::new(packet.data, wire));
        let frame = end.and_then(|(ip, span)| tcp::segment(ip, span, self.layers.as_slice()));
        match frame {
            Ok(segment) => {
                self.counters.tcp += 1;
                Frame::Tcp(segment)
            }
            Err(End::Other(other)) => {
                self.counters.count_other(other);
                Frame::NotTcp(other)
            }
            Err(End::Skip(skip)) => {
                self.counters.count_skip(skip);
                Frame::Skipped(skip)
            }
        }
    }
}

/// What a flow table needs of a plain IPv4 packet to count it and pass on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glance {
    /// Source address, as a number in host order, and port.
    pub src: (u32, u16),
    /// Destination address and port.
    pub dst: (u32, u16),
    /// Control bits.
    pub flags: Flags,
    /// Payload length on the wire, in bytes.
    pub wire_length: u32,
}

/// The packets that nearly all packets are, at fixed offsets: Ethernet, at most one VLAN tag, IPv4 without options and
/// not fragmented, TCP captured with its whole header. Whatever is unusual is left to the general way.
struct Plain<'a> {
    /// From the IPv4 header on.
    bytes: &'a [u8],
    /// The IPv4 header and the fixed part of the TCP header.
    h: &'a [u8; 40],
    /// Bytes of TCP header.
    header: usize,
    /// Total length of the datagram.
    total: usize,
}

impl<'a> Plain<'a> {
    #[inline(always)]
    fn read(packet: &Packet<'a>) -> Option<Self> {
        if packet.link_type != LinkType::ETHERNET {
            return None;
        }
        let link: &[u8; 18] = packet.data.first_chunk()?;
        let at = match [link[12], link[13], link[16], link[17]] {
            [0x08, 0x00, ..] => 14,
            [0x81, 0x00, 0x08, 0x00] => 18,
            _ => return None,
        };
        let bytes = packet.data.get(at..)?;
        let h: &[u8; 40] = bytes.first_chunk()?;
        let header = usize::from(h[32] >> 4) * 4;
        let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
        let wire = (packet.original_length as usize).max(packet.data.len());
        let usual = (h[0] == 0x45)
            & (h[9] == protocol::TCP)
            & (u16::from_be_bytes([h[6], h[7]]) & 0x3fff == 0)
            & (header >= 20)
            & (total >= 20 + header)
            & (total <= wire - at)
            & (bytes.len().min(total) >= 20 + header);
        usual.then_some(Plain { bytes, h, header, total })
    }

    #[inline(always)]
    fn wire_length(&self) -> u32 {
        (self.total - 20 - self.header) as u32
    }

    #[inline(always)]
    fn ports(&self) -> (u16, u16) {
        (u16::from_be_bytes([self.h[20], self.h[21]]), u16::from_be_bytes([self.h[22], self.h[23]]))
    }
}

/// What a plain IPv4 packet says to a flow table; `None` for any other, and for truncated ones. Copies nothing.
#[inline(always)]
pub fn glance(packet: &Packet<'_>) -> Option<Glance> {
    let p = Plain::read(packet)?;
    let ports = p.ports();
    Some(Glance {
        src: (u32::from_be_bytes([p.h[12], p.h[13], p.h[14], p.h[15]]), ports.0),
        dst: (u32::from_be_bytes([p.h[16], p.h[17], p.h[18], p.h[19]]), ports.1),
        flags: Flags(p.h[33]),
        wire_length: p.wire_length(),
    })
}

#[inline]
fn plain<'a>(packet: &Packet<'a>) -> Option<Segment<'a>> {
    let p = Plain::read(packet)?;
    let h = p.h;
    let tcp = p.bytes.get(20..p.total.min(p.bytes.len()))?;
    let ports = p.ports();
    Some(Segment {
        src: Endpoint::new(Address::v4([h[12], h[13], h[14], h[15]]), ports.0),
        dst: Endpoint::new(Address::v4([h[16], h[17], h[18], h[19]]), ports.1),
        seq: u32::from_be_bytes([h[24], h[25], h[26], h[27]]),
        ack: u32::from_be_bytes([h[28], h[29], h[30], h[31]]),
        flags: Flags(h[33]),
        window: u16::from_be_bytes([h[34], h[35]]),
        payload: tcp.get(p.header..)?,
        wire_length: p.wire_length(),
        ip_id: u32::from(u16::from_be_bytes([h[4], h[5]])),
        outer: &[],
        tcp,
    })
}

/// The encapsulations entered so far, outermost first.
#[derive(Debug)]
struct Layers {
    stack: [OuterLayer; MAX_DEPTH],
    length: usize,
}

impl Default for Layers {
    fn default() -> Self {
        let none = OuterLayer { kind: "", source: Address(0), target: Address(0), id: None };
        Layers { stack: [none; MAX_DEPTH], length: 0 }
    }
}

impl Layers {
    fn as_slice(&self) -> &[OuterLayer] {
        self.stack.get(..self.length).unwrap_or_default()
    }

    fn push(&mut self, ip: Ip, tunnel: Tunnel, limit: usize) -> Result<(), End> {
        match self.stack.get_mut(self.length).filter(|_| self.length < limit) {
            Some(place) => {
                *place = OuterLayer { kind: tunnel.kind, source: ip.source, target: ip.target, id: tunnel.id };
                self.length += 1;
                Ok(())
            }
            None => Err(End::Skip(Skip::Depth)),
        }
    }
}

/// The way through one packet.
///
/// It ends: each step leaves bytes behind or goes down a finite chain, at most [`MAX_NESTED`] reassembled datagrams
/// bring new ones.
struct Walk<'w, 'a> {
    limits: &'w Limits,
    counters: &'w mut Counters,
    fragments: &'w mut Fragments,
    layers: &'w mut Layers,
    joined: &'a mut [Vec<u8>],
    time: Timestamp,
}

impl<'a> Walk<'_, 'a> {
    fn run(&mut self, link_type: LinkType, span: Span<'a>) -> Result<(Ip, Span<'a>), End> {
        let (mut layer, mut span) = cooked::link(link_type, span)?;
        loop {
            (layer, span) = match layer {
                Layer::Ethernet => ethernet::ethernet(span)?,
                Layer::EtherType(kind) => ethernet::ethertype(kind, span)?,
                Layer::Llc => ethernet::llc(span)?,
                Layer::Mpls => ethernet::mpls(span)?,
                Layer::Ppp => ethernet::ppp(span)?,
                Layer::Ip => match ip::ip(span, self.layers.length > 0, &mut self.counters.overlong)? {
                    Read::Whole(ip, number, span) => (Layer::Protocol(ip, number), span),
                    Read::NonTcp(ip, fragment) => self.join(ip, fragment)?,
                },
                Layer::Protocol(ip, protocol::TCP) => return Ok((ip, span)),
                Layer::Protocol(ip, protocol::UDP) => tunnel::udp(ip, span)?,
                Layer::Protocol(ip, protocol::GRE) => tunnel::gre(ip, span)?,
                Layer::Protocol(ip, number) => ip::transport(ip, number, span)?,
                Layer::Inside(ip, tunnel, inner) => {
                    self.layers.push(ip, tunnel, self.limits.depth)?;
                    (inner.layer(), span)
                }
            }
        }
    }

    /// Keeps a fragment, or goes on with the datagram that it completes.
    fn join(&mut self, ip: Ip, fragment: Fragment<'_>) -> Result<(Layer, Span<'a>), End> {
        let key = Key {
            source: ip.source,
            target: ip.target,
            id: ip.id,
            version: ip.version,
            protocol: if ip.version == 4 { fragment.protocol } else { 0 },
            depth: self.layers.length as u8,
            tunnel: self.layers.as_slice().last().and_then(|layer| layer.id),
        };
        // Nothing is inside these that could be of interest, so they must not push out what is.
        if ip.version == 4 && !matches!(fragment.protocol, 4 | 6 | 17 | 41 | 47 | 51 | 97 | 137) {
            ip::transport(ip, fragment.protocol, Span::new(&[], 0))?;
        }
        let Some((slot, rest)) = std::mem::take(&mut self.joined).split_first_mut() else {
            return Err(End::Skip(Skip::Depth));
        };
        self.joined = rest;
        let datagram = self.fragments.add(key, fragment, self.time, self.limits, self.counters).map_err(End::Skip)?;
        *slot = datagram.bytes;
        Ok((Layer::Protocol(ip, datagram.protocol), Span::new(slot, datagram.wire)))
    }
}
