//! All captures read, up to the barrier: what any of them taught is held against all of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::host_lists;
use super::inputs::{Inputs, Shape, host_of_file, rotation_stem};
use super::jobs::{self, Discovered};
use super::options::Options;
use super::progress::Progress;
use super::protocols::{self, Listeners};
use super::prune::{self, Plan};
use super::run::{drop_copies, learn_hosts};
use super::scan::ScanOptions;
use super::sets::{self, Capture, PacketSource, ReadCapture, Set};
use crate::names::Names;
use crate::net::{Address, Endpoint};
use crate::report::model::Input;
use crate::stream::FlowRecord;
use crate::time::Timestamp;

/// Bytes that one flow record costs, with its place in the table.
const RECORD_BYTES: usize = size_of::<FlowRecord>() + 8;

/// Rounds of learning: what is learnt may name listeners whose traffic teaches more.
pub(super) const ROUNDS: usize = 5;

/// Captures, read.
pub(super) struct Reading {
    pub(super) names: Names,
    pub(super) inputs: Inputs,
    /// Hosts lists, as a report names them.
    pub(super) lists: Vec<Input>,
    pub(super) captures: Vec<Capture>,
    pub(super) sets: Vec<Set>,
    pub(super) read: BTreeMap<u32, ReadCapture>,
    pub(super) lessons: Discovered,
    /// Endpoints that are read as stores because a kill on their host may be due to what they were sent.
    pub(super) suspects: BTreeSet<Endpoint>,
    /// The listeners of each protocol.
    pub(super) listeners: Listeners,
    pub(super) notes: Vec<String>,
    /// Whether captures lie there to be read a second time.
    pub(super) again: bool,
    pub(super) scan: ScanOptions,
    pub(super) feed: PacketSource,
}

/// What is known before a capture is read.
pub(super) struct CaptureGroups {
    pub(super) names: Names,
    pub(super) inputs: Inputs,
    /// Hosts lists, as a report names them.
    pub(super) lists: Vec<Input>,
    pub(super) captures: Vec<Capture>,
    /// Times of first packets, by index.
    pub(super) first: BTreeMap<u32, Timestamp>,
    /// Captures that may be one, in order of their first packets.
    pub(super) groups: Vec<Vec<Capture>>,
}

/// Sniffs the paths and reads hosts lists.
pub(super) fn intake(options: &Options) -> CaptureGroups {
    let mut inputs = Inputs::default();
    options.paths.iter().for_each(|p| inputs.add(p));
    for source in inputs.sources.iter_mut().filter(|s| s.path.as_os_str() == "-") {
        source.label.clone_from(&options.label);
    }
    options.oom.iter().for_each(|o| inputs.add_log(&o.path, o.host.as_deref()));
    let mut names = Names::default();
    let mut lists = Vec::new();
    for path in &options.hosts {
        lists.push(host_lists::read(path, &path.to_string_lossy(), None, &mut names));
    }
    for s in inputs.sources.iter().filter(|s| matches!(s.shape, Shape::List(_))) {
        lists.push(host_lists::read(&s.path, &s.label, s.host.as_deref(), &mut names));
    }
    let captures: Vec<Capture> = inputs
        .sources
        .iter()
        .filter(|s| s.shape == Shape::Capture)
        .enumerate()
        .map(|(i, s)| Capture {
            index: i as u32,
            path: s.path.clone(),
            stem: rotation_stem(&s.path),
            host: host_of_file(&s.path, &names, options.host_pattern.as_ref()),
        })
        .collect();
    let first = prune::first_times(&captures);
    let groups = sets::groups(&captures, &first);
    CaptureGroups { names, inputs, lists, captures, first, groups }
}

/// Reads all captures; logs are left to the caller.
pub(super) fn read(options: &Options) -> Reading {
    captures(intake(options), options, &Plan::default(), &Progress::new(options))
}

/// Options of one of `scans` scans at a time, which share the memory for flows and streams.
pub(super) fn scan_options(options: &Options, scans: usize) -> ScanOptions {
    let memory = usize::try_from(options.memory).unwrap_or(usize::MAX) / scans.max(1);
    ScanOptions {
        ports: options.ports.clone(),
        named: protocols::named_ports(options),
        only: None,
        max_flows: (memory / 4 * 3 / RECORD_BYTES).max(1024),
        max_tracked_bytes: memory / 4,
        keep_heads: false,
    }
}

/// Reads the captures that `plan` does not skip.
pub(super) fn captures(intake: CaptureGroups, options: &Options, plan: &Plan, progress: &Progress) -> Reading {
    let CaptureGroups { mut names, inputs, lists, captures, groups, .. } = intake;
    let groups: Vec<Vec<Capture>> = groups
        .into_iter()
        .map(|g| g.into_iter().filter(|c| !plan.skipped.contains_key(&c.index)).collect::<Vec<_>>())
        .filter(|g| !g.is_empty())
        .collect();
    let size = |c: &Capture| std::fs::metadata(&c.path).map_or(0, |m| m.len());
    progress.expect(groups.iter().flatten().map(size).sum());
    let threads = options.threads.clamp(1, groups.len().max(1));
    let scan = scan_options(options, threads);
    let feed = PacketSource::new(options, progress);
    let (mut sets, mut read) = sets::read_all(&groups, &scan, &feed, options.threads);
    for (index, why) in &plan.skipped {
        read.insert(*index, ReadCapture { skipped: Some(*why), ..ReadCapture::default() });
    }
    drop_copies(&captures, &mut sets, &mut read);
    learn_hosts(&mut names, &captures, &mut sets, &read);
    let mut reading = Reading {
        names,
        inputs,
        lists,
        captures,
        sets,
        read,
        lessons: Discovered::default(),
        suspects: BTreeSet::new(),
        listeners: Listeners::new(),
        notes: Vec::new(),
        again: true,
        scan,
        feed,
    };
    reading.select(options);
    reading.learn(options);
    reading
}

impl Reading {
    /// Finds the listeners, in rounds: what is learnt may name others.
    pub(super) fn learn(&mut self, options: &Options) {
        for _ in 0..ROUNDS {
            self.lessons = jobs::lessons(&self.sets, &self.names);
            self.lessons.suspects.clone_from(&self.suspects);
            let found = protocols::listeners(self, options);
            if found == self.listeners {
                break;
            }
            self.listeners = found;
            self.promote();
        }
    }

    /// The same for sets that were read again.
    pub(super) fn relearn(&mut self, options: &Options) {
        self.listeners.clear();
        self.learn(options);
    }

    /// Keeps the flows that `--host` and `--net` mean.
    fn select(&mut self, options: &Options) {
        if options.only_hosts.is_empty() && options.nets.is_empty() {
            return;
        }
        let names = &self.names;
        let meant = |a: Address| {
            let host = names.host(a);
            let by_name = options.only_hosts.is_empty()
                || options.only_hosts.iter().any(|h| {
                    host.is_some_and(|own| names.same(own, h))
                        || h.parse::<std::net::IpAddr>().is_ok_and(|ip| a == ip.into())
                });
            by_name && (options.nets.is_empty() || options.nets.iter().any(|n| n.contains(a)))
        };
        for set in &mut self.sets {
            set.seen.records.retain(|r| meant(r.client().address) || meant(r.server().address));
            set.seen.flows.retain(|f| meant(f.client().address) || meant(f.server().address));
        }
    }

    /// The captures of a set, in order; `None` where one is a pipe, which gives its packets once.
    fn files(&self, set: usize) -> Option<Vec<Capture>> {
        let own = self.sets.get(set)?.captures.iter();
        let own: Vec<Capture> = own.filter_map(|i| self.captures.get(*i as usize)).cloned().collect();
        (self.again && own.iter().all(|c| c.path.as_os_str() != "-")).then_some(own)
    }

    /// Reads a set again with its times moved by `shift` nanoseconds. `false`: it cannot be read again.
    pub(super) fn shift(&mut self, number: usize, shift: i64, options: &Options) -> bool {
        let Some(files) = self.files(number) else { return false };
        let seen = sets::read_again(number as u32, &files, &self.scan, &self.feed, None, shift);
        if let Some(set) = self.sets.get_mut(number) {
            set.seen = seen;
            set.shift = shift;
            set.span = set.span.map(|(a, b)| (a.plus_nanos(shift), b.plus_nanos(shift)));
        }
        self.select(options);
        true
    }

    /// Adds what the beginnings of earlier captures show of listeners whose dialect is not known.
    pub(super) fn look_back(
        &mut self,
        number: usize,
        capture: &Capture,
        wanted: &HashSet<Endpoint>,
        bytes: usize,
    ) -> usize {
        let Some(set) = self.sets.get_mut(number) else { return 0 };
        let (seen, read) =
            sets::read_beginning(number as u32, capture, &self.scan, &self.feed, wanted, (set.shift, bytes));
        set.seen.records.extend(seen.records);
        set.seen.flows.extend(seen.flows);
        set.seen.flows.sort_by_key(|f| (f.record.first, f.record.first_packet));
        for (endpoint, activity) in seen.activity {
            set.seen.activity.entry(endpoint).or_default().merge(&activity);
        }
        read
    }

    /// Reads sets again for flows that were dismissed before it was known that they matter.
    fn promote(&mut self) {
        for number in 0..self.sets.len() {
            let files = self.files(number);
            let Some(set) = self.sets.get_mut(number) else { continue };
            let wanted = protocols::missed(set, &self.listeners);
            if wanted.is_empty() {
                continue;
            }
            let Some(own) = files else {
                self.notes.push(format!(
                    "{} listener(s) became known after their first packets had passed through the pipe; what was \
                     dismissed before is lost (give the capture as a file to have it read again)",
                    wanted.len()
                ));
                continue;
            };
            let again = sets::read_again(number as u32, &own, &self.scan, &self.feed, Some(&wanted), set.shift);
            set.take_again(&wanted, again);
        }
    }
}
