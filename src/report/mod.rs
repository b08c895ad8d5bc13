//! What was found, for people, for scripts and for other tools: JSON, terminal, ticket, page, sheet, carved packets.

pub mod carve;
mod carve_flows;
mod carve_veiled;
pub mod csv;
pub mod escape;
mod firewall;
pub mod html;
pub mod json;
pub mod markdown;
mod markdown_text;
pub mod model;
mod redact;
mod roll;
pub mod size;
pub mod table;
mod veil;
mod view;

pub use redact::redacted;
pub use veil::Veil;
