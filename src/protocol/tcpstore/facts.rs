//! What one dialect's decoder makes of one connection, condensed.

pub(super) use super::infer_dialect::MAX_WORKERS;
use std::sync::Arc;

use super::answer::AnswerKind;
use super::event::{Declared, Event, Place, Unfinished, ValidateFault};
use super::infer_dialect::Reading;
use super::learned::Learned;
use super::{Connection, DecodeOptions, Dialect, Operation};
use crate::stream::{Chunk, Direction};
use crate::time::Timestamp;

/// At most so many claims of a connection are kept; all are counted. Kept are the last one, which is the one that a stream
/// ends in, and the largest before it: sixteen honest values of 64 KiB must not hide a claim of a terabyte.
const KEPT_CLAIMS: usize = 16;

/// The first request of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRequest {
    /// Its query type.
    pub query: Operation,
    /// Its first key, bounded.
    pub key: Option<Vec<u8>>,
    /// When its last byte was seen.
    pub time: Timestamp,
    /// The packet with its last byte.
    pub packet: crate::stream::PacketRef,
}

/// Something that no server of the dialect sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFault {
    /// The query that it should answer.
    pub query: Option<Operation>,
    /// The length or number that it declares, where it is one.
    pub declared: Option<u64>,
    /// Answers before it that made sense.
    pub right: u64,
    /// In words: `PING was answered with another number`.
    pub text: String,
    /// Where in the server's stream.
    pub place: Place,
}

/// A reading of one connection in one dialect. Bounded, whatever the connection's length.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The dialect it was read in.
    pub dialect: Dialect,
    /// What speaks for and against the dialect.
    pub reading: Reading,
    /// What it teaches of other listeners and of the job.
    pub learned: Arc<Learned>,
    /// Complete requests.
    pub requests: u64,
    /// Of these: VALIDATE and PING, which say nothing of what the client wants.
    pub greetings: u64,
    /// Complete answers.
    pub answers: u64,
    /// Requests still unanswered when the connection ended.
    pub unanswered: u64,
    /// Query types seen, one bit each, by [`Operation`] as a number.
    pub operations: u32,
    /// Requests whose keys all look like a store client's (`/…` or `init/`).
    pub plausible: u64,
    /// Requests with a key that no store client sends.
    pub implausible: u64,
    /// The first request that is more than a greeting.
    pub first: Option<FirstRequest>,
    /// Large declared lengths and counts: the largest few, and the last.
    pub declared: Vec<Declared>,
    /// How many there were.
    pub declared_count: u64,
    /// A byte that is no query type.
    pub unknown: Option<(u8, Place)>,
    /// What is wrong with VALIDATE.
    pub validate: Option<(ValidateFault, Place)>,
    /// The client's stream ended inside this message.
    pub unfinished: Option<Unfinished>,
    /// The server's stream ended inside this answer.
    pub unfinished_answer: Option<Unfinished>,
    /// The first thing from the server that no store sends.
    pub server_fault: Option<ServerFault>,
    /// Bytes from the server that answer nothing.
    pub unexpected: u64,
    /// The first such place.
    pub unexpected_at: Option<Place>,
    /// The server declared lengths that no store declares.
    pub answer_lengths: u64,
    /// Captured bytes that no message accounts for, both ways.
    pub undecoded: u64,
    /// Times the client's stream was read again after a gap or a beginning in the middle.
    pub resynchronized: u64,
}

impl Facts {
    fn new(dialect: Dialect) -> Self {
        Facts {
            dialect,
            reading: Reading::default(),
            learned: Arc::default(),
            requests: 0,
            greetings: 0,
            answers: 0,
            unanswered: 0,
            operations: 0,
            plausible: 0,
            implausible: 0,
            first: None,
            declared: Vec::new(),
            declared_count: 0,
            unknown: None,
            validate: None,
            unfinished: None,
            unfinished_answer: None,
            server_fault: None,
            unexpected: 0,
            unexpected_at: None,
            answer_lengths: 0,
            undecoded: 0,
            resynchronized: 0,
        }
    }

    /// Lets go of what only a growing reading needs: facts are kept as long as the analysis runs.
    fn settle(&mut self) {
        Arc::make_mut(&mut self.learned).settle();
        self.reading.queries.shrink_to_fit();
        self.declared.shrink_to_fit();
    }

    /// Readings in several dialects that taught the same share it.
    pub fn share(all: &mut [Facts]) {
        for i in 1..all.len() {
            let (before, rest) = all.split_at_mut(i);
            if let Some(this) = rest.first_mut()
                && let Some(same) = before.iter().find(|f| f.learned == this.learned)
            {
                this.learned = Arc::clone(&same.learned);
            }
        }
    }

    fn note(&mut self, event: Event) {
        self.reading.see(&event);
        match event {
            Event::Request(message) => {
                Arc::make_mut(&mut self.learned).request(&message);
                self.requests += 1;
                self.operations |= 1 << message.query as u32;
                if matches!(message.query, Operation::Validate | Operation::Ping) {
                    self.greetings += 1;
                    return;
                }
                let odd = message.keys.iter().any(|k| !is_store_key(&k.bytes));
                if odd {
                    self.implausible += 1
                } else {
                    self.plausible += 1
                }
                if self.first.is_none() {
                    self.first = Some(FirstRequest {
                        query: message.query,
                        key: message.key().map(|k| k.bytes.clone()),
                        time: message.time,
                        packet: message.last,
                    });
                }
            }
            Event::Answer(answer) => {
                Arc::make_mut(&mut self.learned).answer(&answer);
                if answer.kind == AnswerKind::WrongNonce {
                    let place = Place { offset: answer.offset, packet: answer.first, time: answer.first_time };
                    let declared = answer.number.map(|n| n as u64);
                    self.fault(Some(answer.query), declared, "was answered with another number", place);
                } else if answer.query == Operation::Add && self.requests == self.greetings + 1 && self.counts_workers()
                {
                    let text = "was answered with a number that no count of workers is";
                    let of_workers = answer.number.is_some_and(|n| (0..=MAX_WORKERS).contains(&n));
                    let place = Place { offset: answer.offset, packet: answer.first, time: answer.first_time };
                    if !of_workers {
                        self.fault(Some(answer.query), answer.number.map(|n| n as u64), text, place);
                    }
                }
                self.answers += 1;
            }
            Event::Callback(_) => self.answers += 1,
            Event::Declared(d) => {
                self.declared_count += 1;
                if self.declared.len() >= KEPT_CLAIMS
                    && let Some((least, _)) = self.declared.iter().enumerate().min_by_key(|(_, kept)| kept.value)
                {
                    self.declared.remove(least);
                }
                self.declared.push(d);
            }
            Event::Unknown { opcode, place } => self.unknown = self.unknown.or(Some((opcode, place))),
            Event::Validate { fault, place } => self.validate = self.validate.or(Some((fault, place))),
            Event::Unfinished(u) => match u.direction {
                super::Direction::Client => self.unfinished = Some(u),
                super::Direction::Server => self.unfinished_answer = Some(u),
            },
            Event::Unexpected { request, place, .. } => {
                self.fault(request.map(|r| r.1), None, "was answered with a byte that no store answers", place);
                self.unexpected += 1;
                self.unexpected_at = self.unexpected_at.or(Some(place));
            }
            Event::AnswerLength { text, value, query, place, .. } => {
                // A large value is a large answer; text, or more than any store can hold, is another protocol.
                if text.is_some() || value > 1 << 40 {
                    self.fault(
                        Some(query),
                        Some(value),
                        "was answered with a length or number that no store sends",
                        place,
                    );
                    self.answer_lengths += 1;
                }
            }
            Event::Unanswered { .. } => self.unanswered += 1,
            Event::Resynchronized { .. } => self.resynchronized += 1,
            Event::Undecoded { length, .. } => self.undecoded += length,
        }
    }

    fn fault(&mut self, query: Option<Operation>, declared: Option<u64>, text: &str, place: Place) {
        if self.server_fault.is_none() {
            let subject = query.map_or("what nobody asked".to_string(), |q| q.to_string());
            let right = self.answers;
            self.server_fault = Some(ServerFault { query, declared, right, text: format!("{subject} {text}"), place });
        }
    }

    /// Whether the first request is the count of workers, ADD `init/`.
    fn counts_workers(&self) -> bool {
        self.first.as_ref().is_some_and(|f| f.query == Operation::Add && f.key.as_deref() == Some(b"init/"))
    }

    /// Whether what the server sent makes sense in this dialect, to the end or for a while.
    pub fn server_makes_sense(&self) -> bool {
        self.server_fault.as_ref().map_or(self.answers, |f| f.right) > 0
    }

    /// Whether a client greeted and then only kept the connection: it validated, and pinged where it did.
    pub fn only_greets(&self) -> bool {
        self.greetings > 0
            && self.requests == self.greetings
            && self.unknown.is_none()
            && self.validate.is_none()
            && self.unfinished.is_none()
            && self.server_fault.is_none()
    }

    /// Whether the whole connection reads as a store client's in this dialect: at least one request beyond a greeting,
    /// no key that no client sends, nothing unknown, every server byte an answer.
    pub fn is_clean(&self) -> bool {
        self.plausible > 0
            && self.implausible == 0
            && self.unknown.is_none()
            && self.validate.is_none()
            && self.unexpected == 0
            && self.answer_lengths == 0
    }

    /// Whether the connection begins as a store client's: greetings count, where they were taken.
    pub fn begins_well(&self) -> bool {
        self.validate.is_none() && self.implausible == 0 && (self.plausible > 0 || self.greetings > 0)
    }
}

/// Whether a key is one that a store client sends: the store's own prefix, or the worker counter.
pub fn is_store_key(key: &[u8]) -> bool {
    key.first() == Some(&b'/') || key == b"init/"
}

/// The decoder of one connection in one dialect.
#[derive(Debug)]
pub struct Decoding {
    connection: Connection,
    facts: Facts,
}

impl Decoding {
    /// A connection of which nothing was read yet. `midstream`: it began before the capture.
    pub fn new(dialect: Dialect, midstream: bool) -> Self {
        let options = DecodeOptions { keep_key_bytes: 128, ..DecodeOptions::default() };
        let connection =
            if midstream { Connection::joined_midstream(dialect, options) } else { Connection::new(dialect, options) };
        Decoding { connection, facts: Facts::new(dialect) }
    }

    /// What was seen so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The next bytes of one direction.
    pub fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        let facts = &mut self.facts;
        match direction {
            Direction::ToServer => self.connection.client(chunk, &mut |e| facts.note(e)),
            Direction::ToClient => self.connection.server(chunk, &mut |e| facts.note(e)),
        }
    }

    /// Bytes that the capture does not hold.
    pub fn gap(&mut self, direction: Direction, offset: u64, length: u64) {
        let facts = &mut self.facts;
        self.connection.gap(side(direction), offset, length, &mut |e| facts.note(e));
    }

    /// The end of both directions.
    pub fn end(mut self) -> Facts {
        let facts = &mut self.facts;
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.connection.end(side(direction), &mut |e| facts.note(e));
        }
        facts.settle();
        self.facts
    }
}

fn side(direction: Direction) -> super::Direction {
    match direction {
        Direction::ToServer => super::Direction::Client,
        Direction::ToClient => super::Direction::Server,
    }
}
