//! Which captures need not be read: those that cannot overlap the time before a kill.
//!
//! A file of a rotated capture ends where the next one of its group begins. Files are taken for rotated only where a
//! look into a few of them agrees; the last of a group, and every file of a group that is none, may last for ever.

use std::collections::BTreeMap;

use super::options::Options;
use super::sets::{AHEAD_NANOS, Capture, first_time};
use crate::capture::{Limits, Reader};
use crate::oom::{OomEvent, OomKind, OomSighting};
use crate::time::{NANOS, Timestamp};

/// After a kill is reaped, its listener's connections are closed within this time.
const AFTER_NANOS: i64 = 120 * NANOS;
/// A zone that nobody named may lie this far east and west of UTC, in hours.
const ZONES: (i64, i64) = (14, 12);
/// Files of a group that are looked into, and how far.
const PROBES: usize = 4;
const PROBE_BYTES: usize = 8 << 20;

/// From and to.
pub(super) type Window = (Timestamp, Timestamp);

/// Which captures are not read.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// By index: why.
    pub(super) skipped: BTreeMap<u32, &'static str>,
    /// Of these, by group, those before the times that matter, the latest first: they may tell dialects.
    pub(super) earlier: Vec<Vec<Capture>>,
}

const BEFORE: &str = "skipped: it ends before the time that matters to the kills (--all-time reads it)";
const BETWEEN: &str = "skipped: it lies between the times that matter to the kills (--all-time reads it)";
const AFTER: &str = "skipped: it begins after the time that matters to the kills (--all-time reads it)";
const NOT_MEANT: &str = "skipped: it lies outside --since and --until";

/// The times that matter: before each kill by the longest lag, up to its reaping. `None`: every time may matter.
pub(super) fn windows(events: &[OomEvent], untimed: &[OomSighting], options: &Options) -> Option<Vec<Window>> {
    let meant = (options.since.unwrap_or(Timestamp::MIN), options.until.unwrap_or(Timestamp::MAX));
    let bounded = options.since.is_some() || options.until.is_some();
    let kills: Vec<&OomEvent> = events.iter().filter(|e| e.kind != OomKind::Gpu).collect();
    // Kills without a time may be of any.
    if options.all_time || kills.is_empty() || !untimed.is_empty() {
        return (bounded && !options.all_time).then(|| vec![meant]);
    }
    let lag = (options.max_lag.max(options.window) * NANOS as f64) as i64;
    let mut all: Vec<Window> = Vec::new();
    for e in kills {
        for at in [Some(e.time), e.alternative_time].into_iter().flatten() {
            let (east, west) = if guessed_zone(e) { ZONES } else { (0, 0) };
            let beside = e.uncertainty_nanos;
            let reaped = e.reaped_at.unwrap_or(at).max(at);
            all.push((
                at.plus_nanos(-lag).plus_nanos(-beside).plus_nanos(-east * 3600 * NANOS).max(meant.0),
                reaped.plus_nanos(AFTER_NANOS).plus_nanos(beside).plus_nanos(west * 3600 * NANOS).min(meant.1),
            ));
        }
    }
    all.retain(|(from, to)| from <= to);
    all.sort_unstable();
    Some(all)
}

/// Whether a kill's time stands in a zone that nobody named.
pub(super) fn guessed_zone(e: &OomEvent) -> bool {
    e.time_source.contains("zone assumed")
}

/// What to read of `groups`, whose members stand in order of their first packets (`first`).
pub(super) fn plan(
    groups: &[Vec<Capture>],
    first: &BTreeMap<u32, Timestamp>,
    windows: &[Window],
    of_kills: bool,
) -> Plan {
    let mut plan = Plan::default();
    let (Some(begin), Some(end)) = (windows.iter().map(|w| w.0).min(), windows.iter().map(|w| w.1).max()) else {
        return plan;
    };
    for group in groups {
        let rotated = is_rotated(group, first, begin);
        let mut earlier = Vec::new();
        for (i, c) in group.iter().enumerate() {
            let Some(from) = first.get(&c.index).copied() else { continue };
            let next = group.get(i + 1).and_then(|n| first.get(&n.index)).copied().filter(|_| rotated);
            let to = next.map_or(Timestamp::MAX, |n| n.plus_nanos(AHEAD_NANOS));
            if windows.iter().any(|w| from <= w.1 && to >= w.0) {
                continue;
            }
            let why = match (of_kills, to < begin, from > end) {
                (false, ..) => NOT_MEANT,
                (_, true, _) => BEFORE,
                (_, _, true) => AFTER,
                _ => BETWEEN,
            };
            plan.skipped.insert(c.index, why);
            if from <= end && to < end {
                earlier.push(c.clone());
            }
        }
        earlier.reverse();
        if !earlier.is_empty() {
            plan.earlier.push(earlier);
        }
    }
    // Where no capture holds the time of any kill, a clock or a zone may be wrong: that shows only in what is read.
    if of_kills && plan.skipped.len() == groups.iter().map(Vec::len).sum::<usize>() {
        return Plan::default();
    }
    plan
}

/// Whether each file of a group ends where the next begins, as far as a look into some of them tells: those just before
/// the time that matters, and some others.
fn is_rotated(group: &[Capture], first: &BTreeMap<u32, Timestamp>, begin: Timestamp) -> bool {
    let pairs: Vec<(&Capture, Timestamp, Timestamp)> = group
        .windows(2)
        .filter_map(|w| match w {
            [a, b] => Some((a, *first.get(&a.index)?, *first.get(&b.index)?)),
            _ => None,
        })
        .collect();
    let before: Vec<_> = pairs.iter().filter(|(.., next)| *next < begin).collect();
    let Some(last) = before.len().checked_sub(1) else { return true };
    let mut looked: Vec<usize> = (0..PROBES - 1).map(|n| last * n / (PROBES - 1)).collect();
    looked.push(last);
    looked.dedup();
    looked.iter().filter_map(|i| before.get(*i)).all(|(c, from, next)| ends_by(c, *from, *next))
}

/// Whether a capture ends by `next`; of a long one, whether it would at the pace of its beginning.
fn ends_by(c: &Capture, from: Timestamp, next: Timestamp) -> bool {
    let Ok(mut reader) = Reader::open(&c.path, &Limits::default()) else { return true };
    let (mut last, mut bytes, mut whole) = (from, 0usize, true);
    // What fails here fails when it is read, and is said then.
    let _ = reader.each_while(|packet| {
        last = last.max(packet.time);
        bytes += packet.data.len() + 16;
        whole = bytes < PROBE_BYTES;
        whole
    });
    if last > next.plus_nanos(AHEAD_NANOS) {
        return false;
    }
    let compressed = reader.into_summary().form.compression.is_some();
    let size = std::fs::metadata(&c.path).map_or(0, |m| m.len()) as f64 * if compressed { 3.0 } else { 1.0 };
    let pace = last.seconds_since(from) / bytes.max(1) as f64;
    whole || pace * size <= 3.0 * next.seconds_since(from).max(1.0)
}

/// The first packets' times, of files; a pipe gives its packets once.
pub(super) fn first_times(captures: &[Capture]) -> BTreeMap<u32, Timestamp> {
    let file = |c: &&Capture| std::fs::metadata(&c.path).is_ok_and(|m| m.is_file());
    captures.iter().filter(file).filter_map(|c| Some((c.index, first_time(c)?))).collect()
}

/// What a report says of captures that were not read.
pub(super) fn note(captures: &[Capture], plan: &Plan, windows: &[Window]) -> Option<String> {
    if plan.skipped.is_empty() {
        return None;
    }
    let read: Vec<&Capture> = captures.iter().filter(|c| !plan.skipped.contains_key(&c.index)).collect();
    let name = |c: &&Capture| c.path.file_name().unwrap_or(c.path.as_os_str()).to_string_lossy().into_owned();
    let mut names: Vec<String> = read.iter().take(8).map(name).collect();
    if read.len() > names.len() {
        names.push(format!("{} more", read.len() - names.len()));
    }
    let from = windows.iter().map(|w| w.0).min()?;
    let to = windows.iter().map(|w| w.1).max()?;
    Some(format!(
        "{} of {} captures were skipped: they hold no packet of the time that matters ({from} to {to}). Read: {}. \
         --all-time reads all.",
        plan.skipped.len(),
        captures.len(),
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0)
    }

    fn group(n: u32) -> Vec<Capture> {
        let path = |i| PathBuf::from(format!("/nowhere/{i}"));
        (0..n)
            .map(|index| Capture { index, path: path(index), stem: (PathBuf::new(), String::new()), host: None })
            .collect()
    }

    #[test]
    fn a_file_lasts_until_its_successor_begins() {
        let group = group(10);
        let first: BTreeMap<u32, Timestamp> = (0..10).map(|i| (i, at(i64::from(i) * 100))).collect();
        let plan = plan(&[group], &first, &[(at(450), at(510))], true);
        let read: Vec<u32> = (0..10).filter(|i| !plan.skipped.contains_key(i)).collect();
        assert_eq!(read, [4, 5]);
        assert_eq!((plan.skipped[&3], plan.skipped[&6]), (BEFORE, AFTER));
        assert_eq!(plan.earlier[0].iter().map(|c| c.index).collect::<Vec<_>>(), [3, 2, 1, 0]);
    }

    #[test]
    fn between_two_times_nothing_matters_and_what_has_no_time_is_read() {
        let group = group(5);
        let mut first: BTreeMap<u32, Timestamp> = (0..5).map(|i| (i, at(i64::from(i) * 100))).collect();
        let two = [(at(10), at(20)), (at(410), at(420))];
        let all = plan(std::slice::from_ref(&group), &first, &two, true);
        assert_eq!(all.skipped.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(all.skipped[&2], BETWEEN);
        first.remove(&2);
        let all = plan(std::slice::from_ref(&group), &first, &two, true);
        assert!(!all.skipped.contains_key(&1) && !all.skipped.contains_key(&2));
        assert!(plan(&[group], &first, &[], true).skipped.is_empty());
    }
}
