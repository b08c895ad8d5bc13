//! What was found, for people, for scripts and for other tools: JSON, terminal, ticket, page, sheet, carved packets.

pub mod carve;
mod carve_flows;
mod carve_redacted;
mod columns;
pub mod csv;
pub use crate::escape;
mod firewall;
pub mod html;
pub mod json;
pub mod kills;
mod liveness_lines;
pub mod markdown;
mod markdown_text;
pub mod model;
mod pseudonym;
mod redact;
pub mod rows;
pub mod size;
pub mod table;
mod view;

pub use columns::{Align, Columns};
pub use pseudonym::Pseudonyms;
pub use redact::redacted;
