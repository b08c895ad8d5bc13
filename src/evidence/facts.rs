//! Facts under keys that stay, and how two piles of them become one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::analysis::{decoded_listeners, flow_row, pack_ordinary};
use crate::net::Endpoint;
use crate::stream::{FlowRecord, ordinary};
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
    /// Packed counts of ordinary connections.
    Ordinary,
    /// Packed TCP segments.
    Segments,
    /// A log.
    Log,
    /// Packed lines of a log.
    Lines,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 13] = [
        Kind::Origin,
        Kind::Segment,
        Kind::SiteFacts,
        Kind::Machine,
        Kind::Hosts,
        Kind::Refused,
        Kind::Set,
        Kind::Capture,
        Kind::Flow,
        Kind::Ordinary,
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
            Kind::Ordinary => "ordinary",
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
            Kind::Ordinary => &["set", "batch", "part", "parts"],
            Kind::Segments => &["set", "batch", "capture", "late", "part", "parts"],
            Kind::Log => &["log"],
            Kind::Lines => &["log", "batch", "part", "parts"],
            _ => &[],
        }
    }

    /// Whether its facts are bytes, not a JSON object.
    pub(super) fn is_bytes(self) -> bool {
        matches!(self, Kind::Hosts | Kind::Flow | Kind::Ordinary | Kind::Segments | Kind::Lines)
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

/// What lean evidence keeps of ordinary connections: none but the earliest and latest to listeners of the own host.
pub const LEAN: (usize, usize) = (0, 0);

/// A key of pieces without part and parts.
pub(super) fn split_part(key: &str) -> &str {
    let mut ends = key.rmatch_indices('/').map(|(at, _)| at);
    ends.nth(1).and_then(|at| key.get(..at)).unwrap_or(key)
}

/// The listeners that became known late, of a set's fact.
pub(super) fn promoted_of(data: &[u8]) -> Vec<Endpoint> {
    let body: Option<serde_json::Value> = serde_json::from_slice(data).ok();
    let names = body.as_ref().and_then(|b| b.get("promoted")?.as_array()).into_iter().flatten();
    names.filter_map(|e| endpoint(e.as_str()?)).collect()
}

fn endpoint(text: &str) -> Option<Endpoint> {
    let (address, port) = text.rsplit_once(':')?;
    Some(Endpoint::new(address.parse::<std::net::IpAddr>().ok()?.into(), port.parse().ok()?))
}

/// The set that a key begins with.
pub fn set_of(key: &str) -> Option<u64> {
    u64::from_str_radix(key.split('/').next()?, 16).ok()
}

/// The numbers of a key.
pub(super) fn numbers_of(key: &str) -> Option<Vec<u64>> {
    key.split('/').map(|n| u64::from_str_radix(n, 16).ok()).collect()
}

/// Where a flow record stands: set, capture, first packet.
pub type FlowPlace = (u64, u32, u64);

/// A flow record, and the segment that brought it.
#[derive(Clone, Debug)]
pub struct FlowFact {
    /// The segment.
    pub segment: u64,
    /// The record.
    pub record: FlowRecord,
}

impl FlowFact {
    /// As any fact; its rank is the packets that it counts.
    pub fn entry(&self) -> Entry {
        let rank = self.record.packets.iter().map(|p| u64::from(*p)).sum();
        Entry { rank, segment: self.segment, last: Some(self.record.last), data: flow_row(&self.record).1 }
    }
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
    /// By origin, kind and key; no flow record among them, unless it is damaged.
    pub entries: BTreeMap<(String, Kind, String), Entry>,
    /// Flow records by origin and place: a host's day has tens of thousands.
    pub flows: BTreeMap<String, BTreeMap<FlowPlace, FlowFact>>,
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

    /// Adds a flow record; its place and rank are in it.
    pub fn put_flow(&mut self, origin: &str, set: u64, fact: FlowFact) {
        let at = fact.record.first_packet;
        if !self.flows.contains_key(origin) {
            self.flows.insert(origin.to_string(), BTreeMap::new());
        }
        let Some(own) = self.flows.get_mut(origin) else { return };
        match own.entry((set, at.capture, at.number)) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(fact);
            }
            std::collections::btree_map::Entry::Occupied(mut there) => {
                let (wins, contradicts) = fact.entry().settle(Kind::Flow, &there.get().entry());
                let segments = [fact.segment, there.get().segment];
                if wins {
                    there.insert(fact);
                }
                if contradicts {
                    let (key, entry) = contradiction(origin, segments);
                    self.put(origin, Kind::Refused, key, entry);
                }
            }
        }
    }

    /// All flow records as facts, with origin and key.
    pub fn flow_entries(&self) -> impl Iterator<Item = (&str, String, Entry)> {
        self.flows.iter().flat_map(|(origin, flows)| {
            let key = |at: &FlowPlace| key_of(&[at.0, u64::from(at.1), at.2]);
            flows.iter().map(move |(at, fact)| (origin.as_str(), key(at), fact.entry()))
        })
    }

    /// All origins, in order.
    pub fn origins(&self) -> BTreeSet<String> {
        self.entries.keys().map(|(origin, ..)| origin).chain(self.flows.keys()).cloned().collect()
    }

    /// Lean evidence: ordinary connections to listeners that are not `spared`, that no protocol read and that did not become known
    /// late, are counted in one fact of a set, where they are more than `most`; the earliest and latest to at most `listeners` of
    /// them stay.
    ///
    /// # Errors
    /// Those of packing (memory).
    pub fn lean(&mut self, spared: &BTreeSet<Endpoint>, (most, listeners): (usize, usize)) -> std::io::Result<()> {
        for (origin, flows) in std::mem::take(&mut self.flows) {
            let segment = flows.values().map(|f| f.segment).max().unwrap_or(0);
            let mut sets: BTreeMap<u64, Vec<FlowRecord>> = BTreeMap::new();
            for ((set, ..), fact) in flows {
                sets.entry(set).or_default().push(fact.record);
            }
            let spared: BTreeSet<Endpoint> = spared.iter().copied().chain(self.read_or_promoted(&origin)).collect();
            for (set, records) in sets {
                let (records, pairs) = ordinary::thin(records, &spared, most, listeners);
                for record in records {
                    self.put_flow(&origin, set, FlowFact { segment, record });
                }
                let (rank, last) = (pairs.iter().map(|p| p.count).sum(), pairs.iter().map(|p| p.last).max());
                if rank > 0 {
                    for (part, parts, piece) in super::pieces(&pack_ordinary(&pairs)?) {
                        let entry = Entry { rank, segment, last, data: piece.to_vec() };
                        self.put(&origin, Kind::Ordinary, key_of(&[set, segment, part, parts]), entry);
                    }
                }
            }
        }
        Ok(())
    }

    /// Listeners of an origin whose flows were decoded, and those that became known late.
    fn read_or_promoted(&self, origin: &str) -> Vec<Endpoint> {
        let own = |wanted: Kind| {
            let from = (origin.to_string(), wanted, String::new());
            self.entries.range(from..).take_while(move |((o, kind, _), _)| o == origin && *kind == wanted)
        };
        // Parts of one batch follow each other.
        let mut blobs: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for ((.., key), entry) in own(Kind::Segments) {
            blobs.entry(split_part(key)).or_default().extend_from_slice(&entry.data);
        }
        let blobs: Vec<Vec<u8>> = blobs.into_values().collect();
        let promoted = own(Kind::Set).flat_map(|(_, entry)| promoted_of(&entry.data));
        decoded_listeners(&blobs).into_iter().chain(promoted).collect()
    }

    /// Leaves an origin out.
    pub(super) fn forget(&mut self, origin: &str) {
        self.entries.retain(|(o, ..), _| o != origin);
        self.flows.remove(origin);
    }

    /// Adds all of another.
    pub fn join(&mut self, other: FactSet) {
        for ((origin, kind, key), entry) in other.entries {
            self.put(&origin, kind, key, entry);
        }
        for (origin, flows) in other.flows {
            flows.into_iter().for_each(|((set, ..), fact)| self.put_flow(&origin, set, fact));
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.flows.is_empty()
    }

    /// Gives all facts an origin that says what they are: the same facts have the same one.
    pub fn named_by_content(self) -> FactSet {
        let flows: Vec<(String, Entry)> = self.flow_entries().map(|(_, key, entry)| (key, entry)).collect();
        let all = self.entries.iter().map(|((_, kind, key), entry)| (*kind, key, entry));
        let parts = all
            .chain(flows.iter().map(|(key, entry)| (Kind::Flow, key, entry)))
            .flat_map(|(kind, key, entry)| [kind.text().as_bytes(), key.as_bytes(), entry.data.as_slice()]);
        let origin = crate::finding::short_hash(parts);
        let entries = self.entries.into_iter().map(|((_, kind, key), e)| ((origin.clone(), kind, key), e)).collect();
        let own: BTreeMap<FlowPlace, FlowFact> = self.flows.into_values().flatten().collect();
        FactSet { entries, flows: if own.is_empty() { BTreeMap::new() } else { [(origin, own)].into() } }
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
