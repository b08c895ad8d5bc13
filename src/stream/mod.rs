//! [`Segment`](crate::frame::Segment) → flow records, and chunks of ordered bytes.

mod activity;
mod assembler;
mod chunk;
mod conflict;
mod event;
mod history;
mod holes;
mod record;
mod record_codec;
mod sequence;
mod snaplen_cuts;
mod table;

pub use activity::Activity;
pub use assembler::{Assembler, AssemblerLimits, HOLD_BACK_BYTES, HOLD_BACK_SEGMENTS};
pub use chunk::{Chunk, CompactRef, PacketRef};
pub use event::{Conflict, Event, GapCause, Piece, StreamCounters};
pub use record::{Direction, FlowRecord, FlowState, HEAD_BYTES, Heads, OptionalTime, SynMaker};
pub(crate) use record_codec::{Take, put_endpoint, put_packet};
pub use table::{FlowTable, Found, PortSet};
