//! An analysis of what was kept, instead of captures and logs themselves: the same conclusions from the same facts.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use super::inputs::{host_of_file, rotation_stem};
use super::jobs::{self, Discovered};
use super::kills::ClockNotes;
use super::merge_hosts::{claimed_names, name_machines, once, refused, shared_paths};
use super::options::Options;
use super::protocols::{self, Listeners};
use super::reading::{ROUNDS, Reading, scan_options};
use super::run::{
    Analysis, AnalysisInput, Kills, conclude, corrected_captures, drop_copies, learn_hosts, tell_of_hosts,
};
use super::scan::{ScanCounters, ScanOptions, SetObservations, SetScan};
use super::sets::{Capture, PacketSource, ReadCapture, Set, own_address};
use super::{codec, host_lists, logs};
use crate::capture::Summary;
use crate::names::Names;
use crate::net::{Address, Endpoint};
use crate::stream::{FlowRecord, Ordinary, PacketRef, Take};
use crate::time::Timestamp;

/// A capture that was read, or partly.
#[derive(Clone, Debug, Default)]
pub struct StoredCapture {
    /// Its number, as kept records and segments have it.
    pub id: u32,
    /// Its path when it was read.
    pub path: PathBuf,
    /// What it was, as far as it was read.
    pub summary: Option<Summary>,
    /// Why reading ended early.
    pub error: Option<String>,
}

/// One capture set: facts only.
#[derive(Clone, Debug, Default)]
pub struct StoredSet {
    /// Its number in the case.
    pub key: i64,
    /// The host that it came from, where the paths of its captures do not say it.
    pub host: Option<String>,
    /// What stands before a path that several hosts have.
    pub label: Option<String>,
    /// Its captures in order of time.
    pub captures: Vec<StoredCapture>,
    /// A record for every flow, but for the ordinary ones that are only counted.
    pub records: Vec<FlowRecord>,
    /// The counts of these.
    pub ordinary: Vec<Ordinary>,
    /// Segments of the flows that are decoded: packed batches, in the order in which they came.
    pub segments: Vec<Vec<u8>>,
    /// Listeners that became known late; all their segments are in `late`.
    pub promoted: BTreeSet<Endpoint>,
    /// Packed batches of these.
    pub late: Vec<Vec<u8>>,
    /// Counters.
    pub counters: ScanCounters,
    /// Packets that could not be read, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Records that are damaged.
    pub damaged: u64,
}

/// A log, as far as it was read and kept.
#[derive(Clone, Debug, Default)]
pub struct StoredLog {
    /// Its path.
    pub path: PathBuf,
    /// The host of `HOST=PATH`.
    pub host: Option<String>,
    /// The host that it came from, where neither its path nor its lines say it.
    pub from: Option<String>,
    /// Its lines with their numbers.
    pub lines: Vec<(u64, Vec<u8>)>,
}

/// Who gathered evidence, and the settings that came with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OriginSettings {
    /// How reports name it.
    pub label: String,
    /// Names that it has: of the machine, and by which whoever gathered it called it; in the form in which names compare.
    pub names: BTreeSet<String>,
    /// Where its captures and logs lay: by them evidence without a name says of whom it is.
    pub paths: Vec<PathBuf>,
    /// The settings, as JSON.
    pub settings: Option<String>,
}

impl OriginSettings {
    /// Hosts that it speaks for, as far as it names them itself.
    pub fn own_hosts(&self) -> BTreeSet<String> {
        if !self.names.is_empty() {
            return self.names.clone();
        }
        self.paths.iter().filter_map(|p| super::inputs::plain_stem(p)).collect()
    }

    /// Whether it speaks for a host (as names compare): it has that name, or none has and its files do.
    pub fn speaks_for<'a>(&self, host: &str, mut all: impl Iterator<Item = &'a OriginSettings>) -> bool {
        if !self.names.is_empty() {
            return self.names.contains(host);
        }
        let of = |p: &PathBuf| {
            let is = |name: &std::ffi::OsStr| {
                let name = name.to_string_lossy().to_ascii_lowercase();
                name.strip_prefix(host).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
            };
            p.file_name().is_some_and(is) || p.parent().and_then(|d| d.file_name()).is_some_and(is)
        };
        !all.any(|o| o.names.contains(host)) && self.paths.iter().any(of)
    }
}

/// All that was kept.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Capture sets.
    pub sets: Vec<StoredSet>,
    /// Logs.
    pub logs: Vec<StoredLog>,
    /// Hosts lists: path and content.
    pub hosts: Vec<(PathBuf, Vec<u8>)>,
    /// Batches that were damaged.
    pub damaged: u64,
    /// Machines that told their own name and addresses.
    pub machines: Vec<(String, Vec<Address>)>,
    /// Origins of evidence, and the flags that they were run with.
    pub origins: Vec<OriginSettings>,
    /// Hosts lists that came with evidence: whose, path, content.
    pub claimed_hosts: Vec<(String, PathBuf, Vec<u8>)>,
    /// Paths that could not be read, and why.
    pub refused: Vec<(String, String)>,
    /// What is to be said of how this came together.
    pub notes: Vec<String>,
    /// What is lost of it, in words: trouble, whatever else is said.
    pub lost: Vec<String>,
}

impl Stored {
    /// Adds what others kept.
    pub fn join(&mut self, other: Stored) {
        self.sets.extend(other.sets);
        self.logs.extend(other.logs);
        self.hosts.extend(other.hosts);
        self.damaged += other.damaged;
        self.machines.extend(other.machines);
        self.origins.extend(other.origins);
        self.claimed_hosts.extend(other.claimed_hosts);
        self.refused.extend(other.refused);
        self.notes.extend(other.notes);
        self.lost.extend(other.lost);
    }
}

/// Conclusions from what was kept.
#[derive(Debug)]
pub struct Concluded {
    /// The analysis.
    pub analysis: Analysis,
    /// Listeners that became known late, by set: flows to them were seen and not kept.
    pub wanted: Vec<(i64, BTreeSet<Endpoint>)>,
}

/// What [`super::analyze`] concludes, from what was kept.
pub fn analyze_stored(options: &Options, mut stored: Stored) -> Concluded {
    once(&mut stored);
    let mut names = Names::default();
    let mut lists: Vec<_> = stored
        .hosts
        .iter()
        .map(|(path, bytes)| {
            let text = String::from_utf8_lossy(bytes);
            host_lists::read_text(path, &path.to_string_lossy(), None, &text, &mut names)
        })
        .collect();
    name_machines(&stored.machines, &mut names);
    let mut seen: BTreeSet<(&PathBuf, &Vec<u8>)> = stored.hosts.iter().map(|(path, bytes)| (path, bytes)).collect();
    for (whose, path, bytes) in &stored.claimed_hosts {
        // Many hosts ship the list of their site.
        if seen.contains(&(path, bytes)) {
            continue;
        }
        let text = String::from_utf8_lossy(bytes);
        let unused = claimed_names(whose, path, &text, &stored.machines, &mut names);
        if unused.is_empty() {
            seen.insert((path, bytes));
            lists.push(host_lists::read_text(path, &path.to_string_lossy(), None, &text, &mut names));
        }
        stored.notes.extend(unused);
    }
    lists.sort_by(|a, b| a.path.cmp(&b.path));
    stored.logs.sort_by(|a, b| (&a.path, &a.host, &a.from, &a.lines).cmp(&(&b.path, &b.host, &b.from, &b.lines)));
    // Captures in order of their paths, whatever the order in which they were kept.
    let shared = shared_paths(&stored.sets);
    let mut order: Vec<(PathBuf, Option<Timestamp>, usize, usize)> = Vec::new();
    for (i, set) in stored.sets.iter().enumerate() {
        for (j, c) in set.captures.iter().enumerate() {
            let path = match &set.label {
                Some(label) if shared.contains(&c.path) => format!("{label}:{}", c.path.to_string_lossy()).into(),
                _ => c.path.clone(),
            };
            order.push((path, c.summary.as_ref().and_then(Summary::first), i, j));
        }
    }
    order.sort();
    let mut captures = Vec::new();
    let mut read = BTreeMap::new();
    let mut index: BTreeMap<(usize, u32), u32> = BTreeMap::new();
    let mut first_of: BTreeMap<usize, u32> = BTreeMap::new();
    for (at, (path, _, i, j)) in order.into_iter().enumerate() {
        let Some(set) = stored.sets.get(i) else { continue };
        let Some(c) = set.captures.get(j) else { continue };
        let at = at as u32;
        let stem = rotation_stem(&c.path);
        let host = host_of_file(&c.path, &names, options.host_pattern.as_ref()).or_else(|| set.host.clone());
        captures.push(Capture { index: at, path, stem, host });
        read.insert(at, ReadCapture { summary: c.summary.clone(), error: c.error.clone(), ..ReadCapture::default() });
        index.insert((i, c.id), at);
        first_of.entry(i).or_insert(at);
    }
    let mut by_first: Vec<(u32, usize)> = first_of.into_iter().map(|(set, first)| (first, set)).collect();
    by_first.sort_unstable();

    let scan = scan_options(options, 1);
    let mut sets = Vec::new();
    for (number, (_, i)) in by_first.iter().enumerate() {
        let number = number as u32;
        let Some(set) = stored.sets.get(*i) else { continue };
        let renumber = |id: u32| index.get(&(*i, id)).copied();
        let seen = observations(set, number, &scan, &renumber, &mut stored.damaged);
        let own: Vec<u32> = set.captures.iter().filter_map(|c| renumber(c.id)).collect();
        for c in &own {
            if let Some(r) = read.get_mut(c) {
                r.set = Some(number);
            }
        }
        let ends = |f: fn(&Summary) -> Option<Timestamp>| {
            set.captures.iter().filter_map(|c| c.summary.as_ref()).filter_map(f).collect::<Vec<_>>()
        };
        let span = ends(Summary::first).into_iter().min().zip(ends(Summary::last).into_iter().max());
        let host = own.first().and_then(|c| captures.get(*c as usize)).and_then(|c: &Capture| c.host.clone());
        let own_ip = own_address(&seen);
        sets.push(Set { captures: own, seen, span, own: own_ip, host, shift: 0 });
    }
    drop_copies(&captures, &mut sets, &mut read);
    learn_hosts(&mut names, &captures, &mut sets, &read);
    let spans = sets.iter().filter_map(|s| s.span);
    let near = spans.map(|(a, b)| Timestamp(a.0 / 2 + b.0 / 2)).min();
    let mut logs = logs::read_kept(options, &stored.logs, &names, near);
    let (sightings, log_days) = tell_of_hosts(&mut logs, &mut names);
    let mut reading = Reading {
        names,
        inputs: refused(&stored.refused),
        lists,
        captures,
        sets,
        read,
        lessons: Discovered::default(),
        suspects: Default::default(),
        listeners: Listeners::new(),
        notes: Vec::new(),
        again: false,
        scan: scan.clone(),
        feed: PacketSource::default(),
    };
    let mut wanted: BTreeMap<i64, BTreeSet<Endpoint>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        reading.lessons = jobs::lessons(&reading.sets, &reading.names);
        let found = protocols::listeners(&reading, options);
        if found == reading.listeners {
            break;
        }
        reading.listeners = found;
        wanted.clear();
        for (number, (_, i)) in by_first.iter().enumerate() {
            let Some(set) = stored.sets.get(*i) else { continue };
            let renumber = |id: u32| index.get(&(*i, id)).copied();
            let lost = promote(&mut reading, number, set, &scan, &renumber);
            if !lost.is_empty() {
                wanted.insert(set.key, lost);
            }
        }
    }
    let lost: BTreeSet<&Endpoint> = wanted.values().flatten().collect();
    if !lost.is_empty() {
        let some: Vec<String> = lost.iter().take(5).map(|e| e.to_string()).collect();
        let more = if lost.len() > some.len() { " and others" } else { "" };
        reading.notes.push(format!(
            "What flows to {}{more} carried was not kept: that they are listeners became known from another host.",
            some.join(", ")
        ));
    }
    let records: u64 = stored.sets.iter().map(|s| s.damaged).sum();
    if records > 0 {
        stored.lost.push(format!("{records} kept flow records are damaged: what they held is lost"));
    }
    if stored.damaged > 0 {
        let text = format!("{} batches of kept segments are damaged: what they held is lost", stored.damaged);
        stored.lost.push(text);
    }
    reading.notes.extend(stored.lost.iter().cloned());
    reading.notes.append(&mut stored.notes);
    let mut told = ClockNotes::default();
    corrected_captures(&mut reading, options, &mut told);
    let front =
        AnalysisInput { reading, logs, kills: Kills::of(sightings), log_days, told, pruned: None, stopped: false };
    let mut analysis = conclude(options, front);
    analysis.trouble |= !stored.lost.is_empty();
    analysis.lost = stored.lost;
    Concluded { analysis, wanted: wanted.into_iter().collect() }
}

fn observations(
    set: &StoredSet,
    number: u32,
    options: &ScanOptions,
    renumber: &impl Fn(u32) -> Option<u32>,
    damaged: &mut u64,
) -> SetObservations {
    let mut scan = SetScan::new(number, options.clone());
    for blob in &set.segments {
        *damaged += u64::from(!feed(blob, &mut scan, renumber));
    }
    let mut records: Vec<FlowRecord> = set.records.clone();
    records.retain_mut(|r| r.renumber(renumber));
    records.sort_by_key(|r| (r.first, r.first_packet));
    scan.restore(records);
    let mut seen = scan.finish();
    seen.records.sort_by_key(|r| (r.first, r.first_packet));
    seen.ordinary.clone_from(&set.ordinary);
    seen.counters = set.counters.clone();
    seen.skipped = set.skipped.clone();
    seen
}

fn feed(blob: &[u8], scan: &mut SetScan, renumber: &impl Fn(u32) -> Option<u32>) -> bool {
    codec::unpack(blob, &mut |mut s| {
        if let Some(capture) = renumber(s.packet.capture) {
            s.packet.capture = capture;
            if s.opens.as_mut().is_none_or(|r| r.renumber(renumber)) {
                s.replay(scan);
            }
        }
        true
    })
}

/// Decodes flows to listeners that became known late, as far as they were kept; the listeners whose flows were not.
fn promote(
    reading: &mut Reading,
    number: usize,
    stored: &StoredSet,
    options: &ScanOptions,
    renumber: &impl Fn(u32) -> Option<u32>,
) -> BTreeSet<Endpoint> {
    let Some(set) = reading.sets.get(number) else { return BTreeSet::new() };
    let mut wanted = protocols::missed(set, &reading.listeners);
    let lost: BTreeSet<Endpoint> = wanted.keys().copied().filter(|e| !stored.promoted.contains(e)).collect();
    wanted.retain(|e, _| stored.promoted.contains(e));
    if wanted.is_empty() {
        return lost;
    }
    let mut scan = SetScan::new(number as u32, ScanOptions { only: Some(wanted.clone()), ..options.clone() });
    for blob in &stored.late {
        feed(blob, &mut scan, renumber);
    }
    let again = scan.finish();
    if let Some(set) = reading.sets.get_mut(number) {
        set.take_again(&wanted, again);
    }
    lost
}

/// How many batches of segments cannot be unpacked.
pub fn damaged_batches(stored: &Stored) -> u64 {
    let blobs = stored.sets.iter().flat_map(|s| s.segments.iter().chain(&s.late));
    blobs.filter(|b| !codec::unpack(b, &mut |_| true)).count() as u64
}

/// A record as a row: its first packet, by which it is known, and its bytes.
pub fn flow_row(record: &FlowRecord) -> (PacketRef, Vec<u8>) {
    (record.first_packet, record.to_bytes())
}

/// The record of a row; `None` when the bytes are none.
pub fn record_of_row(bytes: &[u8]) -> Option<FlowRecord> {
    FlowRecord::from_bytes(&mut Take(bytes))
}

/// Counters from the numbers that a case holds.
pub fn counters_of(numbers: &[u64]) -> ScanCounters {
    let n = |i: usize| numbers.get(i).copied().unwrap_or(0);
    ScanCounters {
        packets: n(0),
        segments: n(1),
        evicted_flows: n(2),
        evicted_bytes: n(3),
        bad_checksums: n(4),
        duplicates: n(5),
    }
}

/// Of what was kept of these captures of a set: the segments from or to `listeners`, packed, by capture. They stand for
/// captures that cannot be read again.
///
/// # Errors
/// Those of packing (memory).
pub fn late_of_kept(
    set: &StoredSet,
    captures: &BTreeSet<u32>,
    listeners: &HashSet<Endpoint>,
) -> std::io::Result<BTreeMap<u32, Vec<u8>>> {
    let mut batches: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for blob in &set.segments {
        codec::unpack(blob, &mut |s| {
            let segment = s.segment();
            let of_theirs = listeners.contains(&segment.src) || listeners.contains(&segment.dst);
            if captures.contains(&s.packet.capture) && of_theirs {
                s.put(batches.entry(s.packet.capture).or_default());
            }
            true
        });
    }
    batches.into_iter().map(|(c, b)| Ok((c, codec::pack(&b)?))).collect()
}
