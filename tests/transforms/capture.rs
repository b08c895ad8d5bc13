//! Captures of Ethernet frames with IPv4 and TCP in memory, and what may be done to them on the way to a file.

#![allow(dead_code)]
use std::path::Path;

/// A packet: its time in microseconds since 1970, what was captured of it, and its length on the wire.
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) time: i64,
    pub(crate) frame: Vec<u8>,
    pub(crate) original: u32,
}

pub(crate) type Packets = Vec<Packet>;

/// The packets of a classic little-endian pcap with microseconds.
pub(crate) fn read(path: &Path) -> Packets {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes[..4], [0xd4, 0xc3, 0xb2, 0xa1], "{}", path.display());
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let one = |(start, end): (usize, usize)| Packet {
        time: i64::from(word(start)) * 1_000_000 + i64::from(word(start + 4)),
        frame: bytes[start + 16..end].to_vec(),
        original: word(start + 12),
    };
    crate::common::records(&bytes).into_iter().map(one).collect()
}

/// As a classic pcap.
pub(crate) fn pcap(packets: &[Packet]) -> Vec<u8> {
    let mut out = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for p in packets {
        let time = [p.time.div_euclid(1_000_000) as u32, p.time.rem_euclid(1_000_000) as u32];
        out.extend([time[0], time[1], p.frame.len() as u32, p.original].map(u32::to_le_bytes).concat());
        out.extend(&p.frame);
    }
    out
}

/// As a pcapng with one interface.
pub(crate) fn pcapng(packets: &[Packet]) -> Vec<u8> {
    let block = |kind: u32, body: Vec<u8>| {
        let length = (12 + body.len().next_multiple_of(4)) as u32;
        let mut out = [kind, length].map(u32::to_le_bytes).concat();
        out.extend(body);
        out.resize(length as usize - 4, 0);
        out.extend(length.to_le_bytes());
        out
    };
    let section = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let mut out = block(0x0a0d_0d0a, section);
    out.extend(block(1, [1, 262_144].map(u32::to_le_bytes).concat()));
    for p in packets {
        let (high, low) = ((p.time >> 32) as u32, p.time as u32);
        let mut body = [0, high, low, p.frame.len() as u32, p.original].map(u32::to_le_bytes).concat();
        body.extend(&p.frame);
        out.extend(block(6, body));
    }
    out
}

/// Where the TCP header of a frame begins, and its payload; none of other frames.
pub(crate) fn tcp_of(frame: &[u8]) -> Option<(usize, usize)> {
    if frame.get(12..14)? != [8, 0] || *frame.get(23)? != 6 {
        return None;
    }
    let tcp = 14 + usize::from(frame[14] & 15) * 4;
    Some((tcp, tcp + usize::from(frame.get(tcp + 12)? >> 4) * 4))
}

/// The end of the IP packet: what follows is padding.
fn end_of(frame: &[u8]) -> usize {
    14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]))
}

fn sum(parts: &[&[u8]]) -> [u8; 2] {
    let word = |w: &[u8]| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
    let mut total: u32 = parts.concat().chunks(2).map(word).sum();
    while total >> 16 > 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    (!total as u16).to_be_bytes()
}

/// Computes lengths and checksums anew.
fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let (tcp, _) = tcp_of(&frame).unwrap();
    let length = ((frame.len() - 14) as u16).to_be_bytes();
    frame[16..18].copy_from_slice(&length);
    frame[24..26].fill(0);
    let header = sum(&[&frame[14..tcp]]);
    frame[24..26].copy_from_slice(&header);
    frame[tcp + 16..tcp + 18].fill(0);
    let length = ((frame.len() - tcp) as u16).to_be_bytes();
    let checksum = sum(&[&frame[26..34], &[0, 6], &length, &frame[tcp..]]);
    frame[tcp + 16..tcp + 18].copy_from_slice(&checksum);
    frame
}

/// The segment with another payload.
pub(crate) fn rewritten(p: &Packet, payload: &[u8]) -> Packet {
    let (_, from) = tcp_of(&p.frame).unwrap();
    with(p, sealed([&p.frame[..from], payload].concat()))
}

/// Every packet in place of which `make` puts others.
pub(crate) fn each(packets: &[Packet], make: impl Fn(&Packet) -> Packets) -> Packets {
    packets.iter().flat_map(make).collect()
}

/// The same packet with another frame.
pub(crate) fn with(p: &Packet, frame: Vec<u8>) -> Packet {
    Packet { time: p.time, original: p.original + frame.len() as u32 - p.frame.len() as u32, frame }
}

/// Twice, some microseconds apart, as `-i any` shows a packet.
pub(crate) fn doubled(p: &Packet) -> Packets {
    vec![p.clone(), Packet { time: p.time + 3, ..p.clone() }]
}

/// Segments with data once more, with another TTL and IP id.
pub(crate) fn sent_again(p: &Packet) -> Packets {
    match tcp_of(&p.frame) {
        Some((_, payload)) if payload < end_of(&p.frame) => {
            let mut frame = p.frame[..end_of(&p.frame)].to_vec();
            (frame[18], frame[19], frame[22]) = (frame[18] ^ 0x55, frame[19].wrapping_add(7), frame[22] / 2);
            vec![p.clone(), Packet { time: p.time + 4, ..with(p, sealed(frame)) }]
        }
        _ => vec![p.clone()],
    }
}

/// Segments with data cut into segments of one byte.
pub(crate) fn bytewise(p: &Packet) -> Packets {
    let end = match tcp_of(&p.frame) {
        Some((_, payload)) if payload + 1 < end_of(&p.frame) && p.frame.len() >= end_of(&p.frame) => end_of(&p.frame),
        _ => return vec![p.clone()],
    };
    let (tcp, payload) = tcp_of(&p.frame).unwrap();
    let seq = u32::from_be_bytes(p.frame[tcp + 4..tcp + 8].try_into().unwrap());
    let one = |at: usize| {
        let mut frame = [&p.frame[..payload], &p.frame[at..at + 1]].concat();
        frame[tcp + 4..tcp + 8].copy_from_slice(&seq.wrapping_add((at - payload) as u32).to_be_bytes());
        // A FIN stands behind the last byte.
        if at + 1 < end {
            frame[tcp + 13] &= !1;
        }
        with(p, sealed(frame))
    };
    (payload..end).map(one).collect()
}

/// No more than so many bytes captured.
pub(crate) fn cut(p: &Packet, snaplen: usize) -> Packets {
    vec![Packet { frame: p.frame[..p.frame.len().min(snaplen)].to_vec(), ..p.clone() }]
}

/// An address in place of another, as a gateway writes it.
pub(crate) fn translated(p: &Packet, from: [u8; 4], to: [u8; 4]) -> Packets {
    let mut frame = p.frame.clone();
    if tcp_of(&frame).is_none() || frame.len() < end_of(&frame) {
        return vec![p.clone()];
    }
    for at in [26, 30] {
        if frame[at..at + 4] == from {
            frame[at..at + 4].copy_from_slice(&to);
        }
    }
    frame.truncate(end_of(&frame));
    vec![with(p, sealed(frame))]
}

pub(crate) fn in_vlan(p: &Packet) -> Packets {
    vec![with(p, [&p.frame[..12], &[0x81, 0, 0, 100], &p.frame[12..]].concat())]
}

/// Around a frame or packet: Ethernet and IPv4 of a protocol.
fn outer(protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2, 8, 0, 0x45, 0];
    out.extend(((20 + body.len()) as u16).to_be_bytes());
    out.extend([0, 0, 0, 0, 64, protocol, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2]);
    let header = sum(&[&out[14..34]]);
    out[24..26].copy_from_slice(&header);
    out.extend(body);
    out
}

pub(crate) fn in_vxlan(p: &Packet) -> Packets {
    let length = ((16 + p.frame.len()) as u16).to_be_bytes();
    let udp =
        [&0xc000u16.to_be_bytes()[..], &4789u16.to_be_bytes(), &length, &[0, 0, 8, 0, 0, 0, 0, 0, 42, 0]].concat();
    vec![with(p, outer(17, &[udp, p.frame.clone()].concat()))]
}

pub(crate) fn in_gre(p: &Packet) -> Packets {
    if p.frame[12..14] != [8, 0] {
        return Vec::new();
    }
    vec![with(p, outer(47, &[&[0, 0, 8, 0], &p.frame[14..]].concat()))]
}
