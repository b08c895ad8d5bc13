//! The server's stream: bytes → answers, matched to the requests they answer.

use std::collections::VecDeque;

use super::answer::{AnswerKind, Shape, is_deferred, shape};
use super::decoder_answer::{Expected, Of, Pending, PendingAnswer, code, code_answer};
use super::dialect::{Dialect, Operation};
use super::event::{Direction, Event, Place};
use super::options::DecodeOptions;
use super::pieces::Pieces;
use super::watch::Change;
use crate::stream::Chunk;

/// Most requests that may wait for an answer; a client of the store has one, two after a timeout.
const MAX_PENDING: usize = 256;
/// Most server bytes that are held until the request they answer arrives: captures reorder by a packet or two.
const MAX_EARLY: usize = 256;
/// After so many unexpected answers the server's stream is given up.
const MAX_FAULTS: u8 = 16;
/// A client that asks for something else this long after a WAIT has given the WAIT up, in nanoseconds.
const GIVE_UP_NANOS: i64 = 10_000_000;

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
    open: Option<PendingAnswer>,
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
    pub(super) fn settle(&mut self, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
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
                        shape => self.open = Some(PendingAnswer::answer(p, shape, place)),
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
                    self.open = Some(PendingAnswer::callback(change, place));
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
        if !self.open.as_ref().is_some_and(PendingAnswer::is_complete) {
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
