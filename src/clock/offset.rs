//! How far one clock is ahead of another, and how that was found.

/// No clock here is better than this, in seconds.
pub(super) const LEAST: f64 = 1e-3;

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

    /// Whether another offset can be the same.
    pub fn agrees(&self, other: &Offset) -> bool {
        (self.seconds - other.seconds).abs() <= self.uncertainty + other.uncertainty
    }
}

/// The longest that a killed process may take until its sockets are closed, in seconds; the shortest is next to nothing. The
/// kernel gives back its memory first. Where the host itself had run out, 2.05 s were measured for 8.4 GB, 2.69 s for 12.3 GB,
/// 3.29 s for 24.5 GB; at the limit of a cgroup 0.02 to 0.42 s for 0.3 to 1.2 GB. Other hosts differ, so the bounds are wide.
pub fn longest_to_die(anon_rss_bytes: Option<u64>, in_cgroup: bool) -> f64 {
    let Some(bytes) = anon_rss_bytes else { return 5.5 };
    let of_host = (1.4 + bytes as f64 / 13e9).mul_add(1.6, 0.2);
    if in_cgroup { of_host.min(0.5 + bytes as f64 / 1e9) } else { of_host }
}
