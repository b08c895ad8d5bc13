//! Two captures of one network, by the packets that both hold.

use super::offset::{Method, Offset};
use crate::time::{NANOS, Timestamp};

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the host of the first capture to that of the second.
    Forward,
    /// Back.
    Backward,
}

/// A packet seen at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// What makes the packet one of its kind (addresses, ports, numbers, IP id): one that comes twice is left out, for a
    /// packet sent again cannot be told from its first.
    pub identity: u64,
    /// Which way it went.
    pub direction: Direction,
    /// When the first capture saw it, by its clock.
    pub at_first: Timestamp,
    /// When the second did.
    pub at_second: Timestamp,
}

/// Captures stamp packets in microseconds, some in batches: never better than this.
const RESOLUTION: f64 = 2e-6;
/// One way: the fastest packet of a cluster's network takes less than this.
const FASTEST_ONE_WAY: f64 = 2e-3;
/// Within this time clocks are taken to run alike.
const WINDOW_NANOS: i64 = 60 * NANOS;

/// How far the second capture's clock is ahead of the first's. As with NTP, a packet takes some time: forward it makes
/// the second clock look ahead, backward behind; so the least difference forward and the greatest backward enclose the
/// truth, whatever the paths. Where minutes disagree (a clock drifts, or was set), the uncertainty covers all of them.
///
/// `None` without a packet that both saw once.
pub fn between_captures(crossings: impl IntoIterator<Item = Crossing>) -> Option<Offset> {
    let mut all: Vec<Crossing> = crossings.into_iter().collect();
    all.sort_by_key(|c| (c.identity, c.at_first));
    let once = |at: usize| {
        let same = |other: Option<usize>| other.and_then(|o| all.get(o)).map(|c| c.identity);
        let own = same(Some(at));
        own != same(at.checked_sub(1)) && own != same(at.checked_add(1))
    };
    let mut kept: Vec<Crossing> = (0..all.len()).filter(|at| once(*at)).filter_map(|at| all.get(at).copied()).collect();
    kept.sort_by_key(|c| c.at_first);
    let fits = kept.len();
    let bounds: Vec<Bounds> = windows(&kept);
    let both: Vec<(f64, f64)> = bounds.iter().filter_map(|b| Some((b.least?, b.most?))).collect();
    if both.is_empty() {
        return one_way(&bounds, fits);
    }
    // The bounds of all minutes together; where they exclude each other, what covers each minute's middle.
    let least = both.iter().map(|b| b.0).fold(f64::NEG_INFINITY, f64::max);
    let most = both.iter().map(|b| b.1).fold(f64::INFINITY, f64::min);
    let (low, high) = if least <= most {
        (least, most)
    } else {
        let middles = || both.iter().map(|(a, b)| f64::midpoint(*a, *b));
        let widest = both.iter().map(|(a, b)| (b - a).abs() / 2.0).fold(0.0, f64::max);
        (middles().fold(f64::INFINITY, f64::min) - widest, middles().fold(f64::NEG_INFINITY, f64::max) + widest)
    };
    let uncertainty = (high - low) / 2.0 + RESOLUTION;
    Some(Offset { seconds: f64::midpoint(low, high), uncertainty, method: Method::BothWays, fits })
}

/// What the packets of a minute leave for the offset.
#[derive(Clone, Copy, Default)]
struct Bounds {
    least: Option<f64>,
    most: Option<f64>,
}

fn windows(kept: &[Crossing]) -> Vec<Bounds> {
    let mut bounds: Vec<Bounds> = Vec::new();
    let mut begun: Option<Timestamp> = None;
    for c in kept {
        if begun.is_none_or(|b| c.at_first.0.saturating_sub(b.0) >= WINDOW_NANOS) {
            begun = Some(c.at_first);
            bounds.push(Bounds::default());
        }
        let ahead = c.at_second.seconds_since(c.at_first);
        if let Some(b) = bounds.last_mut() {
            match c.direction {
                Direction::Forward => b.most = Some(b.most.map_or(ahead, |m| m.min(ahead))),
                Direction::Backward => b.least = Some(b.least.map_or(ahead, |l| l.max(ahead))),
            }
        }
    }
    bounds
}

/// Packets never went both ways within a minute: bounds of different minutes, or of one side alone.
fn one_way(bounds: &[Bounds], fits: usize) -> Option<Offset> {
    let most = bounds.iter().filter_map(|b| b.most).reduce(f64::min);
    let least = bounds.iter().filter_map(|b| b.least).reduce(f64::max);
    let (seconds, half) = match (least, most) {
        (Some(l), Some(m)) => (f64::midpoint(l, m), (m - l).abs() / 2.0 + FASTEST_ONE_WAY / 2.0),
        (None, Some(m)) => (m - FASTEST_ONE_WAY / 2.0, FASTEST_ONE_WAY / 2.0),
        (Some(l), None) => (l + FASTEST_ONE_WAY / 2.0, FASTEST_ONE_WAY / 2.0),
        (None, None) => return None,
    };
    Some(Offset { seconds, uncertainty: half + RESOLUTION, method: Method::OneWay, fits })
}
