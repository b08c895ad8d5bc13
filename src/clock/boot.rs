//! When a host booted, told by the death of its listener on the wire.

use super::{Method, seconds_to_die};
use crate::time::Timestamp;

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
/// reaped. `death` is the first reset or close of the dead listener, or the first packet that found it dead; `killed` and
/// `reaped` are stamps of the log in nanoseconds since boot.
///
/// `None` when the two cannot belong together: reaped before killed.
pub fn boot_from_death(
    death: Timestamp,
    killed: Option<i64>,
    reaped: Option<i64>,
    anon_rss_bytes: Option<u64>,
) -> Option<BootTime> {
    if let Some(reaped) = reaped {
        if killed.is_some_and(|k| k > reaped) {
            return None;
        }
        let at = death.plus_nanos(reaped.checked_neg()?);
        return Some(BootTime { at, uncertainty: 0.5, method: Method::DeathAgainstReaper });
    }
    let (lag, uncertainty) = seconds_to_die(anon_rss_bytes);
    let since = killed?.checked_add((lag * crate::time::NANOS as f64) as i64)?;
    let at = death.plus_nanos(since.checked_neg()?);
    Some(BootTime { at, uncertainty, method: Method::DeathAgainstKill })
}
