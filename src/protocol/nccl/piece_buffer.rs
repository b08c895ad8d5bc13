//! One stream, cut into the pieces that a decoder asks for, whatever the chunks.

use super::event::{Event, Place};
use crate::stream::{Chunk, Direction};

/// What a decoder wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Exactly so many bytes (1 to [`PieceBuffer::HELD`]) at once.
    Bytes(usize),
    /// So many bytes (at least 1) passed over.
    Skip(u64),
    /// A line of text.
    Line,
    /// Everything from here on is data to be counted.
    Bulk,
    /// Nothing from here on can be read.
    Lost,
}

/// A decoder of one stream. `Shared` is what both directions know.
pub(super) trait Machine<Shared> {
    /// What it wants next; asked when there is a byte.
    fn need(&mut self, shared: &mut Shared) -> Need;
    /// Takes what it wanted; of a skip, nothing.
    fn take(&mut self, bytes: &[u8], place: Place, shared: &mut Shared, out: &mut dyn FnMut(Event));
    /// The message it is in: what, offset, length as far as known.
    fn message(&self) -> Option<(&'static str, u64, u64)>;
    /// Offset of the message to which what was taken last belongs, unless that message is known to be whole.
    fn open(&self) -> Option<u64> {
        self.message().map(|(_, offset, _)| offset)
    }
}

/// Cuts a stream. Memory: [`PieceBuffer::HELD`] bytes at most.
#[derive(Debug)]
pub(super) struct PieceBuffer {
    direction: Direction,
    next: u64,
    need: Option<Need>,
    held: Vec<u8>,
    held_from: u64,
    skipped_from: u64,
    /// Where the message began that is not told as whole yet.
    from: u64,
    /// Where the last piece ended.
    last: Place,
    bulk: Option<(u64, u64)>,
    lost: Option<(u64, u64)>,
}

impl PieceBuffer {
    pub(super) const HELD: usize = 256;

    pub(super) fn new(direction: Direction) -> Self {
        PieceBuffer {
            direction,
            next: 0,
            need: None,
            held: Vec::new(),
            held_from: 0,
            skipped_from: 0,
            from: 0,
            last: Place::default(),
            bulk: None,
            lost: None,
        }
    }

    /// Tells the message that the last piece has made whole, if it has; `end`: offset behind that piece.
    fn whole(&mut self, open: Option<u64>, end: u64, before: Place, out: &mut dyn FnMut(Event)) {
        // A piece that turned out to begin the next message: the one before was whole already.
        let (until, place) = open.map_or((end, self.last), |offset| (offset, before));
        if let Some(length) = until.checked_sub(self.from).filter(|n| *n > 0) {
            let place = Place { offset: self.from, ..place };
            out(Event::Message { direction: self.direction, length, place });
            self.from = until;
        }
    }

    /// Whether part of a wanted piece has come.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty() || matches!(self.need, Some(Need::Skip(_)))
    }

    /// What could not be read turned out to be something after all.
    pub(super) fn forgive(&mut self) {
        self.lost = None;
    }

    /// Bytes delivered or counted over so far.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn feed<S>(
        &mut self,
        chunk: &Chunk<'_>,
        machine: &mut impl Machine<S>,
        shared: &mut S,
        out: &mut dyn FnMut(Event),
    ) {
        if chunk.offset > self.next {
            self.gap(self.next, chunk.offset - self.next, machine, shared, out);
        }
        let known = usize::try_from(self.next - chunk.offset).unwrap_or(usize::MAX);
        let mut bytes = chunk.bytes.get(known..).unwrap_or_default();
        while !bytes.is_empty() {
            let need = *self.need.get_or_insert_with(|| machine.need(shared));
            match need {
                Need::Lost => {
                    self.lost.get_or_insert((self.next, 0)).1 += bytes.len() as u64;
                    self.next = self.next.saturating_add(bytes.len() as u64);
                    return;
                }
                Need::Bulk => {
                    self.bulk.get_or_insert((self.next, 0)).1 += bytes.len() as u64;
                    self.next = self.next.saturating_add(bytes.len() as u64);
                    return;
                }
                Need::Skip(left) => {
                    let n = left.min(bytes.len() as u64);
                    bytes = bytes.get(n as usize..).unwrap_or_default();
                    self.skip(left, n, Some(chunk), machine, shared, out);
                }
                Need::Bytes(wanted) => {
                    self.hold_start();
                    let n = wanted.saturating_sub(self.held.len()).min(bytes.len());
                    let (head, rest) = bytes.split_at_checked(n).unwrap_or((bytes, &[]));
                    self.held.extend_from_slice(head);
                    self.next = self.next.saturating_add(n as u64);
                    bytes = rest;
                    if self.held.len() >= wanted {
                        self.hand_over(chunk, machine, shared, out);
                    }
                }
                Need::Line => {
                    self.hold_start();
                    let end = bytes.iter().position(|b| *b == b'\n');
                    let n = end.map_or(bytes.len(), |e| e + 1);
                    let (head, rest) = bytes.split_at_checked(n).unwrap_or((bytes, &[]));
                    let room = Self::HELD.saturating_sub(self.held.len());
                    self.held.extend_from_slice(head.get(..room).unwrap_or(head));
                    self.next = self.next.saturating_add(n as u64);
                    bytes = rest;
                    if end.is_some() {
                        self.hand_over(chunk, machine, shared, out);
                    }
                }
            }
        }
    }

    fn hold_start(&mut self) {
        if self.held.is_empty() {
            self.held_from = self.next;
        }
    }

    fn hand_over<S>(
        &mut self,
        chunk: &Chunk<'_>,
        machine: &mut impl Machine<S>,
        shared: &mut S,
        out: &mut dyn FnMut(Event),
    ) {
        self.need = None;
        let mut held = std::mem::take(&mut self.held);
        let place = Place::of(chunk, self.held_from);
        let before = std::mem::replace(&mut self.last, place);
        machine.take(&held, place, shared, out);
        held.clear();
        self.held = held;
        self.whole(machine.open(), self.next, before, out);
    }

    /// `n` bytes of a skip; the place of its end is the chunk's, of a gap the last one known.
    fn skip<S>(
        &mut self,
        left: u64,
        n: u64,
        chunk: Option<&Chunk<'_>>,
        machine: &mut impl Machine<S>,
        shared: &mut S,
        out: &mut dyn FnMut(Event),
    ) {
        if self.skipped_from == 0 {
            self.skipped_from = self.next;
        }
        self.next = self.next.saturating_add(n);
        if n < left {
            self.need = Some(Need::Skip(left - n));
            return;
        }
        self.need = None;
        let place = chunk.map_or(Place { offset: self.skipped_from, ..self.last }, |c| Place::of(c, self.skipped_from));
        self.skipped_from = 0;
        let before = std::mem::replace(&mut self.last, place);
        machine.take(&[], place, shared, out);
        self.whole(machine.open(), self.next, before, out);
    }

    /// Bytes that are not there. Inside what is passed over or counted they do no harm.
    pub(super) fn gap<S>(
        &mut self,
        offset: u64,
        length: u64,
        machine: &mut impl Machine<S>,
        shared: &mut S,
        out: &mut dyn FnMut(Event),
    ) {
        let end = offset.saturating_add(length);
        let Some(length) = end.checked_sub(self.next).filter(|n| *n > 0) else { return };
        match *self.need.get_or_insert_with(|| machine.need(shared)) {
            Need::Bulk => {
                let bulk = self.bulk.get_or_insert((self.next, 0));
                bulk.1 = bulk.1.saturating_add(length);
                self.next = end;
            }
            Need::Skip(left) if left > length => self.skip(left, length, None, machine, shared, out),
            Need::Lost => self.next = end,
            _ => {
                if self.lost.is_none() && !self.held.is_empty() {
                    self.lost = Some((self.held_from, self.held.len() as u64));
                }
                self.held.clear();
                self.need = Some(Need::Lost);
                self.next = end;
            }
        }
    }

    /// Nothing more will come.
    pub(super) fn end<S>(&mut self, machine: &impl Machine<S>, out: &mut dyn FnMut(Event)) {
        let direction = self.direction;
        let bulk_from = self.bulk.map_or(u64::MAX, |(offset, _)| offset);
        if let Some((offset, bytes)) = self.bulk.take() {
            out(Event::Bulk { direction, offset, bytes });
        }
        if let Some((offset, length)) = self.lost.take() {
            out(Event::Undecoded { direction, offset, length });
            return;
        }
        if self.need == Some(Need::Lost) {
            return;
        }
        if machine.message().is_none() {
            let end = if self.held.is_empty() { self.next } else { self.held_from };
            self.whole(None, end.min(bulk_from), self.last, out);
        }
        let message = machine.message().or_else(|| {
            let wanted = match self.need {
                Some(Need::Bytes(n)) => n as u64,
                _ => 0,
            };
            (!self.held.is_empty()).then_some(("message", self.held_from, wanted))
        });
        // A message of which no byte came has not begun.
        if let Some((part, offset, declared)) = message
            && let delivered @ 1.. = self.next.saturating_sub(offset)
        {
            out(Event::Unfinished { direction, part, offset, declared: declared.max(delivered), delivered });
        }
    }
}
