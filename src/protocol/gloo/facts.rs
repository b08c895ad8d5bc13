//! What one connection of a Gloo pair shows.

use crate::protocol::seam::Decoded;

/// What a connection to a pair's listener is.
#[derive(Debug)]
pub struct PairFacts {
    /// It may be a pair: it carries what pairs exchange, or waits as one does, or was joined in the middle.
    pub is_pair: bool,
    /// The client (of a connection that was joined in the middle: either side) sent what pairs exchange.
    pub speaks: bool,
}

impl Decoded for PairFacts {}
