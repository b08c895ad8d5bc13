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

pub use follow::{Pass, Watcher, Wish, withheld_counts};
pub use ingest::{Central, evidence_of};
pub use lock::Lock;
pub use news::{conclude, fetch_wanted, told};
