//! Keys by which ranks tell that they live or that something failed: dump flags, aborted communicators, heartbeats.

use std::collections::BTreeMap;

use super::answer::{Answer, AnswerKind};
use super::key::{Purpose, purpose};
use super::request::Message;
use super::said::Said;
use super::{Field, Operation};

/// Signals kept a connection; all are counted.
const SIGNALS: usize = 64;
/// Keys kept a connection that are written or asked for again and again.
const PULSES: usize = 16;

/// A key that tells of a failure or an end, written or found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signal {
    /// What the key is for.
    pub purpose: Purpose,
    /// The key, as on the wire.
    pub key: Vec<u8>,
    /// The value where it is four bytes: NCCL's process groups write the rank, little-endian.
    pub rank: Option<i32>,
    /// Whether it was found to be there (CHECK) rather than written.
    pub found: bool,
    /// Where.
    pub said: Said,
}

/// A key that this connection writes or asks for regularly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pulse {
    /// The first time.
    pub first: Said,
    /// The last time.
    pub last: Said,
    /// How many times.
    pub count: u64,
}

/// What one connection tells of the life of its rank. Bounded.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Signs {
    /// Failures and ends, in order.
    pub signals: Vec<Signal>,
    /// How many signals there were.
    pub signal_count: u64,
    /// Dump flags asked for, heartbeat keys written: by key.
    pub pulses: BTreeMap<Vec<u8>, (Purpose, Pulse)>,
    /// The last complete request.
    pub last_request: Option<Said>,
}

impl Signs {
    /// Takes note of a request; whether its answer matters.
    pub(super) fn request(&mut self, m: &Message, said: Said) -> bool {
        self.last_request = Some(said);
        match m.query {
            // Counters of heartbeats, and of those who reached the exit barrier; asking for one adds nothing.
            Operation::Add if m.number.is_some_and(|n| n > 0) => {
                if let Some(key) = m.keys.first() {
                    self.written(kind(key), &key.bytes, &[], said);
                }
                false
            }
            Operation::Check => match m.keys.as_slice() {
                [key] if kind(key) == Some(Purpose::ExceptionDump) => {
                    self.pulse(&key.bytes, Purpose::ExceptionDump, said);
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Takes note of the answer to a CHECK.
    pub(super) fn answer(&mut self, keys: &[Field], a: &Answer, said: Said) {
        let Some(key) = keys.first().filter(|_| a.kind == AnswerKind::Ready) else { return };
        let Some(purpose) = kind(key) else { return };
        // Polled every second, it is found every second: the first time is the news.
        if !self.signals.iter().any(|s| s.found && s.key == key.bytes) {
            self.signal(Signal { purpose, key: key.bytes.clone(), rank: None, found: true, said });
        }
    }

    /// Takes note of what is written under a key.
    pub(super) fn written(&mut self, purpose: Option<Purpose>, key: &[u8], value: &[u8], said: Said) {
        match purpose {
            Some(Purpose::Heartbeat) => self.pulse(key, Purpose::Heartbeat, said),
            Some(
                purpose @ (Purpose::ExceptionDump
                | Purpose::NcclAborted
                | Purpose::RemoteError
                | Purpose::TerminalState),
            ) => {
                let rank = <[u8; 4]>::try_from(value).ok().map(i32::from_le_bytes);
                let rank = rank.filter(|_| purpose != Purpose::TerminalState);
                self.signal(Signal { purpose, key: key.to_vec(), rank, found: false, said });
            }
            _ => {}
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.signal_count += 1;
        if self.signals.len() < SIGNALS {
            self.signals.push(signal);
        }
    }

    fn pulse(&mut self, key: &[u8], purpose: Purpose, said: Said) {
        if let Some((_, pulse)) = self.pulses.get_mut(key) {
            pulse.last = said;
            pulse.count += 1;
        } else if self.pulses.len() < PULSES {
            self.pulses.insert(key.to_vec(), (purpose, Pulse { first: said, last: said, count: 1 }));
        }
    }
}

/// What a key is for, by its name alone.
fn kind(key: &Field) -> Option<Purpose> {
    if key.is_whole() { purpose(&key.bytes, None) } else { None }
}
