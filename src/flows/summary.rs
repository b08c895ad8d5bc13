//! The flows of captures, each with the hash of both its streams.

use sha2::{Digest, Sha256};

use super::files::{FileStream, Files};
use super::recognition::{HEAD, Speech};
use super::selection::Selection;
use crate::analysis::{Closed, FlowVisitor, Knowledge};
use crate::finding::community_id;
use crate::net::Endpoint;
use crate::report::Pseudonyms;
use crate::stream::{Direction, Event, FlowRecord, PacketRef, StreamCounters};
use crate::time::Timestamp;

/// One flow. Arrays are `[to server, to client]`.
#[derive(Clone, Debug)]
pub struct FlowSummary {
    /// Its number among all flows of the captures, from 1, in order of first packets.
    pub number: u64,
    /// The side that opened the connection.
    pub client: Endpoint,
    /// The listener.
    pub server: Endpoint,
    /// Whether a SYN or SYN-ACK says which is which; otherwise it is a guess from the ports.
    pub direction_known: bool,
    /// Its first packet.
    pub first_packet: PacketRef,
    /// When that was seen.
    pub first: Timestamp,
    /// When its last packet was seen.
    pub last: Timestamp,
    /// Packets each way, captured copies included.
    pub packets: [u32; 2],
    /// Both streams.
    pub streams: [StreamSummary; 2],
    /// What it speaks.
    pub speech: Speech,
    /// What is shown in the place of names, when none must be.
    pub tokens: Option<FlowTokens>,
}

/// What stands in for the names of a flow.
#[derive(Clone, Debug)]
pub struct FlowTokens {
    /// For the client.
    pub client: String,
    /// For the listener.
    pub server: String,
    /// For the community id, from which addresses can be guessed.
    pub community_id: String,
}

/// One direction of a flow.
#[derive(Clone, Debug, Default)]
pub struct StreamSummary {
    /// The SHA-256 of its bytes, in order, each once, the first copy of each; bytes that are missing are left out.
    pub sha256: [u8; 32],
    /// What was counted; `delivered` is the number of bytes hashed.
    pub counters: StreamCounters,
    /// Packets that were captured twice.
    pub duplicates: u64,
    /// The file with its bytes, where one was asked for.
    pub file: Option<FileStream>,
}

impl FlowSummary {
    /// Puts tokens in the place of names. Hashes of contents go: what was guessed could be checked by them.
    pub fn redact(&mut self, veil: &Pseudonyms) {
        self.tokens = Some(FlowTokens {
            client: veil.endpoint(self.client),
            server: veil.endpoint(self.server),
            community_id: veil.token("flow", community_id(self.client, self.server)),
        });
    }

    /// The client, as it is shown.
    pub fn client_text(&self) -> String {
        self.tokens.as_ref().map_or_else(|| self.client.to_string(), |t| t.client.clone())
    }

    /// The listener, as it is shown.
    pub fn server_text(&self) -> String {
        self.tokens.as_ref().map_or_else(|| self.server.to_string(), |t| t.server.clone())
    }

    /// The community id, as it is shown.
    pub fn id_text(&self) -> String {
        let tokens = self.tokens.as_ref();
        tokens.map_or_else(|| community_id(self.client, self.server), |t| t.community_id.clone())
    }

    /// Its length in time, in seconds.
    pub fn seconds(&self) -> f64 {
        self.last.seconds_since(self.first)
    }
}

/// Summarises every selected flow, and writes its bytes where files are asked for.
pub struct Streams<'a, S> {
    known: &'a Knowledge,
    selection: &'a Selection,
    files: Option<&'a mut Files>,
    /// Takes each summary; false when nobody wants more.
    sink: S,
    stopped: bool,
}

impl<'a, S: FnMut(FlowSummary) -> bool> Streams<'a, S> {
    /// Summaries of the flows that `selection` takes go to `sink`, which says whether it wants more.
    pub fn new(known: &'a Knowledge, selection: &'a Selection, files: Option<&'a mut Files>, sink: S) -> Self {
        Streams { known, selection, files, sink, stopped: false }
    }

    fn emit(&mut self, summary: FlowSummary) {
        self.stopped |= !(self.sink)(summary);
    }
}

/// What is kept of a flow while it goes on.
pub struct OpenFlow {
    number: u64,
    sides: [OpenStream; 2],
}

#[derive(Default)]
struct OpenStream {
    hash: Sha256,
    head: Vec<u8>,
    file: Option<FileStream>,
}

impl<S: FnMut(FlowSummary) -> bool> FlowVisitor for Streams<'_, S> {
    type Flow = OpenFlow;

    fn open(&mut self, number: u64, record: &FlowRecord) -> Option<OpenFlow> {
        self.selection.takes(record, self.known).then(|| {
            let file = |d| {
                let files = self.files.as_deref()?;
                Some(files.stream(number, record.sender(d), record.sender(d.reverse())))
            };
            let side = |d| OpenStream { file: file(d), ..OpenStream::default() };
            OpenFlow { number, sides: [side(Direction::ToServer), side(Direction::ToClient)] }
        })
    }

    fn event(&mut self, flow: &mut OpenFlow, direction: Direction, event: Event<'_>, _packet: PacketRef) {
        let OpenStream { hash, head, file } = &mut flow.sides[direction.index()];
        match event {
            Event::Chunk(chunk) => {
                hash.update(chunk.bytes);
                let room = HEAD.saturating_sub(head.len());
                head.extend_from_slice(chunk.bytes.get(..room).unwrap_or(chunk.bytes));
                if let (Some(file), Some(files)) = (file, self.files.as_deref_mut()) {
                    self.stopped |= !files.write(file, chunk.bytes);
                }
            }
            Event::Gap { offset, length, cause } => {
                if let Some(file) = file {
                    file.gap(offset, length, cause);
                }
            }
            Event::Conflict(_) => {}
        }
    }

    fn bytes(&self, flow: &OpenFlow) -> usize {
        flow.sides.iter().map(|s| s.head.len() + s.file.as_ref().map_or(0, FileStream::bytes)).sum()
    }

    fn close(&mut self, number: u64, record: &FlowRecord, closed: Closed<OpenFlow>) {
        debug_assert_eq!(number, closed.flow.number);
        let lengths = [closed.counters[0].delivered, closed.counters[1].delivered];
        let heads = closed.flow.sides.each_ref().map(|s| s.head.as_slice());
        let speech = Speech::of(record, heads, lengths, self.known);
        let [a, b] = closed.flow.sides;
        let mut finish = |side: OpenStream, i: usize| {
            let mut file = side.file.filter(|_| closed.counters[i].delivered > 0);
            if let (Some(file), Some(files)) = (&mut file, self.files.as_deref_mut()) {
                self.stopped |= !files.finish(file);
            }
            StreamSummary {
                sha256: side.hash.finalize().into(),
                counters: closed.counters[i],
                duplicates: closed.duplicates[i],
                file,
            }
        };
        let streams = [finish(a, 0), finish(b, 1)];
        self.emit(summary(number, record, streams, speech));
    }

    fn silent(&mut self, number: u64, record: &FlowRecord) {
        if self.selection.takes(record, self.known) {
            let speech = Speech::of(record, [&[], &[]], [0, 0], self.known);
            self.emit(summary(number, record, Default::default(), speech));
        }
    }

    fn stop(&self) -> bool {
        self.stopped
    }
}

fn summary(number: u64, record: &FlowRecord, streams: [StreamSummary; 2], speech: Speech) -> FlowSummary {
    FlowSummary {
        number,
        client: record.client(),
        server: record.server(),
        direction_known: record.direction_known,
        first_packet: record.first_packet,
        first: record.first,
        last: record.last,
        packets: record.packets,
        streams,
        speech,
        tokens: None,
    }
}
