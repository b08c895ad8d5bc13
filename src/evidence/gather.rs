//! From facts to what an analysis takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::facts::{Entry, FactSet, FlowFact, FlowPlace, Kind, hosts_of, numbers_of, promoted_of};
use crate::analysis::{
    OriginSettings, Stored, StoredCapture, StoredLog, StoredSet, counters_of, decoded_listeners, unpack_ordinary,
};
use crate::capture::Summary;
use crate::escape::clean;
use crate::names::short;
use crate::net::Address;
use crate::stream::ordinary;

/// A part of a log, and a hosts list, unpack to at most this many bytes.
const MAX_TEXT: u64 = 256 << 20;
/// Missing segments that are named.
const MAX_NAMED: usize = 8;

/// Names of the numbers of a set's counters, in the order of [`counters_of`].
pub(crate) const COUNTERS: [&str; 6] =
    ["packets", "segments", "evicted_flows", "evicted_bytes", "bad_checksums", "duplicates"];

/// Pieces of one blob, by part.
type Pieces = BTreeMap<u64, Vec<u8>>;

/// Puts a pile together. Sets are numbered anew, in order of origin and number.
pub fn gather(facts: FactSet) -> Stored {
    let mut gathered = gather_part(facts);
    settle(&mut gathered);
    gathered
}

/// The same of a part of the evidence: all that is of some origins.
pub(super) fn gather_part(facts: FactSet) -> Stored {
    let mut gathered = Stored::default();
    let origins = facts.origins();
    let mut entries = facts.entries.into_iter().peekable();
    let mut flows = facts.flows;
    for origin in origins {
        let mut own: BTreeMap<Kind, Vec<(String, Entry)>> = BTreeMap::new();
        while let Some(((_, kind, key), entry)) = entries.next_if(|((o, _, _), _)| *o == origin) {
            own.entry(kind).or_default().push((key, entry));
        }
        let flows = flows.remove(&origin).unwrap_or_default();
        One { origin: &origin, own, flows, out: &mut gathered }.gather();
    }
    gathered
}

/// Numbers and orders what parts came to.
pub fn settle(gathered: &mut Stored) {
    for (i, set) in gathered.sets.iter_mut().enumerate() {
        // No number that a set of a case has: its captures lie elsewhere, and cannot be read again.
        set.key = -1 - i as i64;
    }
    gathered.origins.sort();
    gathered.claimed_hosts.sort();
    gathered.hosts.sort();
}

/// The facts of one origin.
struct One<'a> {
    origin: &'a str,
    own: BTreeMap<Kind, Vec<(String, Entry)>>,
    flows: BTreeMap<FlowPlace, FlowFact>,
    out: &'a mut Stored,
}

impl One<'_> {
    fn of(&self, kind: Kind) -> impl Iterator<Item = (&str, &Entry)> {
        self.own.get(&kind).into_iter().flatten().map(|(key, entry)| (key.as_str(), entry))
    }

    fn object(&self, kind: Kind) -> Option<Map<String, Value>> {
        let (_, entry) = self.of(kind).next()?;
        serde_json::from_slice(&entry.data).ok()
    }

    fn gather(&mut self) {
        let text = |o: Option<Map<String, Value>>, name: &str| Some(o?.get(name)?.as_str()?.to_string());
        let host = text(self.object(Kind::Origin), "host").map(|h| clean(h.as_bytes(), 255));
        let machine = text(self.object(Kind::Machine), "host").map(|h| clean(h.as_bytes(), 255));
        let label = host.clone().or_else(|| machine.clone());
        let machine_name = machine.clone();
        if let Some(name) = machine {
            let addresses = self.object(Kind::Machine).and_then(|o| o.get("addresses").cloned());
            let addresses = addresses.as_ref().and_then(Value::as_array).into_iter().flatten();
            let address = |a: &Value| a.as_str()?.parse::<std::net::IpAddr>().ok().map(Address::from);
            let machine = (name, addresses.filter_map(address).collect());
            self.out.machines.push(machine);
        }
        let settings = self.object(Kind::SiteFacts).and_then(|o| Some(o.get("setup")?.to_string()));
        let names: BTreeSet<String> = host.iter().chain(&machine_name).map(|n| short(n)).collect();
        let observes = names.is_empty() && [Kind::Capture, Kind::Log].iter().all(|k| self.of(*k).next().is_none());
        if settings.is_some() || !observes {
            let paths = [Kind::Capture, Kind::Log].iter().flat_map(|k| self.of(*k)).filter_map(path_of).collect();
            let label = label.clone().unwrap_or_else(|| self.origin.to_string());
            self.out.origins.push(OriginSettings { label, names, paths, settings });
        }
        let missing = self.missing(label.as_deref());
        self.out.notes.extend(missing);
        let refused: Vec<(String, String)> = self
            .of(Kind::Refused)
            .map(|(path, entry)| {
                let body: Option<Map<String, Value>> = serde_json::from_slice(&entry.data).ok();
                (path.to_string(), text(body, "error").unwrap_or_default())
            })
            .collect();
        self.out.refused.extend(refused);
        let (sets, damaged) = self.sets(host.as_deref(), label.as_deref());
        let (logs, torn) = self.logs(host.as_deref());
        let (hosts, broken) = self.hosts();
        self.out.sets.extend(sets);
        self.out.logs.extend(logs);
        let whose = label.unwrap_or_else(|| self.origin.to_string());
        self.out.claimed_hosts.extend(hosts.into_iter().map(|(path, text)| (whose.clone(), path, text)));
        self.out.damaged += damaged + torn + broken;
    }

    /// Segments that never came, in words.
    fn missing(&self, label: Option<&str>) -> Option<String> {
        let came: BTreeSet<u64> =
            self.of(Kind::Segment).filter_map(|(key, _)| numbers_of(key)?.first().copied()).collect();
        let last = came.last().copied()?;
        let count = last.checked_sub(came.iter().filter(|n| **n > 0).count() as u64).filter(|n| *n > 0)?;
        let mut named = Vec::new();
        let mut next = 1;
        for n in &came {
            if *n > next {
                named.push(if *n - 1 == next { next.to_string() } else { format!("{next}-{}", n - 1) });
            }
            next = next.max(n.saturating_add(1));
        }
        let more = named.len() > MAX_NAMED;
        named.truncate(MAX_NAMED);
        let (of, named) = (label.unwrap_or(self.origin), named.join(", "));
        let more = if more { ", …" } else { "" };
        Some(format!(
            "evidence of {of}: {count} of {last} segments did not come ({named}{more}): what they held is not known"
        ))
    }

    /// Blobs of a kind, put together from their parts: the first numbers of their keys, without part and parts. Besides,
    /// how many lack a part.
    fn blobs(&mut self, kind: Kind) -> (BTreeMap<Vec<u64>, Vec<u8>>, u64) {
        let mut all: BTreeMap<Vec<u64>, (u64, Pieces)> = BTreeMap::new();
        for (key, entry) in self.own.remove(&kind).unwrap_or_default() {
            let Some(mut numbers) = numbers_of(&key) else { continue };
            let (Some(parts), Some(part)) = (numbers.pop(), numbers.pop()) else { continue };
            let place = all.entry(numbers).or_default();
            place.0 = parts;
            place.1.insert(part, entry.data);
        }
        let mut torn = 0;
        let mut whole = BTreeMap::new();
        for (numbers, (parts, pieces)) in all {
            if pieces.len() as u64 == parts {
                whole.insert(numbers, pieces.into_values().flatten().collect());
            } else {
                torn += 1;
            }
        }
        (whole, torn)
    }

    fn sets(&mut self, host: Option<&str>, label: Option<&str>) -> (Vec<StoredSet>, u64) {
        let mut sets: BTreeMap<u64, StoredSet> = BTreeMap::new();
        let mut damaged = 0;
        for (key, entry) in self.of(Kind::Set) {
            let Some(number) = numbers_of(key).and_then(|n| n.first().copied()) else { continue };
            let Ok(body) = serde_json::from_slice::<Map<String, Value>>(&entry.data) else { continue };
            let set = sets.entry(number).or_default();
            let counters = body.get("counters");
            let count = |name: &str| counters.and_then(|c| c.get(name)).and_then(Value::as_u64).unwrap_or(0);
            set.counters = counters_of(&COUNTERS.iter().map(|n| count(n)).collect::<Vec<_>>());
            let skipped = body.get("skipped").and_then(Value::as_object).into_iter().flatten();
            set.skipped = skipped.filter_map(|(k, v)| Some((clean(k.as_bytes(), 100), v.as_u64()?))).collect();
            set.promoted = promoted_of(&entry.data).into_iter().collect();
        }
        for (key, entry) in self.of(Kind::Capture) {
            let Some(&[number, id]) = numbers_of(key).as_deref() else { continue };
            let body = serde_json::from_slice::<Map<String, Value>>(&entry.data);
            let (Ok(body), Ok(id)) = (body, u32::try_from(id)) else { continue };
            let text = |name: &str| body.get(name).and_then(Value::as_str);
            sets.entry(number).or_default().captures.push(StoredCapture {
                id,
                path: PathBuf::from(text("path").unwrap_or("?")),
                summary: body.get("summary").and_then(|s| Summary::from_json(&s.to_string())),
                error: text("error").map(str::to_string),
            });
        }
        damaged += self.of(Kind::Flow).count() as u64;
        for ((number, ..), fact) in std::mem::take(&mut self.flows) {
            sets.entry(number).or_default().records.push(fact.record);
        }
        let (blobs, torn) = self.blobs(Kind::Segments);
        for (numbers, blob) in blobs {
            let &[number, _, _, late] = numbers.as_slice() else { continue };
            let set = sets.entry(number).or_default();
            if late == 0 { set.segments.push(blob) } else { set.late.push(blob) }
        }
        let (counts, broken) = self.blobs(Kind::Ordinary);
        damaged += broken;
        for (numbers, blob) in counts {
            let Some(set) = numbers.first().map(|n| sets.entry(*n).or_default()) else { continue };
            match unpack_ordinary(&blob, MAX_TEXT) {
                Some(pairs) => set.ordinary.extend(pairs),
                None => damaged += 1,
            }
        }
        for set in sets.values_mut() {
            let mut spared = decoded_listeners(&set.segments);
            spared.extend(&set.promoted);
            let records = std::mem::take(&mut set.records);
            let (records, counted) = ordinary::thin(records, &spared, ordinary::MANY, ordinary::LISTENERS);
            set.records = records;
            set.ordinary = ordinary::join(std::mem::take(&mut set.ordinary).into_iter().chain(counted));
            set.host = host.map(str::to_string);
            set.label = label.map(str::to_string);
            set.captures.sort_by_key(|c| (c.summary.as_ref().and_then(Summary::first), c.id));
        }
        // A set whose captures never came says nothing that could be shown.
        (sets.into_values().filter(|s| !s.captures.is_empty()).collect(), damaged + torn)
    }

    fn logs(&mut self, host: Option<&str>) -> (Vec<StoredLog>, u64) {
        let mut logs: BTreeMap<u64, StoredLog> = BTreeMap::new();
        for (key, entry) in self.of(Kind::Log) {
            let Some(number) = numbers_of(key).and_then(|n| n.first().copied()) else { continue };
            let Ok(body) = serde_json::from_slice::<Map<String, Value>>(&entry.data) else { continue };
            let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_string);
            let path = PathBuf::from(text("path").unwrap_or_default());
            let log = StoredLog { path, host: text("host"), from: host.map(str::to_string), lines: Vec::new() };
            logs.insert(number, log);
        }
        let (blobs, mut damaged) = self.blobs(Kind::Lines);
        for (numbers, blob) in blobs {
            let Some(log) = numbers.first().and_then(|n| logs.get_mut(n)) else { continue };
            damaged += u64::from(!crate::analysis::unpack_lines(&blob, MAX_TEXT, &mut log.lines));
        }
        for log in logs.values_mut() {
            log.lines.sort();
            log.lines.dedup();
        }
        (logs.into_values().collect(), damaged)
    }

    /// The latest version of each hosts list.
    fn hosts(&self) -> (Vec<(PathBuf, Vec<u8>)>, u64) {
        let mut lists: BTreeMap<&str, BTreeMap<&str, (u64, u64, Pieces)>> = BTreeMap::new();
        for (key, entry) in self.of(Kind::Hosts) {
            let Some((content, part, parts, path)) = hosts_of(key) else { continue };
            let place = lists.entry(path).or_default().entry(content).or_default();
            (place.0, place.1) = (place.0.max(entry.segment), parts);
            place.2.insert(part, entry.data.clone());
        }
        let mut damaged = 0;
        let mut all = Vec::new();
        for (path, versions) in lists {
            let latest = versions.into_iter().max_by(|a, b| (a.1.0, a.0).cmp(&(b.1.0, b.0)));
            let Some((_, (_, parts, pieces))) = latest else { continue };
            let packed: Vec<u8> =
                if pieces.len() as u64 == parts { pieces.into_values().flatten().collect() } else { Vec::new() };
            let mut text = Vec::new();
            let read = zstd::stream::read::Decoder::new(packed.as_slice())
                .and_then(|d| d.take(MAX_TEXT).read_to_end(&mut text))
                .is_ok_and(|n| n > 0 || !packed.is_empty());
            if read { all.push((PathBuf::from(path), text)) } else { damaged += 1 }
        }
        (all, damaged)
    }
}

/// The path in a fact of a capture or a log.
fn path_of((_, entry): (&str, &Entry)) -> Option<PathBuf> {
    let body: Map<String, Value> = serde_json::from_slice(&entry.data).ok()?;
    Some(PathBuf::from(body.get("path")?.as_str()?))
}
