//! Clocks: how far those of capture hosts, logs and zones stand apart, each with its uncertainty and how it was found.
//!
//! Everything here is arithmetic on instants. An offset is how far the second clock is *ahead* of the first, in
//! seconds: subtract it from the second clock's times to have the first's.

mod boot;
mod captures;
mod logs;
mod offset;
mod zone;

pub use boot::boot_from_deaths;
pub use captures::{Crossing, Direction, between_captures};
pub use logs::{Kill, log_against_capture};
use offset::LEAST;
pub use offset::{Method, Offset, longest_to_die};
pub use zone::{Miss, common_quarter_hour};

use crate::time::Timestamp;

/// How far a listener's death on the wire lies from where the kernel's lines of the kill allow it, in seconds: 0 where it fits,
/// negative where it came too early, positive where it came too late. `beside`: what the clocks may be apart.
pub fn death_misses(died: Timestamp, kill: &Kill, reaped: Option<Timestamp>, beside: f64) -> f64 {
    let (after, least, most) = match reaped {
        Some(reaped) => (died.seconds_since(reaped), -logs::REAPER, logs::REAPER),
        None => (died.seconds_since(kill.at), 0.0, longest_to_die(kill.anon_rss_bytes, kill.in_cgroup)),
    };
    (after - least + beside).min(0.0) + (after - most - beside).max(0.0)
}

#[cfg(test)]
mod tests;
