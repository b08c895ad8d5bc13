//! The one loop that joins the rooms: captures and logs in, a report out.

mod clocks;
mod curves;
mod gather;
mod inputs;
mod jobs;
mod kills;
mod learn;
mod lists;
mod logs;
mod network;
mod observe;
mod options;
mod progress;
mod prune;
mod quiet;
mod reading;
mod reporting;
mod run;
pub mod scan;
mod sets;
mod track;
mod walk;

pub use learn::{Knowledge, Known, learn};
pub use options::{Named, Options};
pub use run::{Analysis, analyze};
pub use walk::{Closed, Totals, Visit, walk};
