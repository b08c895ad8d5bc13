//! What the decoder reports.

use super::answer::Answer;
use super::dialect::Operation;
use super::request::{FieldPart, Message};
use super::watch::Callback;
use crate::stream::PacketRef;
use crate::time::Timestamp;

/// Lengths above this many bytes are reported as [`Event::Declared`] or [`Event::AnswerLength`].
pub const DECLARED_MIN_BYTES: u64 = 64 * 1024;

/// Counts above this many keys are reported as [`Event::Declared`].
pub const DECLARED_MIN_KEYS: u64 = 1024;

/// One of the two streams of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// Client to server: requests.
    Client,
    /// Server to client: answers.
    Server,
}

/// Where in a capture something was complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Offset in its stream of the byte (the first byte of the field) that is spoken of.
    pub offset: u64,
    /// The packet that carried the (last) byte.
    pub packet: PacketRef,
    /// When it was seen.
    pub time: Timestamp,
}

/// A length or a count of a request that is larger than [`DECLARED_MIN_BYTES`] or [`DECLARED_MIN_KEYS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Declared {
    /// The [`Message::id`] that the message will have when it is complete.
    pub request: u64,
    /// The query.
    pub query: Operation,
    /// Its byte in this dialect.
    pub opcode: u8,
    /// Which field: [`FieldPart::KeyLength`], [`FieldPart::ValueLength`] or [`FieldPart::KeyCount`].
    pub field: FieldPart,
    /// What it declares: bytes, or keys.
    pub value: u64,
    /// Which element of a counted query it belongs to, from 0; of COMPARE_SET, 0 for the expected value and 1 for the desired one.
    pub element: u64,
    /// Offset of the message's opcode in the client's stream.
    pub message_offset: u64,
    /// Where the length field begins, and the packet that completed it.
    pub place: Place,
}

/// A stream that ended within a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfinished {
    /// Which stream.
    pub direction: Direction,
    /// The message's id (of an answer, of the request it answers); `None` for a callback.
    pub request: Option<u64>,
    /// The query; `None` for a callback.
    pub query: Option<Operation>,
    /// The field that is incomplete.
    pub field: FieldPart,
    /// Its size in bytes: as declared before it for keys and values, else the width of the integer.
    pub declared: u64,
    /// How many of them came.
    pub delivered: u64,
    /// Offset of the message's first byte in its stream.
    pub message_offset: u64,
    /// How many bytes of the message came.
    pub message_delivered: u64,
}

/// What is wrong about VALIDATE, on a dialect that asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValidateFault {
    /// The connection begins with another byte.
    Missing {
        /// That byte.
        first: u8,
    },
    /// The magic number is another one.
    WrongMagic {
        /// As read, little-endian.
        got: u32,
    },
    /// It came a second time.
    Repeated,
}

/// What the decoder reports, in the order of the bytes that completed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A complete request.
    Request(Message),
    /// A complete answer.
    Answer(Answer),
    /// A complete callback of a watched key.
    Callback(Callback),
    /// A large length or count in a request, as soon as its field is complete.
    Declared(Declared),
    /// A stream ended inside a message.
    Unfinished(Unfinished),
    /// A byte that is no query type of this dialect; the client's stream is not read on.
    Unknown {
        /// The byte.
        opcode: u8,
        /// Where.
        place: Place,
    },
    /// VALIDATE is missing, wrong or repeated; the client's stream is not read on.
    Validate {
        /// What is wrong.
        fault: ValidateFault,
        /// The byte, or the first byte of the magic number.
        place: Place,
    },
    /// The server declares a length above [`DECLARED_MIN_BYTES`], or says a number that reads as text: what a
    /// client of the store makes of another protocol's greeting.
    AnswerLength {
        /// The request it answers.
        request: u64,
        /// Its query.
        query: Operation,
        /// The length or number.
        value: u64,
        /// Its eight bytes, when all of them are printable ASCII or line ends.
        text: Option<[u8; 8]>,
        /// Where.
        place: Place,
    },
    /// Bytes from the server that no request asked for, or a code that the query cannot be answered with.
    Unexpected {
        /// The request that they were taken to answer.
        request: Option<(u64, Operation)>,
        /// The first such byte.
        byte: u8,
        /// Where.
        place: Place,
    },
    /// A request that had no complete answer when its connection ended.
    Unanswered {
        /// Its id.
        request: u64,
        /// Its query.
        query: Operation,
        /// When its last byte was seen.
        time: Timestamp,
    },
    /// The client's stream is read again, from `offset` on, after a gap or a beginning in the middle.
    Resynchronized {
        /// Offset of the first message that is recognized.
        offset: u64,
        /// How many captured bytes before it were passed over.
        skipped: u64,
    },
    /// Captured bytes of a stream that no message accounts for. What precedes the first recognized message of a
    /// stream that was joined in the middle is not reported so.
    Undecoded {
        /// Which stream.
        direction: Direction,
        /// Offset of the first such byte.
        offset: u64,
        /// How many.
        length: u64,
    },
}
