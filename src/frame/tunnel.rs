//! Tunnels over UDP and GRE.

use super::counters::{NonTcp, Other};
use super::cursor::{End, Inner, Ip, Layer, Span, Step, Tunnel};
use super::ethernet::ethertype;

const UDP: End = End::Other(Other::Udp);

fn inside<'a>(ip: Ip, kind: &'static str, id: Option<u32>, inner: Inner, span: Span<'a>) -> Step<'a> {
    Ok((Layer::Inside(ip, Tunnel { kind, id }, inner), span))
}

/// UDP: the tunnels known by their port, and VXLAN on any port by its content.
pub(super) fn udp(ip: Ip, span: Span<'_>) -> Step<'_> {
    let (h, rest) = span.header::<8>(NonTcp::Udp)?;
    let length = usize::from(u16::from_be_bytes([h[4], h[5]]));
    // Zero: a jumbogram, or segmentation offload.
    let rest = if length >= 8 { rest.limit(length - 8) } else { rest };
    // Every one of these tunnels has a header of eight bytes and something inside.
    if rest.wire <= 8 {
        return Err(UDP);
    }
    match u16::from_be_bytes([h[2], h[3]]) {
        4789 | 8472 => vxlan(ip, rest),
        4790 => vxlan_gpe(ip, rest),
        6081 => geneve(ip, rest),
        2152 => gtp(ip, rest),
        6635 => inside(ip, "mpls-in-udp", None, Inner::EtherType(ethertype::MPLS), rest),
        _ if looks_like_vxlan(rest) => vxlan(ip, rest),
        _ => Err(UDP),
    }
}

/// VXLAN (RFC 7348): flags, three bytes reserved (or a group policy), 24 bits of network identifier, one byte reserved.
fn vxlan(ip: Ip, span: Span<'_>) -> Step<'_> {
    let (h, rest) = span.header::<8>(NonTcp::Tunnel)?;
    if h[0] & 0x08 == 0 {
        return Err(UDP);
    }
    inside(ip, "vxlan", Some(be24(h[4], h[5], h[6])), Inner::Ethernet, rest)
}

/// Whether every bit that VXLAN fixes is as it must be, and Ethernet with a sound IP header follows.
fn looks_like_vxlan(span: Span<'_>) -> bool {
    let Some((&[0x08, 0, 0, 0, _, _, _, 0], inner)) = span.bytes.split_first_chunk() else { return false };
    let Some((mac, mut rest)) = inner.split_at_checked(12) else { return false };
    // A sender's address is never a group's.
    if mac.get(6).is_none_or(|b| b & 1 != 0) {
        return false;
    }
    loop {
        match *rest {
            [0x81, 0, _, _, ref tagged @ ..] => rest = tagged,
            [0x08, 0, first, _, high, low, ..] => {
                let total = usize::from(u16::from_be_bytes([high, low]));
                return (0x45..=0x4f).contains(&first) && (20..=span.wire.saturating_sub(22)).contains(&total);
            }
            [0x86, 0xdd, first, _, _, _, high, low, ..] => {
                let payload = usize::from(u16::from_be_bytes([high, low]));
                return first >> 4 == 6 && payload <= span.wire.saturating_sub(62);
            }
            _ => return false,
        }
    }
}

/// VXLAN-GPE: as VXLAN, with the next protocol in byte 3 when the P bit is set.
fn vxlan_gpe(ip: Ip, span: Span<'_>) -> Step<'_> {
    let (h, rest) = span.header::<8>(NonTcp::Tunnel)?;
    let inner = match h[3] {
        _ if h[0] & 0x04 == 0 => Inner::Ethernet,
        1 | 2 => Inner::Ip,
        3 => Inner::Ethernet,
        4 => Inner::EtherType(0x894f),
        5 => Inner::EtherType(ethertype::MPLS),
        _ => return Err(End::Other(Other::TunnelControl)),
    };
    let id = (h[0] & 0x08 != 0).then(|| be24(h[4], h[5], h[6]));
    inside(ip, "vxlan-gpe", id, inner, rest)
}

/// GENEVE (RFC 8926): version and length of the options in words, flags, EtherType, network identifier.
fn geneve(ip: Ip, span: Span<'_>) -> Step<'_> {
    let (h, rest) = span.header::<8>(NonTcp::Tunnel)?;
    if h[0] >> 6 != 0 {
        return Err(UDP);
    }
    let rest = rest.skip(usize::from(h[0] & 0x3f) * 4, NonTcp::Tunnel)?;
    if h[1] & 0x80 != 0 {
        return Err(End::Other(Other::TunnelControl));
    }
    let inner = Inner::EtherType(u16::from_be_bytes([h[2], h[3]]));
    inside(ip, "geneve", Some(be24(h[4], h[5], h[6])), inner, rest)
}

/// GTP-U (3GPP TS 29.281): flags, type, length, tunnel id; four bytes more when any of E, S, PN is set.
fn gtp(ip: Ip, span: Span<'_>) -> Step<'_> {
    let (h, rest) = span.header::<8>(NonTcp::Tunnel)?;
    if h[0] & 0xf0 != 0x30 {
        return Err(UDP);
    }
    if h[1] != 0xff {
        return Err(End::Other(Other::TunnelControl));
    }
    let mut rest = rest.limit(usize::from(u16::from_be_bytes([h[2], h[3]])));
    if h[0] & 0x07 != 0 {
        let (more, after) = rest.header::<4>(NonTcp::Tunnel)?;
        rest = after;
        let mut next = if h[0] & 0x04 != 0 { more[3] } else { 0 };
        while next != 0 {
            // Length in words, itself and the next type (the last byte) included.
            let (&[words], _) = rest.header::<1>(NonTcp::Tunnel)?;
            let length = usize::from(words.max(1)) * 4;
            let after = rest.skip(length, NonTcp::Tunnel)?;
            next = rest.bytes.get(length - 1).copied().unwrap_or(0);
            rest = after;
        }
    }
    match rest.nibble() {
        Some(4 | 6) => inside(ip, "gtp", Some(u32::from_be_bytes([h[4], h[5], h[6], h[7]])), Inner::Ip, rest),
        _ => Err(End::Other(Other::TunnelControl)),
    }
}

/// GRE (RFC 2784, 2890; version 1 is PPTP, RFC 2637): flags, protocol, then the fields that the flags announce.
pub(super) fn gre(ip: Ip, span: Span<'_>) -> Step<'_> {
    const CHECKSUM: u8 = 0x80;
    const ROUTING: u8 = 0x40;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;
    let (h, mut rest) = span.header::<4>(NonTcp::Gre)?;
    let (flags, protocol) = (h[0], u16::from_be_bytes([h[2], h[3]]));
    if flags & (CHECKSUM | ROUTING) != 0 {
        rest = rest.skip(4, NonTcp::Gre)?;
    }
    let mut key = None;
    if flags & KEY != 0 {
        let (k, after) = rest.header::<4>(NonTcp::Gre)?;
        key = Some(u32::from_be_bytes(*k));
        rest = after;
    }
    if flags & SEQUENCE != 0 {
        rest = rest.skip(4, NonTcp::Gre)?;
    }
    match h[1] & 0x07 {
        0 => {}
        1 => {
            if h[1] & 0x80 != 0 {
                rest = rest.skip(4, NonTcp::Gre)?;
            }
            if protocol != ethertype::PPP || rest.bytes.is_empty() {
                return Err(End::Other(Other::TunnelControl));
            }
            // The key holds the payload's length and the call.
            return inside(ip, "pptp", key.map(|k| k & 0xffff), Inner::Ppp, rest);
        }
        _ => return Err(End::Other(Other::TunnelControl)),
    }
    if flags & ROUTING != 0 {
        // Source route entries: family, offset, length; one without length is the last.
        loop {
            let (&[_, _, _, length], after) = rest.header::<4>(NonTcp::Gre)?;
            rest = after.skip(usize::from(length), NonTcp::Gre)?;
            if length == 0 {
                break;
            }
        }
    }
    match protocol {
        0x88be if flags & SEQUENCE != 0 => erspan(ip, rest),
        0x88be => inside(ip, "erspan", None, Inner::Ethernet, rest),
        0x22eb => erspan(ip, rest),
        // NVGRE (RFC 7637) has the key alone, and no subnet identifier below 0x1000; else it is a bridge's GRE key.
        ethertype::TEB if flags & 0xf0 == KEY && key.is_some_and(|k| k >> 8 >= 0x1000) => {
            inside(ip, "nvgre", key.map(|k| k >> 8), Inner::Ethernet, rest)
        }
        // WCCP: four bytes of redirect header, in its second version.
        0x883e => {
            let rest = if rest.nibble() == Some(4) { rest } else { rest.skip(4, NonTcp::Gre)? };
            inside(ip, "wccp", key, Inner::Ip, rest)
        }
        // A keepalive: nothing inside, or nothing that is anyone's traffic.
        0 => Err(End::Other(Other::TunnelControl)),
        kind => inside(ip, "gre", key, Inner::EtherType(kind), rest),
    }
}

/// ERSPAN II (version 1, eight bytes) and III (version 2, twelve and perhaps eight of platform header).
fn erspan(ip: Ip, span: Span<'_>) -> Step<'_> {
    let (h, rest) = span.header::<8>(NonTcp::Tunnel)?;
    let session = Some(u32::from(u16::from_be_bytes([h[2], h[3]]) & 0x3ff));
    match h[0] >> 4 {
        1 => inside(ip, "erspan", session, Inner::Ethernet, rest),
        2 => {
            let (t, mut rest) = rest.header::<4>(NonTcp::Tunnel)?;
            if t[3] & 1 != 0 {
                rest = rest.skip(8, NonTcp::Tunnel)?;
            }
            // Frame type, five bits after the P bit: 0 Ethernet, 2 IP.
            let inner = if (t[2] >> 2) & 0x1f == 2 { Inner::Ip } else { Inner::Ethernet };
            inside(ip, "erspan", session, inner, rest)
        }
        _ => Err(End::Other(Other::TunnelControl)),
    }
}

fn be24(a: u8, b: u8, c: u8) -> u32 {
    u32::from_be_bytes([0, a, b, c])
}
