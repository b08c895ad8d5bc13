//! What this room's tests share: a reader of classic pcap, and expectations that tshark wrote.

use super::counters::Counters;
use super::*;
use crate::capture::{LinkType, Packet};
use crate::time::Timestamp;

/// A small capture of `testdata`, whole.
pub(super) fn load(name: &str) -> Vec<u8> {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The packets of a little-endian classic pcap.
pub(super) fn packets(file: &[u8]) -> Vec<Packet<'_>> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let unit = match word(0) {
        0xa1b2_c3d4 => 1000,
        0xa1b2_3c4d => 1,
        magic => panic!("magic {magic:x}"),
    };
    let (mut at, mut list) = (24, Vec::new());
    while at < file.len() {
        let length = word(at + 8) as usize;
        list.push(Packet {
            number: list.len() as u64 + 1,
            time: Timestamp::new(word(at).into(), i64::from(word(at + 4)) * unit),
            link_type: LinkType(word(20)),
            interface: 0,
            original_length: word(at + 12),
            data: &file[at + 16..at + 16 + length],
        });
        at += 16 + length;
    }
    list
}

/// One packet, all of it captured.
pub(super) fn packet(link_type: u32, data: &[u8]) -> Packet<'_> {
    Packet {
        number: 1,
        time: Timestamp::new(0, 0),
        link_type: LinkType(link_type),
        interface: 0,
        original_length: data.len() as u32,
        data,
    }
}

/// A segment as `testdata/frames/make.py` has tshark print it.
pub(super) fn line(number: u64, s: &Segment<'_>) -> String {
    let payload: String = s.payload.iter().map(|b| format!("{b:02x}")).collect();
    let checksum = match verify_checksum(s) {
        Checksum::Ok => 1,
        Checksum::Bad => 0,
        Checksum::Unfinished | Checksum::Unknown => 2,
    };
    let (a, b) = (s.src, s.dst);
    format!(
        "{number}\t{}\t{}\t{}\t{}\t{}\t{}\t{payload}\t{checksum}",
        a.address, a.port, b.address, b.port, s.seq, s.wire_length
    )
}

/// Ends a test unless the counters account for every packet.
pub(super) fn accounted(c: &Counters) {
    let other: u64 = c.other().iter().map(|(_, n)| n).sum();
    let skipped: u64 = c.skipped().iter().map(|(_, n)| n).sum();
    assert_eq!(c.packets, c.tcp + other + skipped + c.fragments_joined, "{c:?}");
}
