//! What strangers did to named listeners, where the wire shows it.

use std::collections::BTreeMap;

use super::super::seam::{DistinctFlow, Given};
use super::super::stray;
use super::rules::{DoorRule, TensorpipeRule};
use super::{Harm, Named, Names, words};
use crate::finding::{self, Declared, DialectName, Effect, Finding, Rule, finding_id};
use crate::net::{Address, Endpoint};
use crate::stream::{Direction, FlowRecord, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::Outcome;

/// A process that a stray ends closes what it had open within so many seconds.
const AT_ONCE: f64 = 2.0;
/// A length above this is none that a peer of the job declares in its first message.
const LARGEST: u64 = 64 << 20;

/// How a connection ended: who closed, and whether by a reset.
pub(super) fn end(record: &FlowRecord) -> (bool, bool, bool, bool) {
    let seen = |t: crate::stream::OptionalTime| t.get().is_some();
    (seen(record.fin[0]), seen(record.fin[1]), seen(record.rst[0]), seen(record.rst[1]))
}

/// A stranger's connection.
struct Stray<'a> {
    flow: &'a DistinctFlow<'a>,
    client: &'a [u8],
    /// When it takes effect: at its first bytes, else at its end.
    time: Timestamp,
    packet: PacketRef,
}

impl Stray<'_> {
    fn record(&self) -> &FlowRecord {
        self.flow.connection.record
    }

    fn finding(&self, rule: &'static Rule, explanation: String) -> Finding {
        let record = self.record();
        let sequence = record.isn(Direction::ToServer).unwrap_or(0);
        let id = finding_id(rule.id, record.client(), record.server(), sequence, self.client);
        let named = stray::identify(self.client, record.bytes[0]);
        let nameless = matches!(named.protocol, "unknown" | "none" | "constant bytes" | "text");
        let known = !nameless || named.nmap_probe.is_some() || named.tool.is_some();
        Finding {
            explanation,
            stream_offset: (!self.client.is_empty()).then_some(0),
            bytes: self.client.iter().copied().take(finding::SHOWN_BYTES).collect(),
            stray: known.then(|| finding::Stray {
                protocol: named.protocol.to_string(),
                tool: named.tool,
                probe: named.nmap_probe,
            }),
            ..Finding::new(rule, id, self.time, Some(self.packet), record.client(), record.server())
        }
    }
}

/// Connections of strangers, in order of time; a half-open one never reached the process.
fn strays<'a>(named: &Named, flows: &'a [DistinctFlow<'a>]) -> Vec<Stray<'a>> {
    let of = |flow: &'a DistinctFlow<'a>| {
        let record = flow.connection.record;
        let client = words(flow).map_or(&[][..], |w| w.client());
        let halfopen = record.bytes[0] == 0 && record.half_open();
        // Of bytes that were not read nothing can be said.
        let unread = client.is_empty() && record.bytes[0] > 0;
        if !record.accepted() || record.syn.get().is_none() || halfopen || unread || (named.own)(client) {
            return None;
        }
        let said = words(flow).and_then(|w| w.first_client());
        let (time, packet) = match said {
            Some(first) => first,
            None => {
                let closed = record.client_closed()?;
                (closed, record.client_packet().unwrap_or(record.first_packet))
            }
        };
        Some(Stray { flow, client, time, packet })
    };
    let mut all: Vec<Stray<'a>> = flows.iter().filter_map(of).collect();
    all.sort_by_key(|s| (s.time, s.packet));
    all
}

/// All that is to be said of one protocol's listeners.
pub(super) fn findings(named: &Named, given: &Given<'_>, names: &Names) -> Vec<Finding> {
    if named.harm == Harm::Nothing {
        return Vec::new();
    }
    // A process has several listeners: those of one address.
    let mut own: BTreeMap<Address, Vec<&FlowRecord>> = BTreeMap::new();
    let mut struck: BTreeMap<Address, Vec<(Endpoint, Stray<'_>)>> = BTreeMap::new();
    for (endpoint, flows) in given.connections.iter().filter(|(e, _)| names.contains_key(e)) {
        let theirs = flows.iter().filter(|f| words(f).is_some_and(|w| (named.own)(w.client())));
        own.entry(endpoint.address).or_default().extend(theirs.map(|f| f.connection.record));
        let strays = strays(named, flows).into_iter().map(|s| (*endpoint, s));
        struck.entry(endpoint.address).or_default().extend(strays);
    }
    let mut all = Vec::new();
    for (address, mut strays) in struck {
        strays.sort_by_key(|(_, s)| (s.time, s.packet));
        let own = own.get(&address).map(Vec::as_slice).unwrap_or_default();
        for (endpoint, stray) in &strays {
            let name = names.get(endpoint).map_or("listener", |(n, _)| n.product.as_str());
            if named.harm == Harm::BelievesLength {
                all.extend(length(stray, name));
                all.extend(closed_for_good(stray, *endpoint, name, given));
            }
        }
        all.extend(died(own, &strays, names, given));
    }
    all
}

/// The stray after which every connection that the job had there was ended by the listener's side.
fn died(own: &[&FlowRecord], strays: &[(Endpoint, Stray<'_>)], names: &Names, given: &Given<'_>) -> Option<Finding> {
    let found = strays.iter().rev().find_map(|(endpoint, stray)| {
        let after = |t: Timestamp| t >= stray.time && t.seconds_since(stray.time) <= AT_ONCE;
        // What is still open when the stray takes effect.
        let open: Vec<&&FlowRecord> = own
            .iter()
            .filter(|r| {
                r.first < stray.time
                    && r.client_closed().into_iter().chain(r.server_closed()).min().is_none_or(|t| t >= stray.time)
            })
            .collect();
        let ended = |r: &&&FlowRecord| {
            let by_server = r.server_closed().filter(|t| after(*t));
            by_server.is_some_and(|t| r.client_closed().is_none_or(|c| c >= t))
        };
        if open.is_empty() || !open.iter().all(&ended) {
            return None;
        }
        let first = open.iter().filter_map(|r| r.server_closed()).min()?;
        let last = open.iter().filter_map(|r| r.server_closed()).max()?;
        // It must be gone: nobody is accepted there any more.
        let flows = given.connections.get(endpoint)?;
        let later = flows.iter().map(|f| f.connection.record).filter(|r| r.first > last);
        if later.clone().any(FlowRecord::accepted) {
            return None;
        }
        Some((
            endpoint,
            stray,
            open.len(),
            first,
            open.first()?.server_close_packet(),
            later.filter(|r| r.refused()).count(),
        ))
    });
    let (endpoint, stray, count, first, packet, refused) = found?;
    let name = names.get(endpoint).map_or("listener", |(n, _)| n.product.as_str());
    let what = match stray.record().bytes[0] {
        0 => "connected and closed without a byte".to_string(),
        n => format!("sent {n} bytes that are none of its own"),
    };
    let refusals = if refused > 0 { format!("; {refused} later attempts were refused") } else { String::new() };
    let explanation = format!(
        "{} {what} at {endpoint}, {name}: {:.1} s later its side ended all {count} connections of the job there{refusals}.",
        stray.record().client(),
        first.seconds_since(stray.time)
    );
    let mut f = stray.finding(DoorRule::DoorJobDied.text(), explanation);
    f.failed = Some(first);
    f.packets.push(packet);
    f.listener_outcome = Some(Outcome::Dies);
    Some(f)
}

/// A length that a stranger declares.
fn length(stray: &Stray<'_>, name: &str) -> Option<Finding> {
    let declared = u64::from_le_bytes(*stray.client.first_chunk()?);
    if declared < LARGEST {
        return None;
    }
    let record = stray.record();
    let explanation = format!(
        "{} sent {} bytes to {}, {name}, whose first eight are read as a length: {} are allocated and written, or the \
         process aborts where the kernel refuses them.",
        record.client(),
        record.bytes[0],
        record.server(),
        crate::size::readings(declared)
    );
    let mut f = stray.finding(TensorpipeRule::TensorpipeClaim.text(), explanation);
    f.evidence.push(match (record.rst[1].get(), record.server_closed()) {
        (Some(t), _) => format!(
            "the listener's side reset the connection {:.3} s later: the kernel refused the memory, or the process is gone",
            t.seconds_since(stray.time)
        ),
        (None, Some(_)) => "the listener's side closed the connection".to_string(),
        (None, None) => "the listener's side did not end the connection: the memory may have been granted".to_string(),
    });
    f.declared = Some(Declared { bytes: Some(declared), count: None, field: "length" });
    f.delivered = Some(record.bytes[0].saturating_sub(8));
    f.listener_outcome = Some(Outcome::Allocates);
    // A claim as a store's is: it may be what a kill on this host is due to.
    f.claims = true;
    f.effects.push(Effect {
        dialect: DialectName::new("tensorpipe", "PyTorch with RPC"),
        backend: "uv",
        outcome: Outcome::Allocates,
        allocates_bytes: Some(declared),
        resident: Some(true),
        blocks_server: false,
        condition: Some("where the kernel grants it; else the process aborts".to_string()),
        query: None,
        declared: f.declared.clone(),
        explanation: String::new(),
    });
    Some(f)
}

/// A listener that the first connection without a message closes, and who was refused later.
fn closed_for_good(stray: &Stray<'_>, endpoint: Endpoint, name: &str, given: &Given<'_>) -> Option<Finding> {
    let record = stray.record();
    if stray.client.len() >= 8 {
        return None;
    }
    let flows = given.connections.get(&endpoint)?;
    let later: Vec<&FlowRecord> = flows.iter().map(|f| f.connection.record).filter(|r| r.first > stray.time).collect();
    let refused: Vec<&&FlowRecord> = later.iter().filter(|r| r.refused()).collect();
    if refused.is_empty() || later.iter().any(|r| r.accepted()) {
        return None;
    }
    let explanation = format!(
        "{} connected to {endpoint}, {name}, and said nothing that is a message: the listener closed for good, and refused {} later attempts. Peers that were connected go on.",
        record.client(),
        refused.len()
    );
    let mut f = stray.finding(TensorpipeRule::TensorpipeListenerClosed.text(), explanation);
    f.failed = refused.iter().map(|r| r.first).min();
    f.packets.extend(refused.first().map(|r| r.server_close_packet()));
    f.listener_outcome = Some(Outcome::Dies);
    Some(f)
}
