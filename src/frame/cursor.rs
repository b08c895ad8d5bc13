//! The bytes of a packet from one layer on, and where reading goes next.

use super::counters::{NonTcp, Other, Skip};
use crate::net::Address;

/// What stands at some place of a packet: the captured bytes, and how many there were on the wire.
///
/// Invariant: `bytes.len() <= wire`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) wire: usize,
}

impl<'a> Span<'a> {
    /// Captured bytes of something that was `wire` bytes long (at least what was captured).
    pub(super) fn new(bytes: &'a [u8], wire: usize) -> Self {
        Span { bytes, wire: wire.max(bytes.len()) }
    }

    /// Splits off a header of fixed size.
    pub(super) fn header<const N: usize>(self, part: NonTcp) -> Result<(&'a [u8; N], Span<'a>), End> {
        match self.bytes.split_first_chunk() {
            Some((head, rest)) => Ok((head, Span { bytes: rest, wire: self.wire.saturating_sub(N) })),
            None => Err(End::Skip(Skip::Truncated(part))),
        }
    }

    /// A header as etherparse slices it; what it refuses is `part` cut short.
    pub(super) fn read<T, E>(self, part: NonTcp, from: fn(&'a [u8]) -> Result<T, E>) -> Result<T, End> {
        from(self.bytes).map_err(|_| End::Skip(Skip::Truncated(part)))
    }

    /// Leaves out the first `n` bytes.
    pub(super) fn skip(self, n: usize, part: NonTcp) -> Result<Span<'a>, End> {
        match self.bytes.split_at_checked(n) {
            Some((_, rest)) => Ok(Span { bytes: rest, wire: self.wire.saturating_sub(n) }),
            None => Err(End::Skip(Skip::Truncated(part))),
        }
    }

    /// Cuts it to `n` bytes on the wire, as a length field says: what follows is padding or a trailer.
    pub(super) fn limit(self, n: usize) -> Span<'a> {
        Span { bytes: self.bytes.get(..n).unwrap_or(self.bytes), wire: self.wire.min(n) }
    }

    pub(super) fn be16(self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    /// The high half of a byte: the version, where an IP header stands.
    pub(super) fn nibble(self) -> Option<u8> {
        self.bytes.first().map(|b| b >> 4)
    }
}

/// What an IP header says of the transport inside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ip {
    pub(super) source: Address,
    pub(super) target: Address,
    pub(super) id: u32,
    /// 4 or 6.
    pub(super) version: u8,
}

/// An encapsulation about to be entered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tunnel {
    pub(super) kind: &'static str,
    pub(super) id: Option<u32>,
}

/// The layer that a [`Span`] starts with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layer {
    /// Destination, source, type.
    Ethernet,
    /// The payload of this EtherType.
    EtherType(u16),
    /// IEEE 802.2.
    Llc,
    /// A label stack.
    Mpls,
    /// PPP, with or without address and control bytes.
    Ppp,
    /// IPv4 or IPv6, by its version nibble.
    Ip,
    /// An IP protocol.
    Protocol(Ip, u8),
    /// A layer inside a tunnel between the addresses of this IP header.
    Inside(Ip, Tunnel, Inner),
}

/// What a tunnel carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inner {
    Ethernet,
    EtherType(u16),
    Ppp,
    Ip,
}

impl Inner {
    pub(super) fn layer(self) -> Layer {
        match self {
            Inner::Ethernet => Layer::Ethernet,
            Inner::EtherType(n) => Layer::EtherType(n),
            Inner::Ppp => Layer::Ppp,
            Inner::Ip => Layer::Ip,
        }
    }
}

/// Where reading ended without a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Other(Other),
    Skip(Skip),
}

/// One step down.
pub(super) type Step<'a> = Result<(Layer, Span<'a>), End>;
