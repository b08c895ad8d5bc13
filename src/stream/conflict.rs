//! Bytes that came again, compared with those that came first.

use super::PacketRef;
use super::event::{Conflict, Event, StreamCounters};

/// A conflict whose offset is not known before the stream's start is settled.
#[derive(Debug)]
pub(super) struct Pending {
    position: u64,
    length: u64,
    first: Vec<u8>,
    second: Vec<u8>,
    packet_first: PacketRef,
    packet_second: PacketRef,
}

/// What comparing a piece with what was there found.
#[derive(Default)]
pub(super) struct Verdict {
    /// Bytes that were there already and are the same.
    pub(super) same: u64,
    /// Whether anything else was in it: new bytes, others, or some that are too old to be compared.
    pub(super) other: bool,
}

impl Pending {
    pub(super) fn tell(&self, start: u64, sink: &mut impl FnMut(Event<'_>)) {
        let Some(offset) = self.position.checked_sub(start) else { return };
        sink(Event::Conflict(Conflict {
            offset,
            length: self.length,
            first: &self.first,
            second: &self.second,
            packet_first: self.packet_first,
            packet_second: self.packet_second,
        }));
    }
}

/// Compares bytes that came again with those that came first; counts, and returns a conflict that is to be told.
pub(super) fn difference(
    counters: &mut StreamCounters,
    verdict: &mut Verdict,
    position: u64,
    first: [&[u8]; 2],
    packet_first: PacketRef,
    second: &[u8],
    packet_second: PacketRef,
) -> Option<Pending> {
    counters.retransmitted_bytes = counters.retransmitted_bytes.saturating_add(second.len() as u64);
    let (left, right) = second.split_at_checked(first[0].len()).unwrap_or((second, &[]));
    if first[0] == left && first[1] == right {
        counters.duplicate_bytes = counters.duplicate_bytes.saturating_add(second.len() as u64);
        verdict.same = verdict.same.saturating_add(second.len() as u64);
        return None;
    }
    verdict.other = true;
    let old = || first[0].iter().chain(first[1]);
    let differing = || old().zip(second).enumerate().filter(|(_, (a, b))| a != b).map(|(i, _)| i);
    let (from, to, count) = differing().fold((usize::MAX, 0, 0u64), |(f, _, n), i| (f.min(i), i + 1, n + 1));
    counters.conflicts += 1;
    counters.conflict_bytes = counters.conflict_bytes.saturating_add(count);
    counters.duplicate_bytes = counters.duplicate_bytes.saturating_add((second.len() as u64).saturating_sub(count));
    if counters.conflicts > Conflict::EVENTS {
        return None;
    }
    let kept = to.saturating_sub(from).min(Conflict::BYTES);
    Some(Pending {
        position: position.saturating_add(from as u64),
        length: to.saturating_sub(from) as u64,
        first: old().skip(from).take(kept).copied().collect(),
        second: second.iter().skip(from).take(kept).copied().collect(),
        packet_first,
        packet_second,
    })
}
