//! The one loop that joins the rooms: captures and logs in, a report out.

mod clocks;
mod curves;
mod fold;
mod gather;
mod inputs;
mod intake;
mod jobs;
mod joined;
mod kept;
mod kills;
mod learn;
mod listed;
mod lists;
mod logs;
mod observe;
mod options;
mod progress;
mod protocols;
mod prune;
mod quiet;
mod reading;
mod reporting;
mod roll;
mod run;
pub mod scan;
mod sets;
mod stored;
mod survey;
mod track;
mod walk;
mod witness;

pub use intake::{Batch, Intake, read_late};
pub use kept::{pack_lines, unpack_lines};
pub use learn::{Knowledge, Known, learn};
pub use options::{Named, Options};
pub use run::{Analysis, analyze};
pub use stored::{
    Concluded, Stored, StoredCapture, StoredLog, StoredSet, analyze_stored, counters_of, damaged_batches, flow_row,
    late_of_kept, record_of_row,
};
pub use survey::{CONTINUES_NANOS, Survey, capture_stem, survey};
pub use walk::{Closed, Totals, Visit, walk};
