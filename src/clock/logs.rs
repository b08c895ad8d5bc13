//! A host's log against the capture, by the deaths of its listeners.

use super::{Method, Offset, seconds_to_die};
use crate::time::Timestamp;

/// A line of a kill, by the log's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// When the kernel killed.
    pub at: Timestamp,
    /// The process's resident anonymous memory, in bytes: the more, the longer it takes to be gone.
    pub anon_rss_bytes: Option<u64>,
}

/// Sockets are closed within a fraction of a second of the reaper's line, and seen to be at the next packet.
pub(super) const REAPER: f64 = 0.5;
/// Deaths, kills and reaper lines of one host that are looked at.
const MAX: usize = 64;

/// How far the log's clock of one host is ahead of the capture's, from the deaths of its listeners (the first reset or
/// close that the dead process's sockets send, by the capture's clock) and the kernel's lines. Reaper lines are better
/// than kills. Of several offsets the one that joins the most deaths to lines, then the smallest, is taken; beyond
/// `limit` seconds none is.
pub fn log_against_capture(deaths: &[Timestamp], kills: &[Kill], reapers: &[Timestamp], limit: f64) -> Option<Offset> {
    let of_reapers: Vec<Line> = reapers.iter().take(MAX).map(|r| Line { dead: *r, lag: 0.0, within: REAPER }).collect();
    let of_kills: Vec<Line> = kills
        .iter()
        .take(MAX)
        .map(|k| {
            let (lag, within) = seconds_to_die(k.anon_rss_bytes);
            Line { dead: k.at, lag, within }
        })
        .collect();
    fit(deaths, &of_reapers, Method::DeathAgainstReaper, limit)
        .or_else(|| fit(deaths, &of_kills, Method::DeathAgainstKill, limit))
}

/// A line, and how long after it the sockets should be closed.
struct Line {
    dead: Timestamp,
    lag: f64,
    within: f64,
}

fn fit(deaths: &[Timestamp], lines: &[Line], method: Method, limit: f64) -> Option<Offset> {
    let ahead = |line: &Line, death: Timestamp| line.dead.seconds_since(death) + line.lag;
    let pairs = || lines.iter().flat_map(|l| deaths.iter().take(MAX).map(move |d| (l, *d)));
    let mut best: Option<Offset> = None;
    for (line, death) in pairs() {
        let offset = ahead(line, death);
        if offset.abs() > limit {
            continue;
        }
        // Every line is joined to the death that fits it best, if one does.
        let joined: Vec<f64> = lines
            .iter()
            .filter_map(|l| {
                let nearest = deaths
                    .iter()
                    .take(MAX)
                    .map(|d| ahead(l, *d))
                    .min_by(|a, b| (a - offset).abs().total_cmp(&(b - offset).abs()))?;
                ((nearest - offset).abs() <= l.within + line.within).then_some(nearest)
            })
            .collect();
        let fits = joined.len().min(deaths.len());
        let mean = joined.iter().sum::<f64>() / joined.len().max(1) as f64;
        let spread = joined.iter().map(|j| (j - mean).abs()).fold(0.0, f64::max);
        let found = Offset { seconds: mean, uncertainty: line.within.max(spread), method, fits };
        let better = best.as_ref().is_none_or(|b| (fits, -mean.abs()) > (b.fits, -b.seconds.abs()));
        if fits > 0 && better {
            best = Some(found);
        }
    }
    best
}
