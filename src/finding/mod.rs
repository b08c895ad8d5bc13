//! Observations + knowledge → [`Finding`]: the rules.

mod identity;
mod rule;
mod types;

pub use identity::{community_id, finding_id, short_hash};
pub use rule::{RULES, Rule, rule};
pub use types::{Declared, Effect, Finding, PacketBytes, Stray};
