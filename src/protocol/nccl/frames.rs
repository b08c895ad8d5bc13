//! Frames of the bootstrap: an i32 size, then as many bytes. The first ones say what kind of connection it is.

use super::event::{Event, Fault, Place, Purpose};
use super::layout::{check_in, check_in_faults, ring_slot, slot_versions};
use super::piece_buffer::Need;
use super::version::Versions;
use super::wire::{MAX_FRAME, address_at, i32_at};
use crate::net::Endpoint;
use crate::stream::Direction;

/// What the frames so far make of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// No frame yet.
    New,
    /// A check-in was read: nothing may follow.
    CheckedIn,
    /// One address came: the root's reply if nothing follows, else the first of a ring.
    Address { size: i32, address: Option<Endpoint>, place: Place },
    /// A 128-byte reply came: nothing may follow.
    Replied,
    /// Addresses of a ring's first all-gathers, all of this size.
    RingAddresses(i32),
    /// Slots of a ring's first all-gather, all of this size.
    Slots(i32),
    /// A peer said its rank; a tag may follow.
    PeerRank { rank: i32, place: Place },
    /// And then four bytes: a tag if a third frame follows, else data of 2.8 or older.
    PeerTag { rank: i32, tag: i32, place: Place },
    /// Frames that are counted.
    Other,
}

/// The decoder of the frames of one stream.
#[derive(Debug)]
pub(super) struct Frames {
    direction: Direction,
    handshake: bool,
    kind: Kind,
    /// The header of the frame whose body comes next.
    body: Option<(i32, u64)>,
    stopped: bool,
}

impl Frames {
    pub(super) fn new(direction: Direction, handshake: bool) -> Self {
        let kind = if direction == Direction::ToServer { Kind::New } else { Kind::Other };
        Frames { direction, handshake, kind, body: None, stopped: false }
    }

    pub(super) fn need(&self) -> Need {
        match self.body {
            _ if self.stopped => Need::Lost,
            None => Need::Bytes(4),
            Some((size, _)) => match (self.wanted(size), u64::try_from(size)) {
                (true, Ok(n)) => Need::Bytes(n as usize),
                (false, Ok(n)) => Need::Skip(n),
                _ => Need::Lost,
            },
        }
    }

    /// Whether the body is looked at; none of these sizes is above [`super::piece_buffer::PieceBuffer::HELD`].
    fn wanted(&self, size: i32) -> bool {
        match self.kind {
            Kind::New => matches!(size, 4 | 8 | 28 | 64 | 104 | 120 | 128 | 136 | 172 | 176),
            Kind::RingAddresses(n) | Kind::Slots(n) => size == n,
            Kind::PeerRank { .. } => size == 4,
            Kind::Other => self.direction == Direction::ToClient && matches!(size, 104 | 120),
            _ => false,
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8], place: Place, out: &mut dyn FnMut(Event)) {
        match self.body.take() {
            None => self.header(i32_at(bytes, 0).unwrap_or(0), place, out),
            Some((size, offset)) => self.finish(size, bytes, Place { offset, ..place }, out),
        }
    }

    pub(super) fn header(&mut self, size: i32, place: Place, out: &mut dyn FnMut(Event)) {
        let direction = self.direction;
        if matches!(self.kind, Kind::CheckedIn | Kind::Replied) {
            self.fault(Fault::Trailing, place, out);
            self.stopped = true;
            return;
        }
        self.settle(true, out);
        out(Event::Frame { direction, size, place });
        if !(0..=MAX_FRAME).contains(&size) {
            self.fault(Fault::FrameSize(size), place, out);
            self.stopped = true;
            return;
        }
        if size == 0 {
            if self.kind == Kind::New {
                self.fault(Fault::EmptyFrame, place, out);
                self.kind = Kind::Other;
            }
            return;
        }
        if let Kind::RingAddresses(28) = self.kind
            && size != 28
        {
            if self.handshake {
                let versions = if size == 8 { Versions::new(22000, 22299) } else { Versions::new(21602, 21999) };
                out(Event::Versions { versions, by: "the all-gathers of the ring", place });
            }
            self.kind = Kind::Other;
        }
        self.body = Some((size, place.offset));
    }

    /// What an open question turns out to be: more frames follow, or none.
    fn settle(&mut self, more: bool, out: &mut dyn FnMut(Event)) {
        match self.kind {
            Kind::Address { size, address, place } => {
                let (old, new) = match (self.handshake, size) {
                    (true, _) => (Versions::new(21602, 22299), "28-byte addresses after a handshake"),
                    (false, 28) => (Versions::new(20800, 21599), "28-byte addresses without a handshake"),
                    (false, _) => (Versions::new(20402, 20799), "64-byte handles without a handshake"),
                };
                out(Event::Versions { versions: old, by: new, place });
                if more {
                    self.kind = Kind::RingAddresses(size);
                    if let Some(a) = address {
                        out(Event::RingAddress(a, place));
                    }
                } else {
                    self.kind = Kind::Replied;
                    out(Event::Reply { next: address, size, place });
                }
            }
            Kind::PeerRank { rank, place } if !more => {
                out(Event::Peer { rank, tag: None, purpose: Purpose::General, place });
                self.kind = Kind::Other;
            }
            Kind::PeerTag { rank, tag, place } => {
                let tag = (more || self.handshake).then_some(tag);
                let purpose = tag.map_or(Purpose::General, |t| Purpose::of(t, false));
                let (versions, by) = match (self.handshake, tag.is_some()) {
                    (true, _) => (Versions::new(21602, 22299), "a peer's rank and tag in two frames"),
                    (false, true) => (Versions::new(20906, 21599), "a peer's rank and tag without a handshake"),
                    (false, false) => (Versions::new(20402, 20899), "a peer's rank without a tag"),
                };
                out(Event::Versions { versions, by, place });
                out(Event::Peer { rank, tag, purpose, place });
                self.kind = Kind::Other;
            }
            _ => {}
        }
    }

    fn finish(&mut self, size: i32, body: &[u8], place: Place, out: &mut dyn FnMut(Event)) {
        match self.kind {
            Kind::New => self.first(size, body, place, out),
            Kind::RingAddresses(n) if n == size => match address_at(body, 0) {
                Some(a) => out(Event::RingAddress(a, place)),
                None => self.kind = Kind::Other,
            },
            Kind::Slots(n) if n == size => match ring_slot(body) {
                Some(slot) => out(Event::RingSlot(slot, place)),
                None => self.kind = Kind::Other,
            },
            Kind::Other if self.direction == Direction::ToClient => {
                if let Some(slot) = ring_slot(body) {
                    out(Event::RingSlot(slot, place));
                }
            }
            Kind::PeerRank { rank, place: first } => {
                self.kind = match i32_at(body, 0).filter(|_| size == 4) {
                    Some(tag) => Kind::PeerTag { rank, tag, place: first },
                    None => {
                        out(Event::Peer { rank, tag: None, purpose: Purpose::General, place: first });
                        Kind::Other
                    }
                };
            }
            _ => {}
        }
    }

    fn first(&mut self, size: i32, body: &[u8], place: Place, out: &mut dyn FnMut(Event)) {
        let starts_with_address = address_at(body, 0).is_some();
        match size {
            28 => self.kind = Kind::Address { size, address: address_at(body, 0), place },
            64 if starts_with_address && !self.handshake => {
                self.kind = Kind::Address { size, address: address_at(body, 0), place };
            }
            64 | 104 | 120 if starts_with_address => {
                self.kind = Kind::Slots(size);
                out(Event::Versions { versions: slot_versions(body.len()), by: "the size of the ring's slots", place });
                if let Some(slot) = ring_slot(body) {
                    out(Event::RingSlot(slot, place));
                }
            }
            64 | 136 | 172 | 176 => match check_in(body, self.handshake) {
                Some(c) => {
                    out(Event::Versions { versions: c.versions, by: "the size of the check-in", place });
                    out(Event::CheckIn(c, place));
                    check_in_faults(&c, |fault| self.fault(fault, place, out));
                    self.kind = Kind::CheckedIn;
                }
                None => self.kind = Kind::Other,
            },
            128 if self.handshake => {
                out(Event::Versions { versions: Versions::new(22300, 23299), by: "a 128-byte reply", place });
                out(Event::Reply { next: address_at(body, 0), size, place });
                self.kind = Kind::Replied;
            }
            4 => self.kind = Kind::PeerRank { rank: i32_at(body, 0).unwrap_or(-1), place },
            8 if self.handshake => {
                let (rank, tag) = (i32_at(body, 0).unwrap_or(-1), i32_at(body, 4).unwrap_or(0));
                let versions = Versions::new(22300, 23299);
                out(Event::Versions { versions, by: "a peer's rank and tag in one frame", place });
                out(Event::Peer { rank, tag: Some(tag), purpose: Purpose::of(tag, true), place });
                self.kind = Kind::Other;
            }
            _ => self.kind = Kind::Other,
        }
    }

    fn fault(&self, fault: Fault, place: Place, out: &mut dyn FnMut(Event)) {
        out(Event::Malformed { direction: self.direction, fault, place });
    }

    /// The stream is over.
    pub(super) fn end(&mut self, out: &mut dyn FnMut(Event)) {
        if self.body.is_none() {
            self.settle(false, out);
        }
    }

    pub(super) fn message(&self) -> Option<(&'static str, u64, u64)> {
        self.body.map(|(size, offset)| ("frame", offset, 4 + u64::try_from(size).unwrap_or(0)))
    }
}
