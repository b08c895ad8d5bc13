//! Where something was said.

use crate::stream::PacketRef;
use crate::time::Timestamp;

/// Where something was said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Said {
    /// When.
    pub time: Timestamp,
    /// In which packet.
    pub packet: PacketRef,
}
