//! The climb before a kill: when memory began to fill, and how fast.

use super::series::{Sample, Series};
use crate::time::{NANOS, Timestamp};

/// How long before a kill its climb may have begun.
const LOOK_BACK_NANOS: i64 = 1800 * NANOS;
/// How long after the kill memory may still be seen at its height.
const LOOK_AHEAD_NANOS: i64 = 60 * NANOS;
/// The least rise that is a climb: a tenth of all memory, or of the height.
const LEAST: f64 = 0.1;
/// Of the rise, what is still counted as the level before it.
const FOOT: f64 = 0.1;

/// A climb. The true onset lies between `start` and `start_latest`: monitoring sees only its own instants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Climb {
    /// The last reading at the level before.
    pub start: Timestamp,
    /// The first reading above it.
    pub start_latest: Timestamp,
    /// The reading at the height.
    pub end: Timestamp,
    /// The reading at `start`.
    pub from: Sample,
    /// The reading at `end`.
    pub to: Sample,
    /// Bytes a second between the two; `None` where only percent are known.
    pub rate_bytes_per_second: Option<f64>,
    /// Percent of all memory a second; `None` where only bytes are known.
    pub rate_percent_per_second: Option<f64>,
}

impl Climb {
    /// How long it took, in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.seconds_since(self.start)
    }
}

/// The climb that ended around an instant (that of a kill), or `None` when memory did not rise by a tenth, or no
/// reading is near enough.
pub fn onset(series: &Series, around: Timestamp) -> Option<Climb> {
    let from = around.plus_nanos(-LOOK_BACK_NANOS);
    let to = around.plus_nanos(LOOK_AHEAD_NANOS);
    let begin = series.samples.partition_point(|s| s.at < from);
    let end = series.samples.partition_point(|s| s.at <= to);
    let window = series.samples.get(begin..end)?;
    // One measure for all: percent if every reading has it.
    let percent = window.iter().all(|s| s.used_percent.is_some());
    let value = |s: &Sample| if percent { s.used_percent } else { s.used_bytes };
    let values: Vec<(Timestamp, f64, Sample)> = window.iter().filter_map(|s| Some((s.at, value(s)?, *s))).collect();
    // The height is one of the readings next to the kill: after a kill memory is free again.
    let mut gaps: Vec<i64> = values.windows(2).map(|w| w[1].0.0.saturating_sub(w[0].0.0)).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(0).clamp(0, 600 * NANOS);
    let near = around.plus_nanos(-(usual.saturating_mul(5) / 2).max(30 * NANOS));
    let (top, &(end, height, last)) = values
        .iter()
        .enumerate()
        .filter(|(_, (at, ..))| *at >= near)
        .max_by(|(i, (_, a, _)), (j, (_, b, _))| a.total_cmp(b).then(j.cmp(i)))?;
    let before = values.get(..top)?;
    let base = before.iter().map(|(_, v, _)| *v).min_by(f64::total_cmp)?;
    let rise = height - base;
    if rise < LEAST * if percent { 100.0 } else { height } {
        return None;
    }
    let foot = before.iter().rposition(|(_, v, _)| *v <= base + FOOT * rise)?;
    let &(start, _, first) = before.get(foot)?;
    let start_latest = values.get(foot + 1).map_or(end, |(at, ..)| *at);
    let seconds = end.seconds_since(start);
    let rate = |a: Option<f64>, b: Option<f64>| (seconds > 0.0).then(|| Some((b? - a?) / seconds)).flatten();
    Some(Climb {
        start,
        start_latest,
        end,
        from: first,
        to: last,
        rate_bytes_per_second: rate(first.used_bytes, last.used_bytes),
        rate_percent_per_second: rate(first.used_percent, last.used_percent),
    })
}
