//! One NCCL connection, both ways.

use super::event::{Event, Fault, Place};
use super::frames::Frames;
use super::piece_buffer::{Machine, Need, PieceBuffer};
use super::proxy::{Proxy, Replies, Requests};
use super::ras::Ras;
use super::version::Versions;
use super::wire::{SOCKET_MAGIC, SocketType, begins_as_ras_client, u32_at};
use crate::stream::{Chunk, Direction, PacketRef};
use crate::time::Timestamp;

/// Server bytes that are kept while the client's have not said what they are.
const EARLY_BYTES: usize = 4096;
/// A first word up to this is a frame size or a proxy type, not half of a random magic.
const SMALL: u32 = 0xffff;

/// Whether connections begin with a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// By the first bytes.
    #[default]
    Auto,
    /// Yes: 2.16.2 and later.
    Handshake,
    /// No: up to 2.15.
    Bare,
}

/// What the client's stream turned out to be.
#[derive(Debug)]
enum Client {
    Start(Framing),
    /// The first four bytes of a handshake came.
    Handshake(u32),
    Frames(Frames),
    Proxy(Requests),
    NetIndex,
    Bulk,
    Ras(Ras),
    Text,
    /// Without a handshake, and no size that is known: the first half of what may be a 64-bit size.
    Odd(u32),
    Lost,
}

#[derive(Debug)]
enum Server {
    /// The client's bytes have not said yet.
    Waiting,
    Frames(Frames),
    Proxy(Replies),
    Bulk,
    Ras(Ras),
    Text,
    Lost,
}

/// What the two directions tell each other.
#[derive(Debug, Default)]
struct Shared {
    proxy: Proxy,
    /// The first eight bytes of a connection without a handshake that fits nothing: perhaps a size for the
    /// allocation service.
    odd: Option<(u64, Place)>,
}

/// Bytes of the server that came early.
#[derive(Debug)]
struct Early {
    offset: u64,
    time: Timestamp,
    packet: PacketRef,
    bytes: Vec<u8>,
}

/// The decoder of one connection. Feed it both streams in the order in which packets were seen; where chunks are
/// cut does not matter. Memory: some 5 KiB at most; nothing is allocated by a number from the wire.
#[derive(Debug)]
pub struct NcclConnection {
    client: PieceBuffer,
    server: PieceBuffer,
    asks: Client,
    answers: Server,
    shared: Shared,
    early: Vec<Early>,
    early_bytes: usize,
}

impl NcclConnection {
    /// A connection from its first byte on.
    pub fn new(framing: Framing) -> Self {
        NcclConnection {
            client: PieceBuffer::new(Direction::ToServer),
            server: PieceBuffer::new(Direction::ToClient),
            asks: Client::Start(framing),
            answers: Server::Waiting,
            shared: Shared::default(),
            early: Vec::new(),
            early_bytes: 0,
        }
    }

    /// A connection whose beginning the capture does not hold: nothing in it can be told apart.
    pub fn joined_midstream() -> Self {
        NcclConnection { asks: Client::Lost, answers: Server::Lost, ..NcclConnection::new(Framing::Auto) }
    }

    /// Bytes of the client's stream. Bytes before what was already fed are dropped; a hole counts as a gap.
    pub fn client(&mut self, chunk: &Chunk<'_>, out: &mut impl FnMut(Event)) {
        self.client.feed(chunk, &mut self.asks, &mut self.shared, out);
        self.decide(out);
    }

    /// Bytes of the server's stream, likewise.
    pub fn server(&mut self, chunk: &Chunk<'_>, out: &mut impl FnMut(Event)) {
        if let Server::Waiting = self.answers {
            if self.early_bytes + chunk.bytes.len() <= EARLY_BYTES && self.early.len() < 64 {
                self.early_bytes += chunk.bytes.len();
                let Chunk { offset, time, packet, bytes } = *chunk;
                self.early.push(Early { offset, time, packet, bytes: bytes.to_vec() });
                return;
            }
            self.answers = Server::Lost;
            self.replay(out);
        }
        self.server.feed(chunk, &mut self.answers, &mut self.shared, out);
    }

    /// Bytes that the capture does not hold.
    pub fn gap(&mut self, direction: Direction, offset: u64, length: u64, out: &mut impl FnMut(Event)) {
        match direction {
            Direction::ToServer => self.client.gap(offset, length, &mut self.asks, &mut self.shared, out),
            Direction::ToClient => {
                if let Server::Waiting = self.answers {
                    self.answers = Server::Lost;
                    self.replay(out);
                }
                self.server.gap(offset, length, &mut self.answers, &mut self.shared, out);
            }
        }
    }

    /// The end of one stream: what was open is settled, what is unfinished or undecoded is reported. Call it for the
    /// client, then for the server.
    pub fn end(&mut self, direction: Direction, out: &mut impl FnMut(Event)) {
        match direction {
            Direction::ToServer => {
                let held = self.client.is_holding();
                match &mut self.asks {
                    Client::Frames(f) if !held => f.end(out),
                    Client::Proxy(p) => p.end(&mut self.shared.proxy, held, out),
                    _ => {}
                }
                self.allocation(out);
                self.client.end(&self.asks, out);
            }
            Direction::ToClient => {
                if let Server::Waiting = self.answers {
                    self.answers = Server::Lost;
                    self.replay(out);
                }
                self.server.end(&self.answers, out);
            }
        }
    }

    /// 2.8–2.11: eight bytes of a size, answered with a 64-byte handle and an 8-byte pointer.
    fn allocation(&mut self, out: &mut impl FnMut(Event)) {
        let Some((bytes, place)) = self.shared.odd else { return };
        if self.client.next() == 8 && self.early_bytes == 72 && bytes > 0 && bytes < 1 << 40 {
            self.client.forgive();
            out(Event::Versions {
                versions: Versions::new(20800, 21199),
                by: "an answer of the allocation service",
                place,
            });
            out(Event::Allocation { bytes, place });
            self.answers = Server::Bulk;
            self.replay(out);
        }
    }

    /// Whether both directions carry data that is only counted: nothing more will be learnt from their bytes.
    pub fn is_bulk(&self) -> bool {
        matches!(self.asks, Client::Bulk) && matches!(self.answers, Server::Bulk)
    }

    /// Once the client's stream is known, so is the server's.
    fn decide(&mut self, out: &mut impl FnMut(Event)) {
        if !matches!(self.answers, Server::Waiting) {
            return;
        }
        let back = Direction::ToClient;
        self.answers = match &self.asks {
            Client::Start(_) | Client::Handshake(_) | Client::Odd(_) => return,
            Client::Lost if self.shared.odd.is_some() => return,
            Client::Frames(_) => Server::Frames(Frames::new(back, true)),
            Client::Proxy(_) => Server::Proxy(Replies::new()),
            Client::NetIndex | Client::Bulk => Server::Bulk,
            Client::Ras(_) => Server::Ras(Ras::new(back)),
            Client::Text => Server::Text,
            Client::Lost => Server::Lost,
        };
        self.replay(out);
    }

    fn replay(&mut self, out: &mut impl FnMut(Event)) {
        self.early_bytes = 0;
        for e in std::mem::take(&mut self.early) {
            let chunk = Chunk { offset: e.offset, time: e.time, packet: e.packet, bytes: &e.bytes };
            self.server.feed(&chunk, &mut self.answers, &mut self.shared, out);
        }
    }
}

impl Client {
    fn start(framing: Framing, first: &[u8], place: Place, out: &mut dyn FnMut(Event)) -> Client {
        let word = u32_at(first, 0).unwrap_or(0);
        if framing == Framing::Auto && begins_as_ras_client(first) != Some(false) {
            return Client::Text;
        }
        let bare = framing == Framing::Bare || framing == Framing::Auto && word <= SMALL;
        match word as i32 {
            _ if !bare => Client::Handshake(word),
            1 | 7 | 8 => {
                let mut requests = Requests::new(false);
                requests.first(word as i32, place, out);
                Client::Proxy(requests)
            }
            size @ (4 | 28 | 64 | 136) => {
                let mut frames = Frames::new(Direction::ToServer, false);
                out(Event::Versions { versions: Versions::BARE, by: "no handshake", place });
                frames.header(size, place, out);
                Client::Frames(frames)
            }
            size => {
                let direction = Direction::ToServer;
                let fault = if size == 0 { Fault::EmptyFrame } else { Fault::FrameSize(size) };
                out(Event::Frame { direction, size, place });
                out(Event::Malformed { direction, fault, place });
                Client::Odd(word)
            }
        }
    }

    fn greeted(low: u32, bytes: &[u8], place: Place, out: &mut dyn FnMut(Event)) -> Client {
        let magic = u64::from(low) | u64::from(u32_at(bytes, 0).unwrap_or(0)) << 32;
        let kind = SocketType::from_wire(u32_at(bytes, 4).unwrap_or(u32::MAX));
        let place = Place { offset: 0, ..place };
        let direction = Direction::ToServer;
        out(Event::Handshake { magic, kind, place });
        if kind.has_constant_magic() && magic != SOCKET_MAGIC {
            out(Event::Malformed { direction, fault: Fault::OtherMagic(magic), place });
        }
        match kind {
            SocketType::Bootstrap => Client::Frames(Frames::new(direction, true)),
            SocketType::Proxy => Client::Proxy(Requests::new(true)),
            SocketType::NetSocket => Client::NetIndex,
            SocketType::RasNetwork => Client::Ras(Ras::new(direction)),
            SocketType::NetIb | SocketType::NetNd => Client::Bulk,
            SocketType::Unknown => Client::Lost,
            SocketType::Other(n) => {
                out(Event::Malformed { direction, fault: Fault::UnknownType(n), place });
                Client::Lost
            }
        }
    }
}

impl Machine<Shared> for Client {
    fn need(&mut self, shared: &mut Shared) -> Need {
        match self {
            Client::Start(_) => Need::Bytes(4),
            Client::Handshake(_) => Need::Bytes(8),
            Client::Frames(f) => f.need(),
            Client::Proxy(p) => p.need(&mut shared.proxy),
            Client::NetIndex => Need::Bytes(1),
            Client::Bulk => Need::Bulk,
            Client::Ras(r) => r.need(),
            Client::Text => Need::Line,
            Client::Odd(_) => Need::Bytes(4),
            Client::Lost => Need::Lost,
        }
    }

    fn take(&mut self, bytes: &[u8], place: Place, shared: &mut Shared, out: &mut dyn FnMut(Event)) {
        match self {
            Client::Start(framing) => *self = Client::start(*framing, bytes, place, out),
            Client::Handshake(low) => *self = Client::greeted(*low, bytes, place, out),
            Client::Frames(f) => f.take(bytes, place, out),
            Client::Proxy(p) => p.take(bytes, place, &mut shared.proxy, out),
            Client::NetIndex => {
                let index = bytes.first().copied().unwrap_or(0);
                out(Event::NetIndex(index, place));
                if index > 64 {
                    let fault = Fault::NetIndex(index);
                    out(Event::Malformed { direction: Direction::ToServer, fault, place });
                }
                *self = Client::Bulk;
            }
            Client::Ras(r) => r.take(bytes, place, out),
            Client::Text => text(Direction::ToServer, bytes, place, out),
            Client::Odd(low) => {
                let size = u64::from(*low) | u64::from(u32_at(bytes, 0).unwrap_or(0)) << 32;
                shared.odd = Some((size, Place { offset: 0, ..place }));
                *self = Client::Lost;
            }
            Client::Bulk | Client::Lost => {}
        }
    }

    fn message(&self) -> Option<(&'static str, u64, u64)> {
        match self {
            Client::Handshake(_) => Some(("handshake", 0, 12)),
            Client::Frames(f) => f.message(),
            Client::Proxy(p) => p.message(),
            Client::NetIndex => Some(("NET/Socket index", 12, 1)),
            Client::Ras(r) => r.message(),
            _ => None,
        }
    }

    fn open(&self) -> Option<u64> {
        match self {
            Client::Proxy(p) => p.open(),
            Client::Odd(_) => Some(0),
            _ => self.message().map(|(_, offset, _)| offset),
        }
    }
}

impl Machine<Shared> for Server {
    fn need(&mut self, shared: &mut Shared) -> Need {
        match self {
            Server::Frames(f) => f.need(),
            Server::Proxy(p) => p.need(&mut shared.proxy),
            Server::Bulk => Need::Bulk,
            Server::Ras(r) => r.need(),
            Server::Text => Need::Line,
            Server::Waiting | Server::Lost => Need::Lost,
        }
    }

    fn take(&mut self, bytes: &[u8], place: Place, shared: &mut Shared, out: &mut dyn FnMut(Event)) {
        match self {
            Server::Frames(f) => f.take(bytes, place, out),
            Server::Proxy(p) => p.take(bytes, place, &mut shared.proxy, out),
            Server::Ras(r) => r.take(bytes, place, out),
            Server::Text => text(Direction::ToClient, bytes, place, out),
            Server::Waiting | Server::Bulk | Server::Lost => {}
        }
    }

    fn message(&self) -> Option<(&'static str, u64, u64)> {
        match self {
            Server::Frames(f) => f.message(),
            Server::Proxy(p) => p.message(),
            Server::Ras(r) => r.message(),
            _ => None,
        }
    }
}

fn text(direction: Direction, bytes: &[u8], place: Place, out: &mut dyn FnMut(Event)) {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    out(Event::RasText { direction, line: line.to_vec(), place });
}
