//! From what was read in each dialect to the dialects that are left, each step with the packet that shows it.

use super::dialect::{Dialect, Operation};
use super::event::{Event, ValidateFault};
use super::evidence::DialectSet;
use super::field::Field;
use super::plausible::{self, Plausible};
use crate::stream::PacketRef;

/// Lengths beyond this are no real message's, in bytes: 1 TiB.
const ABSURD: u64 = 1 << 40;

/// One reason for or against a dialect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// What was seen, in a few words.
    pub text: String,
    /// Where.
    pub packet: PacketRef,
}

/// What one connection looks like in one dialect. Feed it every event of that dialect's decoder.
#[derive(Clone, Default, Debug)]
pub struct Reading {
    /// Complete requests.
    pub requests: u64,
    /// Complete answers.
    pub answers: u64,
    /// The first thing that a real client and server of this dialect never say.
    pub contradiction: Option<Evidence>,
    /// It was the server that said it, after answers that made sense.
    pub(super) by_server_late: bool,
    /// The query types seen, each with the packet of the first.
    pub queries: Vec<(Operation, PacketRef)>,
    /// The first query behind VALIDATE, and its packet.
    after_validate: Option<(Operation, PacketRef)>,
    validated: Option<PacketRef>,
    /// The nonce of the last PING: its answer repeats it.
    nonce: Option<i64>,
    /// The first request counts workers (ADD `init/`), and is not answered yet.
    counting: bool,
}

impl Reading {
    fn contradict(&mut self, packet: PacketRef, text: String) {
        self.contradiction.get_or_insert(Evidence { text, packet });
    }

    /// Takes note of an event.
    pub fn see(&mut self, event: &Event) {
        let before = self.contradiction.is_none();
        let of_server = matches!(event, Event::Answer(_) | Event::AnswerLength { .. } | Event::Unexpected { .. });
        let right = self.answers;
        self.take(event);
        self.by_server_late |= before && self.contradiction.is_some() && of_server && right > 0;
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Request(m) => {
                self.requests += 1;
                if self.validated.is_some() {
                    self.after_validate.get_or_insert((m.query, m.first));
                }
                if m.query == Operation::Ping {
                    self.nonce = m.number;
                }
                let first = self.requests == 1
                    || self.queries.iter().all(|(q, _)| matches!(q, Operation::Validate | Operation::Ping));
                self.counting = first && m.query == Operation::Add && m.key().is_some_and(|k| k.bytes == b"init/");
                if m.query == Operation::Validate {
                    self.validated.get_or_insert(m.last);
                }
                if !self.queries.iter().any(|(q, _)| *q == m.query) {
                    self.queries.push((m.query, m.first));
                }
                let foreign = |k: &&Field| plausible::key(&k.bytes, k.length) == Plausible::No && k.length <= 4096;
                if let Some(key) = m.keys.iter().find(foreign) {
                    let text =
                        String::from_utf8_lossy(key.bytes.get(..24).unwrap_or(&key.bytes)).escape_debug().to_string();
                    self.contradict(m.last, format!("{} names \"{text}\", no key of a store", m.query));
                }
                // Watches go over a connection of their own.
                if self.queries.len() > 1 && self.queries.iter().any(|(q, _)| *q == Operation::WatchKey) {
                    self.contradict(m.last, "WATCH_KEY among other queries".to_string());
                }
            }
            Event::Answer(a) => {
                self.answers += 1;
                if a.query == Operation::Ping && a.number != self.nonce {
                    let got = a.number.unwrap_or(0);
                    self.contradict(a.last, format!("PING answered with another number, {got}"));
                }
                let got = a.number.unwrap_or(0);
                if std::mem::take(&mut self.counting) && !(0..=super::facts::MAX_WORKERS).contains(&got) {
                    self.contradict(a.last, format!("a count of workers answered with {got}"));
                }
            }
            Event::Declared(d) if d.value >= ABSURD => {
                self.contradict(d.place.packet, format!("{} with a {} of {}", d.query, d.field.name(), d.value));
            }
            Event::AnswerLength { query, value, text, place, .. } if text.is_some() || *value >= ABSURD => {
                self.contradict(place.packet, format!("{query} answered with a length or number of {value}"));
            }
            Event::Unknown { opcode, place } => self.contradict(place.packet, format!("{opcode} is no query type")),
            Event::Unexpected { request: Some((_, query)), byte, place } => {
                self.contradict(place.packet, format!("{query} answered with the byte {byte:#04x}"));
            }
            Event::Unexpected { request: None, byte, place } => {
                self.contradict(place.packet, format!("the server says {byte:#04x} where nothing is to be answered"));
            }
            Event::Validate { fault, place } => {
                let text = match fault {
                    ValidateFault::Missing { first } => format!("begins with {first:#04x}, not with VALIDATE"),
                    ValidateFault::WrongMagic { got } => format!("VALIDATE with the number {got:#010x}"),
                    ValidateFault::Repeated => "VALIDATE a second time".to_string(),
                };
                self.contradict(place.packet, text);
            }
            _ => {}
        }
    }

    /// Without a contradiction that only the server made, after it had answered rightly: its answers may be malformed, and the
    /// client is not to be blamed for them.
    pub fn forgiven(mut self) -> Reading {
        if self.by_server_late {
            self.contradiction = None;
        }
        self
    }

    /// Whether all of it makes sense, and a server went along: VALIDATE with its magic needs no answer.
    pub fn is_sound(&self) -> bool {
        self.contradiction.is_none() && (self.answers > 0 || self.validated.is_some())
    }
}

/// What else is known about a connection's client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Partner {
    /// Nothing: the beginning was not seen, or not all of the client's connections.
    #[default]
    Unknown,
    /// The client holds a second connection to the store on which it says nothing; the packet of its SYN.
    Silent(PacketRef),
    /// It certainly holds no second one.
    None,
}

/// One connection as each dialect reads it.
#[derive(Clone, Default, Debug)]
pub struct FlowReadings {
    /// In the order of [`Dialect::ALL`].
    pub readings: [Reading; 5],
    /// The client's other connection.
    pub partner: Partner,
}

/// The dialects that are left for a store, and what is known of its clients' versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Narrowed {
    /// Those that nothing contradicts. Never empty: without a connection that makes sense in any, all are left.
    pub dialects: DialectSet,
    /// The oldest release that every client can be, as (major, minor).
    pub since: Option<(u8, u8)>,
    /// The newest release that some client can be. Below `since`: clients of several versions.
    pub until: Option<(u8, u8)>,
    /// Why.
    pub evidence: Vec<Evidence>,
}

/// Narrows the dialects of one store by what its connections said. A connection that makes sense in no dialect
/// (a stray's) says nothing.
pub fn narrow<'a>(flows: impl IntoIterator<Item = &'a FlowReadings>) -> Narrowed {
    let mut out = Narrowed { dialects: DialectSet::ALL, since: None, until: None, evidence: Vec::new() };
    let mut others = DialectSet::NONE;
    for flow in flows {
        let each = || Dialect::ALL.into_iter().zip(&flow.readings);
        let sound: DialectSet = each().filter(|(_, r)| r.is_sound()).map(|(d, _)| d).collect();
        let left = out.dialects.intersection(sound);
        if left.is_empty() {
            // Sound, and in none of those that are left: another store had, or came to, the same port.
            if !sound.is_empty() && others.is_empty() {
                let packet = each().filter(|(_, r)| r.is_sound()).find_map(|(_, r)| r.queries.first()).map(|(_, p)| *p);
                let names: Vec<String> = sound.iter().map(|d| d.to_string()).collect();
                let text = format!("a store of dialect {} answered on the same port too", names.join(" or "));
                out.evidence.push(Evidence { text, packet: packet.unwrap_or_default() });
            }
            others = others.union(sound);
            continue;
        }
        for (dialect, reading) in each() {
            if let Some(c) = &reading.contradiction
                && out.dialects.remove(dialect)
            {
                out.evidence.push(Evidence { text: format!("not {dialect}: {}", c.text), packet: c.packet });
            }
        }
        if let Partner::Silent(packet) = flow.partner
            && left.contains(Dialect::B)
            && left.contains(Dialect::C)
            && out.dialects.remove(Dialect::C)
        {
            let text = "not C: the client holds a second, silent connection".to_string();
            out.evidence.push(Evidence { text, packet });
        }
        if flow.partner == Partner::None && left.contains(Dialect::C) && out.dialects.remove(Dialect::B) {
            let packet = flow.readings.iter().find_map(|r| r.queries.first()).map(|(_, p)| *p).unwrap_or_default();
            out.evidence.push(Evidence { text: "not B: the client opens no second connection".to_string(), packet });
        }
        if out.dialects == DialectSet::from_iter([Dialect::D])
            && let [.., d] = &flow.readings
        {
            out.versions(d);
        }
    }
    if !others.is_empty() {
        out.dialects = out.dialects.union(others);
        (out.since, out.until) = (None, None);
    }
    out
}

/// The oldest release that the client can be and the newest, as (major, minor), from its connection read in dialect D.
pub(super) fn releases(reading: &Reading) -> (Option<(u8, u8)>, Option<(u8, u8)>) {
    let mut out = Narrowed { dialects: DialectSet::NONE, since: None, until: None, evidence: Vec::new() };
    out.versions(reading);
    (out.since, out.until)
}

impl Narrowed {
    fn versions(&mut self, d: &Reading) {
        if let Some((query, packet)) = d.queries.iter().rev().max_by_key(|(q, _)| q.since_in_d()) {
            let (since, packet) = (query.since_in_d(), *packet);
            if self.since.is_none_or(|s| s < since) {
                self.since = Some(since);
                let text = format!("{query}: client of {}.{} or later", since.0, since.1);
                self.evidence.push(Evidence { text, packet });
            }
        }
        if let Some((query, packet)) = d.after_validate
            && query != Operation::Ping
            && self.until.is_none()
        {
            self.until = Some((2, 4));
            let text = format!("{query} behind VALIDATE, no PING: client of 2.2 to 2.4");
            self.evidence.push(Evidence { text, packet });
        }
    }
}

/// The largest number of workers that a first ADD is answered with; more is another protocol's greeting.
pub(super) const MAX_WORKERS: i64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::super::test_support::{connections, decode_as};
    use super::*;

    fn narrowed(version: &str, partner: Partner) -> Narrowed {
        let flows: Vec<FlowReadings> = connections(&format!("api/store-api-{version}.pcap"), 29500)
            .values()
            .map(|pieces| {
                let readings = Dialect::ALL.map(|d| {
                    let mut reading = Reading::default();
                    decode_as(d, pieces, false).iter().for_each(|e| reading.see(e));
                    reading
                });
                FlowReadings { readings, partner }
            })
            .collect();
        narrow(&flows)
    }

    #[test]
    fn recorded_stores_are_narrowed_to_their_dialect() {
        let set = |d: &[Dialect]| d.iter().copied().collect::<DialectSet>();
        let got = |v| narrowed(v, Partner::Unknown);
        assert_eq!(got("1.4.0").dialects, set(&[Dialect::A0, Dialect::A1]));
        assert_eq!(got("1.13.0").dialects, set(&[Dialect::B]), "{:?}", got("1.13.0"));
        assert_eq!(got("2.1.2").dialects, set(&[Dialect::C]), "{:?}", got("2.1.2"));
        let old = got("2.2.2");
        assert_eq!((old.dialects, old.since, old.until), (set(&[Dialect::D]), Some((2, 2)), Some((2, 4))));
        let new = got("2.15.0");
        assert_eq!((new.dialects, new.since, new.until), (set(&[Dialect::D]), Some((2, 12)), None));
        assert!(new.evidence.iter().all(|e| e.packet.number > 0), "{:?}", new.evidence);
    }

    #[test]
    fn a_store_that_nobody_understood_keeps_every_candidate() {
        let empty = FlowReadings::default();
        assert_eq!(narrow([&empty]).dialects, DialectSet::ALL);
    }
}
