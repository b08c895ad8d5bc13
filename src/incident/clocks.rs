//! Clocks that were found to be off, and what that leaves of a verdict.

use std::collections::BTreeMap;

use crate::names::short;

/// Which clock it is, and so what agrees with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// That of a host's captures, found from packets seen at both ends: the listener's death against the kill is a
    /// second fit.
    Capture,
    /// That of a host's log, found from the death: only other hosts can agree.
    Log,
}

/// A correction of one host's times.
#[derive(Clone, Debug)]
pub struct Correction {
    /// Which clock.
    pub whose: Whose,
    /// How, in words.
    pub text: String,
    /// How far the truth may lie from it, in seconds.
    pub uncertainty: f64,
    /// Other hosts agree on it.
    pub agreed: bool,
}

/// Corrections by host.
#[derive(Clone, Debug, Default)]
pub struct HostClocks {
    by_host: BTreeMap<String, Vec<Correction>>,
}

impl HostClocks {
    /// Notes a correction.
    pub fn add(&mut self, host: &str, correction: Correction) {
        self.by_host.entry(short(host)).or_default().push(correction);
    }

    /// The corrections of one host.
    pub fn of(&self, host: &str) -> &[Correction] {
        self.by_host.get(&short(host)).map(Vec::as_slice).unwrap_or_default()
    }
}
