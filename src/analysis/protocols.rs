//! The protocols at the barrier: which endpoints are whose listeners, which flows were dismissed too early, and what
//! each protocol concludes.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::dedup;
use super::options::Options;
use super::reading::Reading;
use super::sets::Set;
use crate::net::Endpoint;
use crate::protocol::seam::{Asked, Given, NamedPorts, ProtocolSet, Seen, SeenSet, Study};
use crate::protocol::{DISSECTORS, place};
use crate::stream::FlowState;
use crate::vocabulary::Protocol;

/// The listeners of each protocol, by its place.
pub(super) type Listeners = Vec<BTreeSet<Endpoint>>;

/// Those of one protocol.
pub(super) fn of(listeners: &Listeners, protocol: Protocol) -> BTreeSet<Endpoint> {
    let at = DISSECTORS.iter().position(|d| d.protocol() == protocol);
    at.and_then(|at| listeners.get(at)).cloned().unwrap_or_default()
}

/// The ports that the user named, by protocol.
pub(super) fn named_ports(options: &Options) -> NamedPorts {
    crate::protocol::named_ports([
        (Protocol::Tcpstore, options.ports.clone()),
        (Protocol::Nccl, options.nccl_ports.clone()),
    ])
}

fn seen(sets: &[Set]) -> Seen<'_> {
    Seen(sets.iter().map(|s| SeenSet { records: &s.seen.records, flows: &s.seen.flows }).collect())
}

/// The listeners of each protocol, as far as is known: its candidates, and all that these teach. An endpoint belongs to
/// one protocol.
pub(super) fn listeners(reading: &Reading, options: &Options) -> Listeners {
    let (seen, ports, taught) = (seen(&reading.sets), named_ports(options), reading.lessons.taught());
    let asked = Asked { names: &reading.names, ports: &ports, ids: &options.nccl_ids, places: &place };
    let mut all: Listeners = Vec::new();
    let mut taken: BTreeSet<Endpoint> = BTreeSet::new();
    for (at, dissector) in DISSECTORS.iter().enumerate() {
        let mut found = dissector.candidates(&seen, &asked, &taught);
        found.extend(reading.listeners.get(at).filter(|_| dissector.reads_late()).into_iter().flatten());
        found.retain(|e| !taken.contains(e));
        let connections = dedup::gather(&reading.sets, &found, &reading.names);
        let given = Given {
            others: &taken,
            seen: &seen,
            asked: &asked,
            taught: &taught,
            listeners: &found,
            connections: &connections,
        };
        let own: BTreeSet<Endpoint> = dissector.listeners(&given).into_iter().filter(|e| !taken.contains(e)).collect();
        taken.extend(own.iter().copied());
        all.push(own);
    }
    all
}

/// Listeners of which a set holds flows that were dismissed before it was known that they matter, with the protocols
/// that want to read them.
pub(super) fn missed(set: &Set, listeners: &Listeners) -> HashMap<Endpoint, ProtocolSet> {
    let mut missed: HashMap<Endpoint, ProtocolSet> = HashMap::new();
    for (at, dissector) in DISSECTORS.iter().enumerate().filter(|(_, d)| d.reads_late()) {
        let Some(own) = listeners.get(at).filter(|own| !own.is_empty()) else { continue };
        let protocol = place(dissector.protocol());
        let flows = set.seen.flows.iter().filter(|f| own.contains(&f.server()) && f.read_by.contains(protocol));
        let read: HashSet<(Endpoint, Endpoint, u64)> =
            flows.map(|f| (f.client(), f.server(), f.record.first_packet.number)).collect();
        for r in set.seen.records.iter().filter(|r| own.contains(&r.server())) {
            let dismissed = r.state == FlowState::Dismissed && !r.folded && r.bytes[0] + r.bytes[1] > 0;
            if dismissed && !read.contains(&(r.client(), r.server(), r.first_packet.number)) {
                let slot = missed.entry(r.server()).or_default();
                *slot = slot.with(protocol);
            }
        }
    }
    missed
}

/// What each protocol concludes, by its place.
pub(super) fn studies(reading: &Reading, options: &Options) -> Vec<Study> {
    let (seen, ports, taught) = (seen(&reading.sets), named_ports(options), reading.lessons.taught());
    let asked = Asked { names: &reading.names, ports: &ports, ids: &options.nccl_ids, places: &place };
    let mut others: BTreeSet<Endpoint> = BTreeSet::new();
    let mut studies = Vec::new();
    for (dissector, own) in DISSECTORS.iter().zip(&reading.listeners) {
        let connections = dedup::gather(&reading.sets, own, &reading.names);
        let given = Given {
            seen: &seen,
            asked: &asked,
            taught: &taught,
            others: &others,
            listeners: own,
            connections: &connections,
        };
        studies.push(dissector.study(&given));
        others.extend(own);
    }
    studies
}
