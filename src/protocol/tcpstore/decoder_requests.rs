//! The client's stream: bytes → requests.

use super::decoder_request::PendingRequest;
use super::dialect::{Dialect, Operation};
use super::event::{Direction, Event, Place, ValidateFault};
use super::options::DecodeOptions;
use super::pieces::Pieces;
use super::plausible::{self, Plausible};
use super::request::VALIDATE_MAGIC;
use crate::stream::Chunk;

/// What the client's stream tells the connection.
pub(super) enum Signal {
    /// Hand on.
    Event(Event),
    /// Requests were missed: what the server says cannot be matched for now.
    Lost,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one a connection; a box would be an allocation a message
enum Mode {
    /// At the first byte of a message.
    Between,
    /// In a message.
    Within(PendingRequest),
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
        for piece in chunk.bytes.chunks(1024) {
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
                            out(Signal::Event(*event));
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

    fn begin(&self, opcode: u8, place: Place) -> Result<PendingRequest, Box<Event>> {
        if self.validation == Validation::Required && self.dialect.operation(opcode) != Some(Operation::Validate) {
            return Err(Box::new(Event::Validate { fault: ValidateFault::Missing { first: opcode }, place }));
        }
        let query = self.dialect.operation(opcode).ok_or_else(|| Box::new(Event::Unknown { opcode, place }))?;
        Ok(PendingRequest::new(self.next_id, query, opcode, place))
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
