//! A connection of NCCL, as messages: what the decoder says of a message is joined to the bytes that it takes.

use std::collections::VecDeque;

use super::fields::of_nccl;
use super::messages::Keep;
use super::other_protocols::{BULK, OtherProtocols};
use crate::protocol::nccl::{
    Event, Framing, NcclConnection, NcclListener, Place, Purpose, RasMessage, RingSlot, SocketType, magic_text,
};
use crate::stream::{Chunk, Direction, PacketRef};
use crate::time::Timestamp;

/// The kinds of message of NCCL and Gloo, as lines name them.
pub const KINDS: [&str; 14] = [
    "handshake",
    "check-in",
    "reply",
    "ring address",
    "ring slot",
    "peer",
    "data",
    "proxy request",
    "proxy reply",
    "allocation",
    "NET index",
    "RAS",
    "RAS text",
    BULK,
];

/// Whole messages that wait: what an address or a number was for is known two frames later.
const WAITING: usize = 4;

/// What is said of the message at an offset.
struct Label {
    offset: u64,
    query: &'static str,
    detail: String,
    number: Option<i64>,
    bytes: Option<u64>,
}

#[derive(Default)]
struct Stream {
    labels: VecDeque<Label>,
    /// Whole messages: length and place.
    spans: VecDeque<(u64, Place)>,
    last: (Timestamp, PacketRef),
    /// Pieces of the stream that messages in the making may stand in, where fields are asked for.
    pieces: VecDeque<(u64, Vec<u8>)>,
}

/// Of a piece larger than this, the two ends of half that size are kept, and of a stream so many pieces.
const PIECE: usize = 4096;
const PIECES: usize = 256;
/// Bytes that are kept of a message.
const HEAD: usize = 512;

impl Stream {
    fn keep(&mut self, offset: u64, bytes: &[u8]) {
        if self.pieces.len() >= PIECES {
            self.pieces.pop_front();
        }
        if bytes.len() <= PIECE {
            self.pieces.push_back((offset, bytes.to_vec()));
            return;
        }
        let tail = bytes.len() - PIECE / 2;
        self.pieces.push_back((offset, bytes.get(..PIECE / 2).unwrap_or_default().to_vec()));
        self.pieces.push_back((offset + tail as u64, bytes.get(tail..).unwrap_or_default().to_vec()));
    }

    /// Up to [`HEAD`] kept bytes from `offset` on, and no more than `length`.
    fn bytes_at(&self, offset: u64, length: u64) -> Vec<u8> {
        let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(HEAD);
        let mut out = Vec::new();
        for (from, bytes) in &self.pieces {
            let at = offset + out.len() as u64;
            if let Some(skip) = at.checked_sub(*from).and_then(|n| usize::try_from(n).ok())
                && let Some(more) = bytes.get(skip..)
            {
                out.extend_from_slice(more.get(..wanted - out.len()).unwrap_or(more));
            }
        }
        out
    }

    /// Forgets what lies before `offset`.
    fn forget(&mut self, offset: u64) {
        while self.pieces.front().is_some_and(|(from, bytes)| from + bytes.len() as u64 <= offset) {
            self.pieces.pop_front();
        }
    }
}

/// One connection.
pub(super) struct Talk {
    connection: NcclConnection,
    streams: [Stream; 2],
    /// The magic that its listener wants, where there is one.
    magic: Option<u64>,
    bare: bool,
    keep: Keep,
    /// What came is NCCL's own.
    pub(super) recognised: bool,
    contradicted: bool,
    told: Vec<OtherProtocols>,
}

impl Talk {
    pub(super) fn new(listener: &NcclListener, midstream: bool, keep: Keep) -> Self {
        let framing = match listener.handshake {
            Some(true) if listener.magic.is_some() && !listener.text => Framing::Handshake,
            Some(false) if !listener.text => Framing::Bare,
            _ => Framing::Auto,
        };
        Talk {
            connection: if midstream { NcclConnection::joined_midstream() } else { NcclConnection::new(framing) },
            streams: Default::default(),
            magic: listener.magic,
            bare: listener.handshake == Some(false),
            keep,
            recognised: false,
            contradicted: false,
            told: Vec::new(),
        }
    }

    pub(super) fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) -> Vec<OtherProtocols> {
        let stream = &mut self.streams[direction.index()];
        stream.last = (chunk.time, chunk.packet);
        if self.keep.fields {
            stream.keep(chunk.offset, chunk.bytes);
        }
        let Talk { connection, .. } = self;
        let mut events = Vec::new();
        match direction {
            Direction::ToServer => connection.client(chunk, &mut |e| events.push(e)),
            Direction::ToClient => connection.server(chunk, &mut |e| events.push(e)),
        }
        self.take(events)
    }

    pub(super) fn gap(&mut self, direction: Direction, offset: u64, length: u64) -> Vec<OtherProtocols> {
        let mut events = Vec::new();
        self.connection.gap(direction, offset, length, &mut |e| events.push(e));
        self.take(events)
    }

    /// At the end.
    pub(super) fn end(&mut self) -> Vec<OtherProtocols> {
        let mut events = Vec::new();
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.connection.end(direction, &mut |e| events.push(e));
        }
        let (late, said): (Vec<Event>, Vec<Event>) =
            events.into_iter().partition(|e| matches!(e, Event::Bulk { .. } | Event::Unfinished { .. }));
        let mut told = self.take(said);
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.flush(direction, 0);
        }
        told.append(&mut self.told);
        told.extend(self.take(late));
        self.recognised &= !self.contradicted;
        told
    }

    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let labels = self.streams.iter().flat_map(|s| &s.labels);
        8192 + labels.map(|l| size_of::<Label>() + l.detail.capacity()).sum::<usize>()
            + self.streams.iter().flat_map(|s| &s.pieces).map(|(_, b)| b.capacity() + 48).sum::<usize>()
    }

    fn take(&mut self, events: Vec<Event>) -> Vec<OtherProtocols> {
        events.into_iter().for_each(|e| self.note(e));
        std::mem::take(&mut self.told)
    }

    fn note(&mut self, event: Event) {
        use Direction::{ToClient, ToServer};
        match event {
            Event::Handshake { magic, kind, place } => {
                let right = self.magic.is_none_or(|m| m == magic) && !matches!(kind, SocketType::Other(_));
                self.contradicted |= !right || self.bare;
                self.recognised |= self.magic == Some(magic);
                let kind = match kind {
                    SocketType::Other(n) => format!("type {n}"),
                    kind => kind.name().to_string(),
                };
                self.label(ToServer, place, "handshake", format!("{} {kind}", magic_text(magic)), None);
            }
            Event::Frame { direction, size, place } => {
                self.label(direction, place, "data", String::new(), None);
                if let Some(label) = self.at(direction, place.offset) {
                    label.bytes = u64::try_from(size).ok();
                }
            }
            Event::CheckIn(c, place) => {
                let of = c.roots.filter(|(_, n)| *n > 1).map_or(String::new(), |(i, n)| format!(", root {i} of {n}"));
                let ring = c.ring.map_or(String::new(), |e| format!(", ring {e}"));
                let reply = c.reply.map_or(String::new(), |e| format!(", reply {e}"));
                let detail = format!("rank {} of {}{of}{ring}{reply}", c.rank, c.nranks);
                self.known(ToServer, place, "check-in", detail, Some(i64::from(c.rank)));
            }
            Event::Reply { next, place, .. } => {
                let detail = next.map_or("next rank opaque".to_string(), |e| format!("next {e}"));
                self.known(ToServer, place, "reply", detail, None);
            }
            Event::RingAddress(a, place) => self.known(ToServer, place, "ring address", a.to_string(), None),
            Event::RingSlot(slot, place) => {
                // Slots come from both sides since 2.28.7; the frame is the one that has just begun there.
                let back = self.at(ToClient, place.offset).is_some_and(|l| l.query == "data");
                let forth = self.at(ToServer, place.offset).is_some_and(|l| l.query == "data");
                let direction = if back && !forth { ToClient } else { ToServer };
                self.known(direction, place, "ring slot", slot_text(&slot), None);
            }
            Event::Peer { rank, tag, purpose, place } => {
                let tag = match (tag, purpose) {
                    (None, _) => String::new(),
                    (Some(t), Purpose::General) => format!(", tag {:#x}", t as u32),
                    (Some(t), p) => format!(", {}, tag {:#x}", p.text(), t as u32),
                };
                self.known(ToServer, place, "peer", format!("rank {rank}{tag}"), Some(i64::from(rank)));
            }
            Event::ProxyRequest { kind, transport, sizes, place } => {
                let transport = transport.map_or(String::new(), |t| format!(" {}", transport_name(t)));
                self.known(ToServer, place, "proxy request", format!("{}{transport}", proxy_name(kind)), None);
                if let Some(label) = self.at(ToServer, place.offset) {
                    label.bytes = u64::try_from(sizes.0).ok().filter(|n| *n > 0);
                }
            }
            Event::ProxyReply { result, size, place } => {
                let result = result.map_or(String::new(), |r| format!("result {r}"));
                self.known(ToClient, place, "proxy reply", result, None);
                if let Some(label) = self.at(ToClient, place.offset) {
                    label.bytes = u64::try_from(size).ok();
                }
            }
            Event::ProxySuffix(place) => self.known(ToClient, place, "proxy reply", String::new(), None),
            Event::Allocation { bytes, place } => {
                self.known(ToServer, place, "allocation", format!("{bytes} bytes asked for"), None);
                self.contradicted = false;
            }
            Event::NetIndex(index, place) => {
                self.known(ToServer, place, "NET index", format!("connection {index}"), Some(i64::from(index)));
            }
            Event::Ras { direction, message, place } => self.known(direction, place, "RAS", ras_text(&message), None),
            Event::RasText { direction, line, place } => {
                let text = String::from_utf8_lossy(&line).into_owned();
                self.known(direction, place, "RAS text", text, None);
            }
            Event::Malformed { direction, fault, place } => {
                self.contradicted |= self.bare;
                if let Some(label) = self.at(direction, place.offset) {
                    label.detail = format!("{} ({fault})", label.detail).trim_start().to_string();
                }
            }
            Event::Message { direction, length, place } => {
                if let Some(s) = self.streams.get_mut(direction.index()) {
                    s.spans.push_back((length, place));
                }
                self.flush(direction, WAITING);
            }
            Event::Bulk { direction, offset, bytes } => {
                let told = self.ending(direction, offset, bytes, BULK);
                self.told.push(OtherProtocols { bytes: Some(bytes), ..told });
            }
            Event::Unfinished { direction, part, offset, declared, delivered } => {
                let query = self.at(direction, offset).map_or("data", |l| l.query);
                let told = self.ending(direction, offset, delivered, query);
                self.told.push(OtherProtocols { unfinished: Some((part, declared, delivered)), ..told });
            }
            Event::Versions { .. } | Event::Undecoded { .. } => {}
        }
    }

    /// A message that NCCL alone sends.
    fn known(&mut self, direction: Direction, place: Place, query: &'static str, detail: String, number: Option<i64>) {
        self.recognised = true;
        self.label(direction, place, query, detail, number);
    }

    fn label(&mut self, direction: Direction, place: Place, query: &'static str, detail: String, number: Option<i64>) {
        if let Some(label) = self.at(direction, place.offset) {
            (label.query, label.detail, label.number) = (query, detail, number);
        } else if let Some(s) = self.streams.get_mut(direction.index()) {
            s.labels.push_back(Label { offset: place.offset, query, detail, number, bytes: None });
        }
    }

    fn at(&mut self, direction: Direction, offset: u64) -> Option<&mut Label> {
        self.streams.get_mut(direction.index())?.labels.iter_mut().rfind(|l| l.offset == offset)
    }

    /// The last record of a stream.
    fn ending(&self, direction: Direction, offset: u64, length: u64, query: &'static str) -> OtherProtocols {
        let (time, packet) = self.streams.get(direction.index()).map(|s| s.last).unwrap_or_default();
        let detail = String::new();
        OtherProtocols {
            direction,
            offset,
            length,
            time,
            packet,
            query,
            detail,
            number: None,
            bytes: None,
            unfinished: None,
            fields: Vec::new(),
        }
    }

    /// Hands on whole messages but for the last `keep`.
    fn flush(&mut self, direction: Direction, keep: usize) {
        let Some(s) = self.streams.get_mut(direction.index()) else { return };
        while s.spans.len() > keep {
            let Some((length, place)) = s.spans.pop_front() else { break };
            let end = place.offset.saturating_add(length);
            while s.labels.front().is_some_and(|l| l.offset < end)
                && let Some(label) = s.labels.pop_front()
            {
                if label.offset < place.offset {
                    continue;
                }
                let until = s.labels.front().map_or(end, |next| next.offset.min(end));
                let length = until.saturating_sub(label.offset);
                let fields = if self.keep.fields {
                    let bytes = s.bytes_at(label.offset, length);
                    let carried = label.bytes.unwrap_or(0);
                    of_nccl(label.query, (label.offset, length), &bytes, carried, self.keep.values)
                } else {
                    Vec::new()
                };
                self.told.push(OtherProtocols {
                    direction,
                    offset: label.offset,
                    length,
                    time: place.time,
                    packet: place.packet,
                    query: label.query,
                    detail: label.detail,
                    number: label.number,
                    bytes: label.bytes,
                    unfinished: None,
                    fields,
                });
            }
            s.forget(end);
        }
    }
}

fn slot_text(slot: &RingSlot) -> String {
    let all = [("peer", slot.peer), ("proxy", slot.proxy), ("RAS", slot.ras)];
    let named: Vec<String> = all.iter().filter_map(|(name, e)| e.map(|e| format!("{name} {e}"))).collect();
    named.join(", ")
}

fn ras_text(m: &RasMessage) -> String {
    let address = m.address.map_or(String::new(), |a| format!(" {a}"));
    let version = m.version.and_then(crate::protocol::nccl::Version::from_code);
    let version = version.map_or(String::new(), |v| format!(" {v}"));
    format!("{}{address}{version}", m.name())
}

/// `ncclProxyMsg…`, by number.
fn proxy_name(kind: i32) -> &'static str {
    const NAMES: [&str; 12] = [
        "Init",
        "SharedInit",
        "Setup",
        "Connect",
        "Start",
        "Close",
        "Abort",
        "Stop",
        "GetFd",
        "QueryFd",
        "Register",
        "Deregister",
    ];
    usize::try_from(kind).ok().and_then(|k| NAMES.get(k.checked_sub(1)?)).copied().unwrap_or("?")
}

fn transport_name(transport: i32) -> &'static str {
    usize::try_from(transport).ok().and_then(|t| ["P2P", "SHM", "NET", "CollNet", "profiler"].get(t)).unwrap_or(&"?")
}
