//! Capture sets: rotated files of one capture are read one after the other, different captures side by side.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::options::Options;
use super::progress::Progress;
use super::scan::{ScanOptions, SetObservations, SetScan};
use crate::capture::{Limits, Packet, Reader, Summary};
use crate::net::{Address, Endpoint};
use crate::protocol::place;
use crate::protocol::seam::ProtocolSet;
use crate::stream::{FlowRecord, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::Protocol;

/// One capture.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    /// Its index among the captures of the analysis.
    pub(super) index: u32,
    /// Where it is; `-` is standard input.
    pub(super) path: PathBuf,
    /// The set that it may share with others, by name.
    pub(super) stem: (PathBuf, String),
    /// The host that its name suggests.
    pub(super) host: Option<String>,
}

/// What became of reading one capture.
#[derive(Debug, Default)]
pub(super) struct ReadCapture {
    pub(super) summary: Option<Summary>,
    pub(super) error: Option<String>,
    /// The set it belongs to.
    pub(super) set: Option<u32>,
    /// Why it was not read on purpose.
    pub(super) skipped: Option<&'static str>,
}

/// How packets reach a scan: which, on what clock, and who watches.
#[derive(Clone, Default)]
pub(super) struct PacketSource {
    /// Packets outside are passed over.
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    limits: Limits,
    pub(super) progress: Progress,
}

impl PacketSource {
    pub(super) fn new(options: &Options, progress: &Progress) -> PacketSource {
        PacketSource {
            since: options.since,
            until: options.until,
            limits: options.limits(),
            progress: progress.clone(),
        }
    }

    /// Hands the packets of one capture to `scan`, their times moved by `shift` nanoseconds.
    fn each(
        &self,
        reader: &mut Reader,
        index: u32,
        scan: &mut SetScan,
        shift: i64,
    ) -> Result<(), crate::capture::CaptureError> {
        let mut meter = self.progress.meter();
        if shift == 0 && self.since.is_none() && self.until.is_none() {
            return reader.each_while(|packet| {
                scan.packet(index, packet);
                meter.packet(packet.data.len())
            });
        }
        reader.each_while(|packet| {
            self.one(index, packet, scan, shift);
            meter.packet(packet.data.len())
        })
    }

    fn one(&self, index: u32, packet: &Packet<'_>, scan: &mut SetScan, shift: i64) {
        let time = packet.time.plus_nanos(shift);
        if self.since.is_none_or(|s| s <= time) && self.until.is_none_or(|u| time <= u) {
            scan.packet(index, &Packet { time, ..*packet });
        }
    }

    /// The part of a span that counts.
    fn part(&self, (from, to): (Timestamp, Timestamp)) -> Option<(Timestamp, Timestamp)> {
        let part = (self.since.map_or(from, |s| s.max(from)), self.until.map_or(to, |u| u.min(to)));
        (part.0 <= part.1).then_some(part)
    }
}

/// One set, read.
#[derive(Debug)]
pub(super) struct Set {
    /// Its captures, in order of time.
    pub(super) captures: Vec<u32>,
    /// What it holds.
    pub(super) seen: SetObservations,
    /// First and last packet.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    /// The address that (nearly) all its packets come from or go to: the host it was taken on.
    pub(super) own: Option<Address>,
    /// The host it was taken on, by the names of its captures.
    pub(super) host: Option<String>,
    /// Nanoseconds that its times were moved by: its clock was found to be off by as much.
    pub(super) shift: i64,
}

impl Set {
    /// Puts what a second reading made of the flows to `listeners` in the place of the first.
    pub(super) fn take_again(&mut self, listeners: &HashMap<Endpoint, ProtocolSet>, again: SetObservations) {
        let folded: HashSet<PacketRef> = again.records.iter().filter(|r| r.folded).map(|r| r.first_packet).collect();
        for r in self.seen.records.iter_mut().filter(|_| !folded.is_empty()) {
            r.folded |= folded.contains(&r.first_packet);
        }
        // Those that were only counted come back.
        let known: HashSet<PacketRef> = self.seen.records.iter().map(|r| r.first_packet).collect();
        self.seen.ordinary.retain(|o| !listeners.contains_key(&o.server));
        let missing = |r: &FlowRecord| listeners.contains_key(&r.server()) && !known.contains(&r.first_packet);
        self.seen.records.extend(again.records.iter().filter(|r| missing(r)).cloned());
        self.seen.folded.retain(|(server, ..), _| !listeners.contains_key(server));
        self.seen.folded.extend(again.folded);
        self.seen.flows.retain(|f| !listeners.contains_key(&f.server()));
        self.seen.flows.extend(again.flows.into_iter().filter(|f| listeners.contains_key(&f.server())));
        self.seen.flows.sort_by_key(|f| (f.record.first, f.record.first_packet));
        for (endpoint, activity) in again.activity {
            self.seen.activity.insert(endpoint, activity);
        }
        self.seen.counters.evicted_bytes += again.counters.evicted_bytes;
        self.seen.counters.duplicates += again.counters.duplicates;
        self.seen.counters.bad_checksums += again.counters.bad_checksums;
    }
}

/// A file may begin this much before the last packet of the one before it and still continue it: several queues of
/// one card are not in order among each other.
pub(super) const AHEAD_NANOS: i64 = 1_000_000_000;

/// What one group came to: its sets, and its captures by index.
type ReadGroup = (Vec<Set>, BTreeMap<u32, ReadCapture>);

/// A set that is being read.
struct OpenCapture {
    scan: SetScan,
    captures: Vec<u32>,
    span: Option<(Timestamp, Timestamp)>,
}

impl OpenCapture {
    fn close(self, host: Option<String>) -> Set {
        let seen = self.scan.finish();
        let own = own_address(&seen);
        Set { captures: self.captures, seen, span: self.span, own, host, shift: 0 }
    }
}

/// Files that may be one capture, in order of their first packet (`firsts`).
pub(super) fn groups(captures: &[Capture], firsts: &BTreeMap<u32, Timestamp>) -> Vec<Vec<Capture>> {
    let mut by_stem: BTreeMap<_, Vec<(Option<Timestamp>, Capture)>> = BTreeMap::new();
    for c in captures {
        let key = (c.stem.clone(), c.host.clone());
        by_stem.entry(key).or_default().push((None, c.clone()));
    }
    let mut groups: Vec<Vec<Capture>> = by_stem
        .into_values()
        .map(|mut members| {
            if members.len() > 1 {
                for (first, c) in &mut members {
                    *first = firsts.get(&c.index).copied();
                }
                members.sort_by_key(|(first, c)| (first.is_none(), *first, c.index));
            }
            members.into_iter().map(|(_, c)| c).collect()
        })
        .collect();
    groups.sort_by_key(|g: &Vec<Capture>| g.iter().map(|c| c.index).min());
    groups
}

/// The time of a capture's first packet.
pub(super) fn first_time(c: &Capture) -> Option<Timestamp> {
    // A little is enough but for a first packet of record size; thousands of files are asked.
    for bytes in [32 << 10, 2 << 20] {
        let head = std::fs::File::open(&c.path).ok()?.take(bytes);
        let first =
            Reader::from_read("", Box::new(head), &Limits::default()).and_then(|mut r| Ok(r.next()?.map(|p| p.time)));
        if let Ok(Some(time)) = first {
            return Some(time);
        }
    }
    None
}

/// Reads all groups, on `threads` threads. What comes out does not depend on their number.
pub(super) fn read_all(
    groups: &[Vec<Capture>],
    options: &ScanOptions,
    feed: &PacketSource,
    threads: usize,
) -> ReadGroup {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, ReadGroup>> = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some((i, group)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, groups.get(i)?)))
        {
            let read = read_group(group, options, feed);
            if let Ok(mut done) = done.lock() {
                done.insert(i, read);
            }
        }
    };
    let threads = threads.clamp(1, groups.len().max(1));
    if threads == 1 {
        work();
    } else {
        std::thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(work))));
    }
    let mut sets = Vec::new();
    let mut captures = BTreeMap::new();
    for (more, read) in done.into_inner().unwrap_or_default().into_values() {
        let base = sets.len() as u32;
        for (index, mut r) in read {
            r.set = r.set.map(|s| s + base);
            captures.insert(index, r);
        }
        for mut set in more {
            let number = sets.len() as u32;
            set.seen.flows.iter_mut().for_each(|f| f.set = number);
            sets.push(set);
        }
    }
    (sets, captures)
}

/// Reads the files of one group. A file that begins before the one before it has ended is no continuation of it.
fn read_group(group: &[Capture], options: &ScanOptions, feed: &PacketSource) -> ReadGroup {
    let mut sets: Vec<Set> = Vec::new();
    let mut read = BTreeMap::new();
    let mut open: Option<OpenCapture> = None;
    let host = group.first().and_then(|c| c.host.clone());
    for capture in group {
        if feed.progress.stopped() {
            break;
        }
        let mut outcome = ReadCapture::default();
        let reader = if capture.path.as_os_str() == "-" {
            Reader::from_read("-", Box::new(std::io::stdin()), &feed.limits)
        } else {
            Reader::open(&capture.path, &feed.limits)
        };
        let mut reader = match reader {
            Ok(reader) => reader,
            Err(e) => {
                outcome.error = Some(without_name(&e.to_string(), &capture.path));
                read.insert(capture.index, outcome);
                continue;
            }
        };
        let done = match reader.next() {
            Ok(Some(packet)) => {
                let before = open.as_ref().and_then(|o| o.span).map(|s| s.1);
                if before.is_some_and(|b| packet.time.0 < b.0.saturating_sub(AHEAD_NANOS)) {
                    sets.extend(open.take().map(|o| o.close(host.clone())));
                }
                let set = open.get_or_insert_with(|| OpenCapture {
                    scan: SetScan::new(0, options.clone()),
                    captures: Vec::new(),
                    span: None,
                });
                set.captures.push(capture.index);
                outcome.set = Some(sets.len() as u32);
                feed.one(capture.index, &packet, &mut set.scan, 0);
                feed.each(&mut reader, capture.index, &mut set.scan, 0)
            }
            Ok(None) => Ok(()),
            Err(e) => Err(e),
        };
        outcome.error = done.err().map(|e| without_name(&e.to_string(), &capture.path));
        let summary = reader.into_summary();
        let span = summary.first().zip(summary.last()).and_then(|s| feed.part(s));
        if let (Some(set), Some((from, to))) = (&mut open, span) {
            let (a, b) = set.span.unwrap_or((from, to));
            set.span = Some((a.min(from), b.max(to)));
        }
        outcome.summary = Some(summary);
        read.insert(capture.index, outcome);
    }
    sets.extend(open.map(|o| o.close(host)));
    (sets, read)
}

/// Errors of a reader begin with the capture's name, which a report says beside it.
fn without_name(error: &str, path: &std::path::Path) -> String {
    let name = path.to_string_lossy();
    error.strip_prefix(&*name).and_then(|e| e.strip_prefix(": ")).unwrap_or(error).to_string()
}

/// Reads a set again: for the flows to these listeners only, or (`None`) for all of them; times moved by `shift`.
pub(super) fn read_again(
    set: u32,
    captures: &[Capture],
    options: &ScanOptions,
    feed: &PacketSource,
    listeners: Option<&HashMap<Endpoint, ProtocolSet>>,
    shift: i64,
) -> SetObservations {
    let options = ScanOptions { only: listeners.cloned(), ..options.clone() };
    let mut scan = SetScan::new(set, options);
    for capture in captures {
        let Ok(mut reader) = Reader::open(&capture.path, &feed.limits) else { continue };
        // What fails here failed in the first reading too, and was said then.
        let _ = feed.each(&mut reader, capture.index, &mut scan, shift);
    }
    let mut seen = scan.finish();
    seen.flows.iter_mut().for_each(|f| f.set = set);
    seen
}

/// The beginning of a capture, at most `bytes` of it, for the flows to these listeners only.
pub(super) fn read_beginning(
    set: u32,
    capture: &Capture,
    options: &ScanOptions,
    feed: &PacketSource,
    listeners: &HashSet<Endpoint>,
    (shift, bytes): (i64, usize),
) -> (SetObservations, usize) {
    let only = listeners.iter().map(|e| (*e, place(Protocol::Tcpstore))).collect();
    let options = ScanOptions { only: Some(only), ..options.clone() };
    let mut scan = SetScan::new(set, options);
    let mut read = 0;
    if let Ok(mut reader) = Reader::open(&capture.path, &feed.limits) {
        let _ = reader.each_while(|packet| {
            scan.packet(capture.index, &Packet { time: packet.time.plus_nanos(shift), ..*packet });
            read += packet.data.len() + 16;
            read < bytes
        });
    }
    let mut seen = scan.finish();
    seen.flows.iter_mut().for_each(|f| f.set = set);
    (seen, read)
}

/// The address that at least nineteen of twenty TCP packets come from or go to; none where two are as frequent.
pub(super) fn own_address(seen: &SetObservations) -> Option<Address> {
    let mut count: BTreeMap<Address, u64> = BTreeMap::new();
    let mut total = 0;
    for r in &seen.records {
        let packets = u64::from(r.packets[0]) + u64::from(r.packets[1]);
        total += packets;
        *count.entry(r.client().address).or_default() += packets;
        if r.server().address != r.client().address {
            *count.entry(r.server().address).or_default() += packets;
        }
    }
    for o in &seen.ordinary {
        total += o.packets;
        *count.entry(o.client).or_default() += o.packets;
        if o.server.address != o.client {
            *count.entry(o.server.address).or_default() += o.packets;
        }
    }
    let frequent: Vec<Address> =
        count.iter().filter(|(_, n)| **n * 20 >= total * 19 && total > 0).map(|(a, _)| *a).collect();
    match frequent.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}
