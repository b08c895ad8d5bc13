//! Shared by the tests of this room: recorded streams, and a reader of captures just good enough for them.

pub(crate) use crate::test_bytes::unhex;
use std::collections::BTreeMap;

use super::{Connection, DecodeOptions, Dialect, Direction, Event};
use crate::stream::{Chunk, PacketRef};
use crate::time::Timestamp;

/// One piece of one stream of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) direction: Direction,
    pub(crate) time: Timestamp,
    pub(crate) packet: u64,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn data(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Feeds a connection, whole pieces or one byte at a time, and ends it.
pub(crate) fn decode(mut connection: Connection, pieces: &[Piece], bytewise: bool) -> Vec<Event> {
    let mut events = Vec::new();
    let mut out = |e| events.push(e);
    let mut offsets = [0u64; 2];
    for piece in pieces {
        let offset = &mut offsets[usize::from(piece.direction == Direction::Server)];
        for bytes in piece.bytes.chunks(if bytewise { 1 } else { usize::MAX }) {
            let packet = PacketRef { capture: 0, number: piece.packet };
            let chunk = Chunk { offset: *offset, time: piece.time, packet, bytes };
            match piece.direction {
                Direction::Client => connection.client(&chunk, &mut out),
                Direction::Server => connection.server(&chunk, &mut out),
            }
            *offset += bytes.len() as u64;
        }
    }
    connection.end(Direction::Client, &mut out);
    connection.end(Direction::Server, &mut out);
    events
}

pub(crate) fn decode_as(dialect: Dialect, pieces: &[Piece], bytewise: bool) -> Vec<Event> {
    decode(Connection::new(dialect, DecodeOptions::default()), pieces, bytewise)
}

/// The connections to `port` in a classic little-endian pcap over Ethernet and IPv4, by client port; segments in
/// order, retransmissions dropped.
pub(crate) fn connections(file: &str, port: u16) -> BTreeMap<(u32, u16), Vec<Piece>> {
    let bytes = data(file);
    let le = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert!(matches!(le(0), 0xa1b2_c3d4 | 0xa1b2_3c4d) && le(20) == 1, "classic Ethernet pcap");
    let nanos = if le(0) == 0xa1b2_c3d4 { 1000 } else { 1 };
    let mut flows: BTreeMap<(u32, u16), Vec<Piece>> = BTreeMap::new();
    let mut next: BTreeMap<(u32, u16, bool), u32> = BTreeMap::new();
    let (mut at, mut number) = (24, 0);
    while at + 16 <= bytes.len() {
        let time = Timestamp::new(i64::from(le(at)), i64::from(le(at + 4)) * nanos);
        let frame = &bytes[at + 16..at + 16 + le(at + 8) as usize];
        at += 16 + frame.len();
        number += 1;
        if frame.len() < 54 || frame[12..14] != [8, 0] || frame[23] != 6 {
            continue;
        }
        let be16 = |i: usize| u16::from_be_bytes([frame[i], frame[i + 1]]);
        let be32 = |i: usize| u32::from_be_bytes(frame[i..i + 4].try_into().unwrap());
        let tcp = 14 + usize::from(frame[14] & 15) * 4;
        let (source, target) = (be16(tcp), be16(tcp + 2));
        let from_server = source == port;
        if !from_server && target != port {
            continue;
        }
        let client = if from_server { (be32(30), target) } else { (be32(26), source) };
        let payload = &frame[tcp + usize::from(frame[tcp + 12] >> 4) * 4..14 + usize::from(be16(16))];
        let syn = frame[tcp + 13] & 2 != 0;
        let seq = be32(tcp + 4).wrapping_add(u32::from(syn));
        let expected = next.entry((client.0, client.1, from_server)).or_insert(seq);
        if syn {
            *expected = seq;
        }
        flows.entry(client).or_default();
        if payload.is_empty() {
            continue;
        }
        let old = expected.wrapping_sub(seq) as usize;
        if old < payload.len() {
            *expected = seq.wrapping_add(payload.len() as u32);
            let direction = if from_server { Direction::Server } else { Direction::Client };
            flows.entry(client).or_default().push(Piece {
                direction,
                time,
                packet: number,
                bytes: payload[old..].to_vec(),
            });
        } else {
            assert!(old < 1 << 31, "{file}: packet {number} leaves a hole");
        }
    }
    flows
}

/// The first 64 bytes of the first speaker of every flow of such a pcap, by (source, target) port.
pub(crate) fn first_bytes_of_flows(file: &str) -> BTreeMap<(u16, u16), Vec<u8>> {
    let bytes = data(file);
    let le = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut flows: BTreeMap<(u16, u16), Vec<u8>> = BTreeMap::new();
    let mut at = 24;
    while at + 16 <= bytes.len() {
        let frame = &bytes[at + 16..at + 16 + le(at + 8) as usize];
        at += 16 + frame.len();
        if frame.len() < 54 || frame[12..14] != [8, 0] || frame[23] != 6 {
            continue;
        }
        let be16 = |i: usize| u16::from_be_bytes([frame[i], frame[i + 1]]);
        let tcp = 14 + usize::from(frame[14] & 15) * 4;
        let payload = &frame[tcp + usize::from(frame[tcp + 12] >> 4) * 4..14 + usize::from(be16(16))];
        let flow = (be16(tcp), be16(tcp + 2));
        if payload.is_empty() || flows.contains_key(&(flow.1, flow.0)) {
            continue;
        }
        let kept = flows.entry(flow).or_default();
        kept.extend(payload.iter().take(64usize.saturating_sub(kept.len())));
    }
    flows
}
