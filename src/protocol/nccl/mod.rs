//! NCCL's out-of-band TCP protocol, 2.4 to 2.32: bootstrap root, reply, ring and peer listeners, proxy service,
//! NET/Socket, RAS.
//!
//! [`first_bytes()`] knows a connection on any port; [`Decoding`] reads one into [`Facts`]; [`study`] makes listeners
//! and communicators of all facts at once; [`Network::judge`] says what strays did to them. [`Server`] is the model
//! behind the verdicts.

mod communicator;
mod conduct;
mod connection;
mod event;
mod facts;
mod fate;
mod fields;
mod first_bytes;
mod frames;
mod judge;
mod layout;
mod misbehaviour;
mod network;
mod piece_buffer;
mod proxy;
mod ras;
mod retry_pattern;
mod role;
mod rules;
mod seam;
mod server;
mod unique_id;
mod verdict;
mod version;
mod wire;

pub use communicator::{Communicator, Rank};
pub use conduct::suspects;
pub use connection::{Framing, NcclConnection};
pub use event::{CheckIn, Event, Place, Purpose, RasMessage, RingSlot};
pub use facts::{Decoding, Facts};
pub use fields::{PAYLOAD, fields};
pub use first_bytes::{FirstBytes, first_bytes};
pub use judge::Conclusion;
pub use network::{Evidence, Flow, Knowledge, KnownId, LearnedFrom, NcclListener, Network, study};
pub use retry_pattern::{RetryPattern, ladder};
pub use role::Role;
pub use rules::RULES;
pub use seam::Nccl;
pub use server::{Action, Input, Server};
pub use unique_id::{UNIQUE_ID_BYTES, UniqueId, parse_unique_id, unique_id_of_hex};
pub use verdict::{Effect, verdict};
pub use version::{Version, Versions};
pub use wire::{COMM_ID_MAGIC, RAS_PORT, SOCKET_MAGIC, SocketType, magic_text};

#[cfg(test)]
mod capture_tests;
#[cfg(test)]
mod judge_tests;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod test_support;
