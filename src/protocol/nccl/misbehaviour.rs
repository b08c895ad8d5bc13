//! What a connection did that is none of NCCL's own.

use std::fmt;

use super::event::Fault;
use super::network::{Flow, NcclListener};
use super::role::Role;
use super::wire::{HANDSHAKE_BYTES, SocketType};
use crate::stream::{FlowRecord, PacketRef};
use crate::time::Timestamp;

/// A connection that says nothing for this many seconds holds the listener up.
const SILENT: f64 = 1.0;

/// What a connection did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Misbehaviour {
    /// Connected and closed.
    Nothing,
    /// Sent fewer bytes than a handshake's magic (up to 2.15: than a frame's size) and closed.
    Short(u64),
    /// Stayed, with so many bytes at most, for so many seconds.
    Silent(u64, f64),
    /// Sent bytes that are not the communicator's magic.
    WrongMagic,
    /// Sent eight bytes, or up to eleven, and closed: no type.
    NoType,
    /// The right magic and another type than the listener's.
    WrongType(SocketType),
    /// The handshake, no frame, and closed.
    HandshakeOnly,
    /// A message of the checklist.
    Malformed(Fault),
    /// Closed inside a message.
    Cut(Cut),
    /// A rank that disagrees with the first one on the number of ranks or roots.
    Disagrees {
        /// The first one's number of ranks.
        first: i32,
        /// This one's.
        this: i32,
    },
    /// A rank that had checked in already, from elsewhere.
    Duplicate(i32),
}

/// A message that the end of its stream cut: what it is, the bytes that it was to have, and those that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    part: &'static str,
    declared: u64,
    came: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { part, declared, came } = *self;
        // Of a frame its size is told as it was sent, without the four bytes that say it.
        match part {
            "frame" => write!(f, "a frame of {} bytes, of which {} came", declared - 4, came.saturating_sub(4)),
            part => write!(f, "a {part}: {came} of {declared} bytes"),
        }
    }
}

impl Misbehaviour {
    /// The rule that names it.
    pub fn rule(self) -> &'static str {
        match self {
            Misbehaviour::Nothing | Misbehaviour::Short(_) => "nccl-stray-closed",
            Misbehaviour::Silent(..) => "nccl-stray-silent",
            Misbehaviour::WrongMagic => "nccl-stray-wrong-magic",
            Misbehaviour::Disagrees { .. } | Misbehaviour::Duplicate(_) => "nccl-rank-mismatch",
            _ => "nccl-malformed-frame",
        }
    }

    /// Whether what counts is the moment at which the client closes.
    pub(super) fn counts_at_close(self) -> bool {
        matches!(
            self,
            Misbehaviour::Nothing
                | Misbehaviour::Short(_)
                | Misbehaviour::Silent(..)
                | Misbehaviour::NoType
                | Misbehaviour::HandshakeOnly
                | Misbehaviour::Cut(_)
        )
    }

    /// How many of the client's first bytes show it; `bytes`: how many there are.
    pub(super) fn shown_by(self, bytes: u64) -> u64 {
        match self {
            Misbehaviour::WrongMagic | Misbehaviour::NoType => 8,
            Misbehaviour::WrongType(_) | Misbehaviour::HandshakeOnly => HANDSHAKE_BYTES as u64,
            _ => bytes,
        }
        .min(bytes)
    }
}

impl fmt::Display for Misbehaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Misbehaviour::Nothing => f.write_str("connected and closed without a byte"),
            Misbehaviour::Short(n) => write!(f, "sent {n} bytes, too few for a handshake, and closed"),
            Misbehaviour::Silent(0, s) => write!(f, "connected and stayed silent for {s:.1} s"),
            Misbehaviour::Silent(n, s) => write!(f, "sent {n} bytes, too few for a handshake, and stayed for {s:.1} s"),
            Misbehaviour::WrongMagic => f.write_str("sent bytes that do not begin with the communicator's magic"),
            Misbehaviour::NoType => f.write_str("sent eight bytes as a magic, no type, and closed"),
            Misbehaviour::WrongType(SocketType::Other(n)) => {
                write!(f, "sent the magic with type {n}, which no listener has")
            }
            Misbehaviour::WrongType(t) => write!(f, "sent the magic with the type of another listener ({})", t.name()),
            Misbehaviour::HandshakeOnly => f.write_str("sent the handshake, no frame, and closed"),
            Misbehaviour::Malformed(fault) => write!(f, "sent a malformed message: {fault}"),
            Misbehaviour::Cut(cut) => write!(f, "closed inside {cut}"),
            Misbehaviour::Disagrees { first, this } => {
                write!(
                    f,
                    "checked in as one of {this} ranks where the first had said {first}: a launch that disagrees with itself"
                )
            }
            Misbehaviour::Duplicate(rank) => {
                write!(f, "checked in as rank {rank}, which had checked in already from elsewhere")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::UnknownType(n) => write!(f, "handshake type {n} is none of NCCL's"),
            Fault::OtherMagic(m) => write!(f, "magic {} instead of the constant one", super::magic_text(m)),
            Fault::FrameSize(n) => write!(f, "a frame size of {n} bytes"),
            Fault::EmptyFrame => f.write_str("an empty first frame"),
            Fault::OddFrame(n) => write!(f, "a first frame of {n} bytes, which no release sends here"),
            Fault::Rank { rank, nranks } => write!(f, "rank {rank} of {nranks}"),
            Fault::Nranks(n) => write!(f, "{n} ranks"),
            Fault::Roots { iroot, nroots } => write!(f, "root {iroot} of {nroots}"),
            Fault::Address => f.write_str("no usable socket address"),
            Fault::Trailing => f.write_str("bytes after the only frame"),
            Fault::ProxyType(n) => write!(f, "proxy message type {n}"),
            Fault::ProxySize(n) => write!(f, "a proxy payload of {n} bytes"),
            Fault::NetIndex(n) => write!(f, "NET/Socket index {n}"),
            Fault::Ras { kind, length } => write!(f, "RAS message of type {kind} and {length} bytes"),
        }
    }
}

/// How a connection stands to its listener.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Standing {
    /// NCCL's own.
    Own,
    /// Half-open: it never reached the process.
    HalfOpen,
    /// A SYN and a reset.
    Refused,
    /// Nothing can be said: no handshake of TCP seen, bytes missing, or it goes on.
    Unclear,
    /// The listener closed it first, before a first message was whole.
    CutOff(Option<Cut>),
    /// None of NCCL's own.
    Stray(Misbehaviour),
}

/// The first FIN or RST of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Close {
    pub(super) time: Timestamp,
    pub(super) packet: PacketRef,
    pub(super) by_listener: bool,
}

/// Who closed a connection first, if somebody did.
pub(super) fn first_close(record: &FlowRecord) -> Option<Close> {
    let packet = record.client_packet().unwrap_or(record.first_packet);
    let client = record.client_closed().map(|time| Close { time, packet, by_listener: false });
    let packet = record.server_close_packet();
    let listener = record.server_closed().map(|time| Close { time, packet, by_listener: true });
    [client, listener].into_iter().flatten().min_by_key(|c| (c.time, c.packet))
}

/// Judges a connection by itself.
pub(super) fn standing(listener: &NcclListener, flow: &Flow<'_>) -> Standing {
    let record = flow.record;
    if record.refused() {
        return Standing::Refused;
    }
    if !record.accepted() || record.syn.get().is_none() {
        return Standing::Unclear;
    }
    let n = record.bytes[0].min(flow.facts.map_or(u64::MAX, |f| f.bytes[0]));
    if n == 0 && record.bytes[0] > 0 {
        return Standing::Unclear;
    }
    if n == 0 && record.half_open() {
        return Standing::HalfOpen;
    }
    let close = first_close(record);
    let closed = close.is_some_and(|c| !c.by_listener);
    let stayed = close.map_or(flow.until, |c| c.time).seconds_since(record.first);
    let bare = listener.handshake == Some(false);
    let cut = flow.facts.and_then(|f| f.unfinished).map(|(part, declared, came)| Cut { part, declared, came });
    let least = if bare { 4 } else { 8 };
    if n < least {
        return match close {
            _ if stayed >= SILENT => Standing::Stray(Misbehaviour::Silent(n, stayed)),
            Some(c) if c.by_listener => Standing::CutOff(cut),
            Some(_) if n == 0 => Standing::Stray(Misbehaviour::Nothing),
            Some(_) => Standing::Stray(Misbehaviour::Short(n)),
            None => Standing::Unclear,
        };
    }
    let Some(f) = flow.facts else { return Standing::Unclear };
    if f.gaps > 0 {
        return Standing::Unclear;
    }
    let deed = if bare { bare_deed(listener, flow) } else { handshake_deed(listener, flow, n, closed) };
    match (deed.or(cut.filter(|_| closed).map(Misbehaviour::Cut)), cut) {
        (Some(deed), _) => Standing::Stray(deed),
        (None, Some(cut)) if close.is_some() => Standing::CutOff(Some(cut)),
        _ if matches!(listener.role, Some(Role::Root) | None) && f.check_in.is_none() => Standing::Unclear,
        _ => Standing::Own,
    }
}

fn handshake_deed(listener: &NcclListener, flow: &Flow<'_>, n: u64, closed: bool) -> Option<Misbehaviour> {
    let f = flow.facts?;
    if f.ras_server || f.text[0] > 0 && listener.role == Some(Role::Ras) {
        return None;
    }
    let head = f.head.get(..8)?;
    let sent = u64::from_le_bytes(head.try_into().ok()?);
    let kind = f.handshake.map(|(_, kind, _)| kind);
    let foreign = match listener.magic {
        Some(m) => m != sent,
        None => matches!(kind, Some(SocketType::Other(_))),
    };
    if foreign || n >= HANDSHAKE_BYTES as u64 && kind.is_none() {
        return Some(Misbehaviour::WrongMagic);
    }
    let Some(kind) = kind else { return closed.then_some(Misbehaviour::NoType) };
    if kind != listener.kind() {
        return Some(Misbehaviour::WrongType(kind));
    }
    if n == HANDSHAKE_BYTES as u64 {
        return closed.then_some(Misbehaviour::HandshakeOnly);
    }
    fault(listener, flow)
}

fn bare_deed(listener: &NcclListener, flow: &Flow<'_>) -> Option<Misbehaviour> {
    let f = flow.facts?;
    // Without a handshake the first four bytes are a size, whatever they were meant to be.
    let size = i32::from_le_bytes(f.head.get(..4)?.try_into().ok()?);
    // The decoder, knowing no better, took a large one for the first half of a magic.
    if f.first_frame.is_none() && f.proxy[0] == 0 {
        return Some(Misbehaviour::Malformed(Fault::FrameSize(size)));
    }
    fault(listener, flow)
}

fn fault(listener: &NcclListener, flow: &Flow<'_>) -> Option<Misbehaviour> {
    let f = flow.facts?;
    if let Some((_, fault, _)) = f.faults.iter().find(|(d, ..)| d.index() == 0) {
        return Some(Misbehaviour::Malformed(*fault));
    }
    let sizes: &[i32] = match listener.role {
        Some(Role::Root) | None => &[64, 136, 172, 176],
        Some(Role::Reply) => &[28, 64, 128],
        _ => return None,
    };
    let (size, _) = f.first_frame?;
    (!sizes.contains(&size)).then_some(Misbehaviour::Malformed(Fault::OddFrame(size)))
}
