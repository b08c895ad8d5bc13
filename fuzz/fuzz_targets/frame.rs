//! Any packets of any link type: payload lies within the packet, a glance agrees with the whole reading, memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdzvscope::api::capture::{LinkType, Packet};
use rdzvscope::api::frame::{Decoder, Frame, Limits, glance, verify_checksum};
use rdzvscope::api::time::Timestamp;

const LINKS: [u32; 12] = [1, 0, 101, 108, 113, 276, 228, 229, 9, 50, 12, 242];

fuzz_target!(|data: &[u8]| {
    let limits = Limits { fragment_bytes: 1 << 14, fragment_datagrams: 8, ..Limits::default() };
    let mut decoder = Decoder::new(limits);
    // Link type, then packets, each behind a length and a step of time.
    let Some((&link, mut rest)) = data.split_first() else { return };
    let link_type = LinkType(LINKS[usize::from(link) % LINKS.len()]);
    let (mut number, mut time) = (0, 0i64);
    while let Some((head, after)) = rest.split_first_chunk::<4>() {
        let length = usize::from(u16::from_le_bytes([head[0], head[1]])).min(after.len());
        let (bytes, next) = after.split_at(length);
        rest = next;
        number += 1;
        time += i64::from(head[2]) << 28;
        let packet = Packet {
            number,
            time: Timestamp(time),
            link_type,
            interface: 0,
            original_length: length as u32 + u32::from(head[3]),
            data: bytes,
        };
        let glanced = glance(&packet);
        if let Frame::Tcp(segment) = decoder.decode(&packet) {
            assert!(segment.payload.len() as u64 <= u64::from(segment.wire_length), "no more payload than on the wire");
            assert!(segment.payload.len() <= segment.tcp.len());
            let _ = verify_checksum(&segment);
            if let Some(g) = glanced {
                assert_eq!(
                    (g.wire_length, g.flags, g.src.1, g.dst.1),
                    (segment.wire_length, segment.flags, segment.src.port, segment.dst.port)
                );
                assert!(segment.outer.is_empty());
            }
        } else {
            assert!(glanced.is_none(), "a glance sees no more than the whole reading");
        }
    }
    let c = decoder.counters();
    let skipped: u64 = c.skipped().iter().map(|s| s.1).sum();
    let other: u64 = c.other().iter().map(|s| s.1).sum();
    assert_eq!(c.packets, c.tcp + skipped + other + c.fragments_joined, "every packet is accounted for");
});
