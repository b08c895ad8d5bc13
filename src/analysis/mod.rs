//! The one loop that joins the rooms: captures and logs in, a report out.

mod acknowledged;
mod clocks;
mod codec;
mod curves;
mod dedup;
mod flow_decoder;
mod from_store;
mod host_lists;
mod inputs;
mod intake;
mod job_rows;
mod jobs;
mod kills;
mod learn;
mod listener_rows;
mod liveness;
mod logs;
mod merge_hosts;
mod observe;
mod options;
mod progress;
mod protocols;
mod prune;
mod reading;
#[cfg(feature = "live")]
mod recent;
mod replay;
mod reporting;
mod retention;
mod run;
pub mod scan;
mod scans;
mod sets;
mod store_talk;
mod survey;
mod weight;

pub use codec::{decoded_listeners, pack_lines, pack_ordinary, unpack_lines, unpack_ordinary};
#[cfg(feature = "live")]
pub use from_store::Concluded;
pub use from_store::{
    OriginSettings, Stored, StoredCapture, StoredLog, StoredSet, analyze_stored, counters_of, damaged_batches,
    flow_row, late_of_kept, record_of_row,
};
pub use intake::{Batch, GrowingSet, read_late};
pub use learn::{Knowledge, learn};
pub use options::{Named, Options, STANDARD_INPUT};
#[cfg(feature = "live")]
pub use recent::RecentFlows;
pub use replay::{Closed, FlowVisitor, Totals, walk};
pub use run::{Analysis, analyze};
pub use survey::{CONTINUES_NANOS, Survey, capture_stem, read_as, survey};
pub use weight::{weigh_lines, weigh_segments};
