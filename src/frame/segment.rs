//! The TCP part of a packet.

use crate::net::{Address, Endpoint};

/// The control bits of a TCP header (the low eight: CWR ECE URG ACK PSH RST SYN FIN).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u8);

impl Flags {
    /// FIN bit.
    pub const FIN: u8 = 0x01;
    /// SYN bit.
    pub const SYN: u8 = 0x02;
    /// RST bit.
    pub const RST: u8 = 0x04;
    /// ACK bit.
    pub const ACK: u8 = 0x10;
    /// URG bit.
    pub const URG: u8 = 0x20;

    /// Whether FIN is set.
    #[inline]
    pub fn fin(self) -> bool {
        self.0 & Self::FIN != 0
    }
    /// Whether SYN is set.
    #[inline]
    pub fn syn(self) -> bool {
        self.0 & Self::SYN != 0
    }
    /// Whether RST is set.
    #[inline]
    pub fn rst(self) -> bool {
        self.0 & Self::RST != 0
    }
    /// Whether ACK is set.
    #[inline]
    pub fn ack(self) -> bool {
        self.0 & Self::ACK != 0
    }
}

/// One encapsulation that a segment arrived in, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OuterLayer {
    /// What wrapped it: `"vxlan"`, `"geneve"`, `"gre"`, `"ipip"`, …
    pub kind: &'static str,
    /// Outer source address.
    pub source: Address,
    /// Outer destination address.
    pub target: Address,
    /// Network identifier (VNI, GRE key, ERSPAN session) where the encapsulation has one.
    pub id: Option<u32>,
}

/// The TCP part of a packet; addresses are the innermost ones.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sender.
    pub src: Endpoint,
    /// Receiver.
    pub dst: Endpoint,
    /// Sequence number of the first payload byte (of the SYN itself, when SYN is set).
    pub seq: u32,
    /// Acknowledgement number; meaningful when ACK is set.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Receive window as sent, unscaled.
    pub window: u16,
    /// The captured payload bytes. May be shorter than `wire_length` when the snaplen cut the packet.
    pub payload: &'a [u8],
    /// Payload length on the wire, in bytes.
    pub wire_length: u32,
    /// IPv4 identification (fragment id for IPv6, 0 without one): tells a duplicate from a retransmission.
    pub ip_id: u32,
    /// The encapsulations around it, outermost first; empty for plain traffic.
    pub outer: &'a [OuterLayer],
    /// TCP header and payload as captured, for [`verify_checksum`](super::verify_checksum) and options.
    pub tcp: &'a [u8],
}

/// What a SYN or SYN-ACK offers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Offer {
    /// The shift of its sender's windows, at most 14 (RFC 7323, 2.3).
    pub scale: Option<u8>,
    /// Whether selective acknowledgements are permitted.
    pub sack: bool,
    /// The timestamp.
    pub timestamp: Option<u32>,
    /// Whether all options were captured.
    pub whole: bool,
}

impl<'a> Segment<'a> {
    fn be16(&self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(*self.tcp.get(at..)?.first_chunk()?))
    }

    /// The checksum field, where it was captured.
    #[inline]
    pub fn checksum(&self) -> Option<u16> {
        self.be16(16)
    }

    /// The urgent pointer, where the URG bit is set.
    #[inline]
    pub fn urgent_pointer(&self) -> Option<u16> {
        if self.flags.0 & Flags::URG == 0 { None } else { self.be16(18) }
    }

    /// The options as captured: kind and value.
    fn options(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let header = self.tcp.get(12).map_or(0, |b| usize::from(b >> 4) * 4);
        let mut rest = self.tcp.get(20..header.min(self.tcp.len())).unwrap_or_default();
        std::iter::from_fn(move || {
            while let Some((1, after)) = rest.split_first() {
                rest = after;
            }
            let (kind, length) = (*rest.first()?, usize::from(*rest.get(1)?));
            if kind == 0 || length < 2 {
                return None;
            }
            let value = rest.get(2..length)?;
            rest = rest.get(length..)?;
            Some((kind, value))
        })
    }

    /// The value of the timestamps option (RFC 7323, 3.2).
    #[inline]
    pub fn timestamp(&self) -> Option<u32> {
        // As nearly all stacks write it: two bytes of padding, kind 8, length 10.
        if let Some([1, 1, 8, 10, a, b, c, d]) = self.tcp.get(20..).and_then(|t| t.first_chunk::<8>())
            && self.tcp.get(12).is_some_and(|b| *b >> 4 >= 8)
        {
            return Some(u32::from_be_bytes([*a, *b, *c, *d]));
        }
        let found = self.options().find(|(kind, _)| *kind == 8)?;
        Some(u32::from_be_bytes(*found.1.first_chunk()?))
    }

    /// What a SYN or SYN-ACK offers.
    pub fn offer(&self) -> Offer {
        let header = self.tcp.get(12).map_or(usize::MAX, |b| usize::from(b >> 4) * 4);
        let mut offer = Offer { whole: self.tcp.len() >= header, ..Offer::default() };
        for (kind, value) in self.options() {
            match (kind, value) {
                (3, [shift]) => offer.scale = Some((*shift).min(14)),
                (4, []) => offer.sack = true,
                (8, [a, b, c, d, ..]) => offer.timestamp = Some(u32::from_be_bytes([*a, *b, *c, *d])),
                _ => {}
            }
        }
        offer
    }
}
