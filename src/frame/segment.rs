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
    /// TCP header and payload as captured, for [`verify_checksum`](super::verify_checksum).
    pub tcp: &'a [u8],
}
