//! One record of a capture.

use crate::time::Timestamp;

/// A link-layer header type, as numbered by <https://www.tcpdump.org/linktypes.html>.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: a four-byte protocol family in the capturing host's byte order.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// Raw IP, IPv4 or IPv6 by the version nibble.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback: a four-byte protocol family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux cooked capture.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// Raw IPv4.
    pub const IPV4: LinkType = LinkType(228);
    /// Raw IPv6.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);
}

/// One record of a capture, borrowed from the reader's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its number in its capture file, from 1, as Wireshark counts.
    pub number: u64,
    /// When the capturing host saw it, by that host's clock.
    pub time: Timestamp,
    /// The link type of the interface it was seen on.
    pub link_type: LinkType,
    /// The interface's index in the capture (pcapng; 0 in classic pcap).
    pub interface: u32,
    /// Its length on the wire in bytes; larger than `data` when the snaplen cut it.
    pub original_length: u32,
    /// The captured bytes, from the link-layer header on.
    pub data: &'a [u8],
}
