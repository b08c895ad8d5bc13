//! The one loop that joins the rooms: captures and logs in, a report out.

pub mod scan;
mod track;
