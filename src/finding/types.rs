//! A finding, before it is given names and paths for a report.

use super::rule::Rule;
use crate::net::Endpoint;
use crate::stream::PacketRef;
use crate::time::Timestamp;
use crate::vocabulary::{Acknowledged, Outcome, Severity};

/// A message, stream or listener that a rule flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its identity (see [`super::finding_id`]).
    pub id: String,
    /// The rule's id.
    pub rule: &'static str,
    /// Whether its rule is about memory that is claimed and not refused.
    pub claims: bool,
    /// How bad it is.
    pub severity: Severity,
    /// When the flagged field was complete.
    pub time: Timestamp,
    /// When what it led to was seen, where that is another time.
    pub failed: Option<Timestamp>,
    /// The packet that completed the flagged field, at the vantage point nearest the target.
    pub packet: Option<PacketRef>,
    /// All packets there that carried the flagged message.
    pub packets: Vec<PacketRef>,
    /// The same packet at other vantage points.
    pub sightings: Vec<PacketRef>,
    /// Who sent it.
    pub source: Endpoint,
    /// To whom.
    pub target: Endpoint,
    /// `tcpstore`, `nccl`, …; `None` when the target's protocol is not known.
    pub protocol: Option<&'static str>,
    /// The target's dialect, when one was settled.
    pub dialect: Option<DialectName>,
    /// Its candidates, all that fit.
    pub dialect_candidates: Vec<DialectName>,
    /// The query type it is read as.
    pub query: Option<&'static str>,
    /// Offset of the message in its stream, in bytes.
    pub stream_offset: Option<u64>,
    /// First bytes of the message.
    pub bytes: Vec<u8>,
    /// The other version of those bytes, where overlapping segments differ.
    pub alternate_bytes: Option<Vec<u8>>,
    /// What it declares.
    pub declared: Option<Declared>,
    /// How much of that was sent.
    pub delivered: Option<u64>,
    /// How much of the flagged bytes the receiver acknowledged; `None` where no bytes are flagged.
    pub acknowledged: Option<Acknowledged>,
    /// The capture holds nothing that the target sent on this connection, though the sender went on.
    pub one_direction: bool,
    /// How often the same thing happened.
    pub occurrences: u64,
    /// What the bytes really are.
    pub stray: Option<Stray>,
    /// What each candidate does with it.
    pub effects: Vec<Effect>,
    /// The effect that holds, where one is settled.
    pub effect: Option<Effect>,
    /// What the listener did, where it is no store.
    pub listener_outcome: Option<Outcome>,
    /// What happened, in words.
    pub explanation: String,
    /// Why protocol and dialect are what they are, and what was seen afterwards.
    pub evidence: Vec<String>,
}

impl Finding {
    /// A finding of `rule` (with its severity) at `time`, about `packet`, with everything else still to be said.
    pub fn new(
        rule: &'static Rule,
        id: String,
        time: Timestamp,
        packet: Option<PacketRef>,
        source: Endpoint,
        target: Endpoint,
    ) -> Finding {
        Finding {
            id,
            rule: rule.id,
            severity: rule.severity,
            claims: false,
            time,
            failed: None,
            packet,
            packets: packet.into_iter().collect(),
            sightings: Vec::new(),
            source,
            target,
            protocol: None,
            dialect: None,
            dialect_candidates: Vec::new(),
            query: None,
            stream_offset: None,
            bytes: Vec::new(),
            alternate_bytes: None,
            declared: None,
            delivered: None,
            acknowledged: None,
            one_direction: false,
            occurrences: 1,
            stray: None,
            effects: Vec::new(),
            effect: None,
            listener_outcome: None,
            explanation: String::new(),
            evidence: Vec::new(),
        }
    }
}

/// A claim: what a message declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Bytes declared.
    pub bytes: Option<u64>,
    /// Entries declared.
    pub count: Option<u64>,
    /// The field that declares it.
    pub field: &'static str,
}

/// What bytes of a foreign protocol are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// `rdp`, `http`, …
    pub protocol: String,
    /// `nmap`, …
    pub tool: Option<&'static str>,
    /// nmap's name for the probe.
    pub probe: Option<&'static str>,
}

/// What one candidate server does with a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The server's dialect.
    pub dialect: DialectName,
    /// `poll` or `libuv`.
    pub backend: &'static str,
    /// What it does.
    pub outcome: Outcome,
    /// Bytes it asks the kernel for.
    pub allocates_bytes: Option<u64>,
    /// Whether it touches them, so that they count against memory.
    pub resident: Option<bool>,
    /// Whether every other client waits meanwhile.
    pub blocks_server: bool,
    /// Under which condition, in words.
    pub condition: Option<String>,
    /// Query type, as this dialect reads it.
    pub query: Option<&'static str>,
    /// The claim, as this dialect reads it.
    pub declared: Option<Declared>,
    /// What it does, in words.
    pub explanation: String,
}

/// A dialect, by the name that its protocol gives it, and the releases that speak it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DialectName {
    name: &'static str,
    releases: &'static str,
}

impl std::fmt::Display for DialectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name)
    }
}

impl DialectName {
    /// From both.
    pub fn new(name: &'static str, releases: &'static str) -> Self {
        DialectName { name, releases }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The releases, in words.
    pub fn releases(self) -> &'static str {
        self.releases
    }
}
