//! The protocols at the barrier: which endpoints are whose listeners, which flows were dismissed too early, and what
//! each protocol concludes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::dedup;
use super::options::Options;
use super::reading::Reading;
use super::retention::{FoldKey, Folded, kind};
use super::sets::Set;
use crate::escape::clean;
use crate::finding::Finding;
use crate::net::{Address, Endpoint};
use crate::oom::{ConnectionError, LogSummary};
use crate::protocol::seam::{
    Asked, Dissector, Given, Lesson, LoggedError, NamedPorts, ProtocolSet, Seen, SeenSet, Study,
};
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
    let all = sets.iter().map(|s| &s.seen);
    Seen(all.map(|s| SeenSet { records: &s.records, ordinary: &s.ordinary, flows: &s.flows }).collect())
}

/// Shows each protocol what it needs to know its listeners, and takes what it makes of them. An endpoint belongs to one
/// protocol.
fn each<T>(
    reading: &Reading,
    options: &Options,
    connectors: &BTreeSet<Address>,
    endpoints: impl Fn(usize, &'static dyn Dissector, (&Seen<'_>, &Asked<'_>, &[Lesson])) -> BTreeSet<Endpoint>,
    mut take: impl FnMut(&'static dyn Dissector, &Given<'_>) -> (BTreeSet<Endpoint>, T),
) -> Vec<T> {
    let (seen, ports, taught) = (seen(&reading.sets), named_ports(options), reading.lessons.taught());
    let asked = Asked { ports: &ports, ids: &options.nccl_ids, places: &place };
    let folded = folded(&reading.sets);
    let mut taken: BTreeSet<Endpoint> = BTreeSet::new();
    let mut all = Vec::new();
    for (at, dissector) in DISSECTORS.iter().enumerate() {
        let mut listeners = endpoints(at, *dissector, (&seen, &asked, &taught));
        listeners.retain(|e| !taken.contains(e));
        let connections = dedup::gather(&reading.sets, &listeners, &reading.names);
        let activities = dedup::activities(&reading.sets, &listeners, &reading.names);
        let given = Given {
            others: &taken,
            seen: &seen,
            asked: &asked,
            taught: &taught,
            listeners: &listeners,
            connections: &connections,
            activity: &|e| activities.get(&e).cloned().unwrap_or_default(),
            policy: &|a| options.policy_of(reading.names.host(a)),
            folded: &|o| {
                let key = kind(o)?;
                folded.get(&key).map(|f| (key, f.count, f.last))
            },
            gather: &|endpoints| dedup::gather(&reading.sets, endpoints, &reading.names),
            connectors,
        };
        let (own, taken_up) = take(*dissector, &given);
        taken.extend(own);
        all.push(taken_up);
    }
    all
}

/// Connections that were counted, not kept. Several captures hold the same ones: the one that saw most of them counts.
fn folded(sets: &[Set]) -> BTreeMap<FoldKey, Folded> {
    let mut folded: BTreeMap<FoldKey, Folded> = BTreeMap::new();
    for (kind, new) in sets.iter().flat_map(|s| &s.seen.folded) {
        let slot = folded.entry(*kind).or_insert(*new);
        *slot = Folded { count: slot.count.max(new.count), last: slot.last.max(new.last) };
    }
    folded
}

/// The listeners of each protocol, as far as is known: its candidates, and all that these teach.
pub(super) fn listeners(reading: &Reading, options: &Options) -> Listeners {
    let nobody = BTreeSet::new();
    let candidates = |at: usize, d: &dyn Dissector, (seen, asked, taught): (&Seen<'_>, &Asked<'_>, &[Lesson])| {
        let mut found = d.candidates(seen, asked, taught);
        found.extend(reading.listeners.get(at).filter(|_| d.reads_late()).into_iter().flatten());
        found
    };
    each(reading, options, &nobody, candidates, |dissector, given| {
        let own: BTreeSet<Endpoint> =
            dissector.listeners(given).into_iter().filter(|e| !given.others.contains(e)).collect();
        (own.clone(), own)
    })
}

/// Listeners of which a set holds flows that were dismissed before it was known that they matter, with the protocols
/// that want to read them.
pub(super) fn missed(set: &Set, listeners: &Listeners) -> HashMap<Endpoint, ProtocolSet> {
    let mut missed: HashMap<Endpoint, ProtocolSet> = HashMap::new();
    for (at, dissector) in DISSECTORS.iter().enumerate().filter(|(_, d)| d.reads_late()) {
        let Some(own) = listeners.get(at).filter(|own| !own.is_empty()) else { continue };
        let protocol = place(dissector.protocol());
        for o in set.seen.ordinary.iter().filter(|o| o.spoken > 0 && own.contains(&o.server)) {
            let slot = missed.entry(o.server).or_default();
            *slot = slot.with(protocol);
        }
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

/// What each protocol concludes, by its place. `connectors`: sources that connect to many places without a byte.
pub(super) fn studies(reading: &Reading, options: &Options, connectors: &BTreeSet<Address>) -> Vec<Study> {
    let own = |at: usize, _: &dyn Dissector, _: (&Seen<'_>, &Asked<'_>, &[Lesson])| {
        reading.listeners.get(at).cloned().unwrap_or_default()
    };
    each(reading, options, connectors, own, |dissector, given| (given.listeners.clone(), dissector.study(given)))
}

/// Adds to findings what libraries say in logs of the same connections.
pub(super) fn corroborate(findings: &mut [Finding], logs: &[LogSummary]) {
    let of_log = |log: &LogSummary| {
        let place = clean(log.path.as_bytes(), 200);
        let error = move |e: &ConnectionError| LoggedError {
            place: format!("{place}, line {},", e.line),
            text: clean(e.text.as_bytes(), 300),
        };
        log.connection_errors.iter().map(error).collect::<Vec<_>>()
    };
    let errors: Vec<LoggedError> = logs.iter().flat_map(of_log).collect();
    if !errors.is_empty() {
        DISSECTORS.iter().for_each(|dissector| dissector.corroborate(findings, &errors));
    }
}
