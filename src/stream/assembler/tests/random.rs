//! Random streams, against a model that knows nothing of pieces, holes or sequence numbers.

use proptest::prelude::*;

use super::{Rig, Said};
use crate::stream::{AssemblerLimits, GapCause};

/// A segment of the model: where it starts relative to the first data byte, and what it carries.
type Sent = (i64, Vec<u8>);

/// Segments that wait, as Linux keeps them: in order of their starts, the ends ascending too.
#[derive(Default)]
struct Queue(Vec<Sent>);

impl Queue {
    fn insert(&mut self, at: i64, bytes: &[u8]) {
        let end = at + bytes.len() as i64;
        let mut i = self.0.partition_point(|(start, _)| *start <= at);
        if let Some((start, held)) = i.checked_sub(1).and_then(|i| self.0.get_mut(i)) {
            let held_end = *start + held.len() as i64;
            if end <= held_end {
                return;
            }
            if at == held_end {
                held.extend_from_slice(bytes);
                return;
            }
            if at == *start {
                i -= 1;
                self.0.remove(i);
            }
        }
        while self.0.get(i).is_some_and(|(start, held)| start + held.len() as i64 <= end) {
            self.0.remove(i);
        }
        self.0.insert(i, (at, bytes.to_vec()));
    }
}

/// A receive queue as Linux has it, without windows: the bytes handed on and their offsets.
fn model(sent: &[Sent], syn: bool) -> (Vec<u8>, Vec<u64>) {
    let (mut queue, mut out) = (Queue::default(), Vec::new());
    let mut next = syn.then_some(0i64);
    let mut deliver = |next: &mut i64, at: i64, bytes: &[u8]| {
        for (i, byte) in (at..).zip(bytes).filter(|(i, _)| *i >= *next) {
            out.push((i, *byte));
        }
        *next = (*next).max(at + bytes.len() as i64);
    };
    for (at, bytes) in sent {
        match &mut next {
            Some(next) if at <= next => deliver(next, *at, bytes),
            _ => queue.insert(*at, bytes),
        }
        while let (Some(next), Some((start, held))) = (&mut next, queue.0.first().cloned()) {
            if start > *next {
                break;
            }
            deliver(next, start, &held);
            queue.0.remove(0);
        }
    }
    let mut next = next.or(queue.0.first().map(|(start, _)| *start)).unwrap_or(0);
    for (start, held) in queue.0 {
        next = next.max(start);
        deliver(&mut next, start, &held);
    }
    let start = if syn { 0 } else { out.first().map_or(0, |(at, _)| *at) };
    (out.iter().map(|(_, b)| *b).collect(), out.iter().map(|(at, _)| (at - start) as u64).collect())
}

/// What was said, byte by byte, having checked that it is gapless in its own account and in order.
fn heard(said: &[Said]) -> (Vec<u8>, Vec<u64>, u64) {
    let (mut bytes, mut offsets, mut next, mut gaps) = (Vec::new(), Vec::new(), 0, 0);
    for s in said {
        match s {
            Said::Bytes(offset, b, _) => {
                assert_eq!(*offset, next);
                assert!(!b.is_empty());
                bytes.extend_from_slice(b);
                offsets.extend(next..next + b.len() as u64);
                next += b.len() as u64;
            }
            Said::Gap(offset, length, _) => {
                assert_eq!(*offset, next);
                assert!(*length > 0);
                next += length;
                gaps += length;
            }
            Said::Conflict(_, a, b, _, _) => assert!(a != b && a.len() == b.len()),
        }
    }
    (bytes, offsets, gaps)
}

fn check(sent: &[Sent], isn: u32, syn: bool) {
    let mut rig = Rig::new(AssemblerLimits::default());
    if syn {
        rig.assembler.syn(isn.wrapping_sub(1));
    }
    for (at, bytes) in sent {
        rig.push(isn.wrapping_add(*at as u32), bytes);
    }
    rig.finish();
    let (bytes, offsets) = model(sent, syn);
    let (heard_bytes, heard_offsets, gaps) = heard(&rig.said);
    assert_eq!(heard_offsets, offsets);
    // Which of several bytes for one place stays, the shape of the kernel's tree decides (tests/kernel); here it is one of
    // those that were sent.
    let lowest = if syn { 0 } else { sent.iter().map(|(at, _)| *at).min().unwrap_or(0) };
    for (offset, byte) in heard_offsets.iter().zip(&heard_bytes) {
        let place = *offset as i64 + lowest;
        let fits = |(at, bytes): &Sent| usize::try_from(place - at).ok().and_then(|i| bytes.get(i)) == Some(byte);
        assert!(sent.iter().any(fits), "{place}");
    }
    let c = rig.assembler.counters();
    assert_eq!(c.delivered, bytes.len() as u64);
    assert_eq!(c.gap_bytes, gaps);
    assert_eq!(c.span(), offsets.last().map_or(0, |last| last + 1));
    // Runs that overlap each other are not compared with all that came for their places: nothing more is to be said of
    // how many bytes came again.
    assert_eq!(c.retransmitted_bytes, c.duplicate_bytes + c.unverified_bytes + c.conflict_bytes);
}

/// A string cut in segments, shuffled, some of them twice, some spanning their neighbours.
fn cut_up() -> impl Strategy<Value = (Vec<u8>, Vec<Sent>)> {
    (proptest::collection::vec(any::<u8>(), 1..2000), proptest::collection::vec((0usize..2000, 1usize..120), 0..60))
        .prop_flat_map(|(bytes, extra)| {
            let mut sent: Vec<Sent> = Vec::new();
            let mut at = 0;
            let mut sizes = extra.iter().map(|(_, size)| *size).chain(std::iter::repeat(97));
            while at < bytes.len() {
                let end = (at + sizes.next().unwrap()).min(bytes.len());
                sent.push((at as i64, bytes[at..end].to_vec()));
                at = end;
            }
            for (from, size) in extra {
                let from = from % bytes.len();
                sent.push((from as i64, bytes[from..(from + size).min(bytes.len())].to_vec()));
            }
            (Just(bytes), Just(sent).prop_shuffle())
        })
}

/// Segments of any bytes anywhere: overlaps disagree.
fn anything() -> impl Strategy<Value = Vec<Sent>> {
    proptest::collection::vec((-20i64..400, proptest::collection::vec(any::<u8>(), 1..60)), 1..40)
}

fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), (0u32..3000).prop_map(|n| 0u32.wrapping_sub(n))]
}

proptest! {
    #[test]
    fn comes_back_exactly((bytes, sent) in cut_up(), isn in numbers()) {
        check(&sent, isn, true);
        let mut rig = Rig::new(AssemblerLimits::default());
        rig.assembler.syn(isn.wrapping_sub(1));
        for (at, piece) in &sent {
            rig.push(isn.wrapping_add(*at as u32), piece);
        }
        prop_assert_eq!(rig.assembler.counters().delivered, bytes.len() as u64);
        prop_assert_eq!(rig.assembler.counters().conflicts, 0);
        let (heard, _, gaps) = heard(&rig.said);
        prop_assert_eq!((heard, gaps), (bytes, 0));
    }

    #[test]
    fn gaps_are_where_bytes_were_lost((_, sent) in cut_up(), isn in numbers(), lost in any::<u64>()) {
        let kept: Vec<Sent> = sent.into_iter().enumerate().filter(|(i, _)| lost >> (i % 64) & 1 == 0).map(|(_, s)| s).collect();
        check(&kept, isn, true);
    }

    #[test]
    fn overlaps_lose_no_place_and_make_up_no_byte(sent in anything(), isn in numbers()) {
        check(&sent, isn, true);
    }

    #[test]
    fn midway_starts_at_the_lowest_byte(mut sent in anything(), isn in numbers()) {
        sent.truncate(31);
        check(&sent, isn, false);
    }

    #[test]
    fn small_budgets_lose_bytes_but_never_order(sent in anything(), isn in numbers(), max_holes in 0usize..4, bytes in 0usize..1500) {
        let mut rig = Rig::new(AssemblerLimits { max_buffered_bytes: bytes, max_holes, history_bytes: 32 });
        rig.assembler.syn(isn.wrapping_sub(1));
        for (at, piece) in &sent {
            rig.push(isn.wrapping_add(*at as u32), piece);
            let c = rig.assembler.counters();
            prop_assert!(c.allocated_bytes <= bytes as u64 + 32 + 4 * 40);
        }
        rig.finish();
        let (heard, _, gaps) = heard(&rig.said);
        let c = rig.assembler.counters();
        prop_assert_eq!((c.delivered, c.gap_bytes), (heard.len() as u64, gaps));
        let (all, _) = model(&sent, true);
        prop_assert!(c.delivered <= all.len() as u64);
        prop_assert!(rig.said.iter().all(|s| !matches!(s, Said::Gap(_, _, GapCause::Missed | GapCause::Cut))));
    }
}
