//! [`Segment`](crate::frame::Segment) → flow records, and chunks of ordered bytes.

mod activity;
mod chunk;
mod record;
mod table;

pub use activity::Activity;
pub use chunk::{Chunk, PacketRef};
pub use record::{Direction, FlowRecord, FlowState, HEAD_BYTES, Heads, Moment};
pub use table::{FlowTable, Found, PortSet};
