//! What the decoder reports.

use super::version::Versions;
use super::wire::SocketType;
use crate::net::Endpoint;
use crate::stream::{Chunk, Direction, PacketRef};
use crate::time::Timestamp;

/// Where in a capture something was complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Offset in its stream of the first byte of the message.
    pub offset: u64,
    /// The packet that carried its last byte.
    pub packet: PacketRef,
    /// When that was seen.
    pub time: Timestamp,
}

impl Place {
    pub(super) fn of(chunk: &Chunk<'_>, offset: u64) -> Self {
        Place { offset, packet: chunk.packet, time: chunk.time }
    }
}

/// A rank at the root (`extInfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckIn {
    /// Its rank.
    pub rank: i32,
    /// Size of its communicator.
    pub nranks: i32,
    /// Which root it talks to, and of how many (2.23 and later).
    pub roots: Option<(i32, i32)>,
    /// Offset of its rank in a grown communicator (2.29 and later).
    pub offset: Option<i32>,
    /// Where the root is to answer.
    pub reply: Option<Endpoint>,
    /// Its ring listener (2.23 and later with a NET plugin: opaque).
    pub ring: Option<Endpoint>,
    /// The releases that send this layout.
    pub versions: Versions,
}

/// What a rank tells all others in the first all-gather of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingSlot {
    /// Its peer listener.
    pub peer: Option<Endpoint>,
    /// Its proxy listener.
    pub proxy: Option<Endpoint>,
    /// Its RAS listener (2.24 and later).
    pub ras: Option<Endpoint>,
    /// Its process id (2.24 and later).
    pub pid: Option<i32>,
    /// Its CUDA device, and the same for NVML (2.24 and later).
    pub device: Option<(i32, i32)>,
}

/// What a peer message is for, by its tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    /// Transport set-up, an intra-node all-gather, a barrier or a broadcast of older releases.
    General,
    /// Transport connect (2.23 and later).
    Connect,
    /// All-gather (2.23 and later).
    AllGather,
    /// A communicator is being split.
    Split,
    /// Intra-node all-gather (2.23 and later).
    IntraNode,
    /// A communicator grows (2.29 and later).
    Grow,
}

impl Purpose {
    pub(super) fn of(tag: i32, wide: bool) -> Self {
        let t = tag as u32;
        match t {
            0xffff_fffe if !wide => Purpose::Split,
            _ if !wide => Purpose::General,
            _ if t & 1 << 31 != 0 => Purpose::Connect,
            _ if t & 1 << 30 != 0 => Purpose::AllGather,
            _ if t & 1 << 29 != 0 => Purpose::Split,
            _ if t & 1 << 28 != 0 => Purpose::IntraNode,
            _ if t & 1 << 27 != 0 => Purpose::Grow,
            _ => Purpose::General,
        }
    }

    /// In a word or two.
    pub fn text(self) -> &'static str {
        match self {
            Purpose::General => "message",
            Purpose::Connect => "connect",
            Purpose::AllGather => "all-gather",
            Purpose::Split => "split",
            Purpose::IntraNode => "intra-node all-gather",
            Purpose::Grow => "grow",
        }
    }
}

/// A message to a RAS listener, or back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RasMessage {
    /// Type: 1 CONNINIT, 2 CONNINITACK, 3 KEEPALIVE, 4 PEERSUPDATE, 5 COLLREQ, 6 COLLRESP.
    pub kind: i32,
    /// Its length without the length field, in bytes.
    pub length: i32,
    /// `NCCL_VERSION_CODE` of the sender (CONNINIT).
    pub version: Option<u32>,
    /// The sender's RAS listener (CONNINIT).
    pub address: Option<Endpoint>,
}

impl RasMessage {
    /// NCCL's name of its type.
    pub fn name(self) -> &'static str {
        match self.kind {
            1 => "CONNINIT",
            2 => "CONNINITACK",
            3 => "KEEPALIVE",
            4 => "PEERSUPDATE",
            5 => "COLLREQ",
            6 => "COLLRESP",
            _ => "?",
        }
    }
}

/// What is wrong about a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The handshake's type is none that NCCL has.
    UnknownType(u32),
    /// Data, NET/IB or RAS with another magic than the constant one (a site may set `NCCL_SOCKET_MAGIC`).
    OtherMagic(u64),
    /// A frame declares a size below zero, or above `MAX_FRAME`.
    FrameSize(i32),
    /// A frame of size 0 where none may be: the first of a bootstrap connection.
    EmptyFrame,
    /// The first frame has a size that no release sends.
    OddFrame(i32),
    /// A check-in's rank is not below nranks.
    Rank {
        /// The rank.
        rank: i32,
        /// The size.
        nranks: i32,
    },
    /// A check-in's number of ranks is below one.
    Nranks(i32),
    /// A check-in's root is not below the number of roots, or there are more roots than ranks.
    Roots {
        /// Which root.
        iroot: i32,
        /// Of how many.
        nroots: i32,
    },
    /// A check-in or reply without a usable socket address.
    Address,
    /// Bytes after the only frame.
    Trailing,
    /// A proxy message type outside 1 to 12.
    ProxyType(i32),
    /// A proxy request declares a negative length or one above 1 MiB.
    ProxySize(i32),
    /// A NET/Socket index above 64.
    NetIndex(u8),
    /// A RAS message's length or type is none that NCCL has.
    Ras {
        /// Its type.
        kind: i32,
        /// Its length.
        length: i32,
    },
}

/// What the decoder reports, in the order of the bytes that completed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The twelve bytes that begin a connection since 2.16.2.
    Handshake {
        /// As a number; `magic_text` prints it as it stands on the wire.
        magic: u64,
        /// The kind of listener wanted.
        kind: SocketType,
        /// Where.
        place: Place,
    },
    /// The size that begins a frame.
    Frame {
        /// Which stream.
        direction: Direction,
        /// Bytes that follow.
        size: i32,
        /// Where.
        place: Place,
    },
    /// A rank at the root.
    CheckIn(CheckIn, Place),
    /// The root's answer: the next rank's ring listener.
    Reply {
        /// The address; `None` with a NET plugin.
        next: Option<Endpoint>,
        /// Size of the frame's body.
        size: i32,
        /// Where.
        place: Place,
    },
    /// One address of the ring's first all-gathers (up to 2.22): first all peer listeners, then all proxies.
    RingAddress(Endpoint, Place),
    /// One slot of the ring's first all-gather (2.23 and later).
    RingSlot(RingSlot, Place),
    /// The beginning of a connection to a peer listener.
    Peer {
        /// Who connects.
        rank: i32,
        /// For what (2.9.6 and later).
        tag: Option<i32>,
        /// What that stands for.
        purpose: Purpose,
        /// Where.
        place: Place,
    },
    /// A request to the proxy service.
    ProxyRequest {
        /// Its type, 1 (Init) to 12.
        kind: i32,
        /// Transport of an Init: 0 P2P, 1 SHM, 2 NET, 3 CollNet, 4 profiler.
        transport: Option<i32>,
        /// Bytes of its payload, and bytes it asks for.
        sizes: (i32, i32),
        /// Where.
        place: Place,
    },
    /// An answer of the proxy service.
    ProxyReply {
        /// Result code (2.19 and later).
        result: Option<i32>,
        /// Bytes of its payload.
        size: i32,
        /// Where.
        place: Place,
    },
    /// Six bytes more of a reply to an Init (2.16, 2.17): the end of a file's name in `/dev/shm`.
    ProxySuffix(Place),
    /// The allocation service of 2.8–2.11: a size asked for and answered with a handle.
    Allocation {
        /// Bytes asked for.
        bytes: u64,
        /// Where.
        place: Place,
    },
    /// A NET/Socket connection says which of its kind it is.
    NetIndex(u8, Place),
    /// Data that is counted and not looked at; reported at the end of its stream.
    Bulk {
        /// Which stream.
        direction: Direction,
        /// Offset of the first byte.
        offset: u64,
        /// How many, gaps included.
        bytes: u64,
    },
    /// A message of the RAS network.
    Ras {
        /// Which stream.
        direction: Direction,
        /// The message.
        message: RasMessage,
        /// Where.
        place: Place,
    },
    /// A line of a RAS text client, or of the answer.
    RasText {
        /// Which stream.
        direction: Direction,
        /// The line without its end, bounded.
        line: Vec<u8>,
        /// Where.
        place: Place,
    },
    /// Something of the checklist.
    Malformed {
        /// Which stream.
        direction: Direction,
        /// What.
        fault: Fault,
        /// Where.
        place: Place,
    },
    /// What was seen allows only these releases.
    Versions {
        /// Which.
        versions: Versions,
        /// By what, in words.
        by: &'static str,
        /// Where.
        place: Place,
    },
    /// A message is whole: the bytes that it takes of its stream. What it says is reported apart, before or after; a
    /// piece of which nothing is said is part of none. No byte is in two of these.
    Message {
        /// Which stream.
        direction: Direction,
        /// Bytes from its offset on, gaps included.
        length: u64,
        /// Where.
        place: Place,
    },
    /// A stream ended inside a message.
    Unfinished {
        /// Which stream.
        direction: Direction,
        /// Inside what.
        part: &'static str,
        /// Offset of the message's first byte.
        offset: u64,
        /// Its length as far as it is known.
        declared: u64,
        /// How many bytes came.
        delivered: u64,
    },
    /// Captured bytes of a stream that no message accounts for.
    Undecoded {
        /// Which stream.
        direction: Direction,
        /// Offset of the first such byte.
        offset: u64,
        /// How many.
        length: u64,
    },
}
