//! Kills, and what ties them together.

use serde::{Deserialize, Serialize};

use super::{
    Acknowledged, Cause, CoverageLevel, Finding, IncidentKind, OomKind, Scope, Sighting, Verdict, WorkloadKind,
};
use crate::time::Timestamp;

/// One kill on one host, from however many logs.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct OomEvent {
    /// Its identity.
    pub id: String,
    /// The host.
    pub host: Option<String>,
    /// When, in UTC; `null` when no clock ties the log to the world.
    pub time: Option<Timestamp>,
    /// How sure that time is.
    pub uncertainty_seconds: Option<f64>,
    /// Who killed it.
    pub kind: OomKind,
    /// The process's name, as the kernel cuts it.
    pub process: Option<String>,
    /// Its process id.
    pub pid: Option<u64>,
    /// Its virtual size, in bytes.
    pub total_vm_bytes: Option<u64>,
    /// Its resident anonymous memory, in bytes.
    pub anon_rss_bytes: Option<u64>,
    /// Its memory cgroup's path.
    pub cgroup: Option<String>,
    /// Who owned it.
    pub workload: Option<Workload>,
    /// The lines that tell of it.
    pub sources: Vec<LogLine>,
    /// Where the time came from: `line`, `derived-year`, `boot`, `accounting`, `none`.
    pub time_source: Option<String>,
    /// The same in words: `local time, zone assumed UTC`, …
    #[serde(default)]
    pub time_basis: Option<String>,
    /// The kill was at `time` or up to `uncertainty_seconds` after it, not before.
    #[serde(default)]
    pub at_or_after: bool,
    /// Seconds since the host's boot, where a line prints them.
    #[serde(default)]
    pub boot_seconds: Option<f64>,
    /// Who tells of it: `kernel`, `systemd`, `kubernetes`, `container`, `slurm`, `pbs`, `lsf`, `process`.
    #[serde(default)]
    pub told_by: Option<String>,
    /// The program that wrote the line, where no more than a process tells of it.
    #[serde(default)]
    pub writer: Option<String>,
    /// The cgroup whose limit was reached.
    #[serde(default)]
    pub limit_cgroup: Option<String>,
    /// That limit, in bytes.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// What that cgroup held then, in bytes.
    #[serde(default)]
    pub usage_bytes: Option<u64>,
    /// How many kills the record stands for.
    #[serde(default)]
    pub occurrences: u64,
    /// The log of the first line.
    #[serde(default)]
    pub path: Option<String>,
    /// That line's number, from 1.
    #[serde(default)]
    pub line: Option<u64>,
}

/// The owner of a killed process.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Workload {
    /// What kind of owner.
    pub kind: WorkloadKind,
    /// Its id.
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LogLine {
    /// The log's path.
    pub path: String,
    /// The line's number, from 1.
    pub line: Option<u64>,
}

/// Failures of one or several hosts with what set them off.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Incident {
    /// Its identity: that of its earliest trigger, else of its first OOM event.
    pub id: String,
    /// What it is made of.
    pub kind: IncidentKind,
    /// One host or several.
    pub scope: Scope,
    /// How sure it is, over all hosts.
    pub verdict: Verdict,
    /// The earliest trigger, or the earliest failure.
    pub start: Option<Timestamp>,
    /// The latest failure.
    pub end: Option<Timestamp>,
    /// Host by host.
    pub hosts: Vec<IncidentHost>,
    /// Where the triggers came from.
    pub source: Option<IncidentSource>,
    /// What set it off.
    pub cause: Cause,
    /// How likely it is that the times fit by accident.
    pub chance: Option<Chance>,
    /// Hosts that got the same and lived.
    pub survivors: Vec<Survivor>,
    /// What happened, in plain words.
    pub summary: String,
    /// Flags that would settle what the verdict assumes.
    pub settled_by: Vec<String>,
}

/// One host of an incident.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct IncidentHost {
    /// Its name, or its address when it has none.
    pub host: String,
    /// Its address.
    pub address: Option<String>,
    /// The id of its kill in `oom_events`.
    pub oom_event: Option<String>,
    /// The id of its trigger in `findings`.
    pub trigger: Option<String>,
    /// Seconds from trigger to kill.
    pub lag_seconds: Option<f64>,
    /// How sure that is.
    pub lag_uncertainty_seconds: Option<f64>,
    /// When its listener was found to be gone.
    pub listener_died_at: Option<Timestamp>,
    /// How sure this host's part is.
    pub verdict: Verdict,
    /// Why, a sentence each.
    pub reasons: Vec<String>,
    /// How much of the time before was watched.
    pub coverage: CoverageLevel,
    /// Where its trigger stands, so that nobody has to look it up in `findings`.
    #[serde(default)]
    pub trigger_packet: Option<Sighting>,
    /// The bytes that its trigger declares.
    #[serde(default)]
    pub declared_bytes: Option<u64>,
    /// The memory cgroup whose limit was reached.
    #[serde(default)]
    pub cgroup: Option<CgroupLimit>,
    /// How much of its trigger's bytes its kernel acknowledged.
    #[serde(default)]
    pub acknowledged: Option<Acknowledged>,
    /// The batch job that the killed process belonged to, by its scheduler's number.
    #[serde(default)]
    pub job: Option<String>,
}

/// A memory cgroup, and the limit that was reached.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct CgroupLimit {
    /// Its path.
    pub name: String,
    /// Its limit, where a log tells it.
    pub limit_bytes: Option<u64>,
}

/// Where an incident's triggers came from.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct IncidentSource {
    /// Its address.
    pub address: String,
    /// The tool it looks like.
    pub tool: Option<String>,
    /// Its name, where the user gave one.
    pub label: Option<String>,
    /// Whether the address may stand for several hosts.
    pub may_be_nat: bool,
}

/// How likely it is that the times fit by accident.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Chance {
    /// Such coincidences to be expected in a year.
    pub expected_per_year: Option<f64>,
    /// The window that was used, in seconds.
    pub window_seconds: Option<f64>,
    /// How it was computed.
    pub method: Option<String>,
}

/// A host that got the same bytes and lived.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Survivor {
    /// Its name, or its address when it has none.
    pub host: String,
    /// Its address.
    pub address: Option<String>,
    /// The id of its listener in `listeners`.
    pub listener: Option<String>,
    /// Why it lived.
    pub reason: String,
}

impl Incident {
    /// The names of its hosts, each once, in order of failure: a host may have lost several processes.
    pub fn host_names(&self) -> Vec<&str> {
        let mut seen = std::collections::HashSet::new();
        self.hosts.iter().map(|h| h.host.as_str()).filter(|h| seen.insert(*h)).collect()
    }
}

impl IncidentHost {
    /// When its listener ended, or, in a split, when that failed: `trigger` tells.
    pub fn failed(&self, kind: IncidentKind, trigger: Option<&Finding>) -> Option<Timestamp> {
        let of_split = trigger
            .filter(|_| matches!(kind, IncidentKind::NcclSplit | IncidentKind::GlooGroup))
            .and_then(|f| f.failed_at);
        self.listener_died_at.or(of_split)
    }
}
