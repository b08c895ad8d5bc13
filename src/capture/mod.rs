//! Bytes on disk, in a pipe or on the wire → [`Packet`].

mod packet;

pub use packet::{LinkType, Packet};
