//! Ethernet II and 802.3, tags, LLC/SNAP, PPPoE, MPLS and PPP.

use etherparse::{Ethernet2HeaderSlice, SingleVlanHeaderSlice};

use super::counters::{NonTcp, Other, Skip};
use super::cursor::{End, Layer, Span, Step};

/// EtherTypes, <https://www.iana.org/assignments/ieee-802-numbers>.
pub(super) mod ethertype {
    pub(in super::super) const IPV4: u16 = 0x0800;
    pub(in super::super) const IPV6: u16 = 0x86dd;
    pub(in super::super) const TEB: u16 = 0x6558;
    pub(in super::super) const VLAN: u16 = 0x8100;
    pub(in super::super) const MPLS: u16 = 0x8847;
    pub(in super::super) const PPP: u16 = 0x880b;
}

/// Ethernet: six bytes destination, six source, type (from 0x0600 on) or length of an LLC payload.
pub(super) fn ethernet(span: Span<'_>) -> Step<'_> {
    let head = span.read(NonTcp::Ethernet, Ethernet2HeaderSlice::from_slice)?;
    let rest = span.skip(head.slice().len(), NonTcp::Ethernet)?;
    let kind = head.ether_type().0;
    if kind >= 0x0600 {
        return Ok((Layer::EtherType(kind), rest));
    }
    if kind > 1500 {
        return Err(End::Skip(Skip::EtherType(kind)));
    }
    Ok((Layer::Llc, rest.limit(usize::from(kind))))
}

/// What follows an EtherType.
pub(super) fn ethertype(kind: u16, span: Span<'_>) -> Step<'_> {
    // A tag of `n` bytes, the last two of them the next EtherType. Those that etherparse does not know end as a VLAN's does.
    let tag = |n: usize| {
        let vlan = span.skip(n - 4, NonTcp::Tag)?.read(NonTcp::Tag, SingleVlanHeaderSlice::from_slice)?;
        let (next, rest) = (vlan.ether_type().0, span.skip(n, NonTcp::Tag)?);
        // A length here means 802.3 inside the tag.
        Ok(if next < 0x0600 { (Layer::Llc, rest.limit(usize::from(next))) } else { (Layer::EtherType(next), rest) })
    };
    match kind {
        // The version nibble is what receivers check, so a wrong EtherType does not hide a segment.
        ethertype::IPV4 | ethertype::IPV6 => Ok((Layer::Ip, span)),
        // 802.1Q, 802.1ad, and the numbers used before 802.1ad.
        ethertype::VLAN | 0x88a8 | 0x9100 | 0x9200 | 0x9300 => tag(4),
        // Cisco VN-tag; HSR/PRP tag.
        0x8926 | 0x892f => tag(6),
        // 802.1BR E-tag; Cisco MetaData (security group tag).
        0x893f | 0x8909 => tag(8),
        // 802.1ah: four bytes of service identifier, then the customer's frame.
        0x88e7 => Ok((Layer::Ethernet, span.skip(4, NonTcp::Tag)?)),
        ethertype::MPLS | 0x8848 => Ok((Layer::Mpls, span)),
        ethertype::TEB => Ok((Layer::Ethernet, span)),
        ethertype::PPP => Ok((Layer::Ppp, span)),
        // PPPoE session: version and type, code, session, length; then PPP.
        0x8864 => {
            let (head, rest) = span.header::<6>(NonTcp::Ppp)?;
            if head[1] != 0 {
                return Err(End::Other(Other::Ppp));
            }
            Ok((Layer::Ppp, rest.limit(usize::from(u16::from_be_bytes([head[4], head[5]])))))
        }
        // Jumbo LLC.
        0x8870 => Ok((Layer::Llc, span)),
        // Network service header (RFC 8300): its length in the low six bits of byte 1, the next protocol in byte 3.
        0x894f => {
            let (head, _) = span.header::<8>(NonTcp::Tunnel)?;
            let rest = span.skip(usize::from(head[1] & 0x3f).max(2) * 4, NonTcp::Tunnel)?;
            match head[3] {
                1 | 2 => Ok((Layer::Ip, rest)),
                3 => Ok((Layer::Ethernet, rest)),
                5 => Ok((Layer::Mpls, rest)),
                _ => Err(End::Other(Other::TunnelControl)),
            }
        }
        0x0806 | 0x8035 => Err(End::Other(Other::Arp)),
        0x8915 => Err(End::Other(Other::Roce)),
        0x8863 => Err(End::Other(Other::Ppp)),
        0x88e5 => Err(End::Skip(Skip::Macsec)),
        // Loopback test, flow control, LACP, EAPOL, HomePlug, PROFINET, AoE, LLDP, MRP, 1722, PTP, CFM, FCoE, FIP,
        // TDLS, WSMP, DCE, VMware beacon, Realtek, IPX, AppleTalk and its ARP.
        0x9000 | 0x8808 | 0x8809 | 0x888e | 0x887b | 0x88e1 | 0x8892 | 0x88a2 | 0x88cc | 0x88e3 | 0x22f0 | 0x88f7
        | 0x8902 | 0x8906 | 0x8914 | 0x890d | 0x88dc | 0x88b5 | 0x88b6 | 0x88b7 | 0x8922 | 0x8899 | 0x8137 | 0x809b
        | 0x80f3 | 0x88c7 | 0x2000 | 0x2004 | 0x6002 | 0x6003 => Err(End::Other(Other::LinkControl)),
        other => Err(End::Skip(Skip::EtherType(other))),
    }
}

/// IEEE 802.2: SNAP with an EtherType, IP by its own service access point, or link control.
pub(super) fn llc(span: Span<'_>) -> Step<'_> {
    let (head, rest) = span.header::<3>(NonTcp::Llc)?;
    match *head {
        [0xaa, 0xaa, 0x03] => {
            let (snap, rest) = rest.header::<5>(NonTcp::Llc)?;
            let kind = u16::from_be_bytes([snap[3], snap[4]]);
            match [snap[0], snap[1], snap[2]] {
                // RFC 1042 and the bridge-tunnel form of 802.1H.
                [0, 0, 0] | [0, 0, 0xf8] if kind >= 0x0600 => Ok((Layer::EtherType(kind), rest)),
                // RFC 2684: bridged Ethernet, with and without checksum.
                [0, 0x80, 0xc2] if kind == 1 || kind == 7 => Ok((Layer::Ethernet, rest)),
                _ => Err(End::Other(Other::LinkControl)),
            }
        }
        [0x06, 0x06, 0x03] => Ok((Layer::Ip, rest)),
        _ => Err(End::Other(Other::LinkControl)),
    }
}

/// An MPLS label stack, then IP by its nibble, or Ethernet over a pseudowire (RFC 4448) with or without control word.
pub(super) fn mpls(mut span: Span<'_>) -> Step<'_> {
    loop {
        let (label, rest) = span.header::<4>(NonTcp::Mpls)?;
        span = rest;
        if label[2] & 1 != 0 {
            break;
        }
    }
    match span.nibble().ok_or(End::Skip(Skip::Truncated(NonTcp::Mpls)))? {
        4 | 6 => Ok((Layer::Ip, span)),
        // The associated channel: link control of the pseudowire.
        1 => Err(End::Other(Other::TunnelControl)),
        nibble => {
            if nibble == 0 {
                let inner = span.skip(4, NonTcp::Mpls)?;
                // A MAC address too may begin with nibble 0; only one of both readings has a type where it belongs.
                if looks_like_ethernet(inner) || !looks_like_ethernet(span) {
                    return Ok((Layer::Ethernet, inner));
                }
            }
            Ok((Layer::Ethernet, span))
        }
    }
}

/// Whether an EtherType that may lead to IP stands where it does in an Ethernet header.
fn looks_like_ethernet(span: Span<'_>) -> bool {
    span.be16(12).is_some_and(|kind| {
        matches!(
            kind,
            ethertype::IPV4 | ethertype::IPV6 | ethertype::VLAN | 0x88a8 | 0x9100 | ethertype::MPLS | 0x0806 | 0x8864
        )
    })
}

/// PPP: address and control (when not compressed away), protocol in one or two bytes.
pub(super) fn ppp(span: Span<'_>) -> Step<'_> {
    let span = if span.bytes.starts_with(&[0xff, 0x03]) { span.skip(2, NonTcp::Ppp)? } else { span };
    let (&[first], rest) = span.header::<1>(NonTcp::Ppp)?;
    // An odd first byte is a whole protocol number (RFC 1661, 6.5).
    let (protocol, rest) = if first & 1 != 0 {
        (u16::from(first), rest)
    } else {
        let (&[second], rest) = rest.header::<1>(NonTcp::Ppp)?;
        (u16::from_be_bytes([first, second]), rest)
    };
    match protocol {
        0x0021 | 0x0057 => Ok((Layer::Ip, rest)),
        0x0281 | 0x0283 => Ok((Layer::Mpls, rest)),
        _ => Err(End::Other(Other::Ppp)),
    }
}
