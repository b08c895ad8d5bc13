//! When a host booted, told by the deaths of its listeners on the wire.

use super::offset::Method;
use super::{Kill, log_against_capture};
use crate::time::{NANOS, Timestamp};

/// A boot time, found rather than given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootTime {
    /// The instant from which the kernel's stamps count, by the capture's clock.
    pub at: Timestamp,
    /// How far the truth may lie from it, in seconds.
    pub uncertainty: f64,
    /// How it was found.
    pub method: Method,
}

/// Aligns a raw kernel log (seconds since boot) with the capture: the listener's sockets close when the process is
/// reaped. `deaths`: each the first reset or close of a dead listener, or the first packet that found it dead; times of `kills`
/// and `reaped` count from boot. Of several kills that fit alike the last: the ring buffer holds the newest.
///
/// `None` when they cannot belong together: reaped before anything was killed.
pub fn boot_from_deaths(deaths: &[Timestamp], kills: &[Kill], reaped: &[Timestamp]) -> Option<BootTime> {
    if reaped.iter().any(|r| !kills.is_empty() && kills.iter().all(|k| k.at > *r)) {
        return None;
    }
    // From the last line and the first death small numbers remain, which keep their fractions.
    let first = *deaths.first()?;
    let last = kills.iter().map(|k| k.at).chain(reaped.iter().copied()).max()?;
    let after = |t: Timestamp, origin: Timestamp| Timestamp(t.0.saturating_sub(origin.0));
    let deaths: Vec<Timestamp> = deaths.iter().map(|d| after(*d, first)).collect();
    let kills: Vec<Kill> = kills.iter().map(|k| Kill { at: after(k.at, last), ..*k }).collect();
    let reaped: Vec<Timestamp> = reaped.iter().map(|r| after(*r, last)).collect();
    let offset = log_against_capture(&deaths, &kills, &reaped, f64::INFINITY)?;
    let at = after(first, last).plus_nanos((-offset.seconds * NANOS as f64) as i64);
    Some(BootTime { at, uncertainty: offset.uncertainty, method: offset.method })
}
