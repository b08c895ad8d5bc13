//! [`Segment`](crate::frame::Segment) → flow records, and chunks of ordered bytes.

mod activity;
mod assembler;
mod chunk;
mod conflict;
mod copies;
mod event;
mod history;
mod holes;
pub(crate) mod ordinary;
pub(crate) mod quiet;
mod receiver;
mod record;
mod record_codec;
mod sack;
mod sequence;
mod snaplen_cuts;
mod table;
mod tree;

pub use activity::Activity;
pub use assembler::{Assembler, AssemblerLimits};
pub use chunk::{Chunk, CompactRef, PacketRef};
pub use event::{Event, GapCause, Piece, StreamCounters};
pub use ordinary::Ordinary;
pub use receiver::{Conversation, Outcome, Refused};
pub use record::{Direction, FlowRecord, FlowState, HEAD_BYTES, Heads, OptionalTime, SynMaker};
pub(crate) use record_codec::{Take, put_endpoint, put_packet};
pub use table::{FlowTable, PortSet};
