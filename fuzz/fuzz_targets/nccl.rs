//! Any bytes both ways as a connection of NCCL, with holes: no byte is accounted for twice, facts stay small, and
//! listeners are studied and judged without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdzvscope::api::frame::{Flags, Segment};
use rdzvscope::api::net::{Address, Endpoint};
use rdzvscope::api::protocol::gloo;
use rdzvscope::api::protocol::nccl::{
    NcclConnection, Decoding, Event, Flow, Framing, Knowledge, KnownId, UniqueId, Versions, first_bytes, study,
};
use rdzvscope::api::stream::{Chunk, Direction, FlowTable, PacketRef, PortSet};
use rdzvscope::api::time::Timestamp;

const SERVER: Endpoint = Endpoint { address: Address(0xffff_7f00_0001), port: 5000 };

/// A piece: the direction, bytes, and how many are missing before them.
type Piece<'a> = (Direction, &'a [u8], u64);

fn pieces(mut rest: &[u8]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    while let Some((&head, after)) = rest.split_first() {
        let (bytes, more) = after.split_at(usize::from(head & 0x3f).min(after.len()));
        rest = more;
        let direction = if head & 0x80 == 0 { Direction::ToServer } else { Direction::ToClient };
        // Holes are the exception: after one, little is left to read.
        let hole = if head & 0x40 != 0 && bytes.first().is_some_and(|b| *b == 0xff) {
            1 + u64::from(head & 7) * 40
        } else {
            0
        };
        if !bytes.is_empty() {
            pieces.push((direction, bytes, hole));
        }
    }
    pieces
}

fn chunks<'a>(pieces: &[Piece<'a>], mut take: impl FnMut(Direction, u64, Chunk<'a>)) {
    let mut offsets = [0u64; 2];
    for (i, (direction, bytes, hole)) in pieces.iter().enumerate() {
        let at = &mut offsets[direction.index()];
        let offset = *at + hole;
        let packet = PacketRef { capture: 0, number: i as u64 + 1 };
        take(*direction, *hole, Chunk { offset, time: Timestamp(i as i64 * 1_000_000), packet, bytes });
        *at = offset + bytes.len() as u64;
    }
}

fn accounted(pieces: &[Piece<'_>], framing: Framing) {
    let mut connection = NcclConnection::new(framing);
    let mut ranges: [Vec<(u64, u64)>; 2] = Default::default();
    let mut note = |event: Event| match event {
        Event::Message { direction, length, place } => ranges[direction.index()].push((place.offset, length)),
        Event::Bulk { direction, offset, bytes } => ranges[direction.index()].push((offset, bytes)),
        Event::Undecoded { direction, offset, length } => ranges[direction.index()].push((offset, length)),
        Event::Unfinished { direction, offset, delivered, .. } => ranges[direction.index()].push((offset, delivered)),
        _ => {}
    };
    let mut ends = [0u64; 2];
    chunks(pieces, |direction, hole, chunk| {
        let at = &mut ends[direction.index()];
        if hole > 0 {
            connection.gap(direction, *at, hole, &mut note);
        }
        *at = chunk.offset + chunk.bytes.len() as u64;
        match direction {
            Direction::ToServer => connection.client(&chunk, &mut note),
            Direction::ToClient => connection.server(&chunk, &mut note),
        }
    });
    connection.end(Direction::ToServer, &mut note);
    connection.end(Direction::ToClient, &mut note);
    for (mut ranges, end) in ranges.into_iter().zip(ends) {
        ranges.sort_unstable();
        let mut at = 0;
        for (offset, length) in ranges {
            assert!(length > 0 && offset >= at, "{framing:?}: bytes from {offset} on are accounted for twice");
            at = offset + length;
        }
        assert!(at <= end, "{framing:?}: {at} bytes of {end} are accounted for");
    }
}

/// Records of one flow for each set of pieces, as a flow table makes them.
fn table(flows: &[&[Piece<'_>]]) -> FlowTable {
    let mut table = FlowTable::new(64, PortSet::default());
    for (i, pieces) in flows.iter().enumerate() {
        let client = Endpoint { port: 40_000 + i as u16, ..SERVER };
        let mut see = |n: u64, back: bool, flags: u8, payload: &[u8]| {
            let (src, dst) = if back { (SERVER, client) } else { (client, SERVER) };
            let segment = Segment {
                src,
                dst,
                seq: 1,
                ack: 1,
                flags: Flags(flags),
                window: 1,
                payload,
                wire_length: payload.len() as u32,
                ip_id: 0,
                outer: &[],
                tcp: &[],
            };
            table.observe(&segment, Timestamp((i as i64 + n as i64) * 1_000_000), PacketRef { capture: 0, number: n });
        };
        see(0, false, Flags::SYN, b"");
        see(0, true, Flags::SYN | Flags::ACK, b"");
        chunks(pieces, |direction, _, c| see(c.packet.number, direction == Direction::ToClient, Flags::ACK, c.bytes));
        match pieces.len() % 4 {
            0 => see(9999, false, Flags::FIN | Flags::ACK, b""),
            1 => see(9999, true, Flags::FIN | Flags::ACK, b""),
            2 => see(9999, true, Flags::RST, b""),
            _ => {}
        }
    }
    table
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, data)) = data.split_first() else { return };
    let all = pieces(data);
    for framing in [Framing::Auto, Framing::Handshake, Framing::Bare] {
        accounted(&all, framing);
    }
    // The same bytes as several connections to one listener.
    let flows: Vec<&[Piece<'_>]> = all.chunks(1 + usize::from(how & 15)).take(48).collect();
    let records = table(&flows).into_records();
    let facts: Vec<_> = flows
        .iter()
        .map(|pieces| {
            let mut decoding = Decoding::new(Framing::Auto, how & 16 != 0 && pieces.len() > 3);
            chunks(pieces, |direction, _, chunk| decoding.chunk(direction, &chunk));
            let facts = decoding.end();
            assert!(facts.slots.len() <= 1024 && facts.ring_addresses.len() <= 1024 && facts.head.len() <= 64);
            assert!(facts.faults.len() <= 8 && facts.versions.len() <= 9 && facts.ras_addresses.len() <= 8);
            facts
        })
        .collect();
    let flows: Vec<Flow<'_>> = records
        .iter()
        .zip(&facts)
        .map(|(record, facts)| Flow {
            record,
            facts: (how & 32 == 0).then_some(facts),
            until: Timestamp(20_000_000_000),
        })
        .collect();
    let magic = data.get(1..9).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    let id = UniqueId { magic, root: SERVER, grown_from: 0, versions: Versions::ALL };
    let known = KnownId { id, packet: Some(PacketRef::default()) };
    let knowledge = Knowledge {
        suspects: Default::default(),
        ids: if how & 64 == 0 { vec![known] } else { Vec::new() },
        ports: if how & 128 == 0 { [SERVER.port].into() } else { Default::default() },
    };
    let network = study(&knowledge, &flows);
    for judgement in network.judge(&flows).values() {
        assert!(judgement.conclusions.len() <= 8 * flows.len() + 8);
    }
    let _ = (first_bytes(data), gloo::first_bytes(data, data.get(8..).unwrap_or_default()));
});
