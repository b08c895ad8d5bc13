//! Gloo's TCP transport: the pairs over which ranks exchange data when a process group runs on it.
//!
//! [`parse_blob`] reads where a rank's pairs listen from what it puts into a store; [`first_bytes()`] knows a connection to
//! such a listener. What pairs carry is the job's data and is not looked at.

mod blob;
mod first_bytes;
mod seam;

pub use blob::parse_blob;
pub use first_bytes::{FirstBytes, HEAD_BYTES, first_bytes};
pub use seam::{Gloo, PairFacts};
