//! The client's stream: bytes → requests.

use super::decoder::DecodeOptions;
use super::dialect::{Dialect, Operation};
use super::event::{
    DECLARED_MIN_BYTES, DECLARED_MIN_KEYS, Declared, Direction, Event, Place, Unfinished, ValidateFault,
};
use super::field::{Blob, Field, Fixed};
use super::pieces::Pieces;
use super::plausible::{self, Plausible};
use super::request::{Layout, Message, Part, VALIDATE_MAGIC, layout};
use crate::stream::Chunk;

/// What the client's stream tells the connection.
pub(super) enum Signal {
    /// Hand on.
    Event(Event),
    /// Requests were missed: what the server says cannot be matched for now.
    Lost,
}

/// A message whose bytes are still coming.
#[derive(Debug)]
struct Open {
    message: Message,
    layout: Layout,
    /// Whether the count of a counted query is still to come.
    count_due: bool,
    /// Elements still to come, this one included.
    left: u64,
    element: u64,
    step: usize,
    fixed: Fixed,
    /// Offset of the first byte of the integer being read.
    fixed_at: u64,
    blob: Option<Blob>,
    kept: usize,
}

#[derive(Debug)]
enum Mode {
    /// At the first byte of a message.
    Between,
    /// In a message.
    Within(Open),
    /// Looking for a message; captured bytes from this offset on are passed over.
    Searching(u64),
    /// Not read on; bytes from this offset on are not decoded.
    Stopped(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Validation {
    Required,
    Done,
    /// The beginning was not seen.
    Unseen,
}

/// The client's side of a connection.
#[derive(Debug)]
pub(super) struct Requests {
    dialect: Dialect,
    mode: Mode,
    validation: Validation,
    /// Offset of the next byte.
    next: u64,
    begun: bool,
    next_id: u64,
    /// Whether bytes before a recognized message count as undecoded: not at the beginning in the middle.
    recognized: bool,
    /// Captured bytes passed over since the last recognized message.
    skipped: u64,
    window: Pieces,
    /// The last eight bytes passed over in a search: tells the end of an integer from a SET (0).
    before: u64,
}

impl Requests {
    pub(super) fn new(dialect: Dialect) -> Self {
        Requests {
            dialect,
            mode: Mode::Between,
            validation: if dialect.validates() { Validation::Required } else { Validation::Done },
            next: 0,
            begun: false,
            next_id: 0,
            recognized: true,
            skipped: 0,
            window: Pieces::default(),
            before: u64::MAX,
        }
    }

    pub(super) fn joined_midstream(&mut self) {
        self.mode = Mode::Searching(self.next);
        self.recognized = false;
        if self.validation == Validation::Required {
            self.validation = Validation::Unseen;
        }
    }

    pub(super) fn feed(&mut self, chunk: &Chunk<'_>, options: &DecodeOptions, out: &mut impl FnMut(Signal)) {
        let Some((offset, bytes)) = self.arrive(chunk, options, out) else { return };
        let chunk = Chunk { offset, bytes, ..*chunk };
        self.next = offset.saturating_add(bytes.len() as u64);
        match self.mode {
            Mode::Searching(_) => self.search(&chunk, options, out),
            _ => self.read(&chunk, options, out),
        }
    }

    /// Brings the chunk in line with what was seen: an unannounced hole is a gap, bytes seen before are dropped.
    fn arrive<'a>(
        &mut self,
        chunk: &Chunk<'a>,
        options: &DecodeOptions,
        out: &mut impl FnMut(Signal),
    ) -> Option<(u64, &'a [u8])> {
        if !self.begun {
            self.begin_at(chunk.offset);
        } else if chunk.offset > self.next {
            self.gap(self.next, chunk.offset - self.next, options, out);
        }
        let old = usize::try_from(self.next.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
        let bytes = chunk.bytes.get(old..).filter(|b| !b.is_empty())?;
        Some((self.next, bytes))
    }

    fn begin_at(&mut self, offset: u64) {
        self.begun = true;
        self.next = offset;
        if let Mode::Searching(from) | Mode::Stopped(from) = &mut self.mode {
            *from = offset;
        }
    }

    /// Looks for a message, in pieces of bounded size, then reads on from it.
    fn search(&mut self, chunk: &Chunk<'_>, options: &DecodeOptions, out: &mut impl FnMut(Signal)) {
        let mut offset = chunk.offset;
        let mut pieces = chunk.bytes.chunks(1024);
        while let Some(piece) = pieces.next() {
            self.window.push(offset, piece, chunk.packet, chunk.time);
            offset += piece.len() as u64;
            let Some(found) = self.scan() else { continue };
            self.resynchronize(found, out);
            let window = std::mem::take(&mut self.window);
            for piece in window.chunks() {
                self.read(&piece, options, out);
            }
            let done = usize::try_from(offset - chunk.offset).unwrap_or(usize::MAX);
            if let Some(bytes) = chunk.bytes.get(done..).filter(|b| !b.is_empty()) {
                self.read(&Chunk { offset, bytes, ..*chunk }, options, out);
            }
            return;
        }
    }

    /// The offset of a message in the window, whose earlier bytes are dropped.
    fn scan(&mut self) -> Option<u64> {
        let bytes = self.window.bytes();
        let mut at = 0;
        let mut before = self.before;
        let mut found = false;
        while let Some(rest) = bytes.get(at..).filter(|r| !r.is_empty()) {
            let sample = rest.get(..plausible::WINDOW + 64).unwrap_or(rest);
            // `…00 | length | /key` is also how a count ends and its first key begins: the zero is no SET.
            let end_of_integer = rest.first() == Some(&0) && before << 24 == 0;
            match plausible::request(self.dialect, sample) {
                Plausible::Yes if !end_of_integer || self.dialect.validates() => {
                    found = true;
                    break;
                }
                Plausible::More if rest.len() < plausible::WINDOW => break,
                _ => {}
            }
            before = before << 8 | u64::from(rest.first().copied().unwrap_or(0));
            at += 1;
        }
        self.before = before;
        self.window.drop_front(at);
        found.then(|| self.window.offset())
    }

    fn resynchronize(&mut self, offset: u64, out: &mut impl FnMut(Signal)) {
        self.pass_over(offset, out);
        out(Signal::Event(Event::Resynchronized { offset, skipped: self.skipped }));
        self.skipped = 0;
        self.recognized = true;
        self.before = u64::MAX;
        self.mode = Mode::Between;
        if self.validation == Validation::Required {
            self.validation = Validation::Unseen;
        }
    }

    /// Accounts for bytes that were not decoded, up to `end`.
    fn pass_over(&mut self, end: u64, out: &mut impl FnMut(Signal)) {
        let (Mode::Searching(from) | Mode::Stopped(from)) = self.mode else { return };
        let length = end.saturating_sub(from);
        self.skipped += length;
        if length > 0 && self.recognized {
            out(Signal::Event(Event::Undecoded { direction: Direction::Client, offset: from, length }));
        }
    }

    /// Reads messages to the end of the chunk.
    fn read(&mut self, chunk: &Chunk<'_>, options: &DecodeOptions, out: &mut impl FnMut(Signal)) {
        let mut rest = chunk.bytes;
        while !rest.is_empty() {
            let offset = chunk.offset + (chunk.bytes.len() - rest.len()) as u64;
            let place = Place { offset, packet: chunk.packet, time: chunk.time };
            match &mut self.mode {
                Mode::Stopped(_) | Mode::Searching(_) => return,
                Mode::Between => {
                    let Some((opcode, tail)) = rest.split_first() else { return };
                    match self.begin(*opcode, place) {
                        Ok(open) => {
                            rest = tail;
                            self.mode = Mode::Within(open);
                        }
                        Err(event) => {
                            out(Signal::Event(event));
                            self.mode = Mode::Stopped(offset);
                            return;
                        }
                    }
                }
                Mode::Within(open) => open.advance(&mut rest, place, options, out),
            }
            let end = chunk.offset + (chunk.bytes.len() - rest.len()) as u64;
            self.close_if_complete(Place { offset: end, ..place }, out);
        }
    }

    fn begin(&self, opcode: u8, place: Place) -> Result<Open, Event> {
        if self.validation == Validation::Required && self.dialect.operation(opcode) != Some(Operation::Validate) {
            return Err(Event::Validate { fault: ValidateFault::Missing { first: opcode }, place });
        }
        let query = self.dialect.operation(opcode).ok_or(Event::Unknown { opcode, place })?;
        Ok(Open::new(self.next_id, query, opcode, place))
    }

    /// `end`: where the last byte read was, its offset being that of the next one.
    fn close_if_complete(&mut self, end: Place, out: &mut impl FnMut(Signal)) {
        if !matches!(&self.mode, Mode::Within(open) if open.is_complete()) {
            return;
        }
        let Mode::Within(open) = std::mem::replace(&mut self.mode, Mode::Between) else { return };
        let mut message = open.message;
        message.length = end.offset.saturating_sub(message.offset);
        (message.last, message.time) = (end.packet, end.time);
        let (query, number, magic_at) = (message.query, message.number, message.offset + 1);
        self.next_id += 1;
        out(Signal::Event(Event::Request(message)));
        if query != Operation::Validate {
            return;
        }
        let got = number.unwrap_or(0) as u32;
        let fault = match self.validation {
            Validation::Done => Some(ValidateFault::Repeated),
            _ if got != VALIDATE_MAGIC => Some(ValidateFault::WrongMagic { got }),
            _ => None,
        };
        self.validation = Validation::Done;
        if let Some(fault) = fault {
            out(Signal::Event(Event::Validate { fault, place: Place { offset: magic_at, ..end } }));
            self.mode = Mode::Stopped(end.offset);
        }
    }

    pub(super) fn gap(&mut self, offset: u64, length: u64, options: &DecodeOptions, out: &mut impl FnMut(Signal)) {
        if !self.begun {
            self.begin_at(offset);
        }
        let end = offset.saturating_add(length);
        if end <= self.next {
            return;
        }
        let length = end - self.next;
        if let Mode::Within(open) = &mut self.mode
            && open.blob.as_mut().is_some_and(|b| b.pass(length))
        {
            let last = Place { offset: end, packet: open.message.last, time: open.message.time };
            self.next = end;
            open.finish_blob(options);
            self.close_if_complete(last, out);
            return;
        }
        if let Mode::Within(open) = &self.mode {
            self.mode = Mode::Searching(open.message.offset);
        }
        self.pass_over(self.next, out);
        self.next = end;
        self.window.clear();
        self.before = u64::MAX;
        self.mode = match self.mode {
            Mode::Stopped(_) => Mode::Stopped(end),
            _ => Mode::Searching(end),
        };
        out(Signal::Lost);
    }

    pub(super) fn end(&mut self, out: &mut impl FnMut(Signal)) {
        if let Mode::Within(open) = &self.mode {
            out(Signal::Event(Event::Unfinished(open.unfinished(self.next))));
        }
        self.pass_over(self.next, out);
        self.window.clear();
        self.mode = Mode::Stopped(self.next);
    }
}

impl Open {
    fn new(id: u64, query: Operation, opcode: u8, place: Place) -> Self {
        let layout = layout(query);
        let message = Message {
            id,
            query,
            opcode,
            offset: place.offset,
            length: 0,
            first: place.packet,
            last: place.packet,
            first_time: place.time,
            time: place.time,
            key_count: u64::from(!layout.counted && layout.steps.contains(&Part::Key)),
            keys: Vec::new(),
            values: Vec::new(),
            number: None,
        };
        Open {
            message,
            layout,
            count_due: layout.counted,
            left: 1,
            element: 0,
            step: 0,
            fixed: Fixed::default(),
            fixed_at: 0,
            blob: None,
            kept: 0,
        }
    }

    fn part(&self) -> Option<Part> {
        if self.count_due { Some(Part::KeyCount) } else { self.layout.steps.get(self.step).copied() }
    }

    fn is_complete(&self) -> bool {
        !self.count_due && (self.left == 0 || self.layout.steps.is_empty())
    }

    /// Takes what it can of one field. `place` is where `rest` begins.
    fn advance(&mut self, rest: &mut &[u8], place: Place, options: &DecodeOptions, out: &mut impl FnMut(Signal)) {
        (self.message.last, self.message.time) = (place.packet, place.time);
        if let Some(blob) = &mut self.blob {
            blob.take(rest);
            self.finish_blob(options);
            return;
        }
        let Some(part) = self.part() else { return };
        if self.fixed.have() == 0 {
            self.fixed_at = place.offset;
        }
        let Some(value) = self.fixed.take(rest, width(part)) else { return };
        let mut declare = |field: Part, limit: u64, element: u64| {
            if value > limit {
                out(Signal::Event(Event::Declared(Declared {
                    request: self.message.id,
                    query: self.message.query,
                    opcode: self.message.opcode,
                    field,
                    value,
                    element,
                    message_offset: self.message.offset,
                    place: Place { offset: self.fixed_at, ..place },
                })));
            }
        };
        match part {
            Part::KeyCount => {
                declare(Part::KeyCount, DECLARED_MIN_KEYS, 0);
                self.message.key_count = value;
                self.left = value;
                self.count_due = false;
            }
            Part::Key => {
                declare(Part::KeyLength, DECLARED_MIN_BYTES, self.element);
                self.open_blob(value, options.keep_key_bytes, self.message.keys.len(), options);
            }
            Part::Value => {
                let element = if self.layout.counted { self.element } else { self.step.saturating_sub(1) as u64 };
                declare(Part::ValueLength, DECLARED_MIN_BYTES, element);
                self.open_blob(value, options.keep_value_bytes, self.message.values.len(), options);
            }
            Part::Magic | Part::Nonce => {
                self.message.number = Some(value as i64);
                self.next_step();
            }
            _ => {
                self.message.number = Some(i64::from_le_bytes(value.to_le_bytes()));
                self.next_step();
            }
        }
    }

    fn open_blob(&mut self, length: u64, keep: usize, held: usize, options: &DecodeOptions) {
        let room = options.keep_message_bytes.saturating_sub(self.kept);
        let keep = if held < options.keep_elements { keep.min(room) } else { 0 };
        self.blob = Some(Blob::new(length, keep));
        self.finish_blob(options);
    }

    fn finish_blob(&mut self, options: &DecodeOptions) {
        if !self.blob.as_ref().is_some_and(Blob::is_complete) {
            return;
        }
        let Some(field) = self.blob.take().map(Blob::into_field) else { return };
        self.kept += field.bytes.len();
        let list: &mut Vec<Field> =
            if self.part() == Some(Part::Key) { &mut self.message.keys } else { &mut self.message.values };
        if list.len() < options.keep_elements {
            list.push(field);
        }
        self.next_step();
    }

    fn next_step(&mut self) {
        self.step += 1;
        if self.step >= self.layout.steps.len() {
            self.step = 0;
            self.element += 1;
            self.left = self.left.saturating_sub(1);
        }
    }

    fn unfinished(&self, end: u64) -> Unfinished {
        let part = self.part().unwrap_or(Part::Code);
        let (field, declared, delivered) = match (&self.blob, part) {
            (Some(b), part) => (part, b.length(), b.delivered()),
            (None, Part::Key) => (Part::KeyLength, 8, u64::from(self.fixed.have())),
            (None, Part::Value) => (Part::ValueLength, 8, u64::from(self.fixed.have())),
            (None, part) => (part, u64::from(width(part)), u64::from(self.fixed.have())),
        };
        Unfinished {
            direction: Direction::Client,
            request: Some(self.message.id),
            query: Some(self.message.query),
            field,
            declared,
            delivered,
            message_offset: self.message.offset,
            message_delivered: end.saturating_sub(self.message.offset),
        }
    }
}

/// Width in bytes of the integer that a part begins with.
fn width(part: Part) -> u8 {
    match part {
        Part::Magic | Part::Nonce => 4,
        Part::Code => 1,
        _ => 8,
    }
}
