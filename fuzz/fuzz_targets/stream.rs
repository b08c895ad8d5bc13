//! Any segments: delivered + gap + cut = span, bytes in order and once, nothing beyond the ceiling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdzvscope::api::stream::{Assembler, AssemblerLimits, Event, PacketRef, Piece};
use rdzvscope::api::time::Timestamp;

fuzz_target!(|data: &[u8]| {
    let Some((head, mut rest)) = data.split_first_chunk::<6>() else { return };
    let isn = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let limits = AssemblerLimits {
        max_buffered_bytes: 256 + usize::from(head[4]) * 32,
        max_holes: 1 + usize::from(head[5] & 31),
        history_bytes: usize::from(head[5] >> 5) * 64,
    };
    let mut assembler = Assembler::new(limits);
    let (mut next, mut delivered) = (0u64, 0u64);
    let mut number = 0;
    let mut check = |event: Event<'_>| match event {
        Event::Chunk(c) => {
            assert!(!c.bytes.is_empty());
            assert_eq!(c.offset, next, "bytes come in order, once, gaps told");
            next += c.bytes.len() as u64;
            delivered += c.bytes.len() as u64;
        }
        Event::Gap { offset, length, .. } => {
            assert!(offset >= next, "a gap touches no byte that was handed on");
            next = next.max(offset + length);
        }
        Event::Conflict(c) => assert_eq!(c.first.len(), c.second.len()),
    };
    let mut largest = 0;
    while let Some((op, after)) = rest.split_first_chunk::<5>() {
        number += 1;
        let seq = isn.wrapping_add((i32::from(i16::from_le_bytes([op[1], op[2]]))) as u32);
        let length = usize::from(op[3]).min(after.len());
        let (bytes, more) = after.split_at(length);
        rest = more;
        match op[0] % 8 {
            0 => assembler.syn(seq),
            1 => assembler.fin(seq),
            2 => assembler.acknowledged(seq),
            _ => {
                largest = largest.max(length);
                let piece = Piece {
                    seq,
                    payload: bytes,
                    wire_length: length as u32 + u32::from(op[4] & 15),
                    time: Timestamp(number as i64),
                    packet: PacketRef { capture: 0, number },
                };
                assembler.push(piece, &mut check);
            }
        }
        let c = assembler.counters();
        assert!(c.held_bytes <= c.allocated_bytes);
        // One segment may be held over the limit, with its bookkeeping; the history comes on top.
        let ceiling = limits.max_buffered_bytes + 2 * limits.history_bytes + largest + 4096 + limits.max_holes * 64;
        assert!(c.allocated_bytes as usize <= ceiling, "{} > {ceiling}", c.allocated_bytes);
    }
    assembler.finish(&mut check);
    let c = *assembler.counters();
    assert_eq!(c.delivered, delivered);
    assert_eq!(c.span(), c.delivered + c.gap_bytes + c.cut_bytes + c.tail_missed);
    assert!(c.delivered + c.gap_bytes <= next.max(c.delivered + c.gap_bytes));
    assert_eq!(c.held_bytes, 0, "nothing stays behind");
});
