//! What was read: inputs, captures, coverage, counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CoverageLevel, InputKind};
use crate::time::Timestamp;

/// The program that wrote the document.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Tool {
    /// `rdzvscope`.
    pub name: String,
    /// Its release.
    pub version: String,
    /// The commit it was built from, where the build knew it.
    pub commit: Option<String>,
    /// The version of the server models that effects were computed with.
    pub model_version: String,
}

/// One path that was named or found in a directory.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Input {
    /// The path as it was given (or below the directory that was given).
    pub path: String,
    /// What it turned out to be; `null` when it was not understood.
    pub kind: Option<InputKind>,
    /// Its format: `pcap`, `pcapng`, `dmesg-iso`, …
    pub format: Option<String>,
    /// The host it speaks of.
    pub host: Option<String>,
    /// Lines read, of a text.
    pub lines: Option<u64>,
    /// Lines that looked like they mattered and could not be read.
    pub not_understood: Option<u64>,
    /// The zone its local times were read in.
    pub timezone: Option<String>,
    /// The boot instant that its uptimes were counted from.
    pub boot_time: Option<Timestamp>,
    /// Why it was not read.
    pub error: Option<String>,
    /// What was wrong though it was read.
    pub warnings: Vec<String>,
}

/// One capture.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Capture {
    /// Its path, `-` for a pipe, or the interface's name.
    pub path: String,
    /// `pcap`, `pcapng`, with the compression around it (`pcap+zstd`).
    pub format: Option<String>,
    /// The host it was taken on.
    pub host: Option<String>,
    /// Link types by name: `EN10MB`, `LINUX_SLL2`, …
    pub link_types: Vec<String>,
    /// The interfaces it names.
    pub interfaces: Vec<Interface>,
    /// Packets read.
    pub packets: u64,
    /// Captured bytes of those packets.
    pub bytes: u64,
    /// Time of the earliest packet.
    pub first: Option<Timestamp>,
    /// Time of the latest packet.
    pub last: Option<Timestamp>,
    /// Whether it ends within a packet (it is being written, or was cut).
    pub truncated: bool,
    /// Packets that the snaplen cut.
    pub cut_packets: u64,
    /// What was wrong though it was read.
    pub warnings: Vec<String>,
    /// Why reading stopped before its end.
    pub error: Option<String>,
    /// Whether it holds every flow in one direction only.
    #[serde(default)]
    pub one_direction: bool,
    /// Where the times of its packets step back, or forward by more than a day; the first few.
    #[serde(default)]
    pub clock_steps: Vec<ClockStep>,
}

/// A step of the clock inside a capture.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ClockStep {
    /// The first packet after it, counted from 1.
    pub packet: u64,
    /// From the time of the packet before to that of this one, in seconds; negative where the clock was set back.
    pub seconds: f64,
    /// The time of that packet.
    pub time: Option<Timestamp>,
}

/// One interface of a capture.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Interface {
    /// Its name, where the capture gives one.
    pub name: Option<String>,
    /// Packets that the capturing side dropped, where the capture says.
    pub drops: Option<u64>,
}

/// Whether the hosts with OOM kills were watched.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// Hosts with at least one OOM event.
    pub oom_hosts: u64,
    /// Of these, watched throughout.
    pub observed: u64,
    /// Of these, watched in part.
    pub partial: u64,
    /// Of these, not watched.
    pub not_observed: u64,
    /// Host by host.
    pub hosts: Vec<HostCoverage>,
}

/// The coverage of one host.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct HostCoverage {
    /// The host.
    pub host: String,
    /// How much was watched.
    pub coverage: CoverageLevel,
    /// Start of what captures hold of it.
    pub from: Option<Timestamp>,
    /// End of what captures hold of it.
    pub to: Option<Timestamp>,
    /// Packets dropped while capturing, where captures say.
    pub drops: Option<u64>,
    /// Gaps in its streams of interest.
    pub gaps: u64,
    /// Why it is not "observed", in words.
    pub reason: Option<String>,
}

/// Counters over all captures.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Packets read.
    pub packets: u64,
    /// Captured bytes of those packets.
    pub bytes: u64,
    /// TCP flows.
    pub flows: u64,
    /// Gaps in streams that were reassembled.
    pub gaps: u64,
    /// Flow records given up to stay within memory.
    pub evicted_flows: u64,
    /// Buffered bytes given up to stay within memory.
    pub evicted_bytes: u64,
    /// Segments with a wrong checksum (often offload; they are analyzed all the same).
    pub bad_checksums: u64,
    /// Overlapping segments with different bytes.
    pub overlap_conflicts: u64,
    /// Packets seen a second time by the same capture.
    pub duplicates: u64,
    /// Packets that were not looked into, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Inputs that were not read.
    pub unread: u64,
    /// Bytes sent for places outside the receiver's window, which it did not take.
    #[serde(default)]
    pub out_of_window: u64,
    /// Bytes sent for places before the start of a stream.
    #[serde(default)]
    pub before_start: u64,
    /// Bytes read no further: the budget was used up, or they waited behind bytes that never came.
    #[serde(default)]
    pub given_up: u64,
    /// Bytes that their receiver refused and never acknowledged: a bad checksum, no handshake, after the end, …
    #[serde(default)]
    pub refused: u64,
    /// Bytes that the urgent pointer took out of their streams.
    #[serde(default)]
    pub urgent: u64,
}
