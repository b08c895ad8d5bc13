//! rdzvscope: packet-capture forensics for training clusters.
//!
//! Data flows down this list of rooms and imports point up it; `docs/ARCHITECTURE.md` follows one
//! packet through them.

pub mod names;
pub mod net;
pub mod size;
pub mod time;
pub mod vocabulary;

pub mod capture;
pub mod frame;
pub mod stream;

pub mod protocol;

pub mod oom;

pub mod clock;
pub mod curve;
pub mod hosts;

pub mod finding;

pub mod incident;

pub mod report;

pub mod analysis;

pub mod evidence;

pub mod case;

pub mod alert;

pub mod flows;

pub mod prescan;

pub mod decoy;
pub mod policy;
pub mod watch;

#[cfg(feature = "live")]
pub mod live;

pub mod cli;
