//! Any bytes both ways, as every dialect: no byte is accounted for twice; and as every server: no allocation but in words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdzvscope::api::protocol::stray::identify;
use rdzvscope::api::protocol::tcpstore::server::{Server, verdict};
use rdzvscope::api::protocol::tcpstore::{Connection, DecodeOptions, Dialect, Direction, Event, first_bytes};
use rdzvscope::api::stream::{Chunk, PacketRef};
use rdzvscope::api::time::Timestamp;

fuzz_target!(|data: &[u8]| {
    let mut pieces: Vec<(bool, &[u8])> = Vec::new();
    let mut rest = data;
    while let Some((&head, after)) = rest.split_first() {
        let length = usize::from(head & 0x7f).min(after.len());
        let (bytes, more) = after.split_at(length);
        rest = more;
        if !bytes.is_empty() {
            pieces.push((head & 0x80 == 0, bytes));
        }
    }
    for dialect in Dialect::ALL {
        let mut connection = Connection::new(dialect, DecodeOptions::default());
        let (mut sent, mut accounted) = (0u64, 0u64);
        let mut offsets = [0u64; 2];
        let mut note = |event: Event| match event {
            Event::Request(m) => accounted += m.length,
            Event::Undecoded { direction: Direction::Client, length, .. } => accounted += length,
            Event::Unfinished(u) if u.direction == Direction::Client => accounted += u.message_delivered,
            _ => {}
        };
        for (i, (client, bytes)) in pieces.iter().enumerate() {
            let side = usize::from(!client);
            let chunk = Chunk {
                offset: offsets[side],
                time: Timestamp(i as i64 * 1_000_000),
                packet: PacketRef { capture: 0, number: i as u64 + 1 },
                bytes,
            };
            offsets[side] += bytes.len() as u64;
            if *client {
                sent += bytes.len() as u64;
                connection.client(&chunk, &mut note);
            } else {
                connection.server(&chunk, &mut note);
            }
        }
        connection.end(Direction::Client, &mut note);
        connection.end(Direction::Server, &mut note);
        assert!(accounted <= sent, "{dialect}: {accounted} bytes of {sent} accounted for");
    }
    let segments: Vec<&[u8]> = pieces.iter().filter(|p| p.0).map(|p| p.1).collect();
    for dialect in Dialect::ALL {
        for (_, server) in Server::of_dialect(dialect) {
            let _ = verdict(&server, &segments);
        }
    }
    let _ = (first_bytes(data), identify(data, data.len() as u64));
});
