//! A directory that a capturing program rotates through, read pass by pass into a case.

mod captures;
mod error;
mod follow;
mod head;
mod kernel;
mod lock;
mod logs;
mod machine;
mod shipping;
mod stall;
mod taken;
mod tell;
mod writers;

pub use crate::alert::Alerts;
pub use error::WatchError;
pub use follow::{Pass, Watcher, Wish, withheld_counts};
pub use lock::Lock;
pub use taken::{Central, Taken, evidence_of};
pub use tell::{conclude, told};
