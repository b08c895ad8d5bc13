//! [`Segment`](crate::frame::Segment) → flow records, and chunks of ordered bytes.

mod chunk;

pub use chunk::{Chunk, PacketRef};
