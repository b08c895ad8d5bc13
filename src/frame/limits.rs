//! What hostile packets may make a decoder keep.

use crate::time::NANOS;

/// How deep encapsulations may nest.
pub(super) const MAX_DEPTH: usize = 8;

/// What hostile packets may make a `Decoder` keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes held for fragments, what holds them included.
    pub fragment_bytes: usize,
    /// Datagrams that may wait for fragments at a time.
    pub fragment_datagrams: usize,
    /// How long after its first fragment a datagram is given up, in nanoseconds of packet time.
    pub fragment_timeout: i64,
    /// Encapsulations around a segment, at most 8.
    pub depth: usize,
}

impl Default for Limits {
    /// 8 MiB, 4096 datagrams, 30 s, depth 8.
    fn default() -> Self {
        Limits { fragment_bytes: 8 << 20, fragment_datagrams: 4096, fragment_timeout: 30 * NANOS, depth: MAX_DEPTH }
    }
}
