//! What captures teach, without a report: who listens, what they speak, what hosts are called.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::inputs::Shape;
use super::options::Options;
use super::sets::Set;
use crate::capture::Limits;
use crate::escape::clean;
use crate::names::Names;
use crate::net::Endpoint;
use crate::protocol::listener::Listener;
use crate::protocol::nccl::Network;
use crate::protocol::tcpstore::Dialect;
use crate::stream::PortSet;
use crate::vocabulary::Protocol;

/// What a first reading of captures taught; a second reading starts from it.
#[derive(Debug, Default)]
pub struct Knowledge {
    /// Names of hosts.
    pub names: Names,
    /// The hosts that captures are named after.
    pub hosts: BTreeSet<String>,
    /// The stores, and what may be one.
    pub listeners: BTreeMap<Endpoint, Known>,
    /// NCCL's listeners and communicators.
    pub nccl: Network,
    /// Where ranks wait for their Gloo pairs.
    pub pairs: BTreeSet<Endpoint>,
    /// The captures, by index.
    pub captures: Vec<PathBuf>,
    /// How they are read.
    pub limits: Limits,
    /// What they are called, by index.
    pub labels: Vec<String>,
    /// Captures (by index) that are read one after the other: the files of one rotated capture, in order of time.
    pub sets: Vec<Vec<u32>>,
    /// What was not read: a path and why.
    pub errors: Vec<(String, String)>,
    /// An input that was named was not read.
    pub trouble: bool,
    /// Nothing at all could be read.
    pub nothing_read: bool,
}

/// A store, with the dialect in which it is read.
#[derive(Clone, Debug)]
pub struct Known {
    /// What its connections show.
    pub listener: Listener,
    /// The dialect that fits its connections best, the oldest where several do as well. `None`: nothing fits.
    pub dialect: Option<Dialect>,
}

impl Known {}

impl Knowledge {
    /// The ports of all listeners.
    pub fn ports(&self) -> PortSet {
        self.listeners.keys().map(|e| e.port).collect()
    }

    /// What hosts are called anywhere.
    pub fn host_names(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(String::as_str).chain(self.names.all()).chain(self.names.aliases())
    }
}

/// Reads all captures among `options.paths` once and studies their listeners.
pub fn learn(options: &Options) -> Knowledge {
    let reading = super::reading::read(options);
    let studies = super::protocols::studies(&reading, options, &BTreeSet::new());
    let network = studies.iter().filter_map(|s| s.own.clone()).find_map(|o| o.downcast::<Network>().ok());
    let nccl = network.map(|n| Network::clone(&n)).unwrap_or_default();
    let mut known = Knowledge { names: reading.names, nccl, limits: options.limits(), ..Knowledge::default() };
    for list in &reading.lists {
        if let Some(error) = &list.error {
            known.refuse(list.path.clone(), error.clone(), true);
        }
    }
    for s in reading.inputs.sources.iter().filter(|s| s.shape == Shape::Log && s.named) {
        known.refuse(s.label.clone(), "a capture was required, a log was there".to_string(), true);
    }
    for r in reading.inputs.refused.iter().filter(|r| r.named) {
        known.refuse(r.label.clone(), r.error.clone(), !r.warning_only);
    }
    known.labels = reading.captures.iter().map(|c| clean(c.path.to_string_lossy().as_bytes(), 256)).collect();
    known.hosts = reading.captures.iter().filter_map(|c| c.host.clone()).collect();
    known.captures = reading.captures.iter().map(|c| c.path.clone()).collect();
    for (index, r) in &reading.read {
        if let (Some(e), Some(path)) = (&r.error, known.captures.get(*index as usize)) {
            known.errors.push((path.to_string_lossy().into_owned(), e.clone()));
            known.trouble = true;
        }
    }
    known.nothing_read = !reading.read.values().any(|r| r.summary.is_some());
    known.pairs = super::protocols::of(&reading.listeners, Protocol::Gloo);
    for listener in studies.into_iter().flat_map(|s| s.watched) {
        let dialect = best(&listener, &reading.sets);
        known.listeners.insert(listener.endpoint, Known { listener, dialect });
    }
    known.sets = reading.sets.into_iter().map(|s| s.captures).collect();
    known
}

impl Knowledge {
    fn refuse(&mut self, path: String, error: String, trouble: bool) {
        self.errors.push((path, error));
        self.trouble |= trouble;
    }
}

/// Of the dialects that fit, the one in which most connections read cleanly and fewest bytes are left over.
fn best(listener: &Listener, sets: &[Set]) -> Option<Dialect> {
    let dialects = listener.dialects();
    if dialects.len() < 2 {
        return dialects.first().copied();
    }
    let flows: Vec<_> =
        sets.iter().flat_map(|s| &s.seen.flows).filter(|f| f.server() == listener.endpoint).take(4096).collect();
    dialects.into_iter().min_by_key(|d| {
        let facts = flows.iter().filter_map(|f| f.facts(*d));
        let (clean, left) = facts.fold((0u64, 0u64), |(c, l), f| (c + u64::from(f.is_clean()), l + f.undecoded));
        (std::cmp::Reverse(clean), left, *d)
    })
}
