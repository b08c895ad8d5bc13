//! The one loop that joins the rooms: captures and logs in, a report out.

mod gather;
mod inputs;
mod jobs;
mod logs;
mod observe;
mod options;
mod quiet;
mod reporting;
mod run;
pub mod scan;
mod sets;
mod track;

pub use options::{Named, Options};
pub use run::{Analysis, analyze};
