//! Gloo's TCP transport: the pairs over which ranks exchange data when a process group runs on it.
//!
//! [`parse_blob`] reads where a rank's pairs listen from what it puts into a store; [`first_bytes()`] knows a connection
//! between two ranks, on any port. What pairs carry is the job's data and is not looked at. After the barrier `group`
//! tells members from strangers, and `judge` says what strangers did to a group.

mod blob;
mod facts;
mod first_bytes;
mod group;
mod judge;
mod logged;
mod rules;
mod seam;

pub use blob::{Blob, Layout, parse_blob};
pub use first_bytes::{FirstBytes, HEAD_BYTES, first_bytes};
pub use group::Announced;
pub use seam::{Gloo, PairFacts};
