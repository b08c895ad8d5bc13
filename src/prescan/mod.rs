//! What a scan would do to each kind of listener, before it is run: the server models asked about payloads.
//!
//! [`Fleet`] says which servers there are, [`ProbeFile`] and [`Profile`] (nmap), [`payload`] (bytes of one's own) or
//! [`Behaviour`] (everything else) say what is tried; [`Board`] holds one [`Row`] for each of them and each server;
//! [`advise`] looks for the smallest change after which nothing is hurt.

mod advice;
mod behaviour;
mod board;
mod fleet;
mod host;
pub mod payload;
mod plan;
mod ports;
mod probes;
mod profile;
mod remedy;
mod row;
mod services;
mod show;
mod span;

pub use advice::{Advice, Step, advise};
pub use behaviour::{Behaviour, preset, presets};
pub use board::{Act, Board, Case, MAGIC};
pub use fleet::{EPHEMERAL, Fleet, FleetError, Kind, Place, Target, nccl, pytorch, release_of_nccl};
pub use host::Host;
pub use plan::Plan;
pub use ports::Ports;
pub use probes::{Probe, ProbeError, ProbeFile};
pub use profile::{Chosen, Profile, ProfileError, Scan};
pub use remedy::{Remedy, remedies};
pub use row::{Grade, Row};
pub use services::most_common;
pub use show::{Page, markdown, table};
