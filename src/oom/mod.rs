//! Log text → OOM events.
//!
//! A [`Scanner`] takes one log line by line and yields [`OomSighting`]s; [`merge()`] makes one [`OomEvent`] of all the
//! sightings of one kill, in however many logs. Nothing here opens a file or reads a clock.
//!
//! A line passes these stages: `prefilter` (may it speak of an OOM at all?), `envelope` (whose line is it?), `format`
//! (its time, its host, its message), `kernel` or one of the user-space wordings (what does it say?), `assembly` (the
//! lines of one kill belong together).

mod assembly;
mod envelope;
mod event;
mod facts;
mod format;
mod host;
mod instant;
mod kernel;
mod merge;
mod options;
mod prefilter;
mod scanner;
mod stamp;
mod summary;
mod text;
mod time_range;
mod workload;
mod zone;

pub(crate) use envelope::nodeset::{expand as expand_nodeset, is_host};
pub use event::{EventTime, OomEvent, OomKind, OomSighting};
pub(crate) use facts::is_collected;
pub use facts::read_facts;
pub(crate) use format::document::objects as json_objects;
pub use host::same_host;
pub(crate) use instant::instant_or_local;
pub use instant::parse_instant;
pub use merge::{Merged, merge};
pub use options::Options;
pub(crate) use prefilter::may_matter;
pub use scanner::{MAX_LINE, Scanner, looks_like_a_log};
pub use summary::LogSummary;
pub use workload::WorkloadKind;
pub use zone::Zone;

#[cfg(test)]
mod intake_tests;
#[cfg(test)]
mod tests;
