//! Callbacks of watched keys: frames that a server of PyTorch 1.9–2.0 sends unasked on a client's second connection.

use super::field::Field;
use crate::stream::PacketRef;
use crate::time::Timestamp;

/// What happened to a watched key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// 0: it got another value.
    Updated,
    /// 1: it is new; the old value is empty.
    Created,
    /// 2: it is gone; the new value is empty.
    Deleted,
}

impl Change {
    /// From the first byte of a frame. 3 is no change: it answers WATCH_KEY.
    pub(super) fn from_byte(byte: u8) -> Option<Change> {
        match byte {
            0 => Some(Change::Updated),
            1 => Some(Change::Created),
            2 => Some(Change::Deleted),
            _ => None,
        }
    }

    /// PyTorch's own spelling.
    pub fn name(self) -> &'static str {
        match self {
            Change::Updated => "KEY_UPDATED",
            Change::Created => "KEY_CREATED",
            Change::Deleted => "KEY_DELETED",
        }
    }
}

/// The byte that answers WATCH_KEY: KEY_CALLBACK_REGISTERED.
pub(super) const REGISTERED: u8 = 3;

/// One complete callback frame: a type byte, then key, old value and new value, each a u64 length and bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Callback {
    /// What happened.
    pub change: Change,
    /// The key, as on the wire.
    pub key: Field,
    /// The value before.
    pub old: Field,
    /// The value now.
    pub new: Field,
    /// Offset of its first byte in the server's stream.
    pub offset: u64,
    /// Its length on the wire in bytes.
    pub length: u64,
    /// The packet that carried its last byte.
    pub packet: PacketRef,
    /// When its last byte was seen.
    pub time: Timestamp,
}
