//! What the rules flagged.

use serde::{Deserialize, Serialize};

use super::{Acknowledged, Outcome, Severity};
use crate::time::Timestamp;

/// A message, stream or listener that a rule flags.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Finding {
    /// Its identity: a hash of what was on the wire, the same on every reading.
    pub id: String,
    /// The rule, as `rdzvscope explain` knows it.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// When the flagged field was complete.
    pub time: Option<Timestamp>,
    /// How sure that time is.
    pub time_uncertainty_seconds: Option<f64>,
    /// The capture taken nearest the target.
    pub capture: Option<String>,
    /// The packet of that capture that completed the flagged field, counted from 1.
    pub packet: Option<u64>,
    /// All packets of that capture that carried the message.
    pub packets: Vec<u64>,
    /// The same, in other captures.
    pub sightings: Vec<Sighting>,
    /// Who sent it.
    pub source: Option<Sender>,
    /// To whom.
    pub target: Option<Target>,
    /// The encapsulations around it, outermost first.
    pub outer: Vec<OuterHeader>,
    /// The flow's community id, version 1.
    pub community_id: Option<String>,
    /// What the target speaks: `tcpstore`, `nccl`, `gloo`.
    pub protocol: Option<String>,
    /// The dialect it was read in, when one was settled.
    pub dialect: Option<String>,
    /// The dialects that fit.
    pub dialect_candidates: Vec<String>,
    /// The query type it was read as: `ADD`.
    pub query: Option<String>,
    /// Offset of the message in its stream, in bytes.
    pub stream_offset: Option<u64>,
    /// The first bytes of the message, lower-case hex without separators.
    pub bytes_hex: Option<String>,
    /// The other version of these bytes, where overlapping segments differ.
    pub alternate_bytes_hex: Option<String>,
    /// What the message declares.
    pub declared: Option<Declared>,
    /// How much of that was sent.
    pub delivered_bytes: Option<u64>,
    /// How often the same thing happened.
    pub occurrences: u64,
    /// What the bytes really are.
    pub stray: Option<Stray>,
    /// What each candidate server does with it.
    pub effects: Vec<Effect>,
    /// The one that holds, when the server is known.
    pub effect: Option<Effect>,
    /// What happened, in words.
    pub explanation: String,
    /// What to do about it.
    pub remedy: Option<String>,
    /// Why that protocol and dialect were assumed, and what was seen afterwards.
    pub evidence: Vec<String>,
    /// When what it led to was seen, where that is another time than that of the packet: a root's end, a failed split.
    #[serde(default)]
    pub failed_at: Option<Timestamp>,
    /// How much of the flagged bytes the receiver acknowledged; `null` where no bytes are flagged.
    #[serde(default)]
    pub acknowledged: Option<Acknowledged>,
}

/// The same finding in another capture.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Sighting {
    /// The capture's path.
    pub capture: String,
    /// The packet's number there, from 1.
    pub packet: Option<u64>,
}

/// The sending endpoint.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Sender {
    /// Its address.
    pub address: String,
    /// Its TCP port.
    pub port: Option<u16>,
}

/// The receiving endpoint.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Target {
    /// Its address.
    pub address: String,
    /// Its TCP port.
    pub port: Option<u16>,
    /// Its host's name.
    pub host: Option<String>,
}

/// One encapsulation.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct OuterHeader {
    /// `vxlan`, `geneve`, `gre`, …
    pub kind: String,
    /// Outer source address.
    pub source: String,
    /// Outer destination address.
    pub target: String,
    /// Network identifier.
    pub id: Option<u32>,
}

/// The claim of a message.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Declared {
    /// Bytes declared.
    pub bytes: Option<u64>,
    /// Entries declared.
    pub count: Option<u64>,
    /// The field that declares it: `key length`.
    pub field: Option<String>,
}

/// What bytes of a foreign protocol are.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Stray {
    /// The protocol they belong to: `rdp`, `http`, …
    pub protocol: Option<String>,
    /// The tool that sends them so.
    pub tool: Option<String>,
    /// Its name for them: `TerminalServerCookie`.
    pub probe: Option<String>,
}

/// What one candidate server does with a message.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Effect {
    /// The server's dialect.
    pub dialect: Option<String>,
    /// Its backend, `poll` or `libuv`.
    pub backend: Option<String>,
    /// What it does.
    pub outcome: Outcome,
    /// Bytes it asks the kernel for.
    pub allocates_bytes: Option<u64>,
    /// Whether these bytes are touched, so that they count against memory.
    pub resident: Option<bool>,
    /// Whether every other client waits meanwhile.
    pub blocks_server: bool,
    /// Under which condition, in words.
    pub condition: Option<String>,
}
