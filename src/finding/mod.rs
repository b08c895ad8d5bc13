//! Observations + knowledge → [`Finding`]: the rules.

pub mod claim;
pub mod fate;
pub mod foreign;
mod identity;
mod reply;
mod rule;
mod types;

pub use identity::{community_id, finding_id, hex, short_hash};
pub use rule::{Rule, rule, rules};
/// Bytes of a message that a finding shows.
pub(crate) const SHOWN_BYTES: usize = 64;

pub use types::{Declared, Effect, Finding, Stray};
