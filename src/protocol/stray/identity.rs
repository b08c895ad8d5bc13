//! What a stray is taken for.

/// Characters of a `Stray::detail` at most.
pub const DETAIL: usize = 160;

/// A protocol's name, and what can be said beyond it.
pub(super) type Named = (&'static str, Option<String>);
