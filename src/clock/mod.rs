//! Clocks: how far those of capture hosts, logs and zones stand apart, each with its uncertainty and how it was found.
//!
//! Everything here is arithmetic on instants. An offset is how far the second clock is *ahead* of the first, in
//! seconds: subtract it from the second clock's times to have the first's.

mod boot;
mod captures;
mod logs;
mod zone;

pub use boot::boot_from_death;
pub use captures::{Crossing, Direction, between_captures};
pub use logs::{Kill, log_against_capture};
pub use zone::{Miss, common_quarter_hour};

use crate::time::{NANOS, Timestamp};

/// How an offset was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Packets seen at both ends, in both directions: the fastest of each way bound it.
    BothWays,
    /// Packets seen at both ends in one direction only: the fastest bounds one side, the other is assumed.
    OneWay,
    /// A listener's death on the wire, against the kernel's line that the process was reaped.
    DeathAgainstReaper,
    /// The same, against the line of the kill, by how long a process of its size takes to be gone.
    DeathAgainstKill,
}

impl Method {
    /// As a person would say it; the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Method::BothWays => "packets both ways",
            Method::OneWay => "packets one way",
            Method::DeathAgainstReaper => "death against reaper line",
            Method::DeathAgainstKill => "death against kill line",
        }
    }
}

/// How far a second clock is ahead of a first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    /// In seconds; negative when the second is behind.
    pub seconds: f64,
    /// How far the truth may lie from it, in seconds. Never 0.
    pub uncertainty: f64,
    /// How it was found.
    pub method: Method,
    /// How many observations agree on it: packets, or pairs of death and line. One pair alone is no proof.
    pub fits: usize,
}

impl Offset {
    /// Whether two clocks that agree would look like this.
    pub fn may_be_none(&self) -> bool {
        self.seconds.abs() <= self.uncertainty
    }

    /// A time of the second clock, by the first.
    pub fn correct(&self, time: Timestamp) -> Timestamp {
        time.plus_nanos((-self.seconds * NANOS as f64) as i64)
    }

    /// Whether another offset can be the same.
    pub fn agrees(&self, other: &Offset) -> bool {
        (self.seconds - other.seconds).abs() <= self.uncertainty + other.uncertainty
    }
}

/// How long a killed process takes until its sockets are closed: the kernel gives back its memory first. Measured on one
/// kind of host: 2.05 s for 8.4 GB, 2.69 s for 12.3 GB, 3.29 s for 24.5 GB; other hosts differ, so the uncertainty is
/// wide. Returns the seconds to expect and how far they may be off.
fn seconds_to_die(anon_rss_bytes: Option<u64>) -> (f64, f64) {
    const LEAST: f64 = 1.4;
    const BYTES_A_SECOND: f64 = 13e9;
    match anon_rss_bytes {
        Some(bytes) => {
            let expected = LEAST + bytes as f64 / BYTES_A_SECOND;
            (expected, (0.6 * expected).max(1.0))
        }
        None => (2.5, 3.0),
    }
}

/// The longest that a killed process of this size may take until its sockets are closed, in seconds.
pub fn longest_to_die(anon_rss_bytes: Option<u64>) -> f64 {
    let (expected, within) = seconds_to_die(anon_rss_bytes);
    expected + within
}

/// Whether a listener's death on the wire is where the kernel's lines of the kill say, within `beside` seconds more than
/// what a process of its size may take to be gone.
pub fn death_fits(
    died: Timestamp,
    killed: Timestamp,
    reaped: Option<Timestamp>,
    anon_rss_bytes: Option<u64>,
    beside: f64,
) -> bool {
    match reaped {
        Some(reaped) => died.seconds_since(reaped).abs() <= logs::REAPER + beside,
        None => {
            let (lag, within) = seconds_to_die(anon_rss_bytes);
            (died.seconds_since(killed) - lag).abs() <= within + beside
        }
    }
}

#[cfg(test)]
mod tests;
