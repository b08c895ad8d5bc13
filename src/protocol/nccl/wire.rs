//! Numbers and fields of the wire: magics, socket types, socket addresses. Integers are little-endian.

use crate::net::{Address, Endpoint};

/// Magic of NET/Socket, NET/IB and RAS connections: a constant, unlike a communicator's (`NCCL_SOCKET_MAGIC`).
pub const SOCKET_MAGIC: u64 = 0x564a_b9f2_fc4b_9d6c;
/// Magic of a communicator whose root `NCCL_COMM_ID` names, since 2.22 (`NCCL_MAGIC`).
pub const COMM_ID_MAGIC: u64 = 0x0280_0280_0280_0280;
/// Where RAS answers text clients (`NCCL_RAS_ADDR` changes it).
pub const RAS_PORT: u16 = 28028;
/// What the lines of a RAS text client begin with, in any case.
const RAS_COMMANDS: [&[u8]; 6] =
    [b"CLIENT PROTOCOL ", b"TIMEOUT ", b"STATUS\n", b"VERBOSE STATUS\n", b"SET FORMAT ", b"MONITOR"];

/// Whether the first bytes of a connection are those of a RAS text client; `None` while more bytes may make them so.
pub(super) fn begins_as_ras_client(bytes: &[u8]) -> Option<bool> {
    // Lines end in LF or CRLF.
    let line: Vec<u8> = bytes.iter().filter(|b| **b != b'\r').map(u8::to_ascii_uppercase).take(16).collect();
    let fits = |c: &&[u8]| line.iter().zip(c.iter()).all(|(a, b)| a == b);
    let mut fitting = RAS_COMMANDS.iter().filter(|c| fits(c)).peekable();
    match fitting.peek() {
        None => Some(false),
        Some(_) => fitting.any(|c| line.len() >= c.len()).then_some(true),
    }
}

/// Length of a socket address union, in bytes.
pub(super) const ADDRESS_BYTES: usize = 28;
/// Length of the handshake: u64 magic, u32 type.
pub const HANDSHAKE_BYTES: usize = 12;
/// The largest frame that is taken for real; the largest seen is 3.6 MB of topology.
pub const MAX_FRAME: i32 = 16 << 20;

/// The type of the handshake: which kind of listener the connector wants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SocketType {
    /// 0: nobody sends it.
    Unknown,
    /// 1: root, reply, ring or peer.
    Bootstrap,
    /// 2: proxy service.
    Proxy,
    /// 3: NET/Socket data.
    NetSocket,
    /// 4: NET/IB out-of-band.
    NetIb,
    /// 5: RAS network (2.24 and later).
    RasNetwork,
    /// 6: NetworkDirect of Windows (2.32).
    NetNd,
    /// No type of NCCL.
    Other(u32),
}

impl SocketType {
    /// From the number on the wire.
    pub fn from_wire(n: u32) -> Self {
        match n {
            0 => SocketType::Unknown,
            1 => SocketType::Bootstrap,
            2 => SocketType::Proxy,
            3 => SocketType::NetSocket,
            4 => SocketType::NetIb,
            5 => SocketType::RasNetwork,
            6 => SocketType::NetNd,
            n => SocketType::Other(n),
        }
    }

    /// NCCL's name, `?` for what it does not know.
    pub fn name(self) -> &'static str {
        match self {
            SocketType::Unknown => "Unknown",
            SocketType::Bootstrap => "Bootstrap",
            SocketType::Proxy => "Proxy",
            SocketType::NetSocket => "NetSocket",
            SocketType::NetIb => "NetIb",
            SocketType::RasNetwork => "RasNetwork",
            SocketType::NetNd => "NetNd",
            SocketType::Other(_) => "?",
        }
    }

    /// Whether its connections carry [`SOCKET_MAGIC`].
    pub fn has_constant_magic(self) -> bool {
        matches!(self, SocketType::NetSocket | SocketType::NetIb | SocketType::RasNetwork | SocketType::NetNd)
    }
}

/// A magic number as its eight bytes stand on the wire, in hex.
pub fn magic_text(magic: u64) -> String {
    magic.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.get(..4)?.try_into().ok()?))
}

pub(super) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    u32_at(bytes, at).map(|n| n as i32)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.get(..8)?.try_into().ok()?))
}

/// A socket address at `at`: family u16 little-endian (2 or 10), port u16 big-endian and not 0, address big-endian
/// and not unspecified. What stands in unused bytes is not looked at: releases before 2.26 left residue there.
pub(super) fn address_at(bytes: &[u8], at: usize) -> Option<Endpoint> {
    let a = bytes.get(at..)?.get(..ADDRESS_BYTES)?;
    let port = u16::from_be_bytes(a.get(2..4)?.try_into().ok()?);
    let (address, none) = match a.get(..2)? {
        [2, 0] => {
            let raw: [u8; 4] = a.get(4..8)?.try_into().ok()?;
            (Address::v4(raw), raw == [0; 4] || (224..240).contains(&raw[0]))
        }
        [10, 0] => {
            let raw: [u8; 16] = a.get(8..24)?.try_into().ok()?;
            (Address::v6(raw), raw == [0; 16] || raw[0] == 0xff)
        }
        _ => return None,
    };
    (port != 0 && !none).then(|| Endpoint::new(address, port))
}

/// Whether the unused bytes of the socket address at `at` are zero.
pub(super) fn address_is_clean(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..).and_then(|b| b.get(..ADDRESS_BYTES)).is_some_and(|a| match a {
        [2, 0, ..] => a.iter().skip(8).all(|b| *b == 0),
        _ => true,
    })
}
