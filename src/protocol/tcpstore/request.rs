//! What a client sends: the layout of each query, and the finished message.

use super::dialect::Operation;
use super::field::Field;
use crate::stream::PacketRef;
use crate::time::Timestamp;

/// The magic number that a client of PyTorch 2.2 and later sends behind VALIDATE: `CE F7 85 3C` on the wire.
pub const VALIDATE_MAGIC: u32 = 0x3C85_F7CE;

/// One complete request of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its number on this connection, from 0: what an [`Answer`](super::Answer) refers to.
    pub id: u64,
    /// What it asks for.
    pub query: Operation,
    /// The byte that says so in this dialect.
    pub opcode: u8,
    /// Offset of its first byte in the client's stream.
    pub offset: u64,
    /// Its length on the wire in bytes, the opcode included.
    pub length: u64,
    /// The packet that carried its first byte.
    pub first: PacketRef,
    /// The packet that carried its last byte.
    pub last: PacketRef,
    /// When its first byte was seen.
    pub first_time: Timestamp,
    /// When its last byte was seen.
    pub time: Timestamp,
    /// How many keys it names: 0, 1, or the declared count of CHECK, WAIT, MULTI_GET and MULTI_SET.
    pub key_count: u64,
    /// The first keys (at most `keep_elements`), each bounded.
    pub keys: Vec<Field>,
    /// The values: one for SET, APPEND and QUEUE_PUSH; expected and desired for COMPARE_SET; one a key for
    /// MULTI_SET (at most `keep_elements`). Each bounded.
    pub values: Vec<Field>,
    /// ADD: the delta. BARRIER: the world size. PING: the nonce, which is the client's process id.
    /// VALIDATE: the magic number.
    pub number: Option<i64>,
}

impl Message {
    /// The first key.
    pub fn key(&self) -> Option<&Field> {
        self.keys.first()
    }

    /// The value that is to be stored: the last one (of COMPARE_SET the desired one).
    pub fn value(&self) -> Option<&Field> {
        self.values.last()
    }
}

/// FieldPart of a request or an answer, as the wire has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FieldPart {
    /// How many keys (or key–value pairs, or listed keys) follow: u64.
    KeyCount,
    /// The length of a key: u64.
    KeyLength,
    /// The bytes of a key.
    Key,
    /// The length of a value: u64.
    ValueLength,
    /// The bytes of a value.
    Value,
    /// A 64-bit number: ADD's delta, BARRIER's world size, a counter.
    Number,
    /// VALIDATE's magic number: u32.
    Magic,
    /// PING's nonce: u32.
    Nonce,
    /// A single byte: an answer's code.
    Code,
}

impl FieldPart {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            FieldPart::KeyCount => "key count",
            FieldPart::KeyLength => "key length",
            FieldPart::Key => "key",
            FieldPart::ValueLength => "value length",
            FieldPart::Value => "value",
            FieldPart::Number => "number",
            FieldPart::Magic => "magic",
            FieldPart::Nonce => "nonce",
            FieldPart::Code => "code",
        }
    }
}

/// What follows the opcode: whether a count comes first, and the parts that then follow (once, or count times).
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Whether a u64 count comes first and the steps repeat so often.
    pub(super) counted: bool,
    /// [`FieldPart::Key`], [`FieldPart::Value`] (each a length and bytes), [`FieldPart::Number`], [`FieldPart::Magic`], [`FieldPart::Nonce`].
    pub(super) steps: &'static [FieldPart],
}

/// The layout of `query` behind its opcode; the same in every dialect that has it.
pub(super) fn layout(query: Operation) -> Layout {
    use Operation::*;
    let (counted, steps): (bool, &'static [FieldPart]) = match query {
        Validate => (false, &[FieldPart::Magic]),
        Ping => (false, &[FieldPart::Nonce]),
        Set | Append | QueuePush => (false, &[FieldPart::Key, FieldPart::Value]),
        CompareSet => (false, &[FieldPart::Key, FieldPart::Value, FieldPart::Value]),
        Get | DeleteKey | WatchKey | QueuePop | QueueLen => (false, &[FieldPart::Key]),
        Add | Barrier => (false, &[FieldPart::Key, FieldPart::Number]),
        Check | Wait | MultiGet => (true, &[FieldPart::Key]),
        MultiSet => (true, &[FieldPart::Key, FieldPart::Value]),
        GetNumKeys | CancelWait | ListKeys => (false, &[]),
    };
    Layout { counted, steps }
}
