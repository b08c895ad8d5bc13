//! Log text → OOM events.
//!
//! A [`Scanner`] takes one log line by line and yields [`OomSighting`]s; [`merge()`] makes one [`OomEvent`] of all the
//! sightings of one kill, in however many logs. Nothing here opens a file or reads a clock.
//!
//! A line passes these stages: `decode` (what are its letters?), `prefilter` (may it speak of an OOM at all?), `envelope`
//! (whose block is it in?), `object` (JSON), `sheet` (tables and records), `prefix` (its time, its host, its writer),
//! `teller` (what does it say?), `assembly` (the lines of one kill belong together).

mod assembly;
mod dating;
mod decode;
mod envelope;
mod event;
mod facts;
mod feed;
mod format;
mod host;
mod instant;
mod merge;
mod months;
mod object;
mod options;
mod prefilter;
mod prefix;
mod reason;
mod scanner;
mod sheet;
mod stamp;
mod summary;
mod teller;
mod text;
mod time_range;
mod workload;
mod zone;

pub(crate) use envelope::nodeset::{expand as expand_nodeset, is_host};
pub use event::{EventTime, OomEvent, OomKind, OomSighting, TimeSource, ToldBy};
pub(crate) use facts::is_collected;
pub use facts::read_facts;
pub use host::same_host;
pub(crate) use instant::instant_or_local;
pub use instant::parse_instant;
pub use merge::{Merged, merge};
pub use object::LogFields;
pub(crate) use object::document::objects as json_objects;
pub use options::Options;
pub(crate) use prefilter::may_matter;
pub use scanner::{MAX_LINE, Scanner, looks_like_a_log};
pub use summary::{ConnectionError, LogSummary};
pub use workload::WorkloadKind;
pub use zone::Zone;

#[cfg(test)]
mod intake_tests;
#[cfg(test)]
mod tests;
