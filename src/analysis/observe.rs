//! From gathered connections to findings.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::dedup::gather;
use super::retention::{FoldKey, Folded, kind};
use super::sets::Set;
use crate::finding::{Finding, claim, fate, foreign};
use crate::incident::Incident;
use crate::names::Names;
use crate::net::Endpoint;
use crate::protocol::listener::Listener;
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::DistinctFlow;
use crate::stream::{Direction, PacketRef};

/// The findings of all listeners and their connections, in order of time.
pub(super) fn findings(
    listeners: &[Listener],
    gathered: &BTreeMap<Endpoint, Vec<DistinctFlow<'_>>>,
    sets: &[Set],
) -> Vec<Finding> {
    let mut all = Vec::new();
    // Several captures hold the same connections: the one that saw most of them counts.
    let mut folded: BTreeMap<FoldKey, Folded> = BTreeMap::new();
    for (kind, new) in sets.iter().flat_map(|s| &s.seen.folded) {
        let slot = folded.entry(*kind).or_insert(*new);
        *slot = Folded { count: slot.count.max(new.count), last: slot.last.max(new.last) };
    }
    for listener in listeners {
        let Some(flows) = gathered.get(&listener.endpoint) else { continue };
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
            if !folded.is_empty() && !found.is_empty() {
                let more = g.connection.observation.and_then(kind).and_then(|k| folded.remove(&k));
                for (f, more) in found.iter_mut().zip(more) {
                    f.occurrences += more.count;
                    f.explanation.push_str(&format!(
                        " {} more connection{} of this source like this one {} counted here only; the last of them began at {}.",
                        more.count,
                        if more.count == 1 { "" } else { "s" },
                        if more.count == 1 { "is" } else { "are" },
                        more.last
                    ));
                }
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
    all
}

/// Store clients that reached listeners of other protocols.
pub(super) fn misdirected(sets: &[Set], names: &Names, listeners: &[Listener]) -> Vec<Finding> {
    let mut strangers: BTreeSet<Endpoint> =
        sets.iter().flat_map(|s| &s.seen.flows).filter(|f| foreign::is_misdirected(f)).map(|f| f.server()).collect();
    // Those that were studied are judged already.
    listeners.iter().filter(|l| l.foreign.is_some()).for_each(|l| _ = strangers.remove(&l.endpoint));
    let gathered = gather(sets, &strangers, names);
    let misdirected = gathered.values().flatten().map(|g| &g.connection);
    let misdirected = misdirected.filter(|c| c.observation.is_some_and(foreign::is_misdirected));
    misdirected.filter_map(|c| foreign::judge(c, None)).collect()
}

/// Time, then where it is, then what: nothing of it depends on threads or hashes.
fn order(f: &Finding) -> (crate::time::Timestamp, Endpoint, Endpoint, &'static str, u64) {
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

/// Keeps the `max` worst findings, in order of time; how many were left out. What set an incident off is always kept:
/// whoever sends ten thousand probes more does not thereby hide the one that killed.
pub(super) fn bounded(findings: &mut Vec<Finding>, incidents: &mut [Incident], max: usize) -> usize {
    if findings.len() <= max {
        return 0;
    }
    let mut triggers: Vec<&mut usize> = incidents
        .iter_mut()
        .flat_map(|i| &mut i.hosts)
        .filter_map(|h| h.trigger.as_mut().map(|t| &mut t.finding))
        .collect();
    let needed: BTreeSet<usize> = triggers.iter().map(|t| **t).collect();
    let mut by_weight: Vec<usize> = (0..findings.len()).collect();
    by_weight.sort_by_key(|i| (!needed.contains(i), Reverse(findings[*i].severity), *i));
    by_weight.truncate(max.max(needed.len()));
    by_weight.sort_unstable();
    for trigger in &mut triggers {
        **trigger = by_weight.partition_point(|i| *i < **trigger);
    }
    let left_out = findings.len() - by_weight.len();
    let mut keep = vec![false; findings.len()];
    by_weight.iter().for_each(|i| keep[*i] = true);
    let mut i = 0;
    findings.retain(|_| {
        i += 1;
        keep[i - 1]
    });
    left_out
}
