//! Evidence: what was observed, as JSON lines that can be shipped and joined.
//!
//! A *pile* is a set of facts, each under a key that it keeps for ever: origin (the case that observed it), kind, number.
//! Two piles are joined key by key, the larger value winning; so the order in which evidence comes does not matter, nor
//! whether it comes twice. `docs/evidence.md` describes the lines; [`LineReader`] reads them from files and from what `pdsh`
//! prints, [`write_lines`] writes them.

mod facts;
mod gather;
mod join;
mod line;
mod prefix;
mod read;
mod segment;
mod signed;
mod weight;

pub use facts::{Entry, FactSet, FlowFact, Kind, LEAN, contradiction, hosts_key, key_of, set_of};
pub(crate) use gather::COUNTERS;
pub use gather::{gather, settle};
pub use join::{join_files, read_file};
pub(crate) use line::pieces;
pub use line::write_lines;
pub(crate) use read::rank_of_set;
pub use read::{EvidenceError, LineReader};
pub use segment::{Segments, list_segments};
pub use signed::{AllowedSigners, host_names};
pub use weight::Oversize;
