//! Flows and messages for reading rather than judging: what `streams` and `messages` show.

mod coverage;
mod document;
mod fields;
mod files;
mod follow;
mod message;
mod messages;
mod nccl;
mod other_protocols;
mod pair;
mod recognition;
mod selection;
mod summary;

pub use files::Files;
pub use follow::{Follow, FollowFormat};
pub use message::{MessageLine, Tongue};
pub use messages::{Item, Keep, Messages};
pub use nccl::KINDS;
pub use selection::Selection;
pub use summary::{FlowSummary, Streams};
