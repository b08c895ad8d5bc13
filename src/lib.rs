//! rdzvscope: packet-capture forensics for training clusters.
//!
//! Data flows down this list of rooms and imports point up it; `docs/ARCHITECTURE.md` follows one
//! packet through them.

pub mod escape;
pub(crate) mod names;
pub(crate) mod net;
pub(crate) mod size;
pub(crate) mod syscalls;
#[cfg(test)]
mod test_bytes;
pub(crate) mod time;
pub(crate) mod vocabulary;

pub(crate) mod capture;
pub(crate) mod disk;
pub(crate) mod frame;
pub(crate) mod stream;

pub(crate) mod protocol;

pub(crate) mod oom;

pub(crate) mod clock;
pub(crate) mod curve;
pub(crate) mod hosts;

pub(crate) mod finding;

pub(crate) mod incident;

pub(crate) mod report;

pub(crate) mod analysis;

pub(crate) mod evidence;

pub(crate) mod case;

pub(crate) mod alert;

pub(crate) mod flows;

pub(crate) mod prescan;

pub(crate) mod decoy;
pub(crate) mod policy;
pub(crate) mod watch;

#[cfg(feature = "live")]
pub(crate) mod live;

pub mod cli;

/// What the fuzz targets, the benches, the examples and the tests need besides the command line, room by room. It is no
/// interface that others can build on: names in it change with the code.
pub mod api {
    /// See `src/analysis`.
    pub mod analysis {
        pub use crate::analysis::{Options, analyze, analyze_stored};
    }
    /// See `src/capture`.
    pub mod capture {
        pub use crate::capture::{Limits, LinkType, Packet, Reader};
    }
    /// See `src/case`.
    pub mod case {
        pub use crate::case::{Case, Limits, Mode};
    }
    /// See `src/decoy`.
    pub mod decoy {
        pub use crate::decoy::{Bounds, Decoy, Entry, ListenerRole, Summary};
    }
    /// See `src/evidence`.
    pub mod evidence {
        pub use crate::evidence::{LineReader, Segments, gather};
    }
    /// See `src/frame`.
    pub mod frame {
        pub use crate::frame::{Checksum, Decoder, Flags, Frame, Limits, Segment, glance, verify_checksum};
    }
    /// See `src/net.rs`.
    pub mod net {
        pub use crate::net::{Address, Endpoint};
    }
    /// See `src/oom`.
    pub mod oom {
        pub use crate::oom::{Merged, Options, Scanner, looks_like_a_log, merge, parse_instant, read_facts};
    }
    /// See `src/policy`.
    pub mod policy {
        pub use crate::policy::Product;
    }
    /// See `src/prescan`.
    pub mod prescan {
        pub use crate::prescan::{
            Act, Case, Fleet, Grade, Host, Matrix, Plan, ProbeFile, Profile, advise, nccl, pytorch,
        };
    }
    /// See `src/protocol`.
    pub mod protocol {
        pub use crate::protocol::gloo;
        /// See `src/protocol/nccl`.
        pub mod nccl {
            pub use crate::protocol::nccl::{
                Decoding, Event, Flow, Framing, Knowledge, KnownId, NcclConnection, UniqueId, Versions, first_bytes,
                study,
            };
        }
        /// See `src/protocol/stray`.
        pub mod stray {
            pub use crate::protocol::stray::identify;
        }
        /// See `src/protocol/tcpstore`.
        pub mod tcpstore {
            pub use crate::protocol::tcpstore::{
                Connection, DecodeOptions, Dialect, Direction, Event, Operation, Release, first_bytes, release, server,
            };
        }
    }
    /// See `src/report`.
    pub mod report {
        pub use crate::report::{csv, escape, html, json, markdown, model, size, table};
    }
    /// See `src/stream`.
    pub mod stream {
        pub use crate::stream::{
            Assembler, AssemblerLimits, Chunk, Direction, Event, FlowTable, PacketRef, Piece, PortSet,
        };
    }
    /// See `src/time.rs`.
    pub mod time {
        pub use crate::time::Timestamp;
    }
    /// See `src/watch`.
    pub mod watch {
        pub use crate::watch::{Watcher, Wish};
    }
}
