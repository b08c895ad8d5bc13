//! Listeners and groups of the report.

use std::collections::BTreeSet;

use super::reporting::{capture_path, host_of, text};
use super::run::Material;
use crate::finding::short_hash;
use crate::net::Endpoint;
use crate::protocol::listener::{KnownBy, Listener};
use crate::protocol::seam::{Group, ListenerView};
use crate::protocol::tcpstore::Dialect;
use crate::protocol::tcpstore::server::{Backend, MAX_KEY_BYTES, MAX_KEYS};
use crate::report::model::{Communicator as CommunicatorOut, Honours, Listener as ListenerOut, RankAddress};
use crate::vocabulary::{Protocol, Role};

pub(super) fn listener_id(endpoint: Endpoint) -> String {
    short_hash([b"listener".as_slice(), endpoint.to_string().as_bytes()])
}

pub(super) fn listener(m: &Material<'_>, l: &Listener, died: &BTreeSet<Endpoint>) -> ListenerOut {
    let spoken = l.known_by == KnownBy::Speech;
    let is_store = l.foreign.is_none() && (spoken || l.dialect().is_some());
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
            _ if l.foreign.is_some() => {
                let what = l.foreign.and_then(|f| f.protocol).unwrap_or("no known protocol");
                format!("its answers are no store's: {what}")
            }
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

/// A listener as its protocol describes it.
pub(super) fn described(m: &Material<'_>, protocol: Protocol, l: &ListenerView) -> ListenerOut {
    let by = &l.learned_from;
    ListenerOut {
        id: listener_id(l.endpoint),
        address: l.endpoint.address.to_string(),
        port: l.endpoint.port,
        host: host_of(m, l.endpoint),
        protocol,
        role: l.role,
        version: l.version.clone(),
        learned_from: Some(match by.packet {
            Some(p) => format!("{} (packet {} of {})", text(&by.text), p.number, capture_path(m, p)),
            None => text(&by.text),
        }),
        connections: l.traffic.map_or(0, |t| t.accepted),
        first_seen: l.traffic.map(|t| t.first),
        last_seen: l.traffic.map(|t| t.last),
        died_at: l.died_at,
        advice: l.advice.clone(),
        ..ListenerOut::default()
    }
}

pub(super) fn group(g: &Group) -> CommunicatorOut {
    let member = |(rank, address, time): &(u64, Endpoint, _)| RankAddress {
        rank: *rank,
        address: Some(address.to_string()),
        time: Some(*time),
    };
    CommunicatorOut {
        magic: g.magic.clone(),
        root: g.roots.first().map(ToString::to_string),
        nranks: g.size,
        ranks: g.members.iter().map(member).collect(),
        complete: g.complete,
        roots: g.roots.iter().map(ToString::to_string).collect(),
    }
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
