//! IPv4 and IPv6 headers, extension headers, fragments.

use etherparse::err::ipv4::HeaderSliceError;
use etherparse::{Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice, Ipv6RawExtHeaderSlice};

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
    let h = Ipv4HeaderSlice::from_slice(span.bytes).map_err(|e| match e {
        HeaderSliceError::Content(_) => End::Skip(Skip::Ihl),
        HeaderSliceError::Len(_) => End::Skip(Skip::Truncated(NonTcp::Ipv4)),
    })?;
    let (header, total) = (h.slice().len(), usize::from(h.total_len()));
    // Zero: the sender's card was to fill it in (segmentation offload), so the packet's own length holds.
    let span = if total == 0 { span } else { fit(span, total, trust, overlong) };
    if span.wire < header {
        return Err(End::Skip(Skip::TotalLength));
    }
    let payload = span.skip(header, NonTcp::Ipv4)?;
    let ip = Ip {
        source: Address::v4(h.source()),
        target: Address::v4(source_routed(h.options()).unwrap_or(h.destination())),
        id: u32::from(h.identification()),
        version: 4,
    };
    if !h.is_fragmenting_payload() {
        return Ok(Read::Whole(ip, h.protocol().0, payload));
    }
    let offset = u32::from(h.fragments_offset().value()) * 8;
    Ok(Read::NonTcp(ip, fragment(payload, offset, h.more_fragments(), h.protocol().0)))
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
    let h = span.read(NonTcp::Ipv6, Ipv6HeaderSlice::from_slice)?;
    let rest = span.skip(h.slice().len(), NonTcp::Ipv6)?;
    let payload = usize::from(h.payload_length());
    // Zero: a jumbogram, or segmentation offload; either way the packet's own length holds.
    let mut rest = if payload == 0 { rest } else { fit(rest, payload, trust, overlong) };
    let mut ip = Ip { source: Address::v6(h.source()), target: Address::v6(h.destination()), id: 0, version: 6 };
    if ip.source.is_v4() || ip.target.is_v4() {
        return Err(End::Skip(Skip::MappedAddress));
    }
    let mut next = h.next_header().0;
    loop {
        match next {
            // A length in units of eight bytes, the first eight not counted.
            0 | 43 | 60 | 135 | 139 | 140 => (next, rest) = extension(next, rest, &mut ip)?,
            protocol::FRAGMENT => {
                let f = rest.read(NonTcp::Extension, Ipv6FragmentHeaderSlice::from_slice)?;
                ip.id = f.identification();
                (next, rest) = (f.next_header().0, rest.skip(f.slice().len(), NonTcp::Extension)?);
                // An "atomic" fragment is all there is.
                if f.is_fragmenting_payload() {
                    let offset = u32::from(f.fragment_offset().value()) * 8;
                    return Ok(Read::NonTcp(ip, fragment(rest, offset, f.more_fragments(), next)));
                }
            }
            51 => (next, rest) = authentication(rest)?,
            _ => return Ok(Read::Whole(ip, next, rest)),
        }
    }
}

/// One IPv6 extension header: the protocol after it, and where that begins.
fn extension<'a>(kind: u8, span: Span<'a>, ip: &mut Ip) -> Result<(u8, Span<'a>), End> {
    let extension = span.read(NonTcp::Extension, Ipv6RawExtHeaderSlice::from_slice)?;
    let h = extension.slice();
    let rest = span.skip(h.len(), NonTcp::Extension)?;
    // A routing header with segments left: the final destination is the flow's, and what checksums cover.
    if let (43, &[_, _, routing, 1..=255, ..]) = (kind, h) {
        let last = match routing {
            0 | 2 => h.get(8..).and_then(|b| b.last_chunk()),
            // Segment routing (RFC 8754) lists the final one first.
            4 => h.get(8..).and_then(|b| b.first_chunk()),
            _ => None,
        };
        if let Some(address) = last.map(|b| Address::v6(*b)).filter(|a| !a.is_v4()) {
            ip.target = address;
        }
    }
    Ok((extension.next_header().0, rest))
}

/// AH: a length in units of four bytes, the first eight bytes not counted. What it covers is not encrypted.
/// (etherparse refuses one without a check value.)
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
