//! [`Segment`](crate::frame::Segment) → flow records, and chunks of ordered bytes.

mod activity;
mod assembler;
mod chunk;
mod conflict;
mod copies;
mod cuts;
mod event;
mod history;
mod holes;
mod kept;
mod receiver;
mod record;
mod sequence;
mod table;

pub use activity::Activity;
pub use assembler::{Assembler, AssemblerLimits, HOLD_BACK_BYTES, HOLD_BACK_SEGMENTS};
pub use chunk::{Chunk, PacketRef};
pub use event::{Conflict, Event, GapCause, Piece, StreamCounters};
pub(crate) use kept::{Take, put_endpoint, put_packet};
pub use receiver::{Conversation, Outcome, Refusal, Refused};
pub use record::{Direction, FlowRecord, FlowState, HEAD_BYTES, Heads, Moment, SynMaker};
pub use table::{FlowTable, Found, PortSet};
