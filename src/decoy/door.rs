//! Listeners of which no full model exists: Gloo's of PyTorch 2.1–2.7 and TensorPipe's, as far as strangers meet them.

use std::collections::{BTreeMap, BTreeSet};

use super::actor::ActorOutput;
use crate::protocol::tcpstore::server::How;

/// Different numbers that a Gloo listener keeps connections under; a real one runs out of descriptors at about 1,000.
const NUMBERS: usize = 65_536;

/// Which listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It reads eight bytes, the number of a pair, and keeps who sends one that nobody waits for.
    Gloo,
    /// It reads a length and allocates it; the first connection that says nothing closes it for good.
    TensorPipe,
}

impl Kind {
    /// The one that stands in for a listener of the measurements.
    pub(super) fn of(door: &crate::prescan::doors::Door) -> Self {
        if door.protocol() == "gloo" { Kind::Gloo } else { Kind::TensorPipe }
    }
}

/// An open connection: its first eight bytes, and how many came.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    first: [u8; 8],
    bytes: usize,
}

/// The listener.
#[derive(Debug)]
pub(super) struct Door {
    kind: Kind,
    open: BTreeMap<u64, Seen>,
    numbers: BTreeSet<[u8; 8]>,
}

impl Door {
    pub(super) fn new(kind: Kind) -> Self {
        Door { kind, open: BTreeMap::new(), numbers: BTreeSet::new() }
    }

    pub(super) fn open(&mut self, id: u64) -> Vec<ActorOutput> {
        self.open.insert(id, Seen::default());
        Vec::new()
    }

    pub(super) fn bytes(&mut self, id: u64, bytes: &[u8]) -> Vec<ActorOutput> {
        let Some(seen) = self.open.get_mut(&id) else { return Vec::new() };
        let before = seen.bytes;
        seen.first.iter_mut().skip(before).zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        seen.bytes = before.saturating_add(bytes.len());
        let seen = *seen;
        match self.kind {
            // One read of eight bytes, of what the first segment brings.
            Kind::Gloo if before > 0 => Vec::new(),
            Kind::Gloo if seen.bytes < 8 => self.closes(id, How::Fin),
            Kind::Gloo => {
                let known = self.numbers.contains(&seen.first) || self.numbers.len() >= NUMBERS;
                if !known {
                    self.numbers.insert(seen.first);
                    return Vec::new();
                }
                // What was not read makes the kernel reset it.
                self.closes(id, if seen.bytes > 8 { How::Reset } else { How::Fin })
            }
            Kind::TensorPipe if before < 8 && seen.bytes >= 8 => {
                vec![ActorOutput::Claim { who: id, bytes: u64::from_le_bytes(seen.first) }]
            }
            Kind::TensorPipe => Vec::new(),
        }
    }

    pub(super) fn close(&mut self, id: u64) -> Vec<ActorOutput> {
        let Some(seen) = self.open.remove(&id) else { return Vec::new() };
        if self.kind == Kind::TensorPipe && seen.bytes < 8 {
            return vec![ActorOutput::Dies];
        }
        Vec::new()
    }

    fn closes(&mut self, id: u64, how: How) -> Vec<ActorOutput> {
        self.open.remove(&id);
        vec![ActorOutput::Close { who: id, how }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gloo_keeps_each_number_once() {
        let mut door = Door::new(Kind::Gloo);
        (1..=5).for_each(|id| drop(door.open(id)));
        assert_eq!(door.bytes(1, b"\r\n\r\n"), [ActorOutput::Close { who: 1, how: How::Fin }]);
        assert_eq!(door.bytes(2, b"GET / HTTP/1.0\r\n\r\n"), []);
        assert_eq!(door.bytes(3, b"GET / HTTP/1.0\r\n\r\n"), [ActorOutput::Close { who: 3, how: How::Reset }]);
        assert_eq!(door.bytes(4, b"GET / HT"), [ActorOutput::Close { who: 4, how: How::Fin }]);
        assert_eq!(door.close(5), []);
    }

    #[test]
    fn tensorpipe_believes_a_length_and_closes_for_good() {
        let mut door = Door::new(Kind::TensorPipe);
        (1..=3).for_each(|id| drop(door.open(id)));
        assert_eq!(door.bytes(1, b"GET /"), []);
        let bytes = u64::from_le_bytes(*b"GET / HT");
        assert_eq!(door.bytes(1, b" HTTP/1.0\r\n\r\n"), [ActorOutput::Claim { who: 1, bytes }]);
        assert_eq!(door.close(1), []);
        assert_eq!(door.close(2), [ActorOutput::Dies]);
        assert_eq!(door.close(2), []);
    }
}
