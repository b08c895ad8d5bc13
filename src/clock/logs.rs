//! A host's log against the capture, by the deaths of its listeners.

use super::offset::{Method, Offset, longest_to_die};
use crate::time::Timestamp;

/// A line of a kill, by the log's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// When the kernel killed.
    pub at: Timestamp,
    /// The process's resident anonymous memory, in bytes: the more, the longer it takes to be gone.
    pub anon_rss_bytes: Option<u64>,
    /// Whether the limit of a cgroup was reached, and the host itself had memory.
    pub in_cgroup: bool,
}

/// Sockets are closed within a fraction of a second of the reaper's line, and seen to be at the next packet.
pub(super) const REAPER: f64 = 0.5;
/// Deaths, kills and reaper lines of one host that are looked at.
const MAX: usize = 64;

/// How far the log's clock of one host is ahead of the capture's, from the deaths of its listeners (the first reset or
/// close that the dead process's sockets send, by the capture's clock) and the kernel's lines. Reaper lines are better
/// than kills. Of several offsets the one that joins the most deaths to lines, then the smallest, is taken; beyond
/// `limit` seconds none is. Each pair bounds the offset, and all pairs together bound it closer.
pub fn log_against_capture(deaths: &[Timestamp], kills: &[Kill], reapers: &[Timestamp], limit: f64) -> Option<Offset> {
    let of_reapers: Vec<Line> =
        reapers.iter().take(MAX).map(|r| Line { at: *r, least: -REAPER, most: REAPER }).collect();
    let of_kill = |k: &Kill| Line { at: k.at, least: 0.0, most: longest_to_die(k.anon_rss_bytes, k.in_cgroup) };
    let of_kills: Vec<Line> = kills.iter().take(MAX).map(of_kill).collect();
    fit(deaths, &of_reapers, Method::DeathAgainstReaper, limit)
        .or_else(|| fit(deaths, &of_kills, Method::DeathAgainstKill, limit))
}

/// A line, and the least and the longest time after it at which the sockets are closed, in seconds.
struct Line {
    at: Timestamp,
    least: f64,
    most: f64,
}

impl Line {
    /// The least and the greatest offset with which this line tells of that death.
    fn offsets(&self, death: Timestamp) -> (f64, f64) {
        let ahead = self.at.seconds_since(death);
        (ahead + self.least, ahead + self.most)
    }
}

fn fit(deaths: &[Timestamp], lines: &[Line], method: Method, limit: f64) -> Option<Offset> {
    let deaths = deaths.get(..MAX).unwrap_or(deaths);
    let mut best: Option<Offset> = None;
    for (low, high) in lines.iter().flat_map(|l| deaths.iter().map(move |d| l.offsets(*d))) {
        let middle = f64::midpoint(low, high);
        if middle.abs() > limit {
            continue;
        }
        // Every line is joined to the death that fits it best, if one does.
        let near = |(a, b): &(f64, f64)| (f64::midpoint(*a, *b) - middle).abs();
        let joined = lines.iter().filter_map(|l| {
            let all = deaths.iter().map(|d| l.offsets(*d)).filter(|(a, b)| *a <= high && low <= *b);
            all.min_by(|a, b| near(a).total_cmp(&near(b)))
        });
        let (mut fits, mut least, mut most) = (0, low, high);
        let (mut lowest, mut highest) = (low, high);
        for (a, b) in joined {
            fits += 1;
            (least, most) = (least.max(a), most.min(b));
            (lowest, highest) = (lowest.min(a), highest.max(b));
        }
        let fits = fits.min(deaths.len());
        // Bounds that exclude each other are no bounds: the clock drifted, or a pair is none.
        let (least, most) = if least <= most { (least, most) } else { (lowest, highest) };
        let seconds = f64::midpoint(least, most);
        let better = best.as_ref().is_none_or(|b| (fits, -seconds.abs()) > (b.fits, -b.seconds.abs()));
        if fits > 0 && better {
            best = Some(Offset { seconds, uncertainty: (most - least) / 2.0 + super::LEAST, method, fits });
        }
    }
    best
}
