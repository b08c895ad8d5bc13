//! Who was there: listeners, jobs, communicators, scans, clocks.

use serde::{Deserialize, Serialize};

use super::{JobEvent, Protocol, Role, SignKind};
use crate::time::Timestamp;

/// An address and port that accepted connections, or that another stream named as doing so.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Listener {
    /// Its identity.
    pub id: String,
    /// Its address.
    pub address: String,
    /// Its TCP port.
    pub port: u16,
    /// Its host's name.
    pub host: Option<String>,
    /// What it speaks.
    pub protocol: Protocol,
    /// What it is for.
    pub role: Option<Role>,
    /// The dialect it speaks, when that is known.
    pub dialect: Option<String>,
    /// The dialects that fit what was seen.
    pub dialect_candidates: Vec<String>,
    /// The release, or the releases, in words.
    pub version: Option<String>,
    /// `poll` or `libuv`.
    pub backend: Option<String>,
    /// Whether it asks for the validate magic first.
    pub validates: Option<bool>,
    /// The largest claims it takes.
    pub honours: Option<Honours>,
    /// How it became known: its own traffic, a port that was given, another stream.
    pub learned_from: Option<String>,
    /// Connections it accepted.
    pub connections: u64,
    /// First packet to or from it.
    pub first_seen: Option<Timestamp>,
    /// Last packet from it.
    pub last_seen: Option<Timestamp>,
    /// When it was found to be gone.
    pub died_at: Option<Timestamp>,
    /// What its owner should do.
    pub advice: Option<String>,
}

/// The largest claims that a listener takes before it refuses.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Honours {
    /// Bytes of one string; `null` means no limit but memory.
    pub string_bytes: Option<u64>,
    /// Keys of one query; `null` means no limit but memory.
    pub keys: Option<u64>,
}

/// A training job, as its store shows it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Job {
    /// What its rendezvous speaks.
    pub protocol: Protocol,
    /// The run id, where one was seen.
    pub run_id: Option<String>,
    /// Number of ranks.
    pub world_size: Option<u64>,
    /// Who joined.
    pub participants: Vec<Participant>,
    /// The id of its store in `listeners`.
    pub listener: Option<String>,
    /// Who showed regularly that it lives, and until when.
    pub signs_of_life: Vec<SignOfLife>,
    /// What happened to it, in order of time.
    pub timeline: Vec<Moment>,
}

/// Somebody who showed regularly that it lives: an elastic agent by its keep-alives, a rank by asking for the dump flag.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct SignOfLife {
    /// How it showed it.
    pub kind: SignKind,
    /// Its host's name.
    pub host: Option<String>,
    /// Its address.
    pub address: Option<String>,
    /// Its process id, as it gives it itself.
    pub pid: Option<i64>,
    /// The key, of those that are no agents.
    pub key: Option<String>,
    /// `client > store` of its own connection, where a capture holds it.
    pub connection: Option<String>,
    /// When it was first named, or gave its first sign.
    pub joined: Option<Timestamp>,
    /// When its last sign was first seen.
    pub last_seen: Option<Timestamp>,
    /// Its last keep-alive by its own clock.
    pub last_keep_alive: Option<Timestamp>,
    /// How many different signs were seen.
    pub count: u64,
    /// Seconds between two of them, as measured on itself.
    pub interval_seconds: Option<f64>,
    /// Its last sign of life, if it was silent from then on while others went on; `null` says nothing about silence.
    pub fell_silent: Option<Timestamp>,
    /// Whether it was the first of its job to fall silent.
    pub first_of_job: bool,
    /// Until when others showed what is known of it: no silence is claimed beyond.
    pub observed_until: Option<Timestamp>,
    /// When the others had taken it out of the rendezvous.
    pub removed: Option<Timestamp>,
    /// When its side closed its connection.
    pub disconnected: Option<Timestamp>,
    /// What all this rests on, in words.
    pub basis: String,
}

/// What happened to a job at one moment.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Moment {
    /// When.
    pub time: Option<Timestamp>,
    /// What.
    pub kind: JobEvent,
    /// The host that did it, or to which it happened.
    pub host: Option<String>,
    /// Its address.
    pub address: Option<String>,
    /// In words.
    pub text: String,
    /// The capture that shows it.
    pub capture: Option<String>,
    /// The packet of that capture.
    pub packet: Option<u64>,
}

/// One member of a job.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Participant {
    /// Its rank, where it was said.
    pub rank: Option<u64>,
    /// Its host's name.
    pub host: Option<String>,
    /// Its address.
    pub address: Option<String>,
    /// When it joined.
    pub joined: Option<Timestamp>,
    /// Its last packet.
    pub last_seen: Option<Timestamp>,
    /// The last keep-alive of the elastic agent at its address, as captures show it.
    pub last_keep_alive: Option<Timestamp>,
    /// Since when that agent was silent while others went on; `null` says nothing about silence.
    pub fell_silent: Option<Timestamp>,
}

/// An NCCL communicator.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Communicator {
    /// The magic of its unique id, sixteen hex digits.
    pub magic: Option<String>,
    /// `address:port` of its bootstrap root.
    pub root: Option<String>,
    /// Number of ranks that it should have.
    pub nranks: Option<u64>,
    /// The ranks that checked in.
    pub ranks: Vec<RankAddress>,
    /// Whether all of them did.
    pub complete: bool,
    /// All of its bootstrap roots, in order; NCCL has one for each of several groups of ranks since 2.23.
    #[serde(default)]
    pub roots: Vec<String>,
}

/// A rank that checked in at a bootstrap root.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct RankAddress {
    /// The rank.
    pub rank: u64,
    /// `address:port` that it gave.
    pub address: Option<String>,
    /// When.
    pub time: Option<Timestamp>,
}

/// Many connections from one source.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Scan {
    /// Its identity.
    pub id: String,
    /// Where it came from.
    pub source: ScanSource,
    /// The tool it looks like.
    pub tool: Option<String>,
    /// What kind of scan: `syn`, `connect`, `version`, …
    pub profile: Option<String>,
    /// Its first packet.
    pub first: Option<Timestamp>,
    /// Its last packet.
    pub last: Option<Timestamp>,
    /// Number of hosts it touched.
    pub hosts: u64,
    /// Number of ports it touched.
    pub ports: u64,
    /// Number of connections it tried.
    pub connections: u64,
    /// Ids of the findings it caused.
    pub findings: Vec<String>,
}

/// The source of a scan.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ScanSource {
    /// Its address.
    pub address: String,
    /// Its name, where the user gave one.
    pub label: Option<String>,
    /// Whether the address may stand for several hosts.
    pub may_be_nat: bool,
}

/// How far one host's clock is from another's.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// The host.
    pub host: String,
    /// Against which host.
    pub against: Option<String>,
    /// How far the host's clock is ahead, in seconds; negative when it is behind. `null` where a boot time was found instead.
    pub offset_seconds: Option<f64>,
    /// How sure that is.
    pub uncertainty_seconds: Option<f64>,
    /// What it was computed from.
    pub method: Option<String>,
    /// Whether times in this report were corrected by it: the offset was subtracted from the host's times.
    pub applied: bool,
}
