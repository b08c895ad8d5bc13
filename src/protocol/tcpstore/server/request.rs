//! One request, read field by field as its bytes arrive.

use super::super::Operation;
use super::action::{Allocation, Claim, Field};
use super::value::Value;

/// What a request consists of, after its query type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadingPart {
    /// u64 length, then so many bytes.
    Key,
    /// u64 length, then so many bytes.
    Bytes,
    /// u64: how often the parts that follow come.
    Count,
    /// i64.
    Wide,
    /// u32.
    Narrow,
}

fn parts(operation: Operation) -> &'static [ReadingPart] {
    use Operation::*;
    match operation {
        GetNumKeys | CancelWait | ListKeys => &[],
        Validate | Ping => &[ReadingPart::Narrow],
        Set | Append | QueuePush => &[ReadingPart::Key, ReadingPart::Bytes],
        CompareSet => &[ReadingPart::Key, ReadingPart::Bytes, ReadingPart::Bytes],
        Get | WatchKey | DeleteKey | QueuePop | QueueLen => &[ReadingPart::Key],
        Add | Barrier => &[ReadingPart::Key, ReadingPart::Wide],
        Check | Wait | MultiGet => &[ReadingPart::Count, ReadingPart::Key],
        MultiSet => &[ReadingPart::Count, ReadingPart::Key, ReadingPart::Bytes],
    }
}

/// What [`Request::advance`] found.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The input is used up in mid-request.
    NeedMore,
    /// A key or value of so many bytes is announced.
    Length(Field, u64),
    /// So many keys are announced.
    Count(u64),
    /// A key is complete.
    Key(Value),
    /// A value is complete.
    Bytes(Value),
    /// A number is complete.
    Number(u64),
    /// The request is complete.
    Done,
}

/// A request that is being read.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    parts: &'static [ReadingPart],
    index: usize,
    rounds: u64,
    number: u64,
    number_bytes: u32,
    body: Option<(Value, u64)>,
    /// Bytes of it that have arrived, its query type included.
    pub(super) received: u64,
    /// The size of the field in hand, in bytes.
    wanted: u64,
    /// The last thing it declared.
    pub(super) claim: Option<Claim>,
    /// The largest allocation made for it.
    pub(super) largest: Option<Allocation>,
    /// All memory asked for on its word.
    pub(super) total: u64,
    /// What has been read of it, as the handlers want it.
    pub(super) key: Option<Value>,
    pub(super) values: Vec<Value>,
    pub(super) keys: Vec<Value>,
    pub(super) pairs: Vec<(Value, Value)>,
    pub(super) argument: u64,
    pub(super) all_present: bool,
    /// Bytes held in `keys` and `pairs`.
    pub(super) held: usize,
    /// More came than the model holds.
    pub(super) overflow: bool,
    /// The store's write counter when `pairs` were last applied.
    pub(super) applied_at: u64,
}

impl Request {
    pub(super) fn new(operation: Operation) -> Self {
        Request {
            operation,
            parts: parts(operation),
            index: 0,
            rounds: 1,
            number: 0,
            number_bytes: 0,
            body: None,
            received: 1,
            wanted: 0,
            claim: None,
            largest: None,
            total: 0,
            key: None,
            values: Vec::new(),
            keys: Vec::new(),
            pairs: Vec::new(),
            argument: 0,
            all_present: true,
            held: 0,
            overflow: false,
            applied_at: 0,
        }
    }

    /// The size of the field in hand and how much of it is missing, in bytes. After [`Event::NeedMore`] only.
    pub(super) fn missing(&self) -> (u64, u64) {
        match &self.body {
            Some((_, left)) => (self.wanted, *left),
            None => (self.wanted, self.wanted.saturating_sub(u64::from(self.number_bytes))),
        }
    }

    /// Reads on, up to the next thing worth knowing. At most `limit` bytes of a key or value are kept.
    pub(super) fn advance(&mut self, input: &mut &[u8], limit: usize) -> Event {
        let Some(&part) = self.parts.get(self.index).filter(|_| self.rounds > 0) else { return Event::Done };
        if self.body.is_none() {
            self.wanted = if part == ReadingPart::Narrow { 4 } else { 8 };
            while u64::from(self.number_bytes) < self.wanted {
                let Some((&byte, rest)) = input.split_first() else { return Event::NeedMore };
                self.number |= u64::from(byte) << (8 * self.number_bytes);
                self.number_bytes += 1;
                self.received += 1;
                *input = rest;
            }
            let number = std::mem::take(&mut self.number);
            self.number_bytes = 0;
            let field = match part {
                ReadingPart::Key => Field::Key,
                ReadingPart::Bytes => Field::Value,
                ReadingPart::Count => {
                    self.claim = Some(Claim { operation: self.operation, field: Field::Count, declared: number });
                    self.rounds = number;
                    self.index = 1;
                    return Event::Count(number);
                }
                ReadingPart::Wide | ReadingPart::Narrow => {
                    self.finish_part();
                    return Event::Number(number);
                }
            };
            self.claim = Some(Claim { operation: self.operation, field, declared: number });
            self.body = Some((Value::default(), number));
            self.wanted = number;
            return Event::Length(field, number);
        }
        let Some((value, left)) = &mut self.body else { return Event::NeedMore };
        let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
        let (now, rest) = input.split_at(take);
        value.push(now, limit);
        *left -= take as u64;
        self.received = self.received.saturating_add(take as u64);
        *input = rest;
        if *left > 0 {
            return Event::NeedMore;
        }
        let value = self.body.take().map(|(v, _)| v).unwrap_or_default();
        self.finish_part();
        if part == ReadingPart::Key { Event::Key(value) } else { Event::Bytes(value) }
    }

    fn finish_part(&mut self) {
        self.index += 1;
        if self.index >= self.parts.len() && self.parts.first() == Some(&ReadingPart::Count) {
            self.rounds = self.rounds.saturating_sub(1);
            self.index = 1;
        }
    }

    /// Bytes that are held of it.
    pub(super) fn held_bytes(&self) -> usize {
        let body = self.body.as_ref().map_or(0, |(v, _)| v.kept().len());
        let key = self.key.as_ref().map_or(0, |k| k.kept().len());
        self.values.iter().map(|v| v.kept().len()).fold(self.held + body + key, usize::saturating_add)
    }

    /// The server asked for memory on this request's word.
    pub(super) fn allocated(&mut self, allocation: Allocation) {
        self.total = self.total.saturating_add(allocation.bytes);
        if self.largest.is_none_or(|l| l.bytes < allocation.bytes) {
            self.largest = Some(allocation);
        }
    }

    /// Whether another key of this size may be held; counts it if so.
    pub(super) fn hold(&mut self, bytes: usize, limit: usize) -> bool {
        let next = self.held.saturating_add(bytes).saturating_add(64);
        if next > limit {
            self.overflow = true;
            return false;
        }
        self.held = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(operation: Operation, bytes: &[u8]) -> Vec<Event> {
        let mut request = Request::new(operation);
        let mut input = bytes;
        let mut out = Vec::new();
        loop {
            let event = request.advance(&mut input, 100);
            let last = matches!(event, Event::NeedMore | Event::Done);
            out.push(event);
            if last {
                return out;
            }
        }
    }

    #[test]
    fn a_request_in_one_piece_and_byte_by_byte_is_the_same() {
        let bytes = *b"\x02\0\0\0\0\0\0\0/a\x01\0\0\0\0\0\0\0x";
        let whole = events(Operation::Set, &bytes);
        assert_eq!(whole.last(), Some(&Event::Done));
        assert_eq!(whole[1], Event::Key(Value::from(&b"/a"[..])));
        let mut request = Request::new(Operation::Set);
        let mut pieces = Vec::new();
        for byte in bytes.chunks(1) {
            let mut input = byte;
            loop {
                match request.advance(&mut input, 100) {
                    Event::NeedMore => break,
                    Event::Done => {
                        pieces.push(Event::Done);
                        break;
                    }
                    event => pieces.push(event),
                }
            }
        }
        assert_eq!(pieces, whole);
    }

    #[test]
    fn counted_requests_end_after_their_last_element() {
        assert_eq!(events(Operation::Check, &[0; 8]), [Event::Count(0), Event::Done]);
        let two = events(Operation::MultiSet, b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0rest");
        assert_eq!(two.len(), 6);
        assert_eq!(two.last(), Some(&Event::Done));
        assert_eq!(events(Operation::ListKeys, b""), [Event::Done]);
    }
}
