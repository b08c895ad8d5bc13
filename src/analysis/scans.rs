//! Those who said nothing: SYN scans, connect-and-close; and scans as a whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::sets::Set;
use crate::finding::{Finding, short_hash};
use crate::net::{Address, Endpoint};
use crate::stream::quiet::{Quiet, quiet};
use crate::stream::{Direction, FlowRecord, Ordinary, PacketRef, SynMaker};
use crate::time::Timestamp;

/// Ports or hosts from which on somebody who connects without a byte is a scanner.
const MANY: u32 = 8;
/// Sources that connect to many places without a byte: more ports than any client has business with, or as many hosts without
/// coming back as a health check would. Who listens itself is a node of the cluster, and none.
pub(super) fn connectors(sets: &[Set]) -> BTreeSet<Address> {
    let records = || sets.iter().flat_map(|s| &s.seen.records);
    let counted = || sets.iter().flat_map(|s| &s.seen.ordinary);
    let knocks = |r: &&FlowRecord| r.syn.get().is_some() && (quiet(r).is_some() || r.refused());
    let mut counts: HashMap<Address, u64> = HashMap::new();
    for r in records().filter(knocks) {
        *counts.entry(r.client().address).or_default() += 1;
    }
    for o in counted() {
        *counts.entry(o.client).or_default() += o.knocks;
    }
    counts.retain(|_, n| *n >= u64::from(MANY));
    for r in records().filter(|r| r.accepted()) {
        counts.remove(&r.server().address);
    }
    for o in counted() {
        counts.remove(&o.server.address);
    }
    let mut places: BTreeMap<Address, BTreeMap<Endpoint, u64>> = BTreeMap::new();
    for o in counted().filter(|o| o.knocks > 0 && counts.contains_key(&o.client)) {
        *places.entry(o.client).or_default().entry(o.server).or_default() += o.knocks;
    }
    for r in records().filter(knocks).filter(|r| counts.contains_key(&r.client().address)) {
        *places.entry(r.client().address).or_default().entry(r.server()).or_default() += 1;
    }
    let scans = |visited: &BTreeMap<Endpoint, u64>| {
        let distinct = |f: fn(&Endpoint) -> u128| visited.keys().map(f).collect::<BTreeSet<_>>().len() as u32;
        let ports = distinct(|e| u128::from(e.port));
        let visits: u64 = visited.values().sum();
        ports >= MANY || distinct(|e| e.address.0) >= MANY && visits < 3 * visited.len() as u64
    };
    places.into_iter().filter(|(_, visited)| scans(visited)).map(|(a, _)| a).collect()
}

/// Connections of one source with bytes that nobody answered, from which on the place is told.
const PROBED: u32 = 5;
/// Bytes of such a connection at most: what is longer is somebody's data.
const PROBE_BYTES: u64 = 4096;
/// Places that are told.
const TOLD: usize = 8;

/// Endpoints beside those known that a source sent something to again and again without an answer: who, and how often.
pub(super) fn struck(sets: &[Set], known: &BTreeSet<Endpoint>) -> BTreeMap<Endpoint, (Address, u32)> {
    let records = sets.iter().flat_map(|s| &s.seen.records).filter(|r| r.accepted() && !known.contains(&r.server()));
    let unanswered =
        |r: &&FlowRecord| r.syn.get().is_some() && r.bytes[1] == 0 && (1..=PROBE_BYTES).contains(&r.bytes[0]);
    let mut counts: BTreeMap<(Endpoint, Address), u32> = BTreeMap::new();
    for r in records.filter(unanswered) {
        *counts.entry((r.server(), r.client().address)).or_default() += 1;
    }
    counts.retain(|_, n| *n >= PROBED);
    counts.into_iter().map(|((e, a), n)| (e, (a, n))).collect()
}

/// Places that a source sent something to again and again and that accepted it and never answered anybody: a store without clients
/// looks so, and no port names it. `known`: listeners that are judged.
pub(super) fn probed(sets: &[Set], known: &BTreeSet<Endpoint>) -> Vec<String> {
    let mut places = struck(sets, known);
    for r in sets.iter().flat_map(|s| &s.seen.records).filter(|r| r.accepted() && r.bytes[1] > 0) {
        places.remove(&r.server());
    }
    for o in sets.iter().flat_map(|s| &s.seen.ordinary).filter(|o| o.spoken > 0) {
        places.remove(&o.server);
    }
    let text = |(place, (source, n)): (&Endpoint, &(Address, u32))| {
        let port = place.port;
        format!(
            "{place} was probed: {source} sent it something in {n} connections, and it answered nobody. Pass --port {port} if a store listens there."
        )
    };
    places.iter().take(TOLD).map(text).collect()
}

/// Probes of nmap's that other programs send too: alone they name no tool.
const COMMON: [&str; 10] = [
    "DistCCD",
    "GenericLines",
    "GetRequest",
    "HTTPOptions",
    "Hello",
    "Help",
    "LDAPBindReq",
    "Memcache",
    "RTSPRequest",
    "redis-server",
];

/// The tools whose marks the SYNs of these sources bear, whatever else they send. Any stack gives one packet in 65,536 the
/// number that is ZMap's mark: of it at least every second SYN must have it.
fn makers(sets: &[Set], sources: impl Fn(Address) -> bool) -> BTreeMap<Address, &'static str> {
    let mut marks: BTreeMap<Address, (usize, BTreeMap<SynMaker, usize>)> = BTreeMap::new();
    for r in sets.iter().flat_map(|s| &s.seen.records).filter(|r| sources(r.client().address)) {
        let (all, marked) = marks.entry(r.client().address).or_default();
        *all += 1;
        *marked.entry(r.syn_maker).or_default() += 1;
    }
    let tool = |(all, marked): (usize, BTreeMap<SynMaker, usize>)| {
        let told = |(maker, n): &(SynMaker, usize)| *maker != SynMaker::Zmap || n * 2 >= all;
        marked.into_iter().filter(told).find_map(|(maker, _)| maker.tool())
    };
    marks.into_iter().filter_map(|(source, marks)| Some((source, tool(marks)?))).collect()
}

/// Takes the tool's name from what others send as well, where its source sent no other probe of that tool, and no SYN that
/// it alone makes.
pub(super) fn doubt_tools(findings: &mut [Finding], sets: &[Set]) {
    let mut probes: BTreeMap<Address, BTreeSet<&'static str>> = BTreeMap::new();
    for f in findings.iter() {
        if let Some(probe) = f.stray.as_ref().and_then(|s| s.probe) {
            probes.entry(f.source.address).or_default().insert(probe);
        }
    }
    probes.retain(|_, sent| sent.len() == 1 && sent.iter().all(|p| COMMON.contains(p)));
    let makers = makers(sets, |a| probes.contains_key(&a));
    probes.retain(|a, _| makers.get(a) != Some(&"nmap"));
    for f in findings.iter_mut().filter(|f| probes.contains_key(&f.source.address)) {
        let Some(stray) = &mut f.stray else { continue };
        let Some(probe) = stray.probe.take() else { continue };
        stray.tool = stray.tool.filter(|t| *t != "nmap");
        f.explanation = f.explanation.replace(&format!(" (nmap's {probe} probe)"), "");
    }
}

/// Whether a finding is about a client that sent nothing.
fn is_quiet(f: &Finding) -> bool {
    matches!(f.rule, "syn-scan" | "connect-and-close" | "connect-scan")
}

/// Many connections from one source.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub(super) id: String,
    pub(super) source: Address,
    pub(super) tool: Option<&'static str>,
    pub(super) profile: &'static str,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) hosts: u64,
    pub(super) ports: u64,
    pub(super) connections: u64,
    pub(super) findings: Vec<String>,
}

impl Scan {
    /// Whether it is more than one stray connection.
    pub(super) fn is_scan(&self) -> bool {
        self.tool.is_some() || self.ports > 1 || self.hosts > 1
    }
}

/// Sources of strays and of half-open connections, and all that they did.
pub(super) fn scans(sets: &[Set], findings: &[Finding], connectors: &BTreeSet<Address>) -> Vec<Scan> {
    let mut by_source: BTreeMap<Address, Vec<&Finding>> = connectors.iter().map(|a| (*a, Vec::new())).collect();
    // PyTorch of another release is no scanner, nor is a service whose answers are no store's.
    let stray = |f: &&Finding| f.stray.is_some() && !matches!(f.rule, "version-mismatch" | "foreign-server");
    for f in findings.iter().filter(|f| stray(f) || is_quiet(f)) {
        by_source.entry(f.source.address).or_default().push(f);
    }
    // Who only connects and closes is a health check until it sends or probes something.
    by_source
        .retain(|a, list| connectors.contains(a) || list.iter().any(|f| f.rule == "syn-scan" || f.stray.is_some()));
    if by_source.is_empty() {
        return Vec::new();
    }
    // All that these sources did, on any port, each flow once.
    type Flows = BTreeMap<(Endpoint, Endpoint, Option<u32>, i64), (Timestamp, Timestamp, PacketRef)>;
    let mut flows: BTreeMap<Address, Flows> = BTreeMap::new();
    for r in sets.iter().flat_map(|s| &s.seen.records) {
        if by_source.contains_key(&r.client().address) {
            let isn = r.isn(Direction::ToServer);
            let key = (r.client(), r.server(), isn, if isn.is_some() { 0 } else { r.first.0 / 60_000_000_000 });
            let seen = flows.entry(r.client().address).or_default().entry(key);
            // The widest span of all vantage points, so that the order of the captures does not tell.
            let seen = seen.or_insert((r.first, r.last, r.first_packet));
            (seen.0, seen.1) = (seen.0.min(r.first), seen.1.max(r.last));
        }
    }
    // Ordinary connections of theirs, as the set that saw most of them counts them.
    let mut ordinary: BTreeMap<Address, BTreeMap<Endpoint, Ordinary>> = BTreeMap::new();
    for o in sets.iter().flat_map(|s| &s.seen.ordinary).filter(|o| by_source.contains_key(&o.client)) {
        let there = ordinary.entry(o.client).or_default().entry(o.server).or_insert_with(|| o.clone());
        there.count = there.count.max(o.count);
        (there.first, there.last) = (there.first.min(o.first), there.last.max(o.last));
    }
    let makers = makers(sets, |a| by_source.contains_key(&a));
    // Sources that finished a handshake.
    let mut finished: BTreeSet<Address> = BTreeSet::new();
    for r in sets.iter().flat_map(|s| &s.seen.records).filter(|r| by_source.contains_key(&r.client().address)) {
        if quiet(r) == Some(Quiet::ConnectAndClose) {
            finished.insert(r.client().address);
        }
    }
    finished.extend(ordinary.iter().filter(|(_, all)| all.values().any(|o| o.finished > 0)).map(|(a, _)| *a));
    by_source
        .into_iter()
        .filter_map(|(source, list)| {
            let flows = flows.get(&source)?;
            let counted = || ordinary.get(&source).into_iter().flat_map(BTreeMap::values);
            let connections = flows.len() as u64 + counted().map(|o| o.count).sum::<u64>();
            let servers = || flows.keys().map(|k| k.1).chain(counted().map(|o| o.server));
            let probes = list.iter().any(|f| f.stray.as_ref().is_some_and(|s| s.probe.is_some()));
            let said = list.iter().filter_map(|f| f.stray.as_ref()).find_map(|s| s.tool);
            let tool = said.or_else(|| makers.get(&source).copied());
            let strays = list.iter().any(|f| f.stray.is_some());
            let first = flows.values().map(|v| v.0).chain(counted().map(|o| o.first)).min()?;
            Some(Scan {
                id: short_hash([b"scan".as_slice(), source.to_string().as_bytes(), &first.0.to_be_bytes()]),
                source,
                tool,
                profile: match (connections, probes, strays) {
                    (1, _, true) => "one connection",
                    (_, true, _) => "version scan",
                    (_, false, true) => "strays",
                    (_, false, false) if finished.contains(&source) => "connect scan",
                    (_, false, false) => "SYN scan",
                },
                first,
                last: flows.values().map(|v| v.1).chain(counted().map(|o| o.last)).max()?,
                hosts: servers().map(|e| e.address).collect::<BTreeSet<_>>().len() as u64,
                ports: servers().map(|e| e.port).collect::<BTreeSet<_>>().len() as u64,
                connections,
                findings: list.iter().map(|f| f.id.clone()).collect(),
            })
        })
        .collect()
}
