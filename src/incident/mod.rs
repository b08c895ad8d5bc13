//! Findings + OOM events → [`Incident`]: what set these failures off.

mod by_source;
mod clocks;
pub mod coincidence;
mod coverage;
mod group;
mod memory_climb;
mod merge_sort_tree;
mod nccl;
mod ruled_out;
mod summary;
mod survivor;
mod swapped;
mod trigger;
mod unseen;
#[cfg(test)]
mod verdict_tests;
mod weigh;

use std::collections::BTreeSet;

use crate::clock::Kill;
use crate::curve::Series;
use crate::finding::Finding;
use crate::names::Names;
use crate::net::{Address, Endpoint};
use crate::oom::{OomEvent, OomKind};
use crate::protocol::listener::Listener;
use crate::time::Timestamp;
use crate::vocabulary::{Cause, CoverageLevel, IncidentKind, Scope, Verdict};

pub use clocks::{Correction, HostClocks, Whose};
pub use coverage::{HostWatch, Watch};
pub use group::incidents;
pub(crate) use merge_sort_tree::MergeSortTree;
pub use survivor::Survivor;
pub use swapped::swapped_logs;
pub use trigger::{Claims, Fit, Trigger, trigger_of};

/// All that incidents are made of.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// Kills, in order of time.
    pub events: &'a [OomEvent],
    /// Findings, in order of time.
    pub findings: &'a [Finding],
    /// Listeners, in order of their endpoints.
    pub listeners: &'a [Listener],
    /// Hosts and addresses.
    pub names: &'a Names,
    /// What the captures watched.
    pub watch: &'a Watch,
    /// How many days the logs of each host reach, by short name.
    pub log_days: &'a std::collections::BTreeMap<String, f64>,
    /// Kills without a common trigger are one incident when they are this close, in seconds.
    pub window: f64,
    /// A trigger comes at most this long before its kill, in seconds.
    pub max_lag: f64,
    /// Memory over time.
    pub curves: &'a [Series],
    /// Clocks that were corrected.
    pub clocks: &'a HostClocks,
    /// Sources of scans.
    pub scanners: &'a BTreeSet<Address>,
    /// Sources that may stand for several hosts.
    pub nat: &'a BTreeSet<Address>,
}

impl Evidence<'_> {
    /// The listener at an endpoint.
    pub fn listener(&self, endpoint: Endpoint) -> Option<&Listener> {
        let at = self.listeners.binary_search_by_key(&endpoint, |l| l.endpoint).ok()?;
        self.listeners.get(at)
    }

    /// The host with this address, by name where one is known, else by the address itself.
    pub fn host_of(&self, address: Address) -> String {
        self.names.host(address).map_or_else(|| address.to_string(), str::to_string)
    }
}

/// One host of an incident.
#[derive(Clone, Debug)]
pub struct HostPart {
    /// Its name, or its address when it has none.
    pub host: String,
    /// Its address (the one that was hit, where one was).
    pub address: Option<Address>,
    /// Index of its kill among the events.
    pub event: Option<usize>,
    /// What set it off.
    pub trigger: Option<Trigger>,
    /// When its listener was found to be gone.
    pub died: Option<Timestamp>,
    /// How sure its part is.
    pub verdict: Verdict,
    /// Why, a sentence each.
    pub reasons: Vec<String>,
    /// How much of the time before was watched.
    pub coverage: CoverageLevel,
    /// Its kill has no trigger, and its own store was seen to live on after what it was sent.
    pub bystander: bool,
    /// A claim to it was seen before the kill, whether or not it explains it.
    pub claims_seen: bool,
    /// The host whose capture its log fits, while that one's log fits its own.
    pub swapped_with: Option<String>,
}

/// What the clock room asks of a kill.
pub(crate) fn kill_of(event: &OomEvent) -> Kill {
    let in_cgroup = event.kind == OomKind::Cgroup;
    Kill { at: event.time, anon_rss_bytes: event.anon_rss_bytes, in_cgroup }
}

/// Failures of one or several hosts with what set them off.
#[derive(Clone, Debug)]
pub struct Incident {
    /// That of its earliest trigger, else of its first kill.
    pub id: String,
    /// What it is made of.
    pub kind: IncidentKind,
    /// One host or several.
    pub scope: Scope,
    /// How sure it is.
    pub verdict: Verdict,
    /// The earliest trigger, or the earliest failure.
    pub start: Timestamp,
    /// The latest failure.
    pub end: Timestamp,
    /// Host by host, in order of failure.
    pub hosts: Vec<HostPart>,
    /// The common source of its triggers.
    pub source: Option<Address>,
    /// The tool that source looks like.
    pub tool: Option<&'static str>,
    /// What set it off.
    pub cause: Cause,
    /// How likely it is by accident; `None` for one host.
    pub chance: Option<coincidence::Coincidence>,
    /// Hosts that got the same and lived.
    pub survivors: Vec<Survivor>,
    /// What happened, in plain words.
    pub summary: String,
    /// Flags that would settle what the verdict assumes.
    pub settled_by: Vec<String>,
}
