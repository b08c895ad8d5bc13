//! When a listener did anything: the other side of silence.

use super::PacketRef;
use crate::time::Timestamp;

/// A time in which events came close to each other.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Interval {
    from: Timestamp,
    to: Timestamp,
    /// The packet of the event, where it is one alone.
    alone: Option<PacketRef>,
}

/// Intervals in which events came no further apart than [`Activity::JOIN_NANOS`], ascending and disjoint.
///
/// Bounded: beyond [`Activity::MAX_INTERVALS`] the closest two neighbours among the oldest are joined, which can only
/// make a silence look shorter, never longer.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    intervals: Vec<Interval>,
}

impl Interval {
    fn joined(&self, other: &Interval) -> Interval {
        let alone = self.alone.filter(|_| other.alone == self.alone);
        Interval { from: self.from.min(other.from), to: self.to.max(other.to), alone }
    }
}

impl Activity {
    /// Events closer than this are one interval: 100 ms.
    pub const JOIN_NANOS: i64 = 100_000_000;
    /// More intervals than this are thinned.
    pub const MAX_INTERVALS: usize = 8192;

    /// Notes that something happened at `time`, in `packet`. Nearly always the latest event; an earlier one costs a search.
    pub fn note(&mut self, time: Timestamp, packet: PacketRef) {
        self.add(Interval { from: time, to: time, alone: Some(packet) });
    }

    fn add(&mut self, new: Interval) {
        match self.intervals.last_mut() {
            Some(last) if new.from >= last.from => {
                if new.from.0.saturating_sub(last.to.0) <= Self::JOIN_NANOS {
                    *last = last.joined(&new);
                } else {
                    self.intervals.push(new);
                }
            }
            None => self.intervals.push(new),
            Some(_) => {
                let at = self.intervals.partition_point(|i| i.from < new.from);
                self.intervals.insert(at, new);
                self.join_around(at);
            }
        }
        if self.intervals.len() > Self::MAX_INTERVALS {
            self.thin();
        }
    }

    fn join_around(&mut self, at: usize) {
        let mut i = at.saturating_sub(1);
        while i + 1 < self.intervals.len() && i <= at + 1 {
            let next = self.intervals[i + 1];
            if next.from.0.saturating_sub(self.intervals[i].to.0) <= Self::JOIN_NANOS {
                self.intervals[i] = self.intervals[i].joined(&next);
                self.intervals.remove(i + 1);
            } else {
                i += 1;
            }
        }
    }

    /// Halves the older half, joining neighbours in pairs.
    fn thin(&mut self) {
        let half = self.intervals.len() / 2;
        let pair = |pair: &[Interval]| pair[1..].iter().fold(pair[0], |a, b| a.joined(b));
        let mut thinned: Vec<_> = self.intervals[..half].chunks(2).map(pair).collect();
        thinned.extend_from_slice(&self.intervals[half..]);
        self.intervals = thinned;
    }

    /// Takes over what `other` noted.
    pub fn merge(&mut self, other: &Activity) {
        other.intervals.iter().for_each(|interval| self.add(*interval));
    }

    /// Takes over what `other`, by another clock, noted further than `within` nanoseconds from all that stands here: nearer,
    /// it is the same event, seen from the other end.
    pub fn merge_apart(&mut self, other: &Activity, within: i64) {
        let mut apart: Vec<Interval> = Vec::new();
        for &Interval { mut from, to, alone } in &other.intervals {
            let known = self.intervals.partition_point(|i| i.to.plus_nanos(within) < from);
            for i in self.intervals.get(known..).unwrap_or_default() {
                let (start, end) = (i.from.plus_nanos(-within), i.to.plus_nanos(within));
                if start > to || from > to {
                    break;
                }
                if from < start {
                    apart.push(Interval { from, to: start, alone });
                }
                from = from.max(end.plus_nanos(1));
            }
            if from <= to {
                apart.push(Interval { from, to, alone });
            }
        }
        apart.into_iter().for_each(|interval| self.add(interval));
    }

    /// The first event known to be later than `time`.
    ///
    /// Exact when `time` falls between intervals; inside one, the end of that interval stands for it.
    pub fn first_after(&self, time: Timestamp) -> Option<Timestamp> {
        let at = self.intervals.partition_point(|i| i.to <= time);
        self.intervals.get(at).map(|i| if i.from > time { i.from } else { i.to })
    }

    /// The packet that alone shows anything after `after` and before `before`: one forged packet could have made it.
    pub fn only_packet(&self, after: Timestamp, before: Timestamp) -> Option<PacketRef> {
        let from = self.intervals.partition_point(|i| i.to <= after);
        let to = self.intervals.partition_point(|i| i.from < before);
        match self.intervals.get(from..to)? {
            [interval] => interval.alone,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0)
    }

    #[test]
    fn finds_the_first_event_after_a_silence() {
        let mut a = Activity::default();
        for t in [1, 2, 3, 60] {
            a.note(s(t), PacketRef::default());
        }
        assert_eq!(a.first_after(s(3)), Some(s(60)));
        assert_eq!(a.first_after(s(60)), None);
    }

    #[test]
    fn an_event_that_stands_alone_is_known_by_its_packet() {
        let packet = |number| PacketRef { capture: 0, number };
        let mut a = Activity::default();
        [(1, 3), (60, 9), (90, 12)].iter().for_each(|(t, n)| a.note(s(*t), packet(*n)));
        assert_eq!(a.only_packet(s(1), s(80)), Some(packet(9)));
        assert_eq!(a.only_packet(s(1), s(100)), None, "two");
        assert_eq!(a.only_packet(s(60), s(80)), None, "none");
        a.note(Timestamp(s(60).0 + 1), packet(10));
        assert_eq!(a.only_packet(s(1), s(80)), None, "one beside it");
    }

    #[test]
    fn events_out_of_order_and_from_two_captures_are_joined() {
        let mut a = Activity::default();
        a.note(s(10), PacketRef::default());
        a.note(s(5), PacketRef::default());
        a.note(Timestamp(s(5).0 + 50_000_000), PacketRef::default());
        let mut b = Activity::default();
        b.note(s(5), PacketRef::default());
        b.note(s(7), PacketRef::default());
        a.merge(&b);
        assert_eq!(a.first_after(s(5)), Some(Timestamp(s(5).0 + 50_000_000)));
        assert_eq!(a.first_after(s(6)), Some(s(7)));
        assert_eq!(a.first_after(s(7)), Some(s(10)));
    }

    #[test]
    fn one_event_seen_from_both_ends_is_one() {
        let at = |millis: i64| Timestamp(millis * 1_000_000);
        let noted = |times: &[i64]| {
            let mut a = Activity::default();
            times.iter().for_each(|t| a.note(at(*t), PacketRef::default()));
            a
        };
        let mut own = noted(&[1000, 60_000]);
        // Four milliseconds behind and ahead; and an event that the host's own capture lost.
        own.merge_apart(&noted(&[996, 1004, 30_000, 59_996]), 250_000_000);
        assert_eq!(own.first_after(at(1000)), Some(at(30_000)));
        assert_eq!(own.first_after(at(30_000)), Some(at(60_000)));
        // An interval that is longer than the one known: what stands out of it is kept.
        let mut own = noted(&[1000]);
        own.merge_apart(&noted(&[1000, 1090, 1180, 1270, 1360]), 250_000_000);
        assert_eq!(own.first_after(at(1000)), Some(Timestamp(at(1250).0 + 1)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut a = Activity::default();
        for t in 0..100_000 {
            a.note(s(t), PacketRef::default());
        }
        assert!(a.intervals.len() <= Activity::MAX_INTERVALS);
        assert_eq!(a.first_after(s(99_998)), Some(s(99_999)));
    }
}
