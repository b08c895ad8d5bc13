//! Alerts: where they go, which are withheld and why, and what is counted of them.

mod deliver;
mod fields;
mod journal;
mod metrics;
mod notices;
mod suppress;
mod syslog;
mod window;

pub use deliver::{Alerts, Receiver};
pub use journal::JOURNAL_SOCKET;
pub use metrics::{Gauges, render, write_metrics};
pub(crate) use notices::{FLOOD, notice_rule};
pub use suppress::SuppressFile;
pub use syslog::SYSLOG_SOCKET;
