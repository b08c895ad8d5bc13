//! Claims: findings about memory that a message declares and the receiver allocates.

use super::types::Finding;
use crate::vocabulary::{Outcome, Severity};

/// A claim that becomes resident from here on is a warning.
pub const WARNING_BYTES: u64 = 64 << 20;
/// From here on it can end a host, and is critical.
pub const KILLING_BYTES: u64 = 4 << 30;

/// Whether a finding is a claim that its server would allocate and that nothing refused.
pub fn is_open_claim(f: &Finding) -> bool {
    f.claims && f.severity >= Severity::Warning && f.effects.iter().any(|e| e.outcome == Outcome::Allocates)
}

/// The largest allocation among a finding's candidate effects, in bytes.
pub fn largest_claim(f: &Finding) -> u64 {
    f.effects.iter().filter_map(|e| e.allocates_bytes).max().unwrap_or(0)
}
