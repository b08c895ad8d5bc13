//! How much of the bytes that findings flag their receivers acknowledged.

use std::collections::{HashMap, HashSet};

use super::sets::Set;
use crate::finding::Finding;
use crate::net::Endpoint;
use crate::protocol::observation::FlowObservation;
use crate::stream::{Direction, PacketRef};
use crate::vocabulary::Acknowledged;

/// Flows by client and server.
type Flows<'a> = HashMap<(Endpoint, Endpoint), Vec<&'a FlowObservation>>;

/// Notes it at each finding that flags bytes of a flow, from all captures that hold this flow.
pub(super) fn note(findings: &mut [Finding], sets: &[Set]) {
    let wanted: HashSet<(Endpoint, Endpoint)> =
        findings.iter().flat_map(|f| [(f.source, f.target), (f.target, f.source)]).collect();
    let mut flows = Flows::new();
    for o in sets.iter().flat_map(|s| &s.seen.flows) {
        let ends = (o.client(), o.server());
        if wanted.contains(&ends) {
            flows.entry(ends).or_default().push(o);
        }
    }
    for f in findings.iter_mut().filter(|f| f.acknowledged.is_none() && !f.bytes.is_empty()) {
        f.acknowledged = f.packet.map(|packet| of(f, packet, &flows));
    }
}

/// Of the bytes that `packet` completed.
fn of(f: &Finding, packet: PacketRef, flows: &Flows<'_>) -> Acknowledged {
    let both = [(f.source, f.target, Direction::ToServer), (f.target, f.source, Direction::ToClient)];
    for (client, server, direction) in both {
        let Some(all) = flows.get(&(client, server)) else { continue };
        let i = direction.index();
        let holds = |o: &&&FlowObservation| o.kept[i].iter().any(|k| k.packet == packet);
        let near = |o: &&&FlowObservation| (o.record.first..=o.record.last).contains(&f.time);
        let Some(own) = all.iter().find(holds).or_else(|| all.iter().find(near)) else { continue };
        // The same connection in every capture: its stream begins at the same sequence number.
        let seen = all.iter().filter(|o| o.base[i] == own.base[i]);
        let Some(acknowledged) = seen.filter_map(|o| o.acknowledged[i]).max() else { break };
        let start = f.stream_offset.unwrap_or(0);
        return match acknowledged {
            n if n >= start.saturating_add(f.bytes.len() as u64) => Acknowledged::All,
            n if n > start => Acknowledged::Part,
            _ => Acknowledged::Nothing,
        };
    }
    Acknowledged::Unknown
}
