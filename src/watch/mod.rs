//! A directory that a capturing program rotates through, read pass by pass into a case.

mod captures;
mod content_head;
mod error;
mod follow;
mod ingest;
mod kernel;
mod lock;
mod logs;
mod machine;
mod news;
mod shipping;
mod stall;
mod writers;

#[cfg(feature = "live")]
pub use follow::withheld_counts;
pub use follow::{Pass, Watcher, Wish};
pub use ingest::{Central, evidence_of};
pub use lock::Lock;
#[cfg(feature = "live")]
pub use news::{conclude, fetch_wanted, told};
