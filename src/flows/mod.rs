//! Flows and messages for reading rather than judging: what `streams` and `messages` show.

mod columns;
mod document;
mod files;
mod follow;
mod selection;
mod speech;
mod summary;

pub use columns::{Align, Columns};
pub use document::{FileDocument, FlowDocument, StreamDocument};
pub use files::{Files, FilesError};
pub use follow::{Follow, Form};
pub use selection::Selection;
pub use speech::Speech;
pub use summary::{FlowSummary, StreamSummary, Streams};
