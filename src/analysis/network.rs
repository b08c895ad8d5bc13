//! NCCL: from flows to listeners, communicators and what strays did to them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::dedup::{self, DistinctFlow};
use super::options::Options;
use super::reading::Reading;
use super::sets::Set;
use crate::finding::{self, Finding, finding_id};
use crate::net::Endpoint;
use crate::protocol::nccl::{self, Conclusion, Flow, Knowledge, KnownId, Network};
use crate::protocol::stray;
use crate::stream::{Direction, FlowState};
use crate::vocabulary::Outcome;

/// Endpoints that may be listeners of NCCL: those of decoded flows, of stored ids, of ports that the user named, and all
/// that these teach.
pub(super) fn endpoints(reading: &Reading, options: &Options) -> BTreeSet<Endpoint> {
    let mut found: BTreeSet<Endpoint> = candidates(&reading.sets, options);
    found.extend(reading.lessons.roots.iter().map(|(_, r)| r.id.root));
    found.extend(reading.nccl.iter().copied());
    found.retain(|e| !reading.stores.contains(e));
    let knowledge = knowledge(reading, options);
    found.extend(knowledge.suspects.keys());
    let gathered = dedup::gather(&reading.sets, &found, &reading.names);
    let network = nccl::study(&knowledge, &flows(&gathered));
    found = network.listeners.into_keys().filter(|e| !reading.stores.contains(e)).collect();
    found
}

fn candidates(sets: &[Set], options: &Options) -> BTreeSet<Endpoint> {
    let mut found = BTreeSet::new();
    for set in sets {
        found.extend(set.seen.flows.iter().filter(|f| f.nccl.is_some()).map(|f| f.server()));
        let named = set.seen.records.iter().map(|r| r.server()).filter(|e| options.nccl_ports.contains(e.port));
        found.extend(named);
    }
    found
}

fn knowledge(reading: &Reading, options: &Options) -> Knowledge {
    let known = |e: Endpoint| {
        reading.stores.contains(&e) || reading.lessons.pairs.contains_key(&e) || options.ports.contains(e.port)
    };
    let suspects = nccl::suspects(reading.sets.iter().flat_map(|s| &s.seen.records), known);
    let ids = reading.lessons.roots.iter().map(|(_, r)| KnownId { id: r.id, packet: r.said.packet, time: r.said.time });
    Knowledge { ids: ids.collect(), ports: options.nccl_ports.iter().collect(), suspects }
}

fn flows<'a>(gathered: &'a BTreeMap<Endpoint, Vec<DistinctFlow<'a>>>) -> Vec<Flow<'a>> {
    gathered
        .values()
        .flatten()
        .map(|g| Flow {
            record: g.connection.record,
            facts: g.connection.observation.and_then(|o| o.nccl.as_deref()),
            until: g.connection.until,
        })
        .collect()
}

/// Listeners of which a set holds flows that no NCCL decoder has read.
pub(super) fn missed(set: &Set, listeners: &BTreeSet<Endpoint>) -> HashSet<Endpoint> {
    let read: HashSet<(Endpoint, u64)> = set
        .seen
        .flows
        .iter()
        .filter(|f| f.nccl.is_some())
        .map(|f| (f.client(), f.record.first_packet.number))
        .collect();
    set.seen
        .records
        .iter()
        .filter(|r| {
            r.state == FlowState::Dismissed
                && !r.folded
                && r.bytes[0] + r.bytes[1] > 0
                && listeners.contains(&r.server())
        })
        .filter(|r| !read.contains(&(r.client(), r.first_packet.number)))
        .map(|r| r.server())
        .collect()
}

/// What NCCL's listeners came to.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) network: Network,
    pub(super) findings: Vec<Finding>,
}

/// Studies and judges all NCCL listeners of a reading.
pub(super) fn judged(reading: &Reading, options: &Options) -> Judged {
    if reading.nccl.is_empty() {
        return Judged::default();
    }
    let gathered = dedup::gather(&reading.sets, &reading.nccl, &reading.names);
    let flows = flows(&gathered);
    let mut network = nccl::study(&knowledge(reading, options), &flows);
    network.listeners.retain(|e, _| reading.nccl.contains(e));
    for l in network.listeners.values_mut().filter(|l| l.nranks.is_none()) {
        let store = reading.lessons.roots.iter().find(|(_, r)| r.id.root == l.endpoint).map(|(s, _)| *s);
        l.nranks = store.and_then(|s| reading.lessons.world_size(s)).and_then(|n| i32::try_from(n).ok());
    }
    let judgements = network.judge(&flows);
    let mut findings: Vec<Finding> = judgements.values().flat_map(|j| &j.conclusions).map(finding).collect();
    for f in &mut findings {
        f.sightings = sightings(f, &gathered);
    }
    Judged { network, findings }
}

/// The packets that show the same at other vantage points.
fn sightings(f: &Finding, gathered: &BTreeMap<Endpoint, Vec<DistinctFlow<'_>>>) -> Vec<crate::stream::PacketRef> {
    let flows = gathered.get(&f.target).into_iter().flatten();
    flows
        .filter(|g| g.connection.record.client() == f.source)
        .flat_map(|g| &g.elsewhere)
        .filter_map(|o| match f.stream_offset {
            Some(offset) => o.packet_at(Direction::ToServer, offset).map(|k| k.packet),
            None if f.rule == "nccl-rank-refused" => Some(o.record.server_close_packet()),
            None => o.record.client_packet(),
        })
        .collect()
}

fn finding(c: &Conclusion) -> Finding {
    let outcome = c.effect.map(|e| match e {
        nccl::Effect::Serves => Outcome::Replies,
        nccl::Effect::Closes => Outcome::Closes,
        nccl::Effect::Waits => Outcome::Waits,
        nccl::Effect::Allocates => Outcome::Allocates,
        nccl::Effect::Spins => Outcome::Spins,
        nccl::Effect::Dies | nccl::Effect::Killed => Outcome::Dies,
    });
    // Whose bytes these are, if not NCCL's: the tool that sends them is the source's, whatever it reached.
    let named = stray::identify(&c.sent, c.sent_bytes);
    let nameless = matches!(named.protocol, "unknown" | "none" | "constant bytes" | "text");
    let known = !nameless || named.nmap_probe.is_some() || named.tool.is_some();
    let mut evidence = c.evidence.clone();
    if known {
        let probe = named.nmap_probe.map(|p| format!("nmap's {p} probe"));
        let protocol = Some(named.protocol.to_string()).filter(|_| !nameless);
        let names: Vec<String> = [protocol, probe].into_iter().flatten().collect();
        let what = if names.is_empty() { named.tool.unwrap_or_default().to_string() } else { names.join(", ") };
        evidence.insert(0, format!("what it sent: {what}"));
    }
    Finding {
        id: finding_id(c.rule, c.source, c.target, c.sequence, &c.shown.bytes),
        rule: c.rule,
        severity: c.severity,
        time: c.shown.time,
        failed: c.failed,
        packet: Some(c.shown.packet),
        packets: std::iter::once(c.shown.packet).chain(c.also.iter().copied()).collect(),
        sightings: Vec::new(),
        source: c.source,
        target: c.target,
        protocol: Some("nccl"),
        dialect: None,
        dialect_candidates: Vec::new(),
        query: None,
        stream_offset: (!c.shown.bytes.is_empty()).then_some(c.shown.offset),
        bytes: c.shown.bytes.iter().copied().take(finding::SHOWN_BYTES).collect(),
        alternate_bytes: None,
        declared: None,
        delivered: None,
        occurrences: c.occurrences,
        stray: known.then(|| finding::Stray {
            protocol: named.protocol.to_string(),
            tool: named.tool,
            probe: named.nmap_probe,
        }),
        effects: Vec::new(),
        effect: None,
        listener_outcome: outcome,
        explanation: c.explanation.clone(),
        evidence,
    }
}
