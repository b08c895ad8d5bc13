//! What one dialect's decoder makes of one connection, condensed.

use std::sync::Arc;

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
            Event::Unfinished(u) => {
                if u.direction == super::Direction::Client {
                    self.unfinished = Some(u);
                }
            }
            Event::Unexpected { place, .. } => {
                self.unexpected += 1;
                self.unexpected_at = self.unexpected_at.or(Some(place));
            }
            Event::AnswerLength { text, value, .. } => {
                // A large value is a large answer; text, or more than any store can hold, is another protocol.
                if text.is_some() || value > 1 << 40 {
                    self.answer_lengths += 1;
                }
            }
            Event::Unanswered { .. } => self.unanswered += 1,
            Event::Resynchronized { .. } => self.resynchronized += 1,
            Event::Undecoded { length, .. } => self.undecoded += length,
        }
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

    /// Whether `operation` was asked for.
    pub fn asked(&self, operation: Operation) -> bool {
        self.operations >> operation as u32 & 1 != 0
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
