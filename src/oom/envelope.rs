//! Whose line is it? Tools that gather logs of many hosts put the host on the line or above a block.
//!
//! The seam for them: what is peeled here wins over the line's own host and loses to `HOST=`.

use std::sync::Arc;

/// A line without its envelope.
pub(crate) struct Enclosed<'a> {
    /// The hosts that the envelope names: none without one, several for a block of hosts with equal output.
    pub(crate) hosts: Vec<Arc<str>>,
    /// What is inside.
    pub(crate) line: &'a [u8],
}

/// Reads envelopes, line by line; it remembers the block it is in.
#[derive(Default)]
pub(crate) struct Envelope {}

impl Envelope {
    /// Peels one line; `None` when the line belongs to the envelope itself.
    pub(crate) fn peel<'a>(&mut self, line: &'a [u8]) -> Option<Enclosed<'a>> {
        Some(Enclosed { hosts: Vec::new(), line })
    }
}
