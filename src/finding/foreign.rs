//! The other way round: a store's client that reached a listener of another protocol.

use crate::finding::types::{Finding, Stray};
use crate::finding::{SHOWN_BYTES, finding_id};
use crate::protocol::listener::Connection;
use crate::protocol::observation::FlowObservation;
use crate::protocol::stray::identify;
use crate::protocol::tcpstore::Dialect;
use crate::stream::Direction;

/// Whether a flow is a store client's that was answered in something else than the store's protocol.
pub fn is_misdirected(o: &FlowObservation) -> bool {
    let client = o.head(Direction::ToServer, 64);
    let server = o.head(Direction::ToClient, 64);
    if client.is_empty() || server.is_empty() || identify(&client, client.len() as u64).protocol != "TCPStore" {
        return false;
    }
    let sound = Dialect::ALL.iter().any(|d| o.facts(*d).is_some_and(|f| f.reading.is_sound()));
    !sound
        && !matches!(
            identify(&server, server.len() as u64).protocol,
            "TCPStore" | "unknown" | "none" | "constant bytes"
        )
}

/// The finding about such a connection.
pub fn judge(connection: &Connection<'_>) -> Option<Finding> {
    let o = connection.observation.filter(|o| is_misdirected(o))?;
    let head = o.head(Direction::ToClient, 256);
    let named = identify(&head, o.record.bytes[1]);
    let first = o.kept[1].first()?;
    let as_length = head.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
    let as_ping = head.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
    let client = identify(&o.head(Direction::ToServer, 64), 64);
    let mut explanation = format!(
        "A store client ({}) asked {} and was answered in {}: its address or port is another service's.",
        client.detail.as_deref().unwrap_or("PyTorch"),
        o.server(),
        named.protocol
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
    let id = finding_id("foreign-server", o.server(), o.client(), o.sequence(Direction::ToClient, 0), &bytes);
    Some(Finding {
        protocol: Some("tcpstore"),
        stream_offset: Some(0),
        bytes,
        stray: Some(Stray { protocol: named.protocol.to_string(), tool: named.tool, probe: None }),
        explanation,
        ..Finding::new("foreign-server", id, first.time, Some(first.packet), o.server(), o.client())
    })
}
