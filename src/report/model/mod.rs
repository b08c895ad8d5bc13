//! The report document, `rdzvscope.report/1`.
//!
//! Every type here is one object of the JSON document; fields stand in the order in which they are written. A field
//! without a value is `null`, never absent. Additions go to the end of an object, so that old readers keep their place.
//! Addresses are text (not [`crate::net::Address`]) because a redacted report holds pseudonyms in their place.
//!
//! Texts that came from a wire or a log are cleaned (`crate::report::escape::clean`) by whoever puts them here.

mod finding;
mod incident;
mod input;
mod listener;

pub use crate::vocabulary::{
    Acknowledged, Cause, CoverageLevel, IncidentKind, InputKind, JobEvent, OomKind, Outcome, Protocol, Role, Scope,
    Severity, SignKind, Verdict, WorkloadKind,
};
pub use finding::{Declared, Effect, Finding, OuterHeader, Sender, Sighting, Stray, Target};
pub use incident::{
    CgroupLimit, Chance, Incident, IncidentHost, IncidentSource, LogLine, OomEvent, Survivor, Workload,
};
pub use input::{Capture, ClockStep, Coverage, HostCoverage, Input, Interface, Tool, Totals};
pub use listener::{
    Clock, Communicator, Honours, Job, Listener, Moment, Participant, RankAddress, Scan, ScanSource, SignOfLife,
};

use serde::{Deserialize, Serialize};

/// The name and version of the document's schema, its first field.
pub const SCHEMA: &str = "rdzvscope.report/1";

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Who wrote it.
    pub tool: Tool,
    /// The command line as it was given, without the program's name.
    pub arguments: Vec<String>,
    /// Every path that was looked at, read or not.
    pub inputs: Vec<Input>,
    /// Every capture that was read.
    pub captures: Vec<Capture>,
    /// Whether the OOM hosts were watched while it happened.
    pub coverage: Coverage,
    /// The rendezvous, bootstrap and peer listeners that were seen or named.
    pub listeners: Vec<Listener>,
    /// The training jobs that their stores showed.
    pub jobs: Vec<Job>,
    /// The NCCL communicators that their roots showed.
    pub communicators: Vec<Communicator>,
    /// Scans: many connections from one source to many ports or hosts.
    pub scans: Vec<Scan>,
    /// How far the clocks of hosts are apart.
    pub clocks: Vec<Clock>,
    /// What the rules flagged.
    pub findings: Vec<Finding>,
    /// The kills that logs tell of.
    pub oom_events: Vec<OomEvent>,
    /// Kills with their common trigger.
    pub incidents: Vec<Incident>,
    /// Counters over all captures.
    pub totals: Totals,
    /// Whether reading stopped early (SIGINT, a limit): what is here is true, but it is not all.
    pub incomplete: bool,
    /// Plain statements about the whole, such as "no stream of a known protocol was seen".
    pub notes: Vec<String>,
}

impl Default for Report {
    fn default() -> Self {
        Report {
            schema: SCHEMA.to_string(),
            tool: Tool::default(),
            arguments: Vec::new(),
            inputs: Vec::new(),
            captures: Vec::new(),
            coverage: Coverage::default(),
            listeners: Vec::new(),
            jobs: Vec::new(),
            communicators: Vec::new(),
            scans: Vec::new(),
            clocks: Vec::new(),
            findings: Vec::new(),
            oom_events: Vec::new(),
            incidents: Vec::new(),
            totals: Totals::default(),
            incomplete: false,
            notes: Vec::new(),
        }
    }
}
