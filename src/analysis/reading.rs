//! All captures read, up to the barrier: what any of them taught is held against all of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::gather;
use super::inputs::{Inputs, host_of_file, rotation_stem};
use super::jobs::{self, Lessons};
use super::options::Options;
use super::run::{drop_copies, learn_hosts, read_hosts};
use super::scan::ScanOptions;
use super::sets::{self, Capture, ReadCapture, Set};
use crate::names::Names;
use crate::net::Endpoint;
use crate::report::model::Input;
use crate::stream::FlowRecord;
use crate::words::InputKind;

/// Bytes that one flow record costs, with its place in the table.
pub(super) const RECORD_BYTES: usize = size_of::<FlowRecord>() + 8;

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
    pub(super) lessons: Lessons,
    /// Stores, and what may be one.
    pub(super) stores: BTreeSet<Endpoint>,
    /// Listeners of NCCL.
    pub(super) nccl: BTreeSet<Endpoint>,
    pub(super) notes: Vec<String>,
}

/// Reads hosts lists and captures; logs are left to the caller.
pub(super) fn read(options: &Options) -> Reading {
    let mut inputs = Inputs::default();
    options.paths.iter().for_each(|p| inputs.add(p));
    options.oom.iter().for_each(|o| inputs.add_log(&o.path, o.host.as_deref()));
    let mut names = Names::default();
    let listed: Vec<_> = inputs.sources.iter().filter(|s| s.kind == InputKind::Hosts).map(|s| s.path.clone()).collect();
    let lists: Vec<Input> =
        listed.iter().chain(options.hosts.iter()).map(|path| read_hosts(path, &mut names)).collect();
    let captures: Vec<Capture> = inputs
        .sources
        .iter()
        .filter(|s| s.kind == InputKind::Capture)
        .enumerate()
        .map(|(i, s)| Capture {
            index: i as u32,
            path: s.path.clone(),
            stem: rotation_stem(&s.path),
            host: host_of_file(&s.path, &names, options.host_pattern.as_ref()),
        })
        .collect();
    let groups = sets::groups(&captures);
    let threads = options.threads.clamp(1, groups.len().max(1));
    let memory = usize::try_from(options.memory).unwrap_or(usize::MAX) / threads;
    let scan_options = ScanOptions {
        ports: options.ports.clone(),
        nccl_ports: options.nccl_ports.clone(),
        only: None,
        max_flows: (memory / 4 * 3 / RECORD_BYTES).max(1024),
        max_tracked_bytes: memory / 4,
        keep_heads: false,
    };
    let (mut sets, mut read) = sets::read_all(&groups, &scan_options, options.threads);
    drop_copies(&captures, &mut sets, &mut read);
    learn_hosts(&mut names, &captures, &mut sets, &read);
    let mut reading = Reading {
        names,
        inputs,
        lists,
        captures,
        sets,
        read,
        lessons: Lessons::default(),
        stores: BTreeSet::new(),
        nccl: BTreeSet::new(),
        notes: Vec::new(),
    };
    for _ in 0..ROUNDS {
        reading.lessons = jobs::lessons(&reading.sets, &reading.names);
        let stores = gather::listeners(&reading.sets, options, &reading.lessons);
        let nccl = super::network::endpoints(&reading, options);
        if stores == reading.stores && nccl == reading.nccl {
            break;
        }
        reading.stores = stores;
        reading.nccl = nccl;
        reading.promote(&scan_options);
    }
    reading
}

impl Reading {
    /// Reads sets again for flows that were dismissed before it was known that they matter.
    fn promote(&mut self, options: &ScanOptions) {
        for (number, set) in self.sets.iter_mut().enumerate() {
            let mut wanted: HashSet<Endpoint> = gather::missed(set, &self.stores);
            wanted.extend(super::network::missed(set, &self.nccl));
            if wanted.is_empty() {
                continue;
            }
            let own: Vec<Capture> =
                set.captures.iter().filter_map(|i| self.captures.get(*i as usize)).cloned().collect();
            if own.iter().any(|c| c.path.as_os_str() == "-") {
                self.notes.push(format!(
                    "{} listener(s) became known after their first packets had passed through the pipe; what was \
                     dismissed before is lost (give the capture as a file to have it read again)",
                    wanted.len()
                ));
                continue;
            }
            let again = sets::read_again(number as u32, &own, options, &wanted);
            set.take_again(&wanted, again);
        }
    }
}
