//! IPv4 and IPv6 headers, extension headers, fragments.

use super::counters::{NonTcp, Other, Skip};
use super::cursor::{End, Inner, Ip, Layer, Span, Step, Tunnel};
use super::fragments::Fragment;
use crate::net::Address;

/// IP protocol numbers, <https://www.iana.org/assignments/protocol-numbers>.
pub(super) mod protocol {
    pub(in super::super) const TCP: u8 = 6;
    pub(in super::super) const UDP: u8 = 17;
    pub(in super::super) const GRE: u8 = 47;
    pub(in super::super) const FRAGMENT: u8 = 44;
}

/// An IP header read: what follows it, or a fragment of what follows it.
pub(super) enum Read<'a> {
    Whole(Ip, u8, Span<'a>),
    NonTcp(Ip, Fragment<'a>),
}

/// IPv4 or IPv6 by the version nibble. `overlong` is raised when the header claims more than the packet had.
///
/// `trust` is for packets inside a tunnel, which mirrors cut short: there the header's own length is the better one.
pub(super) fn ip<'a>(span: Span<'a>, trust: bool, overlong: &mut u64) -> Result<Read<'a>, End> {
    match span.nibble() {
        Some(4) => ipv4(span, trust, overlong),
        Some(6) => ipv6(span, trust, overlong),
        Some(_) => Err(End::Skip(Skip::IpVersion)),
        None => Err(End::Skip(Skip::Truncated(NonTcp::Ipv4))),
    }
}

/// What a length field says, against what is there.
fn fit<'a>(span: Span<'a>, length: usize, trust: bool, overlong: &mut u64) -> Span<'a> {
    if length > span.wire {
        *overlong += 1;
        if trust {
            return Span { bytes: span.bytes, wire: length };
        }
    }
    span.limit(length)
}

fn ipv4<'a>(span: Span<'a>, trust: bool, overlong: &mut u64) -> Result<Read<'a>, End> {
    let (h, _) = span.header::<20>(NonTcp::Ipv4)?;
    let header = usize::from(h[0] & 15) * 4;
    if header < 20 {
        return Err(End::Skip(Skip::Ihl));
    }
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    // Zero: the sender's card was to fill it in (segmentation offload), so the packet's own length holds.
    let span = if total == 0 { span } else { fit(span, total, trust, overlong) };
    if span.wire < header {
        return Err(End::Skip(Skip::TotalLength));
    }
    let payload = span.skip(header, NonTcp::Ipv4)?;
    let options = span.bytes.get(20..header).unwrap_or_default();
    let target = source_routed(options).unwrap_or([h[16], h[17], h[18], h[19]]);
    let ip = Ip {
        source: Address::v4([h[12], h[13], h[14], h[15]]),
        target: Address::v4(target),
        id: u32::from(u16::from_be_bytes([h[4], h[5]])),
        version: 4,
    };
    let place = u16::from_be_bytes([h[6], h[7]]);
    if place & 0x3fff == 0 {
        return Ok(Read::Whole(ip, h[9], payload));
    }
    Ok(Read::NonTcp(ip, fragment(payload, u32::from(place & 0x1fff) * 8, place & 0x2000 != 0, h[9])))
}

fn fragment(payload: Span<'_>, offset: u32, more: bool, protocol: u8) -> Fragment<'_> {
    Fragment { offset, length: u32::try_from(payload.wire).unwrap_or(u32::MAX), bytes: payload.bytes, more, protocol }
}

/// The last address of a loose or strict source route that is not used up: where the datagram goes in the end.
fn source_routed(mut options: &[u8]) -> Option<[u8; 4]> {
    loop {
        match *options {
            [] | [0, ..] => return None,
            [1, ref rest @ ..] => options = rest,
            [kind, length, ..] => {
                let (option, rest) = options.split_at_checked(usize::from(length).max(2))?;
                if matches!(kind, 131 | 137) && option.get(2).is_some_and(|&next| next <= length.saturating_sub(3)) {
                    return option.get(3..)?.last_chunk().copied();
                }
                options = rest;
            }
            [_] => return None,
        }
    }
}

fn ipv6<'a>(span: Span<'a>, trust: bool, overlong: &mut u64) -> Result<Read<'a>, End> {
    let (h, rest) = span.header::<40>(NonTcp::Ipv6)?;
    let payload = usize::from(u16::from_be_bytes([h[4], h[5]]));
    // Zero: a jumbogram, or segmentation offload; either way the packet's own length holds.
    let mut rest = if payload == 0 { rest } else { fit(rest, payload, trust, overlong) };
    let address = |at: usize| h.get(at..).and_then(|b| b.first_chunk()).map_or(Address::default(), |b| Address::v6(*b));
    let mut ip = Ip { source: address(8), target: address(24), id: 0, version: 6 };
    if ip.source.is_v4() || ip.target.is_v4() {
        return Err(End::Skip(Skip::MappedAddress));
    }
    let mut next = h[6];
    loop {
        match next {
            // A length in units of eight bytes, the first eight not counted.
            0 | 43 | 60 | 135 | 139 | 140 => (next, rest) = extension(next, rest, &mut ip)?,
            protocol::FRAGMENT => {
                let (f, payload) = rest.header::<8>(NonTcp::Extension)?;
                ip.id = u32::from_be_bytes([f[4], f[5], f[6], f[7]]);
                let place = u16::from_be_bytes([f[2], f[3]]);
                (next, rest) = (f[0], payload);
                // An "atomic" fragment is all there is.
                if place & 0xfff9 != 0 {
                    return Ok(Read::NonTcp(ip, fragment(rest, u32::from(place & 0xfff8), place & 1 != 0, next)));
                }
            }
            51 => (next, rest) = authentication(rest)?,
            _ => return Ok(Read::Whole(ip, next, rest)),
        }
    }
}

/// One IPv6 extension header: the protocol after it, and where that begins.
fn extension<'a>(kind: u8, span: Span<'a>, ip: &mut Ip) -> Result<(u8, Span<'a>), End> {
    let (h, _) = span.header::<8>(NonTcp::Extension)?;
    let length = (usize::from(h[1]) + 1) * 8;
    let rest = span.skip(length, NonTcp::Extension)?;
    // A routing header with segments left: the final destination is the flow's, and what checksums cover.
    if kind == 43 && h[3] > 0 {
        let last = match h[2] {
            0 | 2 => span.bytes.get(8..length).and_then(|b| b.last_chunk()),
            // Segment routing (RFC 8754) lists the final one first.
            4 => span.bytes.get(8..length).and_then(|b| b.first_chunk()),
            _ => None,
        };
        if let Some(address) = last.map(|b| Address::v6(*b)).filter(|a| !a.is_v4()) {
            ip.target = address;
        }
    }
    Ok((h[0], rest))
}

/// AH: a length in units of four bytes, the first eight bytes not counted. What it covers is not encrypted.
fn authentication(span: Span<'_>) -> Result<(u8, Span<'_>), End> {
    let (h, _) = span.header::<8>(NonTcp::Authentication)?;
    Ok((h[0], span.skip((usize::from(h[1]) + 2) * 4, NonTcp::Authentication)?))
}

/// What follows an IP header, besides TCP, UDP and GRE, which have files of their own.
pub(super) fn transport<'a>(ip: Ip, number: u8, span: Span<'a>) -> Step<'a> {
    let tunnel = |kind, inner| Ok((Layer::Inside(ip, Tunnel { kind, id: None }, inner), span));
    match number {
        // Extension headers that came out of a reassembled datagram.
        0 | 43 | 60 | 135 | 139 | 140 if ip.version == 6 => {
            let mut ip = ip;
            let (next, rest) = extension(number, span, &mut ip)?;
            Ok((Layer::Protocol(ip, next), rest))
        }
        51 => {
            let (next, rest) = authentication(span)?;
            Ok((Layer::Protocol(ip, next), rest))
        }
        4 => tunnel(if ip.version == 4 { "ipip" } else { "4in6" }, Inner::Ip),
        41 => tunnel(if ip.version == 4 { "6in4" } else { "6in6" }, Inner::Ip),
        137 => tunnel("mpls-in-ip", Inner::EtherType(super::ethernet::ethertype::MPLS)),
        // EtherIP: version 3 in the high half of two bytes; Ethernet in SRv6.
        97 => Ok((
            Layer::Inside(ip, Tunnel { kind: "etherip", id: None }, Inner::Ethernet),
            span.skip(2, NonTcp::Tunnel)?,
        )),
        143 => tunnel("ethernet-in-ip", Inner::Ethernet),
        50 => Err(End::Skip(Skip::Esp)),
        108 => Err(End::Skip(Skip::IpComp)),
        1 | 58 => Err(End::Other(Other::Icmp)),
        _ => Err(End::Other(Other::IpProtocol)),
    }
}
