//! One request of a client while its bytes come.

use super::decoder_requests::Signal;
use super::dialect::Operation;
use super::event::{DECLARED_MIN_BYTES, DECLARED_MIN_KEYS, Declared, Direction, Event, Place, Unfinished};
use super::field::{Blob, Field, Fixed};
use super::key::ELASTIC_STATE;
use super::options::DecodeOptions;
use super::request::{FieldPart, Layout, Message, layout};

/// A message whose bytes are still coming.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) message: Message,
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
    pub(super) blob: Option<Blob>,
    kept: usize,
}

impl PendingRequest {
    pub(super) fn new(id: u64, query: Operation, opcode: u8, place: Place) -> Self {
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
            key_count: u64::from(!layout.counted && layout.steps.contains(&FieldPart::Key)),
            keys: Vec::new(),
            values: Vec::new(),
            number: None,
        };
        PendingRequest {
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

    fn part(&self) -> Option<FieldPart> {
        if self.count_due { Some(FieldPart::KeyCount) } else { self.layout.steps.get(self.step).copied() }
    }

    pub(super) fn is_complete(&self) -> bool {
        !self.count_due && (self.left == 0 || self.layout.steps.is_empty())
    }

    /// Takes what it can of one field. `place` is where `rest` begins.
    pub(super) fn advance(
        &mut self,
        rest: &mut &[u8],
        place: Place,
        options: &DecodeOptions,
        out: &mut impl FnMut(Signal),
    ) {
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
        let mut declare = |field: FieldPart, limit: u64, element: u64| {
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
            FieldPart::KeyCount => {
                declare(FieldPart::KeyCount, DECLARED_MIN_KEYS, 0);
                self.message.key_count = value;
                self.left = value;
                self.count_due = false;
            }
            FieldPart::Key => {
                declare(FieldPart::KeyLength, DECLARED_MIN_BYTES, self.element);
                self.open_blob(value, options.keep_key_bytes, self.message.keys.len(), options);
            }
            FieldPart::Value => {
                let element = if self.layout.counted { self.element } else { self.step.saturating_sub(1) as u64 };
                declare(FieldPart::ValueLength, DECLARED_MIN_BYTES, element);
                let elastic = self.message.keys.first().is_some_and(|k| k.bytes.starts_with(ELASTIC_STATE));
                let keep = if elastic { options.keep_message_bytes } else { options.keep_value_bytes };
                self.open_blob(value, keep, self.message.values.len(), options);
            }
            FieldPart::Magic | FieldPart::Nonce => {
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

    pub(super) fn finish_blob(&mut self, options: &DecodeOptions) {
        if !self.blob.as_ref().is_some_and(Blob::is_complete) {
            return;
        }
        let Some(field) = self.blob.take().map(Blob::into_field) else { return };
        self.kept += field.bytes.len();
        let list: &mut Vec<Field> =
            if self.part() == Some(FieldPart::Key) { &mut self.message.keys } else { &mut self.message.values };
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

    pub(super) fn unfinished(&self, end: u64) -> Unfinished {
        let part = self.part().unwrap_or(FieldPart::Code);
        let (field, declared, delivered) = match (&self.blob, part) {
            (Some(b), part) => (part, b.length(), b.delivered()),
            (None, FieldPart::Key) => (FieldPart::KeyLength, 8, u64::from(self.fixed.have())),
            (None, FieldPart::Value) => (FieldPart::ValueLength, 8, u64::from(self.fixed.have())),
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
fn width(part: FieldPart) -> u8 {
    match part {
        FieldPart::Magic | FieldPart::Nonce => 4,
        FieldPart::Code => 1,
        _ => 8,
    }
}
