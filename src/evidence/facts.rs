//! Facts under keys that stay, and how two piles of them become one.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::analysis::{flow_row, record_of_row};
use crate::stream::FlowRecord;
use crate::time::Timestamp;

/// What a fact is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Who observed: host and program.
    Origin,
    /// A segment of evidence that came, whole or not.
    Segment,
    /// Flags that say how logs and ports are meant.
    SiteFacts,
    /// Name and addresses of the machine.
    Machine,
    /// A hosts list.
    Hosts,
    /// A path that could not be read.
    Refused,
    /// A capture set.
    Set,
    /// A capture.
    Capture,
    /// A flow record.
    Flow,
    /// Packed TCP segments.
    Segments,
    /// A log.
    Log,
    /// Packed lines of a log.
    Lines,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 12] = [
        Kind::Origin,
        Kind::Segment,
        Kind::SiteFacts,
        Kind::Machine,
        Kind::Hosts,
        Kind::Refused,
        Kind::Set,
        Kind::Capture,
        Kind::Flow,
        Kind::Segments,
        Kind::Log,
        Kind::Lines,
    ];

    /// The word that a case and the types of lines have for it.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Origin => "origin",
            Kind::Segment => "segment",
            Kind::SiteFacts => "setup",
            Kind::Machine => "machine",
            Kind::Hosts => "hosts",
            Kind::Refused => "refused",
            Kind::Set => "set",
            Kind::Capture => "capture",
            Kind::Flow => "flows",
            Kind::Segments => "segments",
            Kind::Log => "log",
            Kind::Lines => "lines",
        }
    }

    /// The kind of a word.
    pub fn of(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.text() == text)
    }

    /// The numbers that make up its key, by their names in a line; `None`: a path, or nothing, does.
    pub(super) fn numbers(self) -> &'static [&'static str] {
        match self {
            Kind::Segment => &["segment"],
            Kind::Set => &["set"],
            Kind::Capture => &["set", "capture"],
            Kind::Flow => &["set", "capture", "packet"],
            Kind::Segments => &["set", "batch", "capture", "late", "part", "parts"],
            Kind::Log => &["log"],
            Kind::Lines => &["log", "batch", "part", "parts"],
            _ => &[],
        }
    }

    /// Whether its facts are bytes, not a JSON object.
    pub(super) fn is_bytes(self) -> bool {
        matches!(self, Kind::Hosts | Kind::Flow | Kind::Segments | Kind::Lines)
    }
}

/// A key made of numbers: hexadecimal, of one width, so that keys sort as their numbers do.
pub fn key_of(numbers: &[u64]) -> String {
    numbers.iter().fold(String::with_capacity(numbers.len() * 17), |mut key, n| {
        let _ = write!(key, "{}{n:016x}", if key.is_empty() { "" } else { "/" });
        key
    })
}

/// The key of a piece of a hosts list: `content` tells one version of the list from the next.
pub fn hosts_key(content: &str, part: u64, parts: u64, path: &str) -> String {
    format!("{content}/{part:x}/{parts:x}/{path}")
}

/// Content, part, parts and path of the key of a piece of a hosts list.
pub(super) fn hosts_of(key: &str) -> Option<(&str, u64, u64, &str)> {
    let mut words = key.splitn(4, '/');
    let content = words.next()?;
    let mut n = || u64::from_str_radix(words.next()?, 16).ok();
    let (part, parts) = (n()?, n()?);
    Some((content, part, parts, words.next()?))
}

/// The numbers of a key.
pub(super) fn numbers_of(key: &str) -> Option<Vec<u64>> {
    key.split('/').map(|n| u64::from_str_radix(n, 16).ok()).collect()
}

/// The key of a flow record, and its rank: the packets that it counts.
pub fn flow_key(set: u64, record: &FlowRecord) -> (String, u64) {
    let at = flow_row(record).0;
    let packets = record.packets.iter().map(|p| u64::from(*p)).sum();
    (key_of(&[set, u64::from(at.capture), at.number]), packets)
}

/// One fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// How far what it tells of had come: packets that were read, for most. The larger one wins.
    pub rank: u64,
    /// The segment of evidence that brought it; decides between equal ranks.
    pub segment: u64,
    /// When what it tells of happened last.
    pub last: Option<Timestamp>,
    /// A JSON object, or bytes.
    pub data: Vec<u8>,
}

impl Entry {
    /// What becomes of it where `there` is under its key: whether it takes that one's place, and whether the two say
    /// different things of what cannot change. Of two such the earlier segment's stays: a later one erases nothing.
    pub fn settle(&self, kind: Kind, there: &Entry) -> (bool, bool) {
        let other = match kind {
            Kind::Segments | Kind::Lines => self.data != there.data,
            // Client and server, behind the layout and the flags.
            Kind::Flow => self.data.get(2..38) != there.data.get(2..38),
            _ => false,
        };
        if other || matches!(kind, Kind::Segments | Kind::Lines) {
            let earlier =
                (self.segment, std::cmp::Reverse(&self.data)) < (there.segment, std::cmp::Reverse(&there.data));
            return (earlier, other);
        }
        ((self.rank, self.segment, &self.data) > (there.rank, there.segment, &there.data), false)
    }
}

/// What is said of an origin whose segments contradict each other: key and entry of a fact of kind [`Kind::Refused`].
pub fn contradiction(origin: &str, segments: [u64; 2]) -> (String, Entry) {
    let (earlier, later) = (segments[0].min(segments[1]), segments[0].max(segments[1]));
    let error =
        format!("says of the same facts other than segment {earlier} and others before it: the earlier ones stay");
    let data = serde_json::json!({ "error": error }).to_string().into_bytes();
    (format!("segment {later} of evidence {origin}"), Entry { segment: later, data, ..Entry::default() })
}

/// Facts of any number of origins.
#[derive(Clone, Debug, Default)]
pub struct FactSet {
    /// By origin, kind and key.
    pub entries: BTreeMap<(String, Kind, String), Entry>,
}

impl FactSet {
    /// Adds a fact: what is there stays unless this one goes further.
    pub fn put(&mut self, origin: &str, kind: Kind, key: String, entry: Entry) {
        match self.entries.entry((origin.to_string(), kind, key)) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(entry);
            }
            std::collections::btree_map::Entry::Occupied(mut there) => {
                let (wins, contradicts) = entry.settle(kind, there.get());
                let segments = [entry.segment, there.get().segment];
                if wins {
                    there.insert(entry);
                }
                if contradicts {
                    let (key, entry) = contradiction(origin, segments);
                    self.put(origin, Kind::Refused, key, entry);
                }
            }
        }
    }

    /// Adds a flow record; its key and rank are in it.
    pub fn put_flow(&mut self, origin: &str, set: u64, segment: u64, record: &FlowRecord) {
        let (key, rank) = flow_key(set, record);
        let entry = Entry { rank, segment, last: Some(record.last), data: flow_row(record).1 };
        self.put(origin, Kind::Flow, key, entry);
    }

    /// Adds all of another.
    pub fn join(&mut self, other: FactSet) {
        for ((origin, kind, key), entry) in other.entries {
            self.put(&origin, kind, key, entry);
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all facts.
    pub fn bytes(&self) -> usize {
        self.entries.values().map(|e| e.data.len()).sum()
    }

    /// Gives all facts an origin that says what they are: the same facts have the same one.
    pub fn named_by_content(self) -> FactSet {
        let parts = self
            .entries
            .iter()
            .flat_map(|((_, kind, key), entry)| [kind.text().as_bytes(), key.as_bytes(), entry.data.as_slice()]);
        let origin = crate::finding::short_hash(parts);
        let entries = self.entries.into_iter().map(|((_, kind, key), e)| ((origin.clone(), kind, key), e)).collect();
        FactSet { entries }
    }

    /// Whether the bytes of a flow's fact are a record.
    pub(super) fn record(entry: &Entry) -> Option<FlowRecord> {
        record_of_row(&entry.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_segment_erases_nothing_and_is_named() {
        let put = |order: [u64; 2]| {
            let mut facts = FactSet::default();
            for segment in order {
                let data = if segment == 1 { b"true".to_vec() } else { b"zero".to_vec() };
                facts.put(
                    "o",
                    Kind::Segments,
                    key_of(&[1, 1, 1, 0, 0, 1]),
                    Entry { segment, data, ..Entry::default() },
                );
            }
            facts.entries
        };
        let entries = put([1, 7]);
        assert_eq!(entries, put([7, 1]));
        let said: Vec<&[u8]> = entries.values().map(|e| e.data.as_slice()).collect();
        assert!(said.contains(&b"true".as_slice()) && !said.contains(&b"zero".as_slice()));
        assert!(entries.keys().any(|(_, kind, key)| *kind == Kind::Refused && key.starts_with("segment 7 ")));
    }

    #[test]
    fn piles_join_in_any_order_and_any_number_of_times() {
        let entry = |rank, segment, data: &[u8]| Entry { rank, segment, last: None, data: data.to_vec() };
        let of = |entries: &[Entry]| {
            let mut pile = FactSet::default();
            entries.iter().for_each(|e| pile.put("o", Kind::Set, key_of(&[1]), e.clone()));
            pile.entries
        };
        let all = [entry(1, 9, b"old"), entry(2, 1, b"far"), entry(2, 3, b"x"), entry(2, 3, b"y")];
        let forward = of(&all);
        let backward = of(&all.iter().rev().chain(&all).cloned().collect::<Vec<_>>());
        assert_eq!(forward, backward);
        assert_eq!(forward.values().next().unwrap().data, b"y");
        assert_eq!(numbers_of(&key_of(&[1, u64::MAX])), Some(vec![1, u64::MAX]));
        assert!(key_of(&[9]) < key_of(&[10]));
        assert!(Kind::ALL.iter().all(|k| Kind::of(k.text()) == Some(*k)));
    }
}
