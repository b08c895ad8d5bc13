//! Every message of every recognised stream, in order of time.

pub use super::selection::Keep;
use std::collections::{BTreeMap, VecDeque};

use super::coverage::Coverage;
use super::fields::{of_answer, of_request};
use super::message::{AnswerLine, MessageLine, Tongue, Undecoded};
use super::nccl::Talk;
use super::other_protocols::OtherProtocols;
use super::pair::Pair;
use super::selection::Selection;
use crate::analysis::{Closed, FlowVisitor, Knowledge};
use crate::net::Endpoint;
use crate::protocol::tcpstore::{
    Answer, Callback, Candidates, Connection, DecodeOptions, Dialect, Direction as Side, Event as Decoded, Field,
    Message, Operation, Unfinished, VALIDATE_MAGIC, first_bytes, is_store_key, purpose,
};
use crate::stream::{Direction, Event, FlowRecord, PacketRef};
use crate::time::Timestamp;

/// Requests of a flow that may still be answered; a client of the store has one or two.
const MAX_OPEN: usize = 1024;
/// First bytes of a client, to tell a store's client from others.
const HEAD: usize = 64;

/// What comes out of a reading.
#[derive(Clone, Debug)]
pub enum Item {
    /// A message.
    Message(Box<MessageLine>),
    /// Bytes that no message accounts for.
    Undecoded(Undecoded),
}

/// Where a line stands in the order: time, capture, packet, and a number that tells those of one packet apart.
type Place = (Timestamp, u32, u64, u64);

/// Decodes the selected flows to stores, NCCL's listeners and Gloo's pairs.
///
/// Lines wait until all captures are read, so that they come in order of time. When what waits takes more than its
/// share of memory, the earlier half goes out, in order, without the answers that have not come yet.
pub struct Messages<'a, S> {
    known: &'a Knowledge,
    selection: &'a Selection,
    keep: Keep,
    waiting: BTreeMap<Place, MessageLine>,
    waiting_bytes: usize,
    max_bytes: usize,
    count: u64,
    /// Takes each item; false when nobody wants more.
    sink: S,
    stopped: bool,
}

/// One flow.
pub struct OpenConnection {
    speaker: Speaker,
    flow: Flow,
}

/// Who reads it.
enum Speaker {
    Store(Box<Connection>),
    Nccl(Box<Talk>),
    Gloo(Box<Pair>),
}

struct Flow {
    number: u64,
    capture: u32,
    client: Endpoint,
    server: Endpoint,
    tongue: Tongue,
    candidates: Vec<Dialect>,
    head: Vec<u8>,
    /// The packet with the client's last byte so far.
    last_client: (Timestamp, PacketRef),
    /// Requests that may still be answered: their ids and where their lines stand.
    unanswered: VecDeque<(u64, Place)>,
    coverage: [Coverage; 2],
    /// One of the protocol's own spoke, or was answered: not merely bytes that could be a message.
    recognised: bool,
}

impl<'a, S: FnMut(Item) -> bool> Messages<'a, S> {
    /// Messages of the flows that `selection` takes go to `sink`, which says whether it wants more.
    pub fn new(known: &'a Knowledge, selection: &'a Selection, keep: Keep, memory: u64, sink: S) -> Self {
        let max_bytes = usize::try_from(memory / 4).unwrap_or(usize::MAX).max(1 << 16);
        Messages {
            known,
            selection,
            keep,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            max_bytes,
            count: 0,
            sink,
            stopped: false,
        }
    }

    /// Hands on what waits.
    pub fn finish(mut self) {
        self.hand_on(0);
    }

    fn hand_on(&mut self, keep_bytes: usize) {
        while self.waiting_bytes > keep_bytes && !self.stopped {
            let Some((_, line)) = self.waiting.pop_first() else { break };
            self.waiting_bytes = self.waiting_bytes.saturating_sub(line.bytes());
            self.stopped = !(self.sink)(Item::Message(Box::new(line)));
        }
    }

    fn push(&mut self, line: MessageLine) -> Place {
        let place = (line.time, line.capture, line.packet, self.count);
        self.count += 1;
        self.waiting_bytes += line.bytes();
        self.waiting.insert(place, line);
        if self.waiting_bytes > self.max_bytes {
            self.hand_on(self.max_bytes / 2);
        }
        place
    }

    /// Messages of NCCL and Gloo. What is unfinished accounts for nothing.
    fn told(&mut self, flow: &mut Flow, told: Vec<OtherProtocols>) {
        for t in told {
            if t.unfinished.is_none()
                && let Some(coverage) = flow.coverage.get_mut(t.direction.index())
            {
                coverage.message(t.offset, t.length);
            }
            let mut line = flow.line(t.query, t.time, t.packet);
            line.direction = t.direction.name();
            line.detail = Some(t.detail).filter(|d| !d.is_empty());
            line.number = t.number;
            line.value_bytes = t.bytes;
            line.offset = t.offset;
            line.length = t.length;
            line.unfinished = t.unfinished;
            line.fields = t.fields;
            self.push(line);
        }
    }

    fn decoded(&mut self, flow: &mut Flow, event: Decoded) {
        match event {
            Decoded::Request(m) => self.request(flow, m),
            Decoded::Answer(a) => self.answer(flow, &a),
            Decoded::Callback(c) => self.callback(flow, c),
            Decoded::Unfinished(u) => self.unfinished(flow, u),
            Decoded::Unanswered { request, .. } => flow.unanswered.retain(|(id, _)| *id != request),
            Decoded::Declared(_)
            | Decoded::Unknown { .. }
            | Decoded::Validate { .. }
            | Decoded::AnswerLength { .. }
            | Decoded::Unexpected { .. }
            | Decoded::Resynchronized { .. }
            | Decoded::Undecoded { .. } => {}
        }
    }

    fn request(&mut self, flow: &mut Flow, m: Message) {
        flow.coverage[0].message(m.offset, m.length);
        flow.recognised |= match m.query {
            Operation::Validate => m.number == Some(i64::from(VALIDATE_MAGIC)),
            _ => !m.keys.is_empty() && m.keys.iter().all(|k| is_store_key(&k.bytes)),
        };
        let value = m.value().cloned();
        let mut line = flow.line(m.query.name(), m.time, m.last);
        line.key = m.key().cloned();
        line.key_count = m.key_count;
        line.number = m.number;
        line.value_bytes = (!m.values.is_empty()).then(|| m.values.iter().map(|v| v.length).sum());
        if let ([_, desired], Operation::CompareSet) = (m.values.as_slice(), m.query) {
            line.value_bytes = Some(desired.length);
        }
        line.purpose = purpose_of(line.key.as_ref(), value.as_ref());
        line.offset = m.offset;
        line.length = m.length;
        if self.keep.fields {
            line.fields = of_request(&m, self.keep.values);
        }
        line.value = value.filter(|_| self.keep.values).map(|v| v.bytes);
        let place = self.push(line);
        if flow.unanswered.len() >= MAX_OPEN {
            flow.unanswered.pop_front();
        }
        flow.unanswered.push_back((m.id, place));
    }

    fn answer(&mut self, flow: &mut Flow, a: &Answer) {
        if a.length > 0 {
            flow.coverage[1].message(a.offset, a.length);
            flow.recognised = true;
        }
        let Some(at) = flow.unanswered.iter().position(|(id, _)| *id == a.request) else { return };
        let Some((_, place)) = flow.unanswered.remove(at) else { return };
        let Some(line) = self.waiting.get_mut(&place) else { return };
        self.waiting_bytes = self.waiting_bytes.saturating_sub(line.bytes());
        let value = a.fields.first();
        // What LIST_KEYS is answered with are keys.
        if line.value_bytes.is_none() && a.field_count > 0 && a.query != Operation::ListKeys {
            line.value_bytes = Some(a.value_bytes);
            line.value = value.filter(|_| self.keep.values).map(|v| v.bytes.clone());
            line.purpose = purpose_of(line.key.as_ref(), value);
        }
        line.answer = Some(AnswerLine {
            kind: a.kind.name(),
            number: a.number,
            latency: a.first_time.seconds_since(line.time),
            packet: a.last.number,
            stream_offset: a.offset,
            length: a.length,
            value_bytes: a.value_bytes,
            fields: if self.keep.fields { of_answer(a, self.keep.values) } else { Vec::new() },
        });
        self.waiting_bytes += line.bytes();
    }

    fn callback(&mut self, flow: &mut Flow, c: Callback) {
        flow.coverage[1].message(c.offset, c.length);
        flow.recognised = true;
        let mut line = flow.line(c.change.name(), c.time, c.packet);
        line.direction = Direction::ToClient.name();
        line.purpose = purpose_of(Some(&c.key), Some(&c.new));
        line.value_bytes = Some(c.new.length);
        line.value = self.keep.values.then_some(c.new.bytes);
        line.key = Some(c.key);
        line.key_count = 1;
        line.offset = c.offset;
        line.length = c.length;
        self.push(line);
    }

    /// A request that did not end. What has not come of an answer is told by the request that has none.
    fn unfinished(&mut self, flow: &mut Flow, u: Unfinished) {
        let (Side::Client, Some(query)) = (u.direction, u.query) else { return };
        let (time, packet) = flow.last_client;
        let mut line = flow.line(query.name(), time, packet);
        line.offset = u.message_offset;
        line.length = u.message_delivered;
        line.unfinished = Some((u.field.name(), u.declared, u.delivered));
        self.push(line);
    }
}

fn purpose_of(key: Option<&Field>, value: Option<&Field>) -> Option<&'static str> {
    let key = key.filter(|k| k.is_whole())?;
    let value = value.filter(|v| v.is_whole()).map(|v| v.bytes.as_slice());
    purpose(&key.bytes, value).map(|p| p.name())
}

impl Flow {
    fn line(&self, query: &'static str, time: Timestamp, packet: PacketRef) -> MessageLine {
        MessageLine {
            time,
            capture: packet.capture,
            packet: packet.number,
            flow: self.number,
            client: self.client,
            server: self.server,
            direction: Direction::ToServer.name(),
            tongue: self.tongue,
            candidates: self.candidates.clone(),
            query,
            key: None,
            key_count: 0,
            detail: None,
            number: None,
            value_bytes: None,
            value: None,
            purpose: None,
            answer: None,
            offset: 0,
            length: 0,
            unfinished: None,
            fields: Vec::new(),
            tokens: None,
        }
    }
}

impl<S: FnMut(Item) -> bool> FlowVisitor for Messages<'_, S> {
    type Flow = Box<OpenConnection>;

    fn open(&mut self, number: u64, record: &FlowRecord) -> Option<Box<OpenConnection>> {
        if !self.selection.takes(record, self.known) {
            return None;
        }
        let server = record.server();
        let midstream = record.isn(Direction::ToServer).is_none();
        let options = DecodeOptions::default();
        let mut candidates = Vec::new();
        let (speaker, tongue) = if let Some(known) = self.known.listeners.get(&server) {
            // A listener whose connections contradict every dialect is not read in any.
            let dialect = known.dialect?;
            candidates = known.listener.dialects();
            let connection = match midstream {
                true => Connection::joined_midstream(dialect, options),
                false => Connection::new(dialect, options),
            };
            (Speaker::Store(Box::new(connection)), Tongue::Store(dialect))
        } else if let Some(listener) = self.known.nccl.listeners.get(&server) {
            (Speaker::Nccl(Box::new(Talk::new(listener, midstream, self.keep))), Tongue::Nccl(listener.versions))
        } else if self.known.pairs.contains(&server) {
            (Speaker::Gloo(Box::new(Pair::new(midstream))), Tongue::Gloo)
        } else {
            return None;
        };
        Some(Box::new(OpenConnection {
            speaker,
            flow: Flow {
                number,
                capture: record.first_packet.capture,
                client: record.client(),
                server,
                tongue,
                candidates,
                head: Vec::new(),
                last_client: (record.first, record.first_packet),
                unanswered: VecDeque::new(),
                coverage: [Coverage::new(midstream), Coverage::new(midstream)],
                recognised: false,
            },
        }))
    }

    fn event(&mut self, open: &mut Box<OpenConnection>, direction: Direction, event: Event<'_>, _packet: PacketRef) {
        let OpenConnection { speaker, flow } = &mut **open;
        match event {
            Event::Chunk(chunk) => {
                if let Some(coverage) = flow.coverage.get_mut(direction.index()) {
                    coverage.captured(chunk.offset, chunk.bytes.len() as u64);
                }
                match (speaker, direction) {
                    (Speaker::Store(connection), Direction::ToServer) => {
                        let room = HEAD.saturating_sub(flow.head.len());
                        flow.head.extend_from_slice(chunk.bytes.get(..room).unwrap_or(chunk.bytes));
                        flow.last_client = (chunk.time, chunk.packet);
                        connection.client(&chunk, &mut |e| self.decoded(flow, e));
                    }
                    (Speaker::Store(connection), Direction::ToClient) => {
                        connection.server(&chunk, &mut |e| self.decoded(flow, e));
                    }
                    (Speaker::Nccl(talk), _) => {
                        let told = talk.chunk(direction, &chunk);
                        self.told(flow, told);
                    }
                    (Speaker::Gloo(pair), _) => pair.chunk(direction, &chunk),
                }
            }
            Event::Gap { offset, length, .. } => match speaker {
                Speaker::Store(connection) => {
                    connection.gap(side(direction), offset, length, &mut |e| self.decoded(flow, e));
                }
                Speaker::Nccl(talk) => {
                    let told = talk.gap(direction, offset, length);
                    self.told(flow, told);
                }
                Speaker::Gloo(_) => {}
            },
            Event::Conflict(_) => {}
        }
    }

    fn bytes(&self, open: &Box<OpenConnection>) -> usize {
        let flow = &open.flow;
        flow.coverage.iter().map(Coverage::bytes).sum::<usize>()
            + flow.unanswered.capacity() * size_of::<(u64, Place)>()
            + if let Speaker::Nccl(talk) = &open.speaker { talk.bytes() } else { 0 }
    }

    fn close(&mut self, _number: u64, _record: &FlowRecord, closed: Closed<Box<OpenConnection>>) {
        let OpenConnection { speaker, mut flow } = *closed.flow;
        match speaker {
            Speaker::Store(mut connection) => {
                for direction in [Direction::ToServer, Direction::ToClient] {
                    connection.end(side(direction), &mut |e| self.decoded(&mut flow, e));
                }
                flow.recognised |= matches!(first_bytes(&flow.head), Candidates::Store { .. });
            }
            Speaker::Nccl(mut talk) => {
                let told = talk.end();
                self.told(&mut flow, told);
                flow.recognised = talk.recognised;
            }
            Speaker::Gloo(pair) => {
                let told = pair.end();
                flow.recognised = !told.is_empty();
                self.told(&mut flow, told);
            }
        }
        if !flow.recognised {
            return;
        }
        for (coverage, direction) in flow.coverage.into_iter().zip([Direction::ToServer, Direction::ToClient]) {
            for (offset, length) in coverage.finish() {
                let (capture, client, server) = (flow.capture, flow.client, flow.server);
                let range =
                    Undecoded { capture, client, server, direction: direction.name(), offset, length, token: None };
                self.stopped |= !(self.sink)(Item::Undecoded(range));
            }
        }
    }

    fn stop(&self) -> bool {
        self.stopped
    }
}

fn side(direction: Direction) -> Side {
    match direction {
        Direction::ToServer => Side::Client,
        Direction::ToClient => Side::Server,
    }
}
