//! What a connection did that is none of NCCL's own.

use std::fmt;

use super::event::Fault;
use super::network::{Flow, NcclListener};
use super::role::Role;
use super::wire::{HANDSHAKE_BYTES, SocketType};
use crate::stream::FlowRecord;
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
    /// Closed inside a frame: so many bytes of it, and how many came.
    CutFrame(u64, u64),
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
                | Misbehaviour::CutFrame(..)
        )
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
            Misbehaviour::WrongType(t) => write!(f, "sent the magic with the type of another listener ({})", t.name()),
            Misbehaviour::HandshakeOnly => f.write_str("sent the handshake, no frame, and closed"),
            Misbehaviour::Malformed(fault) => write!(f, "sent a malformed message: {fault}"),
            Misbehaviour::CutFrame(declared, came) => write!(f, "closed inside a frame: {came} of {declared} bytes"),
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
    /// None of NCCL's own.
    Stray(Misbehaviour),
}

/// The end of a connection as far as its client is concerned.
pub(super) fn closed(record: &FlowRecord) -> Option<Timestamp> {
    record.client_closed()
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
    let end = closed(record);
    let n = record.bytes[0].min(flow.facts.map_or(u64::MAX, |f| f.bytes[0]));
    if n == 0 && record.bytes[0] > 0 {
        return Standing::Unclear;
    }
    if n == 0 && record.packets[0] <= 2 && record.rst[0].get().is_some() && record.fin[0].get().is_none() {
        return Standing::HalfOpen;
    }
    let stayed = end.unwrap_or(flow.until).seconds_since(record.first);
    let bare = listener.handshake == Some(false);
    let least = if bare { 4 } else { 8 };
    let at_listener = end.is_some() || record.server_closed().is_some();
    if n < least {
        return match (stayed >= SILENT, at_listener) {
            (true, _) => Standing::Stray(Misbehaviour::Silent(n, stayed)),
            (false, true) if n == 0 => Standing::Stray(Misbehaviour::Nothing),
            (false, true) => Standing::Stray(Misbehaviour::Short(n)),
            _ => Standing::Unclear,
        };
    }
    let Some(f) = flow.facts else { return Standing::Unclear };
    if f.gaps > 0 {
        return Standing::Unclear;
    }
    let deed = if bare { bare_deed(listener, flow) } else { handshake_deed(listener, flow, n) };
    let cut = f.unfinished.filter(|_| at_listener).map(|(_, declared, came)| Misbehaviour::CutFrame(declared, came));
    match deed.or(cut) {
        Some(deed) => Standing::Stray(deed),
        None if matches!(listener.role, Some(Role::Root) | None) && f.check_in.is_none() => Standing::Unclear,
        None => Standing::Own,
    }
}

fn handshake_deed(listener: &NcclListener, flow: &Flow<'_>, n: u64) -> Option<Misbehaviour> {
    let f = flow.facts?;
    let closed = closed(flow.record).is_some();
    if f.ras_server || f.text[0] > 0 && listener.role == Some(Role::Ras) {
        return None;
    }
    let head = f.head.get(..8)?;
    let sent = u64::from_le_bytes(head.try_into().ok()?);
    if listener.magic.is_some_and(|m| m != sent) || (n >= HANDSHAKE_BYTES as u64 && f.magic().is_none()) {
        return Some(Misbehaviour::WrongMagic);
    }
    let Some((_, kind, _)) = f.handshake else { return closed.then_some(Misbehaviour::NoType) };
    let wanted = match listener.role {
        Some(Role::Proxy) => SocketType::Proxy,
        Some(Role::Net) => {
            if kind == SocketType::NetIb {
                kind
            } else {
                SocketType::NetSocket
            }
        }
        Some(Role::Ras) => SocketType::RasNetwork,
        _ => SocketType::Bootstrap,
    };
    if kind != wanted {
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
