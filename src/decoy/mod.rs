//! Listeners that answer as PyTorch's stores and NCCL's listeners do, and never allocate what they are told to.
//!
//! A [`Decoy`] drives the server models with real sockets: what they say is sent, byte for byte; where they close, it closes,
//! with a reset where the real server leaves bytes unread. Claims are noted, and each connection ends in an [`Entry`] that says
//! what the real server would have done. Connections, memory and time are bounded, whoever connects.

mod actor;
mod door;
mod entry;
mod link;
mod listener;
mod listener_role;
mod record;
mod serve;

pub use entry::{Entry, Summary};
pub use listener_role::ListenerRole;
pub use record::Recorder;
pub use serve::{Bounds, Decoy};
