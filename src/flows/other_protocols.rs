//! What the speakers of other protocols than the store's tell of a connection.

use super::fields::MarkedField;
use crate::stream::{Direction, PacketRef};
use crate::time::Timestamp;

/// A message, or data that is one opaque record.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OtherProtocols {
    pub(super) direction: Direction,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) time: Timestamp,
    pub(super) packet: PacketRef,
    pub(super) query: &'static str,
    /// What it says, in words; safe to show once escaped.
    pub(super) detail: String,
    pub(super) number: Option<i64>,
    /// Bytes of data that it carries.
    pub(super) bytes: Option<u64>,
    pub(super) unfinished: Option<(&'static str, u64, u64)>,
    /// Its fields, where they are asked for.
    pub(super) fields: Vec<MarkedField>,
}

/// The kind of a record that stands for data which is not looked at.
pub(super) const BULK: &str = "bulk";
