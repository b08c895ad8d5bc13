//! What a finding is, whatever protocol's rule it comes from, and what a rule is.

mod claims;
mod identity;
mod rule;
mod types;

pub use claims::{KILLING_BYTES, WARNING_BYTES, is_open_claim, largest_claim};
pub use identity::{community_id, finding_id, hex, short_hash};
pub(crate) use rule::CaptureRule;
pub use rule::Rule;
pub(crate) use rule::rules;
/// Bytes of a message that a finding shows.
pub(crate) const SHOWN_BYTES: usize = 64;

pub use types::{Declared, DialectName, Effect, Finding, Stray};
