//! The case file: what was observed, kept between runs (SQLite).
//!
//! It holds facts, not conclusions: flow records, segments of the flows that matter, log lines, hosts lists. A report is
//! computed from them every time, so a later version of the program, or more knowledge, tells more of an old case. The
//! conclusions it remembers are which findings and incidents were told, so that nothing is told twice, and on which
//! nights a source was seen before.
//!
//! Every step is one transaction: segments, records, how far each capture was read, what was learnt. A process killed
//! at any moment loses nothing that was committed, and reads on from there.

mod check;
mod counter;
mod error;
mod file;
mod flood;
mod history;
mod load;
mod outbox;
mod retention;
mod row;
mod schema;
mod ship;
mod write;

#[cfg(test)]
mod tests;

pub use check::is_network_filesystem;
pub use counter::{Counter, Labels};
pub use error::CaseError;
pub use file::{Case, Mode};
pub use outbox::{Alert, Delivered, Withheld};
pub use retention::Limits;
pub use row::{CaptureRow, CaptureState, LogRow};
pub(crate) use write::{new_set, save_batch, save_capture, save_late, save_log};
