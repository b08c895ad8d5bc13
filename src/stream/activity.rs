//! When a listener did anything: the other side of silence.

use crate::time::Timestamp;

/// Intervals in which events came no further apart than [`Activity::JOIN_NANOS`], ascending and disjoint.
///
/// Bounded: beyond [`Activity::MAX_INTERVALS`] the closest two neighbours among the oldest are joined, which can only
/// make a silence look shorter, never longer.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    intervals: Vec<(Timestamp, Timestamp)>,
}

impl Activity {
    /// Events closer than this are one interval: 100 ms.
    pub const JOIN_NANOS: i64 = 100_000_000;
    /// More intervals than this are thinned.
    pub const MAX_INTERVALS: usize = 8192;

    /// Notes that something happened at `time`. Nearly always the latest event; an earlier one costs a search.
    pub fn note(&mut self, time: Timestamp) {
        self.add(time, time);
    }

    fn add(&mut self, from: Timestamp, to: Timestamp) {
        match self.intervals.last_mut() {
            Some((start, end)) if from >= *start => {
                if from.0.saturating_sub(end.0) <= Self::JOIN_NANOS {
                    *end = (*end).max(to);
                } else {
                    self.intervals.push((from, to));
                }
            }
            None => self.intervals.push((from, to)),
            Some(_) => {
                let at = self.intervals.partition_point(|(start, _)| *start < from);
                self.intervals.insert(at, (from, to));
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
            let (next_start, next_end) = self.intervals[i + 1];
            if next_start.0.saturating_sub(self.intervals[i].1.0) <= Self::JOIN_NANOS {
                self.intervals[i].1 = self.intervals[i].1.max(next_end);
                self.intervals.remove(i + 1);
            } else {
                i += 1;
            }
        }
    }

    /// Halves the older half, joining neighbours in pairs.
    fn thin(&mut self) {
        let half = self.intervals.len() / 2;
        let mut thinned: Vec<_> =
            self.intervals[..half].chunks(2).map(|pair| (pair[0].0, pair.last().map_or(pair[0].1, |p| p.1))).collect();
        thinned.extend_from_slice(&self.intervals[half..]);
        self.intervals = thinned;
    }

    /// Takes over what `other` noted.
    pub fn merge(&mut self, other: &Activity) {
        for (from, to) in &other.intervals {
            self.add(*from, *to);
        }
    }

    /// Takes over what `other`, by another clock, noted further than `within` nanoseconds from all that stands here: nearer,
    /// it is the same event, seen from the other end.
    pub fn merge_apart(&mut self, other: &Activity, within: i64) {
        let mut apart: Vec<(Timestamp, Timestamp)> = Vec::new();
        for (from, to) in &other.intervals {
            let mut from = *from;
            let known = self.intervals.partition_point(|(_, end)| end.plus_nanos(within) < from);
            for (start, end) in self.intervals.get(known..).unwrap_or_default() {
                let (start, end) = (start.plus_nanos(-within), end.plus_nanos(within));
                if start > *to || from > *to {
                    break;
                }
                if from < start {
                    apart.push((from, start));
                }
                from = from.max(end.plus_nanos(1));
            }
            if from <= *to {
                apart.push((from, *to));
            }
        }
        for (from, to) in apart {
            self.add(from, to);
        }
    }

    /// The first event known to be later than `time`.
    ///
    /// Exact when `time` falls between intervals; inside one, the end of that interval stands for it.
    pub fn first_after(&self, time: Timestamp) -> Option<Timestamp> {
        let at = self.intervals.partition_point(|(_, end)| *end <= time);
        self.intervals.get(at).map(|(start, end)| if *start > time { *start } else { *end })
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
            a.note(s(t));
        }
        assert_eq!(a.first_after(s(3)), Some(s(60)));
        assert_eq!(a.first_after(s(60)), None);
    }

    #[test]
    fn events_out_of_order_and_from_two_captures_are_joined() {
        let mut a = Activity::default();
        a.note(s(10));
        a.note(s(5));
        a.note(Timestamp(s(5).0 + 50_000_000));
        let mut b = Activity::default();
        b.note(s(5));
        b.note(s(7));
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
            times.iter().for_each(|t| a.note(at(*t)));
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
            a.note(s(t));
        }
        assert!(a.intervals.len() <= Activity::MAX_INTERVALS);
        assert_eq!(a.first_after(s(99_998)), Some(s(99_999)));
    }
}
