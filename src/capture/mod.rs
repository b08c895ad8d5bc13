//! Bytes on disk, in a pipe or on the wire → [`Packet`].
//!
//! [`Reader`] reads files and pipes: classic pcap and pcapng in all their variants, through one layer of compression.
//! [`Writer`] writes pcapng. [`sniff`] and [`sniff_path`] tell captures from what else lies in a directory.

mod block;
mod buffer;
mod error;
mod filter;
mod kind;
mod limits;
mod packet;
mod pcap;
mod pcapng;
mod reader;
mod record;
mod resolution;
mod source;
mod stored;
mod summary;
mod write;

#[cfg(test)]
mod tests;

pub use error::CaptureError;
pub use filter::PacketFilter;
pub use kind::{Kind, SNIFF_LENGTH, sniff, sniff_path};
pub use limits::Limits;
pub use packet::{LinkType, Packet};
pub use reader::Reader;
pub use source::{unpacked, unpacked_from};
pub use summary::Summary;
pub use write::Writer;
