//! Stores, studied and judged: each connection, each listener, those who said nothing, and clients that went astray.

mod claim;
mod foreign;
mod reply;

use std::collections::{BTreeMap, BTreeSet};

use super::StoreRule;
use crate::finding::{Finding, finding_id};
use crate::net::{Address, Endpoint};
use crate::protocol::fate;
use crate::protocol::listener::{Connection, ENDING_SECONDS, Listener, study};
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::{DistinctFlow, Given};
use crate::stream::quiet::{Quiet, quiet};
use crate::stream::{Direction, FlowRecord, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::Protocol;

/// Every store, from all its connections.
pub(super) fn listeners(given: &Given<'_>) -> Vec<Listener> {
    let ports = given.asked.ports.of(given.asked.place(Protocol::Tcpstore));
    let one = |(endpoint, flows): (&Endpoint, &Vec<DistinctFlow<'_>>)| {
        let connections: Vec<Connection<'_>> = flows.iter().map(|g| g.connection).collect();
        let lesson = given.taught.iter().find(|l| l.protocol == Protocol::Tcpstore && l.endpoint == *endpoint);
        let by_port = ports.is_some_and(|p| p.contains(endpoint.port));
        let (activity, one_clock) = (given.activity)(*endpoint);
        let mut listener = study(*endpoint, &connections, activity, by_port, lesson.map(|l| l.by.as_str()));
        if one_clock {
            listener.apart = ENDING_SECONDS;
        }
        listener.policy = (given.policy)(endpoint.address);
        listener
    };
    given.connections.iter().map(one).collect()
}

/// The findings of all stores and their connections.
pub(super) fn findings(given: &Given<'_>, listeners: &[Listener]) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut counted = BTreeSet::new();
    for listener in listeners {
        let Some(flows) = given.connections.get(&listener.endpoint) else { continue };
        if let Some(f) = &listener.foreign {
            all.extend(foreign::of_listener(listener, f, flows.iter().map(|g| &g.connection)));
            continue;
        }
        let mut own: Vec<Finding> = Vec::new();
        for g in flows {
            let mut found = claim::judge(listener, &g.connection);
            for f in &mut found {
                add_sightings(f, g);
            }
            let more = g.connection.observation.filter(|_| !found.is_empty()).and_then(|o| (given.folded)(o));
            if let (Some(f), Some((key, count, last))) = (found.first_mut(), more)
                && counted.insert(key)
            {
                f.occurrences += count;
                f.explanation.push_str(&format!(
                    " {count} more connection{} of this source like this one {} counted here only; the last of them began at {last}.",
                    plural(count),
                    if count == 1 { "is" } else { "are" },
                ));
            }
            own.append(&mut found);
        }
        own.sort_by_key(order);
        fate::mark_unread(listener, &mut own);
        let claims: Vec<&Finding> = own.iter().collect();
        let about = fate::judge(listener, &claims);
        all.append(&mut own);
        all.extend(about);
    }
    all.sort_by_key(order);
    all.extend(of_quiet(given, listeners));
    all.extend(misdirected(given, listeners));
    all
}

/// Store clients that reached listeners of other protocols.
fn misdirected(given: &Given<'_>, listeners: &[Listener]) -> Vec<Finding> {
    let misdirected = given.seen.flows().filter(|f| foreign::is_misdirected(f));
    let mut strangers: BTreeSet<Endpoint> = misdirected.map(FlowObservation::server).collect();
    // Those that were studied are judged already.
    listeners.iter().filter(|l| l.foreign.is_some()).for_each(|l| _ = strangers.remove(&l.endpoint));
    let gathered = (given.gather)(&strangers);
    let connections = gathered.values().flatten().map(|g| &g.connection);
    let misdirected = connections.filter(|c| c.observation.is_some_and(foreign::is_misdirected));
    misdirected.filter_map(|c| foreign::judge(c, None)).collect()
}

/// One finding for each source that said nothing, listener and kind.
fn of_quiet(given: &Given<'_>, listeners: &[Listener]) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for listener in listeners.iter().filter(|l| l.foreign.is_none()) {
        let mut by_source: BTreeMap<(Address, Quiet), Vec<&FlowRecord>> = BTreeMap::new();
        for g in given.connections.get(&listener.endpoint).into_iter().flatten() {
            let r = g.connection.record;
            if let Some(kind) = quiet(r) {
                by_source.entry((r.client().address, kind)).or_default().push(r);
            }
        }
        for ((_, kind), records) in by_source {
            let Some(first) = records.first() else { continue };
            let rule = match kind {
                Quiet::HalfOpen => StoreRule::SynScan,
                Quiet::ConnectAndClose if given.connectors.contains(&first.client().address) => StoreRule::ConnectScan,
                Quiet::ConnectAndClose => StoreRule::ConnectAndClose,
            };
            let n = records.len() as u64;
            let sequence = first.isn(Direction::ToServer).unwrap_or(0);
            let id = finding_id(rule.text().id, first.client(), first.server(), sequence, b"");
            let packet = Some(first.first_packet);
            all.push(Finding {
                protocol: Some("tcpstore"),
                dialect: listener.dialect_name(),
                dialect_candidates: listener.dialect_names(),
                occurrences: n,
                explanation: match kind {
                    Quiet::HalfOpen => format!("{n} half-open connection{}: SYN, SYN-ACK, reset.", plural(n)),
                    Quiet::ConnectAndClose => {
                        format!("{n} connection{} closed by the client without a byte.", plural(n))
                    }
                },
                ..Finding::new(rule.text(), id, first.first, packet, first.client(), first.server())
            });
        }
    }
    all
}

fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// Time, then where it is, then what: nothing of it depends on threads or hashes.
fn order(f: &Finding) -> (Timestamp, Endpoint, Endpoint, &'static str, u64) {
    (f.time, f.target, f.source, f.rule, f.stream_offset.unwrap_or(0))
}

/// The packets that carried the flagged byte elsewhere.
fn add_sightings(f: &mut Finding, g: &DistinctFlow<'_>) {
    let (Some(near), Some(packet)) = (g.connection.observation, f.packet) else { return };
    let direction = if f.source == near.client() { Direction::ToServer } else { Direction::ToClient };
    let Some(last) = near.kept[direction.index()].iter().find(|k| k.packet == packet) else { return };
    // The last byte that packet brought to the message: the one that completed the field, or one after it.
    let offset = last.offset + (last.bytes.len() as u64).saturating_sub(1);
    let sequence = near.sequence(direction, offset);
    for other in &g.elsewhere {
        f.sightings.extend(packet_of(other, direction, sequence));
    }
    f.sightings.sort_unstable();
    f.sightings.dedup();
}

fn packet_of(o: &FlowObservation, direction: Direction, sequence: u32) -> Option<PacketRef> {
    let base = o.base[direction.index()]?;
    o.packet_at(direction, u64::from(sequence.wrapping_sub(base))).map(|k| k.packet)
}
