//! What a server does, as values.

use super::super::Operation;

/// A connection, by a number of the caller's choice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// How a connection ends on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// RST: bytes were left unread in the server's receive buffer.
    Reset,
    /// FIN: everything had been read.
    Fin,
}

/// A field of a request that declares a size, or has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Field {
    QueryType,
    Key,
    Value,
    Count,
    Number,
}

impl Field {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Field::QueryType => "query type",
            Field::Key => "key length",
            Field::Value => "value length",
            Field::Count => "key count",
            Field::Number => "number",
        }
    }
}

/// What a request declared in one field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// What was asked for.
    pub operation: Operation,
    /// The field that declared it.
    pub field: Field,
    /// The number on the wire: bytes, or entries for [`Field::Count`].
    pub declared: u64,
}

/// Memory that the poll server asks for on the word of a client, and writes before it reads the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// What was declared.
    pub claim: Claim,
    /// Bytes asked for in one piece.
    pub bytes: u64,
    /// Whether every page is written at once: always, for a `std::vector` of zeros.
    pub resident: bool,
    /// Whether it is open what the kernel says: the size is one that hosts differ about, and the host is not known.
    /// When it says no, the server closes this one connection.
    pub refusable: bool,
}

/// Why a server closes a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Reason {
    /// The byte is no query type of this server.
    UnknownQuery(u8),
    /// The first byte is not VALIDATE (poll, 2.2 and later).
    NotValidate(u8),
    /// VALIDATE with another number.
    WrongMagic(u32),
    /// libuv: VALIDATE was incomplete or wrong in the first segment; the next one is read from its start again.
    ValidateAgain,
    /// `std::length_error`: more than any container may hold.
    LengthError,
    /// `std::bad_alloc`: no address space, or the kernel refused.
    BadAlloc,
    /// libuv: a key over 8192 bytes.
    KeyTooLong,
    /// libuv: a value over 8 MiB.
    ValueTooLong,
    /// libuv: more than 131072 keys.
    TooManyKeys,
    /// poll: `std::out_of_range`, the key is not there.
    MissingKey,
    /// `std::stoll` found no number in the value.
    NotANumber,
    /// 2.2.0 libuv: its count of available bytes forgets what was parsed.
    SplitRequest,
    /// 1.9 to 2.0: a key's watcher left, and sending to it fails.
    WatcherGone,
    /// What was buffered before validation starts with no query type (libuv).
    NotValidated(u8),
    /// The peer closed its end.
    PeerClosed,
}

/// One thing the server does, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Bytes go out.
    Reply {
        /// To whom.
        connection: ConnectionId,
        /// What is sent.
        bytes: Vec<u8>,
        /// How many further bytes are sent that the model does not hold.
        omitted: u64,
    },
    /// A connection ends. The daemon goes on.
    Close {
        /// Which.
        connection: ConnectionId,
        /// What the peer sees.
        how: How,
        /// Why.
        reason: Reason,
        /// The claim in hand, when one was the cause or was being honoured.
        claim: Option<Claim>,
    },
    /// Memory of at least [`super::NOTEWORTHY_BYTES`] is asked for and granted, before the data has arrived.
    Allocate {
        /// On whose word.
        connection: ConnectionId,
        /// What and how much.
        allocation: Allocation,
    },
    /// The one thread waits for this connection: nobody else is served.
    Blocks {
        /// The one it waits for.
        connection: ConnectionId,
        /// Bytes still missing of the field in hand; more fields may follow.
        missing: u64,
    },
    /// Others are served again.
    Unblocks {
        /// The one that held the thread.
        connection: ConnectionId,
    },
    /// The answer comes later, when keys are set (WAIT) or others arrive (BARRIER).
    Waits {
        /// Who waits.
        connection: ConnectionId,
        /// For how many keys.
        keys: u64,
    },
    /// libuv: the first segment did not validate; nothing is answered and the connection stays open.
    Ignores {
        /// Which.
        connection: ConnectionId,
    },
    /// The model says no more about this connection.
    Unknown {
        /// Which.
        connection: ConnectionId,
    },
}

/// Where actions go while a segment is handled. Reply bytes beyond a budget are counted, not held.
pub(super) struct Sink {
    pub(super) actions: Vec<Action>,
    room: usize,
}

impl Sink {
    pub(super) fn new(room: usize) -> Self {
        Sink { actions: Vec::new(), room }
    }

    /// Whether reply bytes are still being held.
    pub(super) fn holds(&self) -> bool {
        self.room > 0
    }

    /// How many more reply bytes are held.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// No further reply bytes are held: what follows is only counted, however short.
    pub(super) fn exhaust(&mut self) {
        self.room = 0;
    }

    pub(super) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Sends `bytes` and `omitted` more that nobody holds.
    pub(super) fn reply(&mut self, connection: ConnectionId, mut bytes: Vec<u8>, omitted: u64) {
        let over = bytes.len().saturating_sub(self.room);
        bytes.truncate(self.room);
        self.room = self.room.saturating_sub(bytes.len());
        let omitted = omitted.saturating_add(over as u64);
        if bytes.is_empty() && omitted == 0 {
            return;
        }
        match self.actions.last_mut() {
            // Runs of answers to one peer are one action: a segment of one-byte requests must not cost an action each.
            Some(Action::Reply { connection: c, bytes: b, omitted: o })
                if *c == connection && (*o == 0 || bytes.is_empty()) =>
            {
                b.append(&mut bytes);
                *o = o.saturating_add(omitted);
            }
            _ => self.actions.push(Action::Reply { connection, bytes, omitted }),
        }
    }
}
