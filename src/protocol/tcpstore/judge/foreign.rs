//! The other way round: a store's client that reached a listener of another protocol.

use crate::finding::{Finding, SHOWN_BYTES, Stray, finding_id};
use crate::protocol::listener::{Connection, Foreign, Listener};
use crate::protocol::observation::FlowObservation;
use crate::protocol::stray::{greeting, identify};
use crate::protocol::tcpstore::Dialect;
use crate::protocol::tcpstore::StoreRule;
use crate::stream::Direction;

/// Store clients of one foreign listener that are told of one by one.
const CLIENTS: usize = 64;

/// Whether a flow is a store client's that was answered in something else than the store's protocol.
pub fn is_misdirected(o: &FlowObservation) -> bool {
    let client = o.head(Direction::ToServer, 64);
    let server = o.head(Direction::ToClient, 64);
    if client.is_empty() || server.is_empty() || identify(&client, client.len() as u64).protocol != "TCPStore" {
        return false;
    }
    let sound =
        Dialect::ALL.iter().any(|d| o.facts(*d).is_some_and(|f| f.reading.is_sound() || f.server_makes_sense()));
    !sound
        && !matches!(
            identify(&server, server.len() as u64).protocol,
            "TCPStore" | "unknown" | "none" | "constant bytes"
        )
}

/// What is to be said of a listener that answers as no store does: each store client that it answered, else one finding.
pub fn of_listener<'a>(
    listener: &Listener,
    foreign: &Foreign,
    connections: impl Iterator<Item = &'a Connection<'a>> + Clone,
) -> Vec<Finding> {
    let is_store_client = |c: &&Connection<'_>| {
        c.observation.is_some_and(|o| identify(&o.head(Direction::ToServer, 64), 64).protocol == "TCPStore")
    };
    let clients: Vec<Finding> =
        connections.clone().filter(is_store_client).filter_map(|c| judge(c, foreign.protocol)).take(CLIENTS).collect();
    if !clients.is_empty() {
        return clients;
    }
    let mut answered = connections.filter(|c| crate::protocol::listener::foreign(c).is_some());
    let Some(first) = answered.next().and_then(|c| judge(c, foreign.protocol)) else { return Vec::new() };
    let what = foreign.protocol.unwrap_or("a protocol that is not known here");
    let how = if foreign.spoke_first { "it speaks before its client does" } else { "it answers what no store would" };
    let explanation =
        format!("{} speaks {what}: {how}. What it is sent is not judged as sent to a store.", listener.endpoint);
    vec![Finding { explanation, occurrences: 1 + answered.count() as u64, ..first }]
}

/// The finding about one connection. `known`: what the listener speaks, where another connection tells.
pub fn judge(connection: &Connection<'_>, known: Option<&'static str>) -> Option<Finding> {
    let o = connection.observation?;
    let head = o.head(Direction::ToClient, 256);
    let named = identify(&head, o.record.bytes[1]);
    let plain = matches!(named.protocol, "text" | "constant bytes");
    let nameless = plain || matches!(named.protocol, "unknown" | "none" | "TCPStore");
    let own = (plain || !nameless).then_some(named.protocol);
    let protocol = greeting(&head).or(known.filter(|_| nameless)).or(own);
    let first = o.kept[1].first()?;
    let as_length = head.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
    let as_ping = head.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
    let client = identify(&o.head(Direction::ToServer, 64), 64);
    let mut explanation = format!(
        "A store client ({}) asked {} and was answered in {}: its address or port is another service's.",
        client.detail.as_deref().unwrap_or("PyTorch"),
        o.server(),
        protocol.unwrap_or("another protocol")
    );
    if let Some(n) = as_ping.filter(|_| o.facts(Dialect::D).is_some_and(|f| f.greetings > 1)) {
        explanation.push_str(&format!(" PyTorch 2.5 and later log it as \"Ping failed … Got: {n}\"."));
    }
    if let Some(n) = as_length {
        explanation.push_str(&format!(
            " A client that waits for a value reads these bytes as a length of {n} bytes; nothing checks it."
        ));
    }
    let bytes = head[..head.len().min(SHOWN_BYTES)].to_vec();
    let id = finding_id(
        StoreRule::ForeignServer.text().id,
        o.server(),
        o.client(),
        o.sequence(Direction::ToClient, 0),
        &bytes,
    );
    Some(Finding {
        protocol: Some("tcpstore"),
        stream_offset: Some(0),
        bytes,
        stray: protocol.map(|p| Stray { protocol: p.to_string(), tool: named.tool, probe: None }),
        explanation,
        ..Finding::new(StoreRule::ForeignServer.text(), id, first.time, Some(first.packet), o.server(), o.client())
    })
}
