//! [`Segment`](crate::frame::Segment) → flow records, and chunks of ordered bytes.

mod assembler;
mod chunk;
mod conflict;
mod cuts;
mod event;
mod history;
mod holes;
mod sequence;

pub use assembler::{Assembler, AssemblerLimits, HOLD_BACK_BYTES, HOLD_BACK_SEGMENTS};
pub use chunk::{Chunk, PacketRef};
pub use event::{Conflict, Event, GapCause, Piece, StreamCounters};
