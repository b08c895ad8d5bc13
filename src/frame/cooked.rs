//! The link types that are not Ethernet: cooked, loopback, raw, PPP, IP over InfiniBand.

use super::counters::{NonTcp, Other, Skip};
use super::cursor::{End, Layer, Span, Step};
use crate::capture::LinkType;

/// ARPHRD_NETLINK: netlink messages, no network traffic.
const ARPHRD_NETLINK: u16 = 824;

/// The first layer of a packet of this link type, <https://www.tcpdump.org/linktypes.html>.
pub(super) fn link(link_type: LinkType, span: Span<'_>) -> Step<'_> {
    match link_type.0 {
        1 => Ok((Layer::Ethernet, span)),
        0 | 108 => loopback(span),
        // RAW, and the numbers of DLT_RAW on OpenBSD (14) and elsewhere (12); IPv4; IPv6.
        12 | 14 | 101 | 228 | 229 => Ok((Layer::Ip, span)),
        // PPP; PPP over a serial line; the same with a direction byte before it.
        9 => Ok((Layer::Ppp, span)),
        50 | 104 => hdlc(span),
        204 => Ok((Layer::Ppp, span.skip(1, NonTcp::Link)?)),
        // PPPoE without the Ethernet header around it.
        51 => Ok((Layer::EtherType(0x8864), span)),
        100 => Ok((Layer::Llc, span)),
        113 => sll(span),
        276 => sll2(span),
        219 => Ok((Layer::Mpls, span)),
        // A global route header's place, then the four bytes of RFC 4391.
        242 => {
            let (head, rest) = span.skip(40, NonTcp::Link)?.header::<4>(NonTcp::Link)?;
            Ok((Layer::EtherType(u16::from_be_bytes([head[0], head[1]])), rest))
        }
        239 => nflog(span),
        n => Err(End::Skip(Skip::LinkType(n))),
    }
}

/// NULL and LOOP: an address family, of whatever byte order and system.
fn loopback(span: Span<'_>) -> Step<'_> {
    let (head, rest) = span.header::<4>(NonTcp::Link)?;
    let big = u32::from_be_bytes(*head);
    // No system has families beyond 65535, so the smaller reading is the right one.
    let family = big.min(big.swap_bytes());
    match family {
        // AF_INET; AF_INET6 of Linux, Windows, NetBSD and OpenBSD, FreeBSD, Darwin.
        2 | 10 | 23 | 24 | 28 | 30 => Ok((Layer::Ip, rest)),
        0x0600..=0xffff => Ok((Layer::EtherType(family as u16), rest)),
        _ => Err(End::Skip(Skip::Family(family))),
    }
}

/// Cisco HDLC, or PPP in HDLC framing (RFC 1662).
fn hdlc(span: Span<'_>) -> Step<'_> {
    match span.bytes.first() {
        Some(0x0f | 0x8f) => {
            let (head, rest) = span.header::<4>(NonTcp::Link)?;
            match u16::from_be_bytes([head[2], head[3]]) {
                // SLARP, Cisco discovery.
                0x8035 | 0x2000 => Err(End::Other(Other::LinkControl)),
                kind => Ok((Layer::EtherType(kind), rest)),
            }
        }
        _ => Ok((Layer::Ppp, span)),
    }
}

/// Linux cooked capture: packet type, ARPHRD, address length, eight bytes of address, protocol.
///
/// Read here, since etherparse refuses device types and packet types that it does not know.
/// The address length may exceed eight (IPoIB has twenty bytes); the field does not grow with it.
fn sll(span: Span<'_>) -> Step<'_> {
    let (head, rest) = span.header::<16>(NonTcp::Link)?;
    cooked(u16::from_be_bytes([head[2], head[3]]), u16::from_be_bytes([head[14], head[15]]), rest)
}

/// Version 2: protocol, two reserved bytes, interface index, ARPHRD, packet type, address length, address.
fn sll2(span: Span<'_>) -> Step<'_> {
    let (head, rest) = span.header::<20>(NonTcp::Link)?;
    cooked(u16::from_be_bytes([head[8], head[9]]), u16::from_be_bytes([head[0], head[1]]), rest)
}

fn cooked(arphrd: u16, protocol: u16, rest: Span<'_>) -> Step<'_> {
    if arphrd == ARPHRD_NETLINK {
        return Err(End::Other(Other::LinkControl));
    }
    match protocol {
        // Devices without a link layer (tun, ARPHRD_NONE) may leave it out.
        0 if matches!(rest.nibble(), Some(4 | 6)) => Ok((Layer::Ip, rest)),
        // ETH_P_802_3 (raw IPX), ETH_P_ALL (loopback tests), CAN and their like.
        0x0001 | 0x0003 | 0x000c..=0x000e => Err(End::Other(Other::LinkControl)),
        // ETH_P_802_2.
        0x0004 => Ok((Layer::Llc, rest)),
        kind => Ok((Layer::EtherType(kind), rest)),
    }
}

/// Linux netfilter log: family, version, resource, then attributes of host-order length and type, padded to four.
fn nflog(span: Span<'_>) -> Step<'_> {
    /// NFULA_PAYLOAD.
    const PAYLOAD: u16 = 9;
    let (head, mut rest) = span.header::<4>(NonTcp::Link)?;
    if !matches!(head[0], 2 | 10) {
        return Err(End::Other(Other::LinkControl));
    }
    loop {
        let (attribute, value) = rest.header::<4>(NonTcp::Link)?;
        let mut length = u16::from_le_bytes([attribute[0], attribute[1]]);
        let mut kind = u16::from_le_bytes([attribute[2], attribute[3]]);
        // The types are below 256, so a zero low byte means the other byte order.
        if kind & 0xff == 0 && kind != 0 {
            (length, kind) = (length.swap_bytes(), kind.swap_bytes());
        }
        let length = usize::from(length);
        if kind == PAYLOAD {
            return Ok((Layer::Ip, value.limit(length.saturating_sub(4))));
        }
        rest = rest.skip(length.max(4).next_multiple_of(4), NonTcp::Link)?;
    }
}
