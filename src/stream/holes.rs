//! Segments that came before their time, held until the hole in front of them is filled or given up.
//!
//! Which bytes stay where held segments overlap is decided as Linux decides it for its out-of-order queue: a segment
//! whose bytes are all there is dropped; one that begins where a held one begins and reaches further takes its place;
//! one that begins earlier and covers others takes theirs; where two overlap in part, the one that begins earlier counts.
//! A segment that begins where a held one ends becomes part of it, and they are one segment from then on. All of this is
//! decided by the nodes that the search for its place in the tree meets, so the tree is the kernel's too.
//!
//! Kernels differ where the held one ends with a FIN: some join to it like to any other, and hand on what was joined with
//! the bytes before the FIN (6.18.44 does), some do not. From where this matters both queues are kept; which one the host
//! has is told by what it acknowledges once the FIN is reached.

use super::PacketRef;
use super::tree::{LEFT, NONE, RIGHT, Tree};
use crate::time::Timestamp;

/// Bytes of one packet.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) bytes: Box<[u8]>,
    pub(super) time: Timestamp,
    pub(super) packet: PacketRef,
}

/// Packets whose bytes follow each other.
#[derive(Clone, Debug, Default)]
struct Run {
    parts: Vec<Held>,
    /// The sum of the lengths of the parts.
    length: u64,
    /// The position after it, that of a FIN included.
    end: u64,
    /// Whether a FIN stands after the bytes, or between them where what came after it was joined.
    fin: bool,
}

/// Bytes that were found twice: position, the bytes that stay, their packet, the others, their packet.
pub(super) type Compare<'a> = dyn FnMut(u64, &[u8], PacketRef, &[u8], PacketRef) + 'a;

/// A run and where it begins.
#[derive(Clone, Debug)]
struct Placed {
    start: u64,
    run: Run,
}

/// Held segments by position.
///
/// Invariants: the starts of runs ascend; `held` is the sum of the lengths of all parts, `parts` their number; `last` is
/// the last run.
#[derive(Clone, Debug)]
pub(super) struct Holes {
    runs: Tree<Placed>,
    last: u32,
    held: usize,
    parts: usize,
    /// Whether a FIN was ever held.
    fins: bool,
    /// Whether segments are joined to one that ends with a FIN.
    joins_fins: bool,
    /// The queue of a kernel that joins to FINs, from where it differs from this one's.
    joined: Option<Box<Holes>>,
}

/// What [`Holes::take`] hands out.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) parts: Vec<Held>,
    /// Whether a FIN follows them.
    pub(super) fin: bool,
    /// What a kernel that joins to FINs hands on besides, after the parts.
    pub(super) beyond: Vec<Held>,
}

impl Default for Holes {
    fn default() -> Self {
        Holes { runs: Tree::default(), last: NONE, held: 0, parts: 0, fins: false, joins_fins: false, joined: None }
    }
}

impl Holes {
    /// What one part costs beside its bytes, in bytes: its share of a tree node, and the allocator's rounding. It keeps
    /// streams of one-byte segments from costing a hundred times what is counted.
    pub(super) const COST: usize = 128;

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.runs.root() == NONE
    }

    /// Runs held, each with a hole in front of it, or with the overlap of another run.
    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Bytes of memory taken by what is held.
    pub(super) fn allocated(&self) -> usize {
        let joined = self.joined.as_ref().map_or(0, |joined| joined.allocated());
        self.held.saturating_add(self.parts.saturating_mul(Self::COST)).saturating_add(joined)
    }

    /// Position of the first byte held.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        self.runs.get(self.runs.first()).map(|placed| placed.start)
    }

    /// Where the last run ends, its FIN included: the right edge of the last block that is acknowledged selectively.
    pub(super) fn end(&self) -> Option<u64> {
        self.runs.get(self.last).map(|placed| placed.run.end)
    }

    /// When the first part held was seen.
    pub(super) fn first_time(&self) -> Option<Timestamp> {
        self.runs.get(self.runs.first()).and_then(|placed| placed.run.parts.first()).map(|held| held.time)
    }

    /// Holds a segment, as far as its bytes are new; `compare` is told of bytes that were held already. Returns whether
    /// any byte (or the FIN) of it is new.
    pub(super) fn insert(&mut self, start: u64, held: Held, fin: bool, compare: &mut Compare<'_>) -> bool {
        let copy = self.fins.then(|| held.clone());
        let new = self.queue(start, held, fin, compare);
        self.fins |= fin;
        if let (Some(joined), Some(copy)) = (&mut self.joined, copy) {
            joined.queue(start, copy, fin, &mut |_, _, _, _, _| {});
        }
        new
    }

    /// Whether a segment is joined to a run that it follows; `fin`: that one ends with a FIN.
    fn joins(&mut self, fin: bool) -> bool {
        if fin && !self.joins_fins && self.joined.is_none() {
            self.joined = Some(Box::new(Holes { joins_fins: true, ..self.clone() }));
        }
        !fin || self.joins_fins
    }

    fn queue(&mut self, start: u64, held: Held, fin: bool, compare: &mut Compare<'_>) -> bool {
        let end = start.saturating_add(held.bytes.len() as u64).saturating_add(u64::from(fin));
        if end == start {
            return false;
        }
        let last_end = self.end();
        let last_fin = self.runs.get(self.last).is_some_and(|placed| placed.run.fin);
        if last_end == Some(start) && self.joins(last_fin) {
            self.join(self.last, start, end, held, fin, compare);
            return true;
        }
        let (mut parent, mut side, mut at) = (NONE, LEFT, self.runs.root());
        if last_end.is_some_and(|last| last < start) {
            (parent, side, at) = (self.last, RIGHT, NONE);
        }
        while let Some(placed) = self.runs.get(at) {
            let (there, there_end, there_fin) = (placed.start, placed.run.end, placed.run.fin);
            parent = at;
            side = usize::from(there <= start);
            if side == RIGHT && start < there_end {
                if end <= there_end {
                    self.overlap(at, start, &held, false, compare);
                    return false;
                }
                self.overlap(at, start, &held, there == start, compare);
                if there == start {
                    self.replace(at, end, held, fin);
                    self.supersede(at, end, compare);
                    return true;
                }
            } else if start == there_end && self.joins(there_fin) {
                self.join(at, start, end, held, fin, compare);
                return true;
            }
            at = self.runs.child(at, side);
        }
        self.held += held.bytes.len();
        let length = held.bytes.len() as u64;
        let parts = if held.bytes.is_empty() { Vec::new() } else { vec![held] };
        self.parts += parts.len();
        let at = self.runs.link(parent, side, Placed { start, run: Run { parts, length, end, fin } });
        self.supersede(at, end, compare);
        true
    }

    /// A segment that begins where a run ends becomes part of it. Runs behind that it covers are left, to be stepped over.
    fn join(&mut self, at: u32, start: u64, end: u64, held: Held, fin: bool, compare: &mut Compare<'_>) {
        let mut next = self.runs.beside(at, RIGHT);
        while self.runs.get(next).is_some_and(|placed| placed.start < end) {
            self.overlap(next, start, &held, true, compare);
            next = self.runs.beside(next, RIGHT);
        }
        let Some(Placed { run, .. }) = self.runs.get_mut(at) else { return };
        run.length += held.bytes.len() as u64;
        run.end = end;
        run.fin |= fin;
        self.held += held.bytes.len();
        if !held.bytes.is_empty() {
            self.parts += 1;
            run.parts.push(held);
        }
    }

    /// A segment takes the place of a run that begins where it begins.
    fn replace(&mut self, at: u32, end: u64, held: Held, fin: bool) {
        let Some(Placed { run, .. }) = self.runs.get_mut(at) else { return };
        self.held = self.held.saturating_sub(run.length as usize) + held.bytes.len();
        self.parts = self.parts.saturating_sub(run.parts.len()) + usize::from(!held.bytes.is_empty());
        let length = held.bytes.len() as u64;
        *run = Run { parts: if length == 0 { Vec::new() } else { vec![held] }, length, end, fin };
    }

    /// Compares a new run of one segment with the runs that begin after it, and removes those that it covers.
    fn supersede(&mut self, at: u32, end: u64, compare: &mut Compare<'_>) {
        let mut next = self.runs.beside(at, RIGHT);
        while let Some((start, covered)) = self.runs.get(next).map(|p| (p.start, p.run.end <= end)) {
            if start >= end {
                break;
            }
            if let Some(Placed { start, run }) = self.runs.get(at)
                && let Some(held) = run.parts.first()
            {
                self.overlap(next, *start, held, true, compare);
            }
            if !covered {
                break;
            }
            let after = self.runs.beside(next, RIGHT);
            self.remove(next);
            next = after;
        }
        if next == NONE {
            self.last = at;
        }
    }

    /// Compares a segment with the bytes of a run, where they overlap. `wins`: the segment's bytes stay.
    fn overlap(&self, at: u32, start: u64, held: &Held, wins: bool, compare: &mut Compare<'_>) {
        let Some(Placed { start: run_start, run }) = self.runs.get(at) else { return };
        let end = start.saturating_add(held.bytes.len() as u64);
        let mut at = *run_start;
        for part in &run.parts {
            let upto = at.saturating_add(part.bytes.len() as u64);
            let (from, to) = (at.max(start), upto.min(end));
            if from < to {
                let old = part.bytes.get((from - at) as usize..(to - at) as usize).unwrap_or_default();
                let new = held.bytes.get((from - start) as usize..(to - start) as usize).unwrap_or_default();
                if wins {
                    compare(from, new, held.packet, old, part.packet);
                } else {
                    compare(from, old, part.packet, new, held.packet);
                }
            }
            at = upto;
        }
    }

    /// Compares bytes that are handed on at `start`, before anything held is, with the runs that they cover.
    pub(super) fn compare(&self, start: u64, held: &Held, compare: &mut Compare<'_>) {
        let end = start.saturating_add(held.bytes.len() as u64);
        let mut at = self.runs.first();
        while self.runs.get(at).is_some_and(|placed| placed.start < end) {
            self.overlap(at, start, held, true, compare);
            at = self.runs.beside(at, RIGHT);
        }
    }

    fn remove(&mut self, at: u32) -> Option<Placed> {
        if at == self.last {
            self.last = self.runs.beside(at, LEFT);
        }
        let placed = self.runs.remove(at)?;
        self.held = self.held.saturating_sub(placed.run.length as usize);
        self.parts = self.parts.saturating_sub(placed.run.parts.len());
        Some(placed)
    }

    /// Takes the first run when it begins at `position` or before: its parts with the bytes before `position` left out. No
    /// parts: all of it lies before `position`.
    pub(super) fn take(&mut self, position: u64) -> Option<Taken> {
        let mut taken = self.take_run(position)?;
        if let Some(mut joined) = self.joined.take() {
            let other = joined.take_run(position).unwrap_or_default();
            let bytes = |parts: &[Held]| parts.iter().flat_map(|part| part.bytes.to_vec()).collect::<Vec<_>>();
            let (own, others) = (bytes(&taken.parts), bytes(&other.parts));
            if taken.fin == other.fin && own == others {
                self.joined = Some(joined);
            } else if taken.fin && other.fin && others.starts_with(&own) {
                taken.beyond = after(other.parts, own.len() as u64);
            } else {
                // Which of them it was the acknowledgements will not tell; most kernels join.
                (*self, taken) = (*joined, other);
            }
        }
        Some(taken)
    }

    fn take_run(&mut self, position: u64) -> Option<Taken> {
        let first = self.runs.first();
        self.runs.get(first).filter(|placed| placed.start <= position)?;
        let Placed { start, run } = self.remove(first)?;
        if run.end <= position {
            return Some(Taken::default());
        }
        Some(Taken { parts: after(run.parts, position - start), fin: run.fin, beyond: Vec::new() })
    }

    /// Drops the part that lies farthest ahead; returns its length in bytes.
    pub(super) fn drop_last(&mut self) -> u64 {
        self.joined = None;
        let Some(Placed { start, run }) = self.runs.get_mut(self.last) else { return 0 };
        run.fin = false;
        let dropped = run.parts.pop().map_or(0, |part| {
            self.parts = self.parts.saturating_sub(1);
            part.bytes.len() as u64
        });
        run.length -= dropped;
        run.end = (*start).saturating_add(run.length);
        let empty = run.parts.is_empty();
        self.held = self.held.saturating_sub(dropped as usize);
        if empty {
            self.remove(self.last);
        }
        dropped
    }

    /// Drops FINs that stand alone in front of what is held.
    pub(super) fn drop_bare_fins(&mut self) {
        self.joined = None;
        while self.runs.get(self.runs.first()).is_some_and(|placed| placed.run.parts.is_empty()) {
            self.remove(self.runs.first());
        }
    }

    /// Drops everything; returns how many bytes that were.
    pub(super) fn clear(&mut self) -> u64 {
        let dropped = self.held as u64;
        *self = Holes::default();
        dropped
    }

    /// Drops what lies before `position`, and says how many bytes that were.
    pub(super) fn drop_before(&mut self, position: u64) -> u64 {
        let before = self.held;
        while self.first().is_some_and(|start| start < position) {
            let Some(Taken { parts, fin, .. }) = self.take(position) else { break };
            let mut at = position;
            for held in parts {
                let length = held.bytes.len() as u64;
                self.insert(at, held, false, &mut |_, _, _, _, _| {});
                at += length;
            }
            if fin {
                let none = Held { bytes: Box::default(), time: Timestamp::MIN, packet: PacketRef::default() };
                self.insert(at, none, true, &mut |_, _, _, _, _| {});
            }
        }
        before.saturating_sub(self.held) as u64
    }
}

/// Parts without the first `skip` of their bytes.
fn after(mut parts: Vec<Held>, mut skip: u64) -> Vec<Held> {
    parts.retain_mut(|part| {
        let n = skip.min(part.bytes.len() as u64);
        skip -= n;
        if n > 0 {
            part.bytes = part.bytes.get(n as usize..).unwrap_or_default().into();
        }
        !part.bytes.is_empty()
    });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(bytes: &[u8], number: u64) -> Held {
        Held { bytes: bytes.into(), time: Timestamp(0), packet: PacketRef { capture: 0, number } }
    }

    fn hold(holes: &mut Holes, start: u64, bytes: &[u8]) -> bool {
        holes.insert(start, held(bytes, 1), false, &mut |_, _, _, _, _| {})
    }

    /// All bytes from `position` on, one run after the other, a `.` where a hole was skipped.
    fn drained(mut holes: Holes, mut position: u64) -> String {
        let mut out = String::new();
        while let Some(first) = holes.first() {
            if first > position {
                out.push('.');
                position = first;
            }
            let Some(Taken { parts, fin, .. }) = holes.take(position) else { break };
            for part in parts {
                out.push_str(std::str::from_utf8(&part.bytes).unwrap());
                position += part.bytes.len() as u64;
            }
            position += u64::from(fin);
        }
        assert_eq!((holes.held(), holes.allocated(), holes.count()), (0, 0, 0));
        out
    }

    #[test]
    fn counts_runs_and_bytes() {
        let mut holes = Holes::default();
        hold(&mut holes, 10, b"ab");
        hold(&mut holes, 14, b"ef");
        assert_eq!((holes.count(), holes.held()), (2, 4));
        hold(&mut holes, 12, b"cd");
        assert_eq!((holes.count(), holes.held(), holes.allocated()), (2, 6, 6 + 3 * Holes::COST));
        assert!(holes.take(9).is_none());
        assert_eq!(drained(holes, 10), "abcdef");
    }

    #[test]
    fn what_stays_of_overlaps_is_what_linux_keeps() {
        let mut cases: Vec<(&[(u64, &str)], &str)> = vec![
            // All of it is there: dropped.
            (&[(10, "abcd"), (11, "XX")], "abcd"),
            // It begins where a held one begins, and is longer: it takes its place.
            (&[(10, "ab"), (10, "XXXX")], "XXXX"),
            // It begins earlier and covers others.
            (&[(12, "cd"), (16, "gh"), (10, "XXXXXXXX")], "XXXXXXXX"),
            // In part: the one that begins earlier, whichever came first.
            (&[(10, "abcd"), (12, "XXXX")], "abcdXX"),
            (&[(12, "cdef"), (10, "XXXX")], "XXXXef"),
        ];
        // Segments that touch are one: the second one is not replaced by a longer one that begins with it.
        cases.push((&[(10, "ab"), (12, "cd"), (12, "XXXX")], "abcdXX"));
        for (sent, expected) in cases {
            let mut holes = Holes::default();
            for (start, bytes) in sent {
                hold(&mut holes, *start, bytes.as_bytes());
            }
            assert_eq!(drained(holes, 10), expected, "{sent:?}");
        }
    }

    #[test]
    fn the_shape_of_the_tree_decides_which_run_a_segment_joins() {
        // The run at 9 is the root: the segment at 17 meets it first, joins it, and counts before the run at 12.
        let mut holes = Holes::default();
        for (start, bytes) in [(7, "a"), (12, "XXXXXXXXXX"), (9, "bcdefghi"), (17, "jkl")] {
            hold(&mut holes, start, bytes.as_bytes());
        }
        assert_eq!(drained(holes, 7), "a.bcdefghijklXX");
    }

    #[test]
    fn differences_name_what_stays_first() {
        let mut holes = Holes::default();
        hold(&mut holes, 12, b"cd");
        let mut told = Vec::new();
        let fresh = holes.insert(10, held(b"XXXXX", 2), false, &mut |at, kept, by, other, of| {
            told.push((at, kept.to_vec(), by.number, other.to_vec(), of.number));
        });
        assert!(fresh);
        assert_eq!(told, [(12, b"XX".to_vec(), 2, b"cd".to_vec(), 1)]);
    }

    #[test]
    fn the_far_ones_go_first_and_the_front_can_be_dropped() {
        let mut holes = Holes::default();
        hold(&mut holes, 10, b"abcd");
        hold(&mut holes, 20, b"x");
        hold(&mut holes, 21, b"yz");
        assert_eq!((holes.end(), holes.drop_last(), holes.end()), (Some(23), 2, Some(21)));
        assert_eq!(holes.drop_before(12), 2);
        assert_eq!((holes.first(), holes.count(), holes.held()), (Some(12), 2, 3));
        assert_eq!(holes.drop_before(30), 3);
        assert!(holes.is_empty() && holes.drop_last() == 0);
    }
}
