//! What the decoder makes of one connection, condensed.

use super::event::{CheckIn, Event, Fault, Place, Purpose, RingSlot};
use super::version::Versions;
use super::wire::{HANDSHAKE_BYTES, SOCKET_MAGIC, SocketType, begins_as_ras_client};
use super::{Framing, NcclConnection};
use crate::net::Endpoint;
use crate::stream::{Chunk, Direction};

/// First bytes of the client that are kept: enough to name what a stranger sent.
const HEAD: usize = 192;
/// Ring slots and addresses, versions and faults that are kept of a connection; all are counted.
const SLOTS: usize = 1024;
const FEW: usize = 8;

/// What speaks for a range of releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionEvidence {
    /// The releases that it allows.
    pub versions: Versions,
    /// What it is, in words.
    pub by: &'static str,
    /// Where.
    pub place: Place,
}

/// How a connection to a peer listener begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Who connects.
    pub rank: i32,
    /// For what.
    pub tag: Option<i32>,
    /// What that stands for.
    pub purpose: Purpose,
    /// Where.
    pub place: Place,
}

/// A reading of one connection. Bounded, whatever the connection's length.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Magic and type.
    pub handshake: Option<(u64, SocketType, Place)>,
    /// Size of the client's first frame.
    pub first_frame: Option<(i32, Place)>,
    /// Frames each way.
    pub frames: [u64; 2],
    /// A check-in.
    pub check_in: Option<(CheckIn, Place)>,
    /// The root's reply: the address in it, if it has one.
    pub reply: Option<(Option<Endpoint>, Place)>,
    /// Addresses of the ring's first all-gathers (up to 2.22), in order.
    pub ring_addresses: Vec<Endpoint>,
    /// Slots of the ring's first all-gather (2.23 and later), both ways.
    pub slots: Vec<RingSlot>,
    /// How many addresses and slots there were.
    pub ring_count: u64,
    /// Where the first of them was.
    pub ring_at: Option<Place>,
    /// How a peer connection begins.
    pub peer: Option<Peer>,
    /// Proxy requests and replies.
    pub proxy: [u64; 2],
    /// Types of the proxy requests, one bit each.
    pub proxy_kinds: u32,
    /// The allocation service's size (2.8–2.11).
    pub allocation: Option<u64>,
    /// The index of a NET/Socket connection.
    pub net_index: Option<u8>,
    /// Bytes of data that are only counted, each way.
    pub bulk: [u64; 2],
    /// RAS messages, each way.
    pub ras: [u64; 2],
    /// RAS listeners that the messages name.
    pub ras_addresses: Vec<Endpoint>,
    /// Lines of a RAS text client and of its answer.
    pub text: [u64; 2],
    /// Commands that RAS has for text clients.
    pub ras_commands: u64,
    /// Whether the listener answered as a RAS text server does.
    pub ras_server: bool,
    /// Faults; the first few.
    pub faults: Vec<(Direction, Fault, Place)>,
    /// How many there were.
    pub fault_count: u64,
    /// What narrows the release; the first few of different reasons.
    pub versions: Vec<VersionEvidence>,
    /// The client's stream ended inside a message: what, declared, delivered bytes.
    pub unfinished: Option<(&'static str, u64, u64)>,
    /// Captured bytes that no message accounts for, each way.
    pub undecoded: [u64; 2],
    /// Bytes that came, each way.
    pub bytes: [u64; 2],
    /// The client's first bytes.
    pub head: Vec<u8>,
    /// Where each of the pieces begins that `head` came in.
    pub pieces: Vec<Place>,
    /// Places of the client's first and last bytes.
    pub client: Option<(Place, Place)>,
    /// Bytes are missing.
    pub gaps: u64,
}

impl Facts {
    fn note(&mut self, event: Event) {
        match event {
            Event::Handshake { magic, kind, place } => self.handshake = Some((magic, kind, place)),
            Event::Frame { direction, size, place } => {
                self.frames[direction.index()] += 1;
                if direction == Direction::ToServer && self.first_frame.is_none() {
                    self.first_frame = Some((size, place));
                }
            }
            Event::CheckIn(c, place) => self.check_in = Some((c, place)),
            Event::Reply { next, place, .. } => self.reply = Some((next, place)),
            Event::RingAddress(a, place) => {
                self.ring_count += 1;
                self.ring_at.get_or_insert(place);
                if self.ring_addresses.len() < SLOTS {
                    self.ring_addresses.push(a);
                }
            }
            Event::RingSlot(slot, place) => {
                self.ring_count += 1;
                self.ring_at.get_or_insert(place);
                if self.slots.len() < SLOTS {
                    self.slots.push(slot);
                }
            }
            Event::Peer { rank, tag, purpose, place } => self.peer = Some(Peer { rank, tag, purpose, place }),
            Event::ProxyRequest { kind, .. } => {
                self.proxy[0] += 1;
                self.proxy_kinds |= 1 << (kind & 31);
            }
            Event::ProxyReply { .. } => self.proxy[1] += 1,
            Event::Allocation { bytes, .. } => self.allocation = Some(bytes),
            Event::NetIndex(index, _) => self.net_index = Some(index),
            Event::Bulk { direction, bytes, .. } => self.bulk[direction.index()] += bytes,
            Event::Ras { direction, message, .. } => {
                self.ras[direction.index()] += 1;
                if let Some(a) = message.address
                    && self.ras_addresses.len() < FEW
                    && !self.ras_addresses.contains(&a)
                {
                    self.ras_addresses.push(a);
                }
            }
            Event::RasText { direction, line, .. } => {
                self.text[direction.index()] += 1;
                self.ras_server |= direction == Direction::ToClient && is_ras_answer(&line);
                let command = direction == Direction::ToServer
                    && begins_as_ras_client(&[&line[..], b"\n"].concat()) == Some(true);
                self.ras_commands += u64::from(command);
            }
            Event::Malformed { direction, fault, place } => {
                self.fault_count += 1;
                if self.faults.len() < FEW {
                    self.faults.push((direction, fault, place));
                }
            }
            Event::Versions { versions, by, place } => {
                if self.versions.len() < FEW && !self.versions.iter().any(|v| v.by == by && v.versions == versions) {
                    self.versions.push(VersionEvidence { versions, by, place });
                }
            }
            Event::Unfinished { direction, part, declared, delivered, .. } => {
                if direction == Direction::ToServer {
                    self.unfinished = Some((part, declared, delivered));
                }
            }
            Event::Message { .. } | Event::ProxySuffix(_) => {}
            Event::Undecoded { direction, length, .. } => self.undecoded[direction.index()] += length,
        }
    }

    /// Of a flow whose data was not read to its end: how much there was, by the payload bytes of its record
    /// (retransmissions included).
    pub fn count_bulk(&mut self, payload: [u64; 2]) {
        let [client, server] = payload;
        self.bulk = [client.saturating_sub(HANDSHAKE_BYTES as u64 + 1).max(self.bulk[0]), server.max(self.bulk[1])];
        self.bytes = [self.bytes[0].max(client), self.bytes[1].max(server)];
    }

    /// Whether this is a ring connection: slots or several addresses, one after the other.
    pub fn is_ring(&self) -> bool {
        self.ring_count > 0
    }

    /// The magic, where the handshake's type is one that NCCL has.
    pub fn magic(&self) -> Option<u64> {
        self.handshake.filter(|(_, kind, _)| !matches!(kind, SocketType::Other(_))).map(|(magic, ..)| magic)
    }

    /// The piece of the client's first bytes that made the first `end` of them whole: where it begins, and its bytes
    /// from there on. Of more than were kept: `None`.
    pub fn piece(&self, end: u64) -> Option<(Place, &[u8])> {
        if end == 0 || end > self.head.len() as u64 {
            return None;
        }
        let at = self.pieces.partition_point(|p| p.offset < end).checked_sub(1)?;
        let place = *self.pieces.get(at)?;
        let until = self.pieces.get(at + 1).map_or(self.head.len() as u64, |p| p.offset);
        Some((place, self.head.get(place.offset as usize..until as usize)?))
    }

    /// Whether the client's first eight bytes are this magic.
    pub fn begins_with(&self, magic: Option<u64>) -> bool {
        self.head.get(..8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes) == magic
    }

    /// Whether all of it reads as NCCL's protocol: something was recognised and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        let known = self.check_in.is_some_and(|(c, _)| c.ring.is_some())
            || self.reply.is_some_and(|(a, _)| a.is_some())
            || self.is_ring()
            || self.peer.is_some()
            || self.proxy[0] > 0
            || self.net_index.is_some()
            || self.ras[0] > 0;
        known && self.fault_count == 0 && self.undecoded == [0, 0]
    }
}

/// The decoder of one connection, and what it has found.
#[derive(Debug)]
pub struct Decoding {
    connection: NcclConnection,
    facts: Facts,
}

impl Decoding {
    /// A connection of which nothing was read yet. `midstream`: it began before the capture.
    pub fn new(framing: Framing, midstream: bool) -> Self {
        let connection = if midstream { NcclConnection::joined_midstream() } else { NcclConnection::new(framing) };
        Decoding { connection, facts: Facts::default() }
    }

    /// The next bytes of one direction.
    pub fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        let facts = &mut self.facts;
        facts.bytes[direction.index()] += chunk.bytes.len() as u64;
        match direction {
            Direction::ToServer => {
                if facts.head.len() as u64 == chunk.offset && facts.head.len() < HEAD {
                    facts.pieces.push(Place::of(chunk, chunk.offset));
                    let room = HEAD.saturating_sub(facts.head.len());
                    facts.head.extend_from_slice(chunk.bytes.get(..room).unwrap_or(chunk.bytes));
                }
                let last = Place::of(chunk, chunk.offset);
                facts.client = Some((facts.client.map_or(last, |(first, _)| first), last));
                self.connection.client(chunk, &mut |e| facts.note(e));
            }
            Direction::ToClient => {
                // RAS answers strangers too, whose own bytes read as anything.
                facts.ras_server |= chunk.offset == 0 && is_ras_answer(chunk.bytes);
                self.connection.server(chunk, &mut |e| facts.note(e));
            }
        }
    }

    /// Bytes that the capture does not hold.
    pub fn gap(&mut self, direction: Direction, offset: u64, length: u64) {
        let facts = &mut self.facts;
        facts.gaps += 1;
        self.connection.gap(direction, offset, length, &mut |e| facts.note(e));
    }

    /// Whether the constant magic and type of NET/Socket, and an index, have come and nothing but data follows.
    pub fn is_bulk(&self) -> bool {
        let net =
            |(magic, kind, _): &(u64, SocketType, Place)| *magic == SOCKET_MAGIC && *kind == SocketType::NetSocket;
        self.facts.net_index.is_some() && self.facts.handshake.as_ref().is_some_and(net) && self.connection.is_bulk()
    }

    /// The end of both directions.
    pub fn end(mut self) -> Facts {
        let facts = &mut self.facts;
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.connection.end(direction, &mut |e| facts.note(e));
        }
        if let Some(place) = facts.ring_at
            && facts.frames[1] > 0
            && !facts.slots.is_empty()
        {
            let by = "a ring that carries frames both ways";
            facts.versions.push(VersionEvidence { versions: Versions::new(22807, 23299), by, place });
        }
        self.facts
    }
}

fn is_ras_answer(line: &[u8]) -> bool {
    [&b"SERVER PROTOCOL"[..], b"ERROR: Unknown command", b"NCCL version "].iter().any(|w| line.starts_with(w))
}
