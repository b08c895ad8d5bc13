//! What was found, for people and for scripts: the JSON document and the terminal report.

pub mod escape;
pub mod json;
pub mod model;
pub mod size;
pub mod table;
