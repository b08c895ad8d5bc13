//! What a server sends: which answer each query gets, and the finished answer.

use super::dialect::Operation;
use super::field::Field;
use crate::stream::PacketRef;
use crate::time::Timestamp;

/// What an answer says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AnswerKind {
    /// GET, COMPARE_SET: one value, in `fields`. A libuv server answers GET of a missing key with zero length.
    Value,
    /// MULTI_GET: as many values as keys were asked for.
    Values,
    /// ADD, GETNUMKEYS, DELETE_KEY, QUEUE_LEN: a number.
    Number,
    /// CHECK: 0, every key is there.
    Ready,
    /// CHECK: 1, a key is missing.
    NotReady,
    /// WAIT, BARRIER: 0, go on.
    StopWaiting,
    /// CANCEL_WAIT: 1; and, without bytes of its own, the WAIT or BARRIER that it cancelled.
    WaitCanceled,
    /// PING: the nonce came back.
    Pong,
    /// PING: something else came back; it is in `number`.
    WrongNonce,
    /// QUEUE_POP: the length before the pop in `number`, and the element, when there was one, in `fields`.
    Element,
    /// LIST_KEYS: the number of keys in `number`, the keys in `fields`.
    List,
    /// WATCH_KEY: 3, the callback is registered.
    Registered,
}

impl AnswerKind {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            AnswerKind::Value => "value",
            AnswerKind::Values => "values",
            AnswerKind::Number => "number",
            AnswerKind::Ready => "ready",
            AnswerKind::NotReady => "not ready",
            AnswerKind::StopWaiting => "stop waiting",
            AnswerKind::WaitCanceled => "wait canceled",
            AnswerKind::Pong => "pong",
            AnswerKind::WrongNonce => "wrong nonce",
            AnswerKind::Element => "element",
            AnswerKind::List => "list",
            AnswerKind::Registered => "registered",
        }
    }
}

/// One complete answer of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The [`Message::id`](super::Message::id) it answers.
    pub request: u64,
    /// The query it answers.
    pub query: Operation,
    /// What it says.
    pub kind: AnswerKind,
    /// The number it carries, where it carries one.
    pub number: Option<i64>,
    /// How many fields it carries on the wire; `fields` may hold fewer.
    pub field_count: u64,
    /// Values, or the keys of LIST_KEYS: the first `keep_elements`, each bounded.
    pub fields: Vec<Field>,
    /// The sum of the lengths of all fields, in bytes.
    pub value_bytes: u64,
    /// Offset of its first byte in the server's stream.
    pub offset: u64,
    /// Its length on the wire in bytes; 0 for a WAIT that CANCEL_WAIT ended.
    pub length: u64,
    /// The packet that carried its first byte.
    pub first: PacketRef,
    /// The packet that carried its last byte.
    pub last: PacketRef,
    /// When its first byte was seen.
    pub first_time: Timestamp,
    /// When its last byte was seen.
    pub time: Timestamp,
    /// It answers a WAIT that the client had given up (PyTorch up to 2.0 tells the server nothing): the client
    /// takes it for the beginning of another answer.
    pub stale: bool,
}

/// The shape of an answer on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// Nothing is sent.
    None,
    /// One byte.
    Code,
    /// u32.
    Word,
    /// i64.
    Number,
    /// u64 length and bytes, so many times.
    Fields(u64),
    /// i64, and when it is positive one length and bytes.
    NumberThenField,
    /// i64 count, and so many lengths and bytes.
    List,
}

/// What the server sends for `query`; `keys` is the number of keys asked for.
pub(super) fn shape(query: Operation, keys: u64) -> Shape {
    use Operation::*;
    match query {
        Validate | Set | Append | MultiSet | QueuePush => Shape::None,
        Check | Wait | Barrier | CancelWait | WatchKey => Shape::Code,
        Ping => Shape::Word,
        Add | GetNumKeys | DeleteKey | QueueLen => Shape::Number,
        Get | CompareSet => Shape::Fields(1),
        MultiGet if keys == 0 => Shape::None,
        MultiGet => Shape::Fields(keys),
        QueuePop => Shape::NumberThenField,
        ListKeys => Shape::List,
    }
}

/// Whether the server may answer `query` after later ones: it waits for others to act.
pub(super) fn is_deferred(query: Operation) -> bool {
    matches!(query, Operation::Wait | Operation::Barrier)
}
