//! Situations, one a test; random streams are in `random`.

use super::*;
use crate::stream::event::Conflict;

mod random;

/// What an assembler said, in a form that can be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Said {
    Bytes(u64, Vec<u8>, u64),
    Gap(u64, u64, GapCause),
    Conflict(u64, Vec<u8>, Vec<u8>, u64, u64),
}

pub(super) struct Rig {
    pub(super) assembler: Assembler,
    pub(super) said: Vec<Said>,
    number: u64,
}

pub(super) fn note(event: Event<'_>) -> Said {
    match event {
        Event::Chunk(c) => Said::Bytes(c.offset, c.bytes.to_vec(), c.packet.number),
        Event::Gap { offset, length, cause } => Said::Gap(offset, length, cause),
        Event::Conflict(c) => {
            Said::Conflict(c.offset, c.first.into(), c.second.into(), c.packet_first.number, c.packet_second.number)
        }
    }
}

impl Rig {
    pub(super) fn new(limits: AssemblerLimits) -> Self {
        Rig { assembler: Assembler::new(limits), said: Vec::new(), number: 0 }
    }

    /// A stream whose SYN was seen with sequence number 999: data starts at 1000.
    fn opened() -> Self {
        let mut rig = Rig::new(AssemblerLimits::default());
        rig.assembler.syn(999);
        rig
    }

    pub(super) fn push(&mut self, seq: u32, payload: &[u8]) -> &mut Self {
        self.push_cut(seq, payload, payload.len() as u32)
    }

    fn push_cut(&mut self, seq: u32, payload: &[u8], wire_length: u32) -> &mut Self {
        self.number += 1;
        let packet = PacketRef { capture: 0, number: self.number };
        let piece = Piece { seq, payload, wire_length, time: Timestamp(self.number as i64), packet };
        let said = &mut self.said;
        self.assembler.push(piece, &mut |event| said.push(note(event)));
        self
    }

    pub(super) fn finish(&mut self) -> &mut Self {
        let said = &mut self.said;
        self.assembler.finish(&mut |event| said.push(note(event)));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        self.said
            .iter()
            .filter_map(|s| if let Said::Bytes(_, b, _) = s { Some(&b[..]) } else { None })
            .collect::<Vec<_>>()
            .concat()
    }

    fn gaps(&self) -> Vec<(u64, u64, GapCause)> {
        self.said.iter().filter_map(|s| if let Said::Gap(o, l, c) = s { Some((*o, *l, *c)) } else { None }).collect()
    }

    fn counters(&self) -> StreamCounters {
        *self.assembler.counters()
    }
}

#[test]
fn in_order_is_handed_on_at_once_from_the_packet_itself() {
    let mut assembler = Assembler::new(AssemblerLimits::default());
    assembler.syn(u32::MAX);
    let payload = *b"abc";
    let piece = Piece { seq: 0, payload: &payload, wire_length: 3, time: Timestamp(7), packet: PacketRef::default() };
    let mut told = 0;
    assembler.push(piece, &mut |event| {
        let Event::Chunk(chunk) = event else { panic!("no chunk") };
        assert_eq!((chunk.offset, chunk.time, chunk.bytes.as_ptr()), (0, Timestamp(7), payload.as_ptr()));
        told += 1;
    });
    assert_eq!((told, assembler.next_offset(), assembler.waiting_since()), (1, Some(3), None));
}

#[test]
fn out_of_order_waits_and_keeps_its_packets() {
    let mut rig = Rig::opened();
    rig.push(1004, b"ef").push(1002, b"cd");
    assert!(rig.said.is_empty());
    assert_eq!(rig.assembler.waiting_since(), Some(Timestamp(2)));
    rig.push(1000, b"ab");
    let expected = [(0, "ab", 3), (2, "cd", 2), (4, "ef", 1)];
    assert_eq!(rig.said, expected.map(|(o, b, n)| Said::Bytes(o, b.into(), n)));
    assert_eq!((rig.counters().held_bytes, rig.counters().delivered), (0, 6));
}

#[test]
fn one_copy_counts_and_both_readings_are_told() {
    let mut rig = Rig::opened();
    rig.push(1000, b"abcd").push(1002, b"cXef").push(1008, b"ij").push(1005, b"FghIjk").finish();
    // A segment that continues the stream counts whole, as in the kernel, though a part of it waited already.
    assert_eq!(rig.bytes(), b"abcdefghIjk");
    let conflicts: Vec<_> = rig.said.iter().filter(|s| matches!(s, Said::Conflict(..))).cloned().collect();
    let expected = [(3, "d", "X", 1, 2), (5, "f", "F", 2, 4), (8, "I", "i", 4, 3)];
    assert_eq!(conflicts, expected.map(|(o, a, b, m, n)| Said::Conflict(o, a.into(), b.into(), m, n)));
    let c = rig.counters();
    assert_eq!((c.conflicts, c.conflict_bytes, c.retransmitted_bytes, c.duplicate_bytes), (3, 3, 5, 2));
}

#[test]
fn conflicts_are_bounded_and_counted() {
    let mut rig = Rig::opened();
    rig.push(1000, &[1; 1000]);
    for _ in 0..200 {
        rig.push(1000, &[2; 1000]);
    }
    let told: Vec<usize> = rig
        .said
        .iter()
        .filter_map(|s| if let Said::Conflict(_, a, _, _, _) = s { Some(a.len()) } else { None })
        .collect();
    assert_eq!((told.len() as u64, told[0]), (Conflict::EVENTS, Conflict::BYTES));
    assert_eq!((rig.counters().conflicts, rig.counters().conflict_bytes), (200, 200_000));
}

#[test]
fn exact_copies_are_counted_and_old_ones_not_compared() {
    let mut rig = Rig::new(AssemblerLimits { history_bytes: 4, ..Default::default() });
    rig.assembler.syn(999);
    rig.push(1000, b"abcdefgh").push(1004, b"efgh").push(1000, b"abcdefgh").push(1000, b"XXXX");
    let c = rig.counters();
    assert_eq!((c.duplicates, c.duplicate_bytes, c.unverified_bytes, c.conflicts), (1, 8, 8, 0));
    assert_eq!(c.retransmitted_bytes, 16);
}

#[test]
fn gaps_say_whether_the_peer_had_the_bytes() {
    let mut rig = Rig::opened();
    rig.push(1002, b"c").push(1008, b"i");
    rig.assembler.acknowledged(1005);
    rig.assembler.acknowledged(1001);
    rig.finish();
    assert_eq!(rig.gaps(), [(0, 2, GapCause::Missed), (3, 2, GapCause::Missed), (5, 3, GapCause::NeverCame)]);
    let c = rig.counters();
    assert_eq!((c.delivered, c.gap_bytes, c.cut_bytes, c.tail_missed, c.span()), (2, 7, 0, 0, 9));
}

#[test]
fn an_acknowledgement_may_come_first() {
    let mut rig = Rig::new(AssemblerLimits::default());
    rig.assembler.acknowledged(900);
    rig.assembler.acknowledged(1010);
    rig.push(1000, b"a").push(1005, b"f").finish();
    assert_eq!(rig.gaps(), [(1, 4, GapCause::Missed), (6, 3, GapCause::Missed)]);
    assert_eq!((rig.counters().gap_bytes, rig.counters().tail_missed), (4, 3));
}

#[test]
fn a_tail_that_a_fin_proves_is_told() {
    let mut rig = Rig::opened();
    rig.push(1000, b"ab");
    rig.assembler.fin(1006);
    rig.assembler.acknowledged(1004);
    assert!(!rig.assembler.is_complete());
    rig.finish();
    assert_eq!(rig.gaps(), [(2, 2, GapCause::Missed), (4, 2, GapCause::NeverCame)]);
    assert_eq!((rig.counters().tail_missed, rig.counters().gap_bytes, rig.counters().span()), (4, 0, 6));
}

#[test]
fn a_fin_is_no_byte_and_its_data_counts() {
    let mut rig = Rig::opened();
    rig.push(1002, b"cd");
    rig.assembler.fin(1004);
    rig.push(1000, b"ab");
    assert!(rig.assembler.is_complete());
    rig.assembler.acknowledged(1005);
    rig.finish();
    assert_eq!((rig.bytes(), rig.gaps(), rig.counters().span()), (b"abcd".to_vec(), vec![], 4));
}

#[test]
fn a_lost_fin_makes_no_gap() {
    let mut rig = Rig::opened();
    rig.push(1000, b"ab");
    rig.assembler.acknowledged(1003);
    rig.finish();
    assert_eq!(rig.gaps(), []);
}

#[test]
fn snaplen_cuts_are_holes_unless_filled() {
    let mut rig = Rig::opened();
    rig.push_cut(1000, b"ab", 10).push_cut(1010, b"kl", 10).push(1004, b"ef").push_cut(1020, b"", 5).finish();
    assert_eq!(rig.bytes(), b"abefkl");
    let cut = GapCause::Cut;
    assert_eq!(rig.gaps(), [(2, 2, cut), (6, 4, cut), (12, 13, cut)]);
    let c = rig.counters();
    assert_eq!((c.delivered, c.gap_bytes, c.cut_bytes, c.span()), (6, 6, 13, 25));
}

#[test]
fn headers_only_is_a_stream_of_cut_bytes() {
    let mut rig = Rig::new(AssemblerLimits::default());
    rig.push_cut(1100, b"", 100).push_cut(1000, b"", 100).push_cut(1300, b"", 100).finish();
    let c = rig.counters();
    assert_eq!((c.delivered, c.gap_bytes, c.cut_bytes, c.tail_missed, c.span()), (0, 0, 300, 100, 400));
}

#[test]
fn data_on_a_syn_and_a_syn_twice() {
    let mut rig = Rig::opened();
    rig.push(1000, b"fast");
    rig.assembler.syn(999);
    rig.push(1000, b"fast").push(1004, b" open").finish();
    assert_eq!((rig.bytes(), rig.counters().duplicates), (b"fast open".to_vec(), 1));
}

#[test]
fn midway_starts_at_the_lowest_byte() {
    let mut rig = Rig::new(AssemblerLimits::default());
    rig.push(5000, b"def").push(4997, b"abc").push(4997, b"aXc");
    assert!(rig.said.is_empty() && rig.assembler.next_offset().is_none());
    rig.finish();
    assert_eq!(rig.said[0], Said::Conflict(1, b"b".into(), b"X".into(), 2, 3));
    assert_eq!((rig.bytes(), rig.gaps()), (b"abcdef".to_vec(), vec![]));
}

#[test]
fn midway_settles_and_counts_what_is_too_late() {
    let mut rig = Rig::new(AssemblerLimits::default());
    for i in 0..HOLD_BACK_SEGMENTS as u32 {
        assert!(rig.said.is_empty());
        rig.push(100 + i, b"x");
    }
    assert_eq!(rig.bytes().len() as u64, HOLD_BACK_SEGMENTS);
    rig.push(96, b"abcdx").push(132, b"y").finish();
    let c = rig.counters();
    assert_eq!((c.before_start, c.delivered, c.duplicate_bytes, c.gap_bytes), (4, 33, 1, 0));
    let mut rig = Rig::new(AssemblerLimits::default());
    rig.push(0, &[0; 40_000]).push(40_000, &[0; 40_000]);
    assert_eq!(rig.counters().delivered, 80_000);
}

#[test]
fn a_syn_captured_after_its_data_sets_the_start() {
    let mut rig = Rig::new(AssemblerLimits::default());
    rig.push(1004, b"ef").push(990, b"older");
    rig.assembler.syn(1001);
    rig.finish();
    assert_eq!((rig.gaps(), rig.bytes()), (vec![(0, 2, GapCause::NeverCame)], b"ef".to_vec()));
    assert_eq!(rig.counters().before_start, 5);
}

#[test]
fn keep_alives_and_window_probes() {
    let mut rig = Rig::opened();
    rig.push(1000, b"ab").push(1001, b"").push(1001, b"\0").push(1002, b"c").push(1002, b"cd").finish();
    let c = rig.counters();
    assert_eq!(
        (rig.bytes(), c.keep_alives, c.conflicts, c.delivered, c.duplicate_bytes),
        (b"abcd".to_vec(), 2, 0, 4, 1)
    );
    let mut fresh = Rig::opened();
    fresh.push(999, b"\0").push(1000, b"a").finish();
    assert_eq!((fresh.bytes(), fresh.counters().before_start, fresh.counters().conflicts), (b"a".to_vec(), 1, 0));
}

#[test]
fn what_lies_in_no_window_is_refused() {
    let mut rig = Rig::opened();
    rig.push(1000, b"ab").push(1000u32.wrapping_add(1 << 31).wrapping_add(5), b"junk").push(1002, b"cd").finish();
    assert_eq!((rig.bytes(), rig.counters().out_of_window), (b"abcd".to_vec(), 4));
}

#[test]
fn streams_go_on_after_a_loss_of_gigabytes() {
    let far = 1000u32.wrapping_add(5 << 29);
    // The peer's acknowledgements lead on.
    let mut rig = Rig::opened();
    rig.push(1000, b"ab");
    rig.assembler.acknowledged(1002);
    rig.assembler.acknowledged(far);
    rig.push(far, b"cd").push(far.wrapping_add(2), b"ef").finish();
    assert_eq!((rig.bytes(), rig.gaps()), (b"abcdef".to_vec(), vec![(2, (5 << 29) - 2, GapCause::Missed)]));
    // Where there are none, three segments that follow each other do.
    let mut rig = Rig::opened();
    rig.push(1000, b"ab").push(far, b"cd").push(far.wrapping_add(2), b"ef").push(far.wrapping_add(4), b"gh");
    rig.push(far.wrapping_add(6), b"ij").finish();
    assert_eq!((rig.bytes(), rig.counters().out_of_window), (b"abghij".to_vec(), 4));
}

#[test]
fn too_many_holes_push_out_the_far_ones() {
    let mut rig = Rig::new(AssemblerLimits { max_holes: 2, ..Default::default() });
    rig.assembler.syn(999);
    rig.push(1001, b"b").push(1003, b"d").push(1005, b"f").push(1007, b"h");
    assert!(rig.said.is_empty());
    rig.push(1000, b"abc").push(1004, b"e").finish();
    let c = rig.counters();
    assert_eq!((rig.bytes(), c.given_up, c.evictions, c.duplicate_bytes), (b"abcde".to_vec(), 2, 2, 1));
    assert_eq!((c.gap_bytes, c.span()), (0, 5));
}

#[test]
fn a_hole_that_the_peer_acknowledged_is_given_up_first() {
    let mut rig = Rig::new(AssemblerLimits { max_holes: 1, ..Default::default() });
    rig.assembler.syn(999);
    rig.push(1001, b"b");
    rig.assembler.acknowledged(1002);
    rig.push(1003, b"d");
    assert_eq!(rig.said, [Said::Gap(0, 1, GapCause::Missed), Said::Bytes(1, b"b".into(), 1)]);
    rig.push(1000, b"abc").finish();
    assert_eq!((rig.bytes(), rig.counters().given_up), (b"bcd".to_vec(), 1));
    // Without acknowledgements the oldest hole goes, but never the one at the beginning.
    let mut rig = Rig::new(AssemblerLimits { max_holes: 1, ..Default::default() });
    rig.assembler.syn(999);
    rig.push(1000, b"a").push(1002, b"c").push(1004, b"e").finish();
    assert_eq!((rig.bytes(), rig.counters().given_up), (b"ace".to_vec(), 0));
}

#[test]
fn an_urgent_byte_is_no_part_of_the_stream() {
    let mut rig = Rig::opened();
    rig.assembler.urgent(1002);
    rig.push(1000, b"abZc").push(1004, b"d");
    assert_eq!(
        rig.said,
        [Said::Bytes(0, b"ab".into(), 1), Said::Bytes(2, b"c".into(), 1), Said::Bytes(3, b"d".into(), 2),]
    );
    // A later mark takes the place of one that was not reached; one behind is nothing.
    rig.assembler.urgent(1006);
    rig.assembler.urgent(1008);
    rig.assembler.urgent(1001);
    rig.push(1007, b"gZ").push(1005, b"ef").push(1009, b"h").finish();
    assert_eq!((rig.bytes(), rig.counters().urgent_bytes), (b"abcdefgh".to_vec(), 2));
    assert_eq!((rig.counters().delivered, rig.counters().span()), (8, 8));
}

#[test]
fn a_fin_ends_the_stream_where_it_is_reached() {
    let mut rig = Rig::opened();
    rig.push(1002, b"cd");
    rig.assembler.fin(1004);
    rig.push(1005, b"late").push(1000, b"ab");
    assert!(rig.assembler.is_complete());
    rig.push(1009, b"X").finish();
    // What is held behind a FIN goes when the FIN is reached.
    assert_eq!((rig.bytes(), rig.counters().refused), (b"abcd".to_vec(), 5));
    // A segment that goes on over the FIN takes its place.
    let mut rig = Rig::opened();
    rig.push(1002, b"cd");
    rig.assembler.fin(1004);
    rig.push(1000, b"abcdef").finish();
    assert_eq!((rig.bytes(), rig.assembler.is_complete()), (b"abcdef".to_vec(), false));
}

#[test]
fn memory_stays_in_bounds_whatever_comes() {
    let limits = AssemblerLimits { max_buffered_bytes: 32 << 10, max_holes: 100, history_bytes: 2048 };
    let mut rig = Rig::new(limits);
    rig.assembler.syn(999);
    for i in 0..20_000u32 {
        // Reverse order, every second byte, cut tails, and a large one now and then.
        let seq = 1000 + (40_000 - 2 * i);
        rig.push_cut(seq, if i % 500 == 0 { &[1; 1400] } else { b"x" }, 1401);
        assert!(rig.counters().allocated_bytes <= (32 << 10) + 2048 * 3, "{:?}", rig.counters());
    }
    rig.finish();
    let c = rig.counters();
    assert_eq!(c.delivered + c.gap_bytes + c.cut_bytes + c.tail_missed, c.span());
    assert_eq!(c.held_bytes, 0);
}

#[test]
fn hostile_orders_stay_fast() {
    // Quadratic work over 200 000 one-byte segments would take minutes.
    let limits = AssemblerLimits { max_buffered_bytes: usize::MAX, max_holes: usize::MAX, history_bytes: 16 << 10 };
    let n = 100_000u32;
    let orders: [Box<dyn Iterator<Item = u32>>; 3] = [
        Box::new((0..n).rev()),
        Box::new((0..n).step_by(2).chain((1..n).step_by(2))),
        Box::new((0..n).map(|i| i / 2 * 2 + 1 - i % 2)),
    ];
    for order in orders {
        let mut rig = Rig::new(limits);
        rig.assembler.syn(999);
        for i in order {
            rig.push(1000 + i, &[i as u8]);
        }
        rig.push(1000, &vec![0; n as usize]).finish();
        let bytes = rig.bytes();
        assert!(bytes.len() == n as usize && bytes.iter().enumerate().all(|(i, b)| *b == i as u8));
    }
}

#[test]
fn release_keeps_the_stream_alive() {
    let mut rig = Rig::opened();
    rig.push(1002, b"c").push(1006, b"g");
    rig.assembler.acknowledged(1003);
    let said = &mut rig.said;
    rig.assembler.release_acknowledged(&mut |e| said.push(note(e)));
    assert_eq!(rig.gaps(), [(0, 2, GapCause::Missed)]);
    let said = &mut rig.said;
    rig.assembler.release(&mut |e| said.push(note(e)));
    assert_eq!(rig.gaps()[1..], [(3, 3, GapCause::Evicted)]);
    rig.push(1007, b"h").finish();
    assert_eq!(rig.bytes(), b"cgh");
}

#[test]
fn offsets_pass_four_gigabytes() {
    let mut assembler = Assembler::new(AssemblerLimits { history_bytes: 64, ..Default::default() });
    assembler.syn(0xffff_0000);
    let payload = vec![9u8; 1 << 20];
    let (mut seq, mut last) = (0xffff_0001u32, 0);
    for _ in 0..(5 << 10) {
        let piece =
            Piece { seq, payload: &payload, wire_length: 1 << 20, time: Timestamp(0), packet: PacketRef::default() };
        assembler.push(piece, &mut |e| {
            if let Event::Chunk(c) = e {
                last = c.offset + c.bytes.len() as u64
            }
        });
        seq = seq.wrapping_add(1 << 20);
    }
    assert_eq!((last, assembler.counters().delivered), (5 << 30, 5 << 30));
}

#[test]
fn what_stands_beyond_a_fin_is_handed_on_where_it_is_acknowledged() {
    // Some kernels join it to the segment with the FIN, which takes the number 1005.
    for (acknowledged, read) in [(1008, &b"abcdgh"[..]), (1005, b"abcd"), (1004, b"abcd")] {
        let mut rig = Rig::opened();
        let said = &mut rig.said;
        let piece =
            Piece { seq: 1002, payload: b"cd", wire_length: 2, time: Timestamp(0), packet: PacketRef::default() };
        rig.assembler.push_with(piece, true, &mut |e| said.push(note(e)));
        rig.push(1005, b"gh").push(1000, b"ab");
        assert!(rig.assembler.is_complete());
        rig.assembler.acknowledged(acknowledged);
        let said = &mut rig.said;
        rig.assembler.hand_on_beyond_fin(&mut |e| said.push(note(e)));
        rig.finish();
        assert_eq!(String::from_utf8_lossy(&rig.bytes()), String::from_utf8_lossy(read), "{acknowledged}");
    }
}
