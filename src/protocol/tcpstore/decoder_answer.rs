//! One answer or callback of a server while its bytes come.

use super::answer::{Answer, AnswerKind, Shape};
use super::dialect::Operation;
use super::event::{DECLARED_MIN_BYTES, Direction, Event, Place, Unfinished};
use super::field::{Blob, Field, Fixed};
use super::key::ELASTIC_STATE;
use super::options::DecodeOptions;
use super::request::{FieldPart, Message};
use super::watch::{Callback, Change, REGISTERED};
use crate::time::Timestamp;

/// A request that the server has not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) id: u64,
    pub(super) query: Operation,
    pub(super) keys: u64,
    pub(super) number: i64,
    pub(super) time: Timestamp,
    pub(super) given_up: bool,
    /// Its first key is that of an elastic job's state.
    pub(super) elastic: bool,
}

/// What a request means for the server's stream.
pub(super) struct Expected {
    pub(super) pending: Pending,
    pub(super) first_time: Timestamp,
}

impl Expected {
    pub(super) fn of(message: &Message) -> Self {
        let pending = Pending {
            id: message.id,
            query: message.query,
            keys: message.key_count,
            number: message.number.unwrap_or(0),
            time: message.time,
            given_up: false,
            elastic: message.keys.first().is_some_and(|k| k.bytes.starts_with(ELASTIC_STATE)),
        };
        Expected { pending, first_time: message.first_time }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Request(Pending),
    Callback(Change),
}

/// An answer or callback whose bytes are still coming.
#[derive(Debug)]
pub(super) struct PendingAnswer {
    pub(super) of: Of,
    /// Which integer comes before the fields, if any: [`FieldPart::Nonce`], [`FieldPart::Number`] or [`FieldPart::KeyCount`].
    head: Option<FieldPart>,
    number: Option<i64>,
    /// Fields still to come.
    left: u64,
    count: u64,
    total: u64,
    fields: Vec<Field>,
    kept: usize,
    fixed: Fixed,
    fixed_at: u64,
    pub(super) blob: Option<Blob>,
    pub(super) first: Place,
    last: Place,
}

/// What the byte `code` says as an answer to `query`; `None` when it cannot answer it.
pub(super) fn code(query: Operation, code: u8) -> Option<AnswerKind> {
    match (query, code) {
        (Operation::Check, 0) => Some(AnswerKind::Ready),
        (Operation::Check, 1) => Some(AnswerKind::NotReady),
        (Operation::Wait | Operation::Barrier, 0) => Some(AnswerKind::StopWaiting),
        (Operation::CancelWait, 1) => Some(AnswerKind::WaitCanceled),
        (Operation::WatchKey, REGISTERED) => Some(AnswerKind::Registered),
        _ => None,
    }
}

pub(super) fn code_answer(p: Pending, kind: AnswerKind, length: u64, place: Place) -> Answer {
    Answer {
        request: p.id,
        query: p.query,
        kind,
        number: None,
        field_count: 0,
        fields: Vec::new(),
        value_bytes: 0,
        offset: place.offset,
        length,
        first: place.packet,
        last: place.packet,
        first_time: place.time,
        time: place.time,
        stale: p.given_up,
    }
}

/// The eight bytes of a number, when they read as text.
fn text(value: u64) -> Option<[u8; 8]> {
    let raw = value.to_le_bytes();
    raw.iter().all(|b| matches!(b, b' '..=b'~' | b'\r' | b'\n' | b'\t')).then_some(raw)
}

impl PendingAnswer {
    fn new(of: Of, head: Option<FieldPart>, left: u64, first: Place) -> Self {
        PendingAnswer {
            of,
            head,
            number: None,
            left,
            count: left,
            total: 0,
            fields: Vec::new(),
            kept: 0,
            fixed: Fixed::default(),
            fixed_at: first.offset,
            blob: None,
            first,
            last: first,
        }
    }

    pub(super) fn answer(p: Pending, shape: Shape, first: Place) -> Self {
        let (head, left) = match shape {
            Shape::None | Shape::Code => (None, 0),
            Shape::Word => (Some(FieldPart::Nonce), 0),
            Shape::Number | Shape::NumberThenField => (Some(FieldPart::Number), 0),
            Shape::List => (Some(FieldPart::KeyCount), 0),
            Shape::Fields(n) => (None, n),
        };
        PendingAnswer::new(Of::Request(p), head, left, first)
    }

    pub(super) fn callback(change: Change, first: Place) -> Self {
        PendingAnswer::new(Of::Callback(change), None, 3, first)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.head.is_none() && self.left == 0
    }

    pub(super) fn advance(
        &mut self,
        rest: &mut &[u8],
        place: Place,
        options: &DecodeOptions,
        out: &mut impl FnMut(Event),
    ) {
        self.last = place;
        if let Some(blob) = &mut self.blob {
            blob.take(rest);
            self.finish_blob(options);
            return;
        }
        if self.fixed.have() == 0 {
            self.fixed_at = place.offset;
        }
        let width = if self.head == Some(FieldPart::Nonce) { 4 } else { 8 };
        let Some(value) = self.fixed.take(rest, width) else { return };
        let number = i64::from_le_bytes(value.to_le_bytes());
        let report = match self.head.take() {
            Some(FieldPart::Nonce) => {
                self.number = Some(number);
                false
            }
            Some(part) => {
                self.number = Some(number);
                // A queue's length before the pop says whether one element follows; a list's is its length.
                let of_queue = matches!(self.of, Of::Request(p) if p.query == Operation::QueuePop);
                self.left = match part {
                    FieldPart::KeyCount => u64::try_from(number).unwrap_or(0),
                    _ => u64::from(of_queue && number > 0),
                };
                self.count = self.left;
                text(value).is_some()
            }
            None => {
                self.total = self.total.saturating_add(value);
                self.open_blob(value, options);
                value > DECLARED_MIN_BYTES
            }
        };
        if let Of::Request(p) = self.of
            && report
        {
            let place = Place { offset: self.fixed_at, ..place };
            out(Event::AnswerLength { request: p.id, query: p.query, value, text: text(value), place });
        }
    }

    fn open_blob(&mut self, length: u64, options: &DecodeOptions) {
        let keys = matches!(self.of, Of::Request(p) if p.query == Operation::ListKeys);
        let elastic = matches!(self.of, Of::Request(p) if p.elastic);
        let keep = match (keys, elastic) {
            (true, _) => options.keep_key_bytes,
            (false, true) => options.keep_message_bytes,
            (false, false) => options.keep_value_bytes,
        };
        let room = options.keep_message_bytes.saturating_sub(self.kept);
        let keep = if self.fields.len() < options.keep_elements { keep.min(room) } else { 0 };
        self.blob = Some(Blob::new(length, keep));
        self.finish_blob(options);
    }

    pub(super) fn finish_blob(&mut self, options: &DecodeOptions) {
        if !self.blob.as_ref().is_some_and(Blob::is_complete) {
            return;
        }
        let Some(field) = self.blob.take().map(Blob::into_field) else { return };
        self.kept += field.bytes.len();
        // A callback has three fields, and is lost without one of them.
        if self.fields.len() < options.keep_elements.max(3) {
            self.fields.push(field);
        }
        self.left = self.left.saturating_sub(1);
    }

    pub(super) fn into_event(self, end: u64) -> Event {
        let length = end.saturating_sub(self.first.offset);
        let (packet, time) = (self.last.packet, self.last.time);
        let p = match self.of {
            Of::Request(p) => p,
            Of::Callback(change) => {
                let mut fields = self.fields.into_iter();
                let mut field = || fields.next().unwrap_or_default();
                let (key, old, new) = (field(), field(), field());
                return Event::Callback(Callback {
                    change,
                    key,
                    old,
                    new,
                    offset: self.first.offset,
                    length,
                    packet,
                    time,
                });
            }
        };
        let kind = match p.query {
            Operation::Ping if self.number == Some(p.number) => AnswerKind::Pong,
            Operation::Ping => AnswerKind::WrongNonce,
            Operation::QueuePop => AnswerKind::Element,
            Operation::ListKeys => AnswerKind::List,
            Operation::MultiGet => AnswerKind::Values,
            Operation::Get | Operation::CompareSet => AnswerKind::Value,
            _ => AnswerKind::Number,
        };
        Event::Answer(Answer {
            request: p.id,
            query: p.query,
            kind,
            number: self.number,
            field_count: self.count,
            fields: self.fields,
            value_bytes: self.total,
            offset: self.first.offset,
            length,
            first: self.first.packet,
            last: packet,
            first_time: self.first.time,
            time,
            stale: p.given_up,
        })
    }

    pub(super) fn unfinished(&self, end: u64) -> Unfinished {
        let (request, query) = match self.of {
            Of::Request(p) => (Some(p.id), Some(p.query)),
            Of::Callback(_) => (None, None),
        };
        let have = u64::from(self.fixed.have());
        let (field, declared, delivered) = match (&self.blob, self.head) {
            (Some(b), _) => (FieldPart::Value, b.length(), b.delivered()),
            (None, Some(FieldPart::Nonce)) => (FieldPart::Nonce, 4, have),
            (None, Some(part)) => (part, 8, have),
            (None, None) => (FieldPart::ValueLength, 8, have),
        };
        Unfinished {
            direction: Direction::Server,
            request,
            query,
            field,
            declared,
            delivered,
            message_offset: self.first.offset,
            message_delivered: end.saturating_sub(self.first.offset),
        }
    }
}
