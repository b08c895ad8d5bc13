//! Listeners of the report: stores, NCCL's, Gloo's pairs.

use std::collections::{BTreeMap, BTreeSet};

use super::reporting::{capture_path, host_of, text};
use super::run::Material;
use crate::finding::short_hash;
use crate::net::Endpoint;
use crate::protocol::listener::{KnownBy, Listener};
use crate::protocol::nccl;
use crate::protocol::tcpstore::Dialect;
use crate::protocol::tcpstore::server::{Backend, MAX_KEY_BYTES, MAX_KEYS};
use crate::report::model::{Communicator as CommunicatorOut, Honours, Listener as ListenerOut, RankAddress};
use crate::time::Timestamp;
use crate::vocabulary::{Protocol, Role};

pub(super) fn listener_id(endpoint: Endpoint) -> String {
    short_hash([b"listener".as_slice(), endpoint.to_string().as_bytes()])
}

pub(super) fn listener(m: &Material<'_>, l: &Listener, died: &BTreeSet<Endpoint>) -> ListenerOut {
    let spoken = l.known_by == KnownBy::Speech;
    let is_store = spoken || l.dialect().is_some();
    let validates = l.validates();
    let libuv = l.backend() == Some(Backend::Libuv);
    let version = l.dialect().map(|d| match (d, l.since, l.until) {
        (Dialect::D, Some((a, b)), None) if (a, b) > (2, 2) => format!("clients of PyTorch {a}.{b} or later"),
        (Dialect::D, _, Some((a, b))) => format!("clients of PyTorch 2.2 to {a}.{b}"),
        _ => d.releases().to_string(),
    });
    ListenerOut {
        id: listener_id(l.endpoint),
        address: l.endpoint.address.to_string(),
        port: l.endpoint.port,
        host: host_of(m, l.endpoint),
        protocol: if is_store { Protocol::Tcpstore } else { Protocol::Unknown },
        role: is_store.then_some(Role::Store),
        dialect: l.dialect().map(|d| d.name().to_string()),
        dialect_candidates: l.dialects().iter().map(|d| d.name().to_string()).collect(),
        version,
        backend: l.backend().map(|b| b.name().to_string()),
        validates,
        honours: is_store
            .then_some(Honours { string_bytes: libuv.then_some(MAX_KEY_BYTES), keys: libuv.then_some(MAX_KEYS) }),
        learned_from: Some(match &l.known_by {
            _ if l.named_by.is_some() => text(l.named_by.as_deref().unwrap_or_default()),
            KnownBy::Speech => "its own traffic".to_string(),
            KnownBy::Client => "a client's first bytes".to_string(),
            KnownBy::Port => format!("port {}", l.endpoint.port),
            KnownBy::Named(by) => text(by),
        }),
        connections: l.accepted,
        first_seen: l.first_seen,
        last_seen: l.last_seen,
        died_at: l.death.map(|d| d.time).filter(|_| died.contains(&l.endpoint)),
        advice: advice(l, validates, libuv),
    }
}

/// NCCL's listeners. One that was named and that nobody was seen to connect to is told too.
pub(super) fn nccl_listeners(m: &Material<'_>) -> Vec<ListenerOut> {
    let mut traffic: BTreeMap<Endpoint, (u64, Timestamp, Timestamp)> = BTreeMap::new();
    for r in m.sets.iter().flat_map(|s| &s.seen.records) {
        if m.network.listeners.contains_key(&r.server()) {
            let (n, first, last) = traffic.entry(r.server()).or_insert((0, r.first, r.last));
            *n += u64::from(r.accepted());
            *first = (*first).min(r.first);
            *last = (*last).max(r.last);
        }
    }
    let mut gone: BTreeMap<Endpoint, Timestamp> = BTreeMap::new();
    for f in m.findings.iter().filter(|f| f.rule == "nccl-root-died") {
        gone.entry(f.target).or_insert(f.failed.unwrap_or(f.time));
    }
    let died = |e: Endpoint| gone.get(&e).copied();
    m.network
        .listeners
        .values()
        .map(|l| {
            let seen = traffic.get(&l.endpoint);
            let evidence = l.evidence.first();
            let by = match evidence.and_then(|e| e.packet) {
                Some(p) => format!("{} (packet {} of {})", l.learned_from.text(), p.number, capture_path(m, p)),
                None => l.learned_from.text().to_string(),
            };
            ListenerOut {
                id: listener_id(l.endpoint),
                address: l.endpoint.address.to_string(),
                port: l.endpoint.port,
                host: host_of(m, l.endpoint),
                protocol: Protocol::Nccl,
                role: l.role.map(|r| match r {
                    nccl::Role::Root => Role::BootstrapRoot,
                    nccl::Role::Reply => Role::Reply,
                    nccl::Role::Ring => Role::Ring,
                    nccl::Role::Peer => Role::Peer,
                    nccl::Role::Proxy => Role::Proxy,
                    nccl::Role::Net => Role::Net,
                    nccl::Role::Ras => Role::Ras,
                }),
                version: Some(format!("NCCL {}", l.versions)),
                learned_from: Some(by),
                connections: seen.map_or(0, |s| s.0),
                first_seen: seen.map(|s| s.1),
                last_seen: seen.map(|s| s.2),
                died_at: died(l.endpoint),
                advice: (l.learned_from == nccl::LearnedFrom::Conduct).then(|| {
                    format!("possible bootstrap root of NCCL: judged as one with --nccl-port {}", l.endpoint.port)
                }),
                ..ListenerOut::default()
            }
        })
        .collect()
}

pub(super) fn communicator(c: &nccl::Communicator) -> CommunicatorOut {
    CommunicatorOut {
        magic: c.magic.map(nccl::magic_text),
        root: c.roots.first().map(ToString::to_string),
        nranks: u64::try_from(c.nranks).ok(),
        ranks: c
            .ranks
            .iter()
            .filter_map(|r| {
                Some(RankAddress {
                    rank: u64::try_from(r.rank).ok()?,
                    address: Some(r.ring.or(r.reply).unwrap_or(r.client).to_string()),
                    time: Some(r.time),
                })
            })
            .collect(),
        complete: c.is_complete(),
        roots: c.roots.iter().map(ToString::to_string).collect(),
    }
}

/// Gloo pairs that some rank connected to; the store that holds their addresses named them.
pub(super) fn pairs(m: &Material<'_>) -> Vec<ListenerOut> {
    let mut seen: BTreeMap<Endpoint, (u64, Timestamp, Timestamp)> = BTreeMap::new();
    let stores: BTreeSet<Endpoint> = m.listeners.iter().map(|l| l.endpoint).collect();
    for r in m.sets.iter().flat_map(|s| &s.seen.records) {
        if r.accepted() && m.lessons.pairs.contains_key(&r.server()) && !stores.contains(&r.server()) {
            let (n, first, last) = seen.entry(r.server()).or_insert((0, r.first, r.last));
            *n += 1;
            *first = (*first).min(r.first);
            *last = (*last).max(r.last);
        }
    }
    seen.into_iter()
        .filter_map(|(endpoint, (connections, first, last))| {
            let (store, said) = m.lessons.pairs.get(&endpoint)?;
            Some(ListenerOut {
                id: listener_id(endpoint),
                address: endpoint.address.to_string(),
                port: endpoint.port,
                host: host_of(m, endpoint),
                protocol: Protocol::Gloo,
                role: Some(Role::Pair),
                learned_from: Some(format!("a Gloo address in the store {store} (packet {})", said.packet.number)),
                connections,
                first_seen: Some(first),
                last_seen: Some(last),
                ..ListenerOut::default()
            })
        })
        .collect()
}

fn advice(l: &Listener, validates: Option<bool>, libuv: bool) -> Option<String> {
    if l.known_by == KnownBy::Port && l.dialect().is_none() {
        return Some("unknown listener: say what it is with --port, or capture a client's start".to_string());
    }
    Some(
        match (validates, libuv) {
            (Some(true), true) => "none: it validates and bounds lengths",
            (Some(true), false) => {
                "it validates; the poll backend still honours any length of a client that does: use the libuv store"
            }
            (Some(false), _) => {
                "open to any length from anybody: allow the port from the job's hosts only, and upgrade to PyTorch 2.4 or later"
            }
            (None, _) => "its dialect is not settled: treat it as open",
        }
        .to_string(),
    )
}
