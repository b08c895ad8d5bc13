//! What a scan would do to each kind of listener, before it is run: the server models asked about payloads.
//!
//! [`Fleet`] says which servers there are, [`ProbeFile`] and [`Profile`] (nmap), [`payload`] (bytes of one's own) or
//! [`Behaviour`] (everything else) say what is tried; [`Matrix`] holds one [`Row`] for each of them and each server;
//! [`advise`] looks for the smallest change after which nothing is hurt.

mod advice;
mod behaviour;
pub mod doors;
mod fleet;
mod host;
mod matrix;
pub mod payload;
mod plan;
mod ports;
mod probes;
mod profile;
mod remedy;
mod render;
mod row;
mod server_label;
mod services;

pub use advice::{Advice, Step, advise};
pub use behaviour::{Behaviour, preset, presets};
pub use fleet::{EPHEMERAL, Fleet, Kind, Place, Target, nccl, pytorch};
pub use host::Host;
pub use matrix::{Act, Case, MAGIC, Matrix};
pub use plan::Plan;
pub use ports::Ports;
pub use probes::ProbeFile;
pub use profile::Profile;
pub use render::{Page, markdown, table};
pub use row::{Grade, Row};
