//! The server's stream: bytes → answers, matched to the requests they answer.

use std::collections::VecDeque;

use super::answer::{Answer, AnswerKind, Shape, is_deferred, shape};
use super::decoder::DecodeOptions;
use super::dialect::{Dialect, Operation};
use super::event::{DECLARED_MIN_BYTES, Direction, Event, Place, Unfinished};
use super::field::{Blob, Field, Fixed};
use super::pieces::Pieces;
use super::request::{Message, Part};
use super::watch::{Callback, Change, REGISTERED};
use crate::stream::Chunk;
use crate::time::Timestamp;

/// Most requests that may wait for an answer; a client of the store has one, two after a timeout.
const MAX_PENDING: usize = 256;
/// Most server bytes that are held until the request they answer arrives: captures reorder by a packet or two.
const MAX_EARLY: usize = 256;
/// After so many unexpected answers the server's stream is given up.
const MAX_FAULTS: u8 = 16;
/// A client that asks for something else this long after a WAIT has given the WAIT up, in nanoseconds.
const GIVE_UP_NANOS: i64 = 10_000_000;

/// A request that the server has not answered.
#[derive(Clone, Copy, Debug)]
struct Pending {
    id: u64,
    query: Operation,
    keys: u64,
    number: i64,
    time: Timestamp,
    given_up: bool,
}

/// What a request means for the server's stream.
pub(super) struct Expected {
    pending: Pending,
    first_time: Timestamp,
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
        };
        Expected { pending, first_time: message.first_time }
    }
}

#[derive(Clone, Copy, Debug)]
enum Of {
    Request(Pending),
    Callback(Change),
}

/// An answer or callback whose bytes are still coming.
#[derive(Debug)]
struct Open {
    of: Of,
    /// Which integer comes before the fields, if any: [`Part::Nonce`], [`Part::Number`] or [`Part::KeyCount`].
    head: Option<Part>,
    number: Option<i64>,
    /// Fields still to come.
    left: u64,
    count: u64,
    total: u64,
    fields: Vec<Field>,
    kept: usize,
    fixed: Fixed,
    fixed_at: u64,
    blob: Option<Blob>,
    first: Place,
    last: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Align {
    /// Every outstanding request is known.
    Matched,
    /// Not known what is answered, until the client asks for something: it asks one thing at a time, so all
    /// before that has been answered. Bytes from this offset on are not decoded.
    Lost(u64),
}

/// What the next byte begins.
enum Choice {
    Request(usize),
    Cancel(usize),
    Callback(Change),
    /// Nothing is outstanding.
    Nothing,
    /// Not to be told before the whole packet is there.
    Hold,
    /// The request at this index cannot be answered so.
    Wrong(usize),
}

/// The server's side of a connection.
#[derive(Debug)]
pub(super) struct Answers {
    dialect: Dialect,
    pending: VecDeque<Pending>,
    open: Option<Open>,
    align: Align,
    early: Pieces,
    next: u64,
    begun: bool,
    watching: bool,
    recognized: bool,
    faults: u8,
    /// `early` holds the bytes of one packet that begin with a zero which may answer a WAIT that was given up.
    held: bool,
    /// The held bytes are all there: decide.
    settling: bool,
}

impl Answers {
    pub(super) fn new(dialect: Dialect) -> Self {
        Answers {
            dialect,
            pending: VecDeque::new(),
            open: None,
            align: Align::Matched,
            early: Pieces::default(),
            next: 0,
            begun: false,
            watching: false,
            recognized: true,
            faults: 0,
            held: false,
            settling: false,
        }
    }

    pub(super) fn joined_midstream(&mut self) {
        self.align = Align::Lost(self.next);
        self.recognized = false;
    }

    /// Notes a request of the client: what it will be answered with, and what it says about earlier ones.
    pub(super) fn expect(&mut self, expected: Expected, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
        self.settle(options, out);
        if self.align != Align::Matched {
            if self.faults >= MAX_FAULTS {
                return;
            }
            self.pass_over(self.next, out);
            self.align = Align::Matched;
            self.pending.clear();
        }
        self.recognized = true;
        self.watching |= expected.pending.query == Operation::WatchKey;
        // Only clients that cannot cancel give up in silence.
        if self.dialect.byte(Operation::CancelWait).is_none() {
            for p in self.pending.iter_mut().rev().take_while(|p| !p.given_up) {
                let late = expected.first_time.0.saturating_sub(p.time.0) >= GIVE_UP_NANOS;
                p.given_up = is_deferred(p.query) && late;
            }
        }
        if shape(expected.pending.query, expected.pending.keys) == Shape::None {
            return;
        }
        if self.pending.len() >= MAX_PENDING {
            self.lose();
            return;
        }
        self.pending.push_back(expected.pending);
        if !self.early.bytes().is_empty() {
            let early = std::mem::take(&mut self.early);
            for piece in early.chunks() {
                self.read(&piece, options, out);
            }
        }
    }

    /// Requests were missed: answers cannot be matched until the next one. An answer in progress is still read.
    pub(super) fn lose(&mut self) {
        self.pending.clear();
        if self.align == Align::Matched {
            let from = if self.early.bytes().is_empty() { self.next } else { self.early.offset() };
            self.align = Align::Lost(from);
        }
        self.early.clear();
        self.held = false;
    }

    /// Decides about held bytes: their packet is over, or the client has gone on.
    fn settle(&mut self, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
        if !self.held {
            return;
        }
        self.held = false;
        self.settling = true;
        let held = std::mem::take(&mut self.early);
        for piece in held.chunks() {
            self.read(&piece, options, out);
        }
        self.settling = false;
    }

    pub(super) fn feed(&mut self, chunk: &Chunk<'_>, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
        if !self.begun {
            self.begin_at(chunk.offset);
        } else if chunk.offset > self.next {
            self.gap(self.next, chunk.offset - self.next, options, out);
        }
        let old = usize::try_from(self.next.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
        let Some(bytes) = chunk.bytes.get(old..).filter(|b| !b.is_empty()) else { return };
        let chunk = Chunk { offset: self.next, bytes, ..*chunk };
        self.next = self.next.saturating_add(bytes.len() as u64);
        if self.held && self.early.ends_in(chunk.packet) && bytes.len() <= MAX_EARLY {
            self.early.push(chunk.offset, bytes, chunk.packet, chunk.time);
            if self.early.bytes().len() > MAX_EARLY {
                self.settle(options, out);
            }
            return;
        }
        self.settle(options, out);
        self.read(&chunk, options, out);
    }

    fn begin_at(&mut self, offset: u64) {
        self.begun = true;
        self.next = offset;
        if let Align::Lost(from) = &mut self.align {
            *from = offset;
        }
    }

    fn read(&mut self, chunk: &Chunk<'_>, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
        let mut rest = chunk.bytes;
        while let Some(first) = rest.first().copied() {
            let offset = chunk.offset + (chunk.bytes.len() - rest.len()) as u64;
            let place = Place { offset, packet: chunk.packet, time: chunk.time };
            if let Some(open) = &mut self.open {
                open.advance(&mut rest, place, options, out);
                let end = chunk.offset + (chunk.bytes.len() - rest.len()) as u64;
                self.close_if_complete(end, out);
                continue;
            }
            if self.align != Align::Matched {
                return;
            }
            match self.choose(first, rest) {
                Choice::Request(i) => {
                    let Some(p) = self.pending.remove(i) else { return };
                    match shape(p.query, p.keys) {
                        Shape::Code => {
                            rest = rest.get(1..).unwrap_or(&[]);
                            self.coded(p, first, place, out);
                        }
                        shape => self.open = Some(Open::answer(p, shape, place)),
                    }
                }
                Choice::Cancel(i) => {
                    rest = rest.get(1..).unwrap_or(&[]);
                    let after = self.pending.split_off(i.saturating_add(1).min(self.pending.len()));
                    for p in std::mem::replace(&mut self.pending, after) {
                        let length = u64::from(p.query == Operation::CancelWait);
                        out(Event::Answer(code_answer(p, AnswerKind::WaitCanceled, length, place)));
                    }
                }
                Choice::Callback(change) => {
                    rest = rest.get(1..).unwrap_or(&[]);
                    self.open = Some(Open::callback(change, place));
                }
                Choice::Nothing => {
                    self.early.push(offset, rest.get(..MAX_EARLY).unwrap_or(rest), chunk.packet, chunk.time);
                    if rest.len() > MAX_EARLY || self.early.bytes().len() > MAX_EARLY {
                        self.refuse_early(out);
                    }
                    return;
                }
                Choice::Hold => {
                    self.early.push(offset, rest, chunk.packet, chunk.time);
                    self.held = true;
                    return;
                }
                Choice::Wrong(i) => {
                    let request = self.pending.get(i).map(|p| (p.id, p.query));
                    self.refuse(Event::Unexpected { request, byte: first, place }, offset, out);
                    return;
                }
            }
        }
    }

    /// Reports bytes that nothing asked for, and gives up matching until the next request.
    fn refuse(&mut self, event: Event, from: u64, out: &mut impl FnMut(Event)) {
        out(event);
        self.faults = self.faults.saturating_add(1);
        self.lose();
        self.align = Align::Lost(from);
    }

    fn refuse_early(&mut self, out: &mut impl FnMut(Event)) {
        let Some((place, byte)) = self.early.chunks().next().and_then(|c| {
            let byte = *c.bytes.first()?;
            Some((Place { offset: c.offset, packet: c.packet, time: c.time }, byte))
        }) else {
            return;
        };
        self.refuse(Event::Unexpected { request: None, byte, place }, place.offset, out);
    }

    /// What a byte at the beginning of an answer belongs to. Requests are answered in order, but WAIT and BARRIER
    /// whenever their condition holds.
    fn choose(&self, byte: u8, rest: &[u8]) -> Choice {
        let callbacks = self.pending.iter().all(|p| p.query == Operation::WatchKey);
        if self.watching
            && callbacks
            && let Some(change) = Change::from_byte(byte)
        {
            return Choice::Callback(change);
        }
        let firm = self.pending.iter().position(|p| !is_deferred(p.query));
        let waits = firm.unwrap_or(self.pending.len());
        if let Some(i) = firm
            && self.pending.get(i).is_some_and(|p| p.query == Operation::CancelWait)
        {
            return match byte {
                1 => Choice::Cancel(i),
                0 if waits > 0 => Choice::Request(0),
                _ => Choice::Wrong(i),
            };
        }
        if waits == 0 {
            return match self.pending.front() {
                None => Choice::Nothing,
                Some(p) if code(p.query, byte).is_none() && shape(p.query, p.keys) == Shape::Code => Choice::Wrong(0),
                Some(_) => Choice::Request(0),
            };
        }
        let waited_for = self.pending.iter().take(waits).position(|p| !p.given_up);
        match (waited_for, firm) {
            (Some(i), None) => Self::zero(byte, i),
            // The client sent more without reading the answer: a pipeline, answered in order while it can be.
            (Some(i), Some(_)) if byte == 0 => Choice::Request(i),
            (None, None) => Self::zero(byte, 0),
            (_, Some(i)) => match self.pending.get(i) {
                Some(p)
                    if byte == 0
                        && shape(p.query, p.keys) != Shape::Code
                        && rest.len() <= MAX_EARLY
                        && !self.settling =>
                {
                    Choice::Hold
                }
                Some(p) if byte == 0 && is_stale_zero(shape(p.query, p.keys), rest) => Choice::Request(0),
                Some(p) if shape(p.query, p.keys) == Shape::Code && code(p.query, byte).is_none() => Choice::Wrong(i),
                _ => Choice::Request(i),
            },
        }
    }

    fn zero(byte: u8, i: usize) -> Choice {
        if byte == 0 { Choice::Request(i) } else { Choice::Wrong(i) }
    }

    fn coded(&mut self, p: Pending, byte: u8, place: Place, out: &mut impl FnMut(Event)) {
        match code(p.query, byte) {
            Some(kind) => out(Event::Answer(code_answer(p, kind, 1, place))),
            None => {
                let request = Some((p.id, p.query));
                self.refuse(Event::Unexpected { request, byte, place }, place.offset, out);
            }
        }
    }

    fn close_if_complete(&mut self, end: u64, out: &mut impl FnMut(Event)) {
        if !self.open.as_ref().is_some_and(Open::is_complete) {
            return;
        }
        if let Some(open) = self.open.take() {
            out(open.into_event(end));
        }
        if let Align::Lost(from) = &mut self.align {
            *from = end;
        }
    }

    pub(super) fn gap(&mut self, offset: u64, length: u64, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
        if !self.begun {
            self.begin_at(offset);
        }
        let end = offset.saturating_add(length);
        if end <= self.next {
            return;
        }
        let length = end - self.next;
        self.settle(options, out);
        if let Some(open) = &mut self.open
            && open.blob.as_mut().is_some_and(|b| b.pass(length))
        {
            self.next = end;
            open.finish_blob(options);
            self.close_if_complete(end, out);
            return;
        }
        if let Some(open) = self.open.take() {
            self.align = Align::Lost(open.first.offset);
        }
        self.lose();
        self.pass_over(self.next, out);
        self.next = end;
        self.align = Align::Lost(end);
    }

    fn pass_over(&mut self, end: u64, out: &mut impl FnMut(Event)) {
        let Align::Lost(from) = self.align else { return };
        let length = end.saturating_sub(from);
        if length > 0 && self.recognized && self.open.is_none() {
            out(Event::Undecoded { direction: Direction::Server, offset: from, length });
        }
    }

    pub(super) fn end(&mut self, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
        self.settle(options, out);
        self.refuse_early(out);
        if let Some(open) = &self.open {
            out(Event::Unfinished(open.unfinished(self.next)));
        }
        self.pass_over(self.next, out);
        let answering = match self.open.take().map(|o| o.of) {
            Some(Of::Request(p)) => Some(p),
            _ => None,
        };
        for p in answering.into_iter().chain(self.pending.drain(..)) {
            out(Event::Unanswered { request: p.id, query: p.query, time: p.time });
        }
        self.align = Align::Lost(self.next);
    }
}

/// Whether a zero byte answers a WAIT that was given up, rather than beginning an answer of `shape`. The bytes
/// alone cannot tell; that a server sends each answer at once can.
fn is_stale_zero(shape: Shape, rest: &[u8]) -> bool {
    let length_at = |at: usize| -> Option<usize> {
        let raw = rest.get(at..at.checked_add(8)?)?;
        usize::try_from(u64::from_le_bytes(raw.try_into().ok()?)).ok()
    };
    let fills =
        |at: usize| length_at(at).is_some_and(|n| at.checked_add(8).and_then(|s| s.checked_add(n)) == Some(rest.len()));
    match shape {
        Shape::None | Shape::Code => false,
        Shape::Word => matches!(rest.len(), 1 | 5),
        Shape::Number => matches!(rest.len(), 1 | 9),
        _ => rest.len() == 1 || (!fills(0) && fills(1)),
    }
}

/// What the byte `code` says as an answer to `query`; `None` when it cannot answer it.
fn code(query: Operation, code: u8) -> Option<AnswerKind> {
    match (query, code) {
        (Operation::Check, 0) => Some(AnswerKind::Ready),
        (Operation::Check, 1) => Some(AnswerKind::NotReady),
        (Operation::Wait | Operation::Barrier, 0) => Some(AnswerKind::StopWaiting),
        (Operation::CancelWait, 1) => Some(AnswerKind::WaitCanceled),
        (Operation::WatchKey, REGISTERED) => Some(AnswerKind::Registered),
        _ => None,
    }
}

fn code_answer(p: Pending, kind: AnswerKind, length: u64, place: Place) -> Answer {
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

impl Open {
    fn new(of: Of, head: Option<Part>, left: u64, first: Place) -> Self {
        Open {
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

    fn answer(p: Pending, shape: Shape, first: Place) -> Self {
        let (head, left) = match shape {
            Shape::None | Shape::Code => (None, 0),
            Shape::Word => (Some(Part::Nonce), 0),
            Shape::Number | Shape::NumberThenField => (Some(Part::Number), 0),
            Shape::List => (Some(Part::KeyCount), 0),
            Shape::Fields(n) => (None, n),
        };
        Open::new(Of::Request(p), head, left, first)
    }

    fn callback(change: Change, first: Place) -> Self {
        Open::new(Of::Callback(change), None, 3, first)
    }

    fn is_complete(&self) -> bool {
        self.head.is_none() && self.left == 0
    }

    fn advance(&mut self, rest: &mut &[u8], place: Place, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
        self.last = place;
        if let Some(blob) = &mut self.blob {
            blob.take(rest);
            self.finish_blob(options);
            return;
        }
        if self.fixed.have() == 0 {
            self.fixed_at = place.offset;
        }
        let width = if self.head == Some(Part::Nonce) { 4 } else { 8 };
        let Some(value) = self.fixed.take(rest, width) else { return };
        let number = i64::from_le_bytes(value.to_le_bytes());
        let report = match self.head.take() {
            Some(Part::Nonce) => {
                self.number = Some(number);
                false
            }
            Some(part) => {
                self.number = Some(number);
                // A queue's length before the pop says whether one element follows; a list's is its length.
                let of_queue = matches!(self.of, Of::Request(p) if p.query == Operation::QueuePop);
                self.left = match part {
                    Part::KeyCount => u64::try_from(number).unwrap_or(0),
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
        let keep = if keys { options.keep_key_bytes } else { options.keep_value_bytes };
        let room = options.keep_message_bytes.saturating_sub(self.kept);
        let keep = if self.fields.len() < options.keep_elements { keep.min(room) } else { 0 };
        self.blob = Some(Blob::new(length, keep));
        self.finish_blob(options);
    }

    fn finish_blob(&mut self, options: &DecodeOptions) {
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

    fn into_event(self, end: u64) -> Event {
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

    fn unfinished(&self, end: u64) -> Unfinished {
        let (request, query) = match self.of {
            Of::Request(p) => (Some(p.id), Some(p.query)),
            Of::Callback(_) => (None, None),
        };
        let have = u64::from(self.fixed.have());
        let (field, declared, delivered) = match (&self.blob, self.head) {
            (Some(b), _) => (Part::Value, b.length(), b.delivered()),
            (None, Some(Part::Nonce)) => (Part::Nonce, 4, have),
            (None, Some(part)) => (part, 8, have),
            (None, None) => (Part::ValueLength, 8, have),
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
