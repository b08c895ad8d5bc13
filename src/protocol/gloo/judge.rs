//! What strangers did to the listeners of groups.

use std::collections::{BTreeMap, BTreeSet};

use super::first_bytes::{MAX_NUMBER, NUMBER, number};
use super::group::{Class, Groups, completed, shown};
use super::rules::GlooRule;
use crate::finding::{Finding, SHOWN_BYTES, Stray, finding_id};
use crate::net::{Address, Endpoint};
use crate::protocol::seam::DistinctFlow;
use crate::protocol::stray::identify;
use crate::stream::{Direction, FlowRecord};
use crate::time::Timestamp;
use crate::vocabulary::{Outcome, Severity};

/// Descriptors that a process may have open by default (`ulimit -n`).
const DESCRIPTORS: u64 = 1024;
/// A rank has some tens of descriptors open for itself: from so many lost ones on it is at its end.
const NEARLY_ALL: u64 = 900;
/// Where the size of a group is not known, numbers below this are taken for members'. nmap has no probe whose first eight
/// bytes are below 4224.
const LIKELY_MEMBERS: u64 = 1024;

type Connections<'c, 'a> = &'c [DistinctFlow<'a>];

/// The findings about one listener. `connections`: all to it, in order of time.
pub(super) fn judge(groups: &Groups, listener: Endpoint, connections: Connections<'_, '_>) -> Vec<Finding> {
    let is_stranger = |g: &&DistinctFlow<'_>| {
        let r = g.connection.record;
        completed(r) && groups.is_stranger(r.client().address, listener)
    };
    let strangers: Vec<&DistinctFlow<'_>> = connections.iter().filter(is_stranger).collect();
    if strangers.is_empty() {
        return Vec::new();
    }
    match groups.class(listener) {
        Class::TakesFirst => taken(groups, listener, connections, &strangers).into_iter().collect(),
        class => {
            let mut all = numbers(groups, listener, connections, &strangers);
            all.extend(descriptors(class, listener, connections, &strangers));
            all
        }
    }
}

fn base(rule: GlooRule, listener: Endpoint, g: &DistinctFlow<'_>) -> Finding {
    let (r, o) = (g.connection.record, g.connection.observation);
    let bytes = o.map_or_else(Vec::new, |o| o.head(Direction::ToServer, SHOWN_BYTES));
    let (packet, time) = shown(r, o);
    let sequence = r.isn(Direction::ToServer).map_or(0, |n| n.wrapping_add(1));
    let named = identify(&bytes, r.bytes[0]);
    let known = !bytes.is_empty() && !matches!(named.protocol, "unknown" | "none" | "constant bytes" | "text");
    let stray = (known || named.nmap_probe.is_some() || named.tool.is_some()).then(|| Stray {
        protocol: named.protocol.to_string(),
        tool: named.tool,
        probe: named.nmap_probe,
    });
    let mut sightings: Vec<_> = g.elsewhere.iter().map(|o| shown(&o.record, Some(o)).0).collect();
    sightings.sort_unstable();
    let id = finding_id(rule.text().id, r.client(), listener, sequence, &bytes);
    Finding {
        protocol: Some("gloo"),
        stream_offset: (!bytes.is_empty()).then_some(0),
        sightings,
        stray,
        bytes,
        ..Finding::new(rule.text(), id, time, Some(packet), r.client(), listener)
    }
}

/// Up to 2.0: the first that comes takes the pair. A listener for a peer with a lower address is never used.
fn taken(
    groups: &Groups,
    listener: Endpoint,
    connections: Connections<'_, '_>,
    strangers: &[&DistinctFlow<'_>],
) -> Option<Finding> {
    let first = *strangers.first()?;
    let begun = first.connection.record.first;
    let members = || {
        connections.iter().map(|g| g.connection.record).filter(|r| !groups.is_stranger(r.client().address, listener))
    };
    if members().any(|r| completed(r) && r.first < begun) {
        return None;
    }
    let refused: Vec<&FlowRecord> = members().filter(|r| r.refused() && r.first > begun).collect();
    let peer = groups.announced(listener).and_then(|a| groups.rank(listener, a.peer?));
    let due = peer.is_some_and(|p| p.0 > listener.address.0);
    if refused.is_empty() && !due {
        return None;
    }
    let mut f = base(GlooRule::GlooStrayTookPair, listener, first);
    let rank = groups.announced(listener).map_or_else(|| "A rank".to_string(), |a| format!("Rank {}", a.rank));
    let whom = match (refused.first(), peer) {
        (Some(r), _) => {
            f.failed = Some(r.first);
            f.packets.push(r.server_close_packet());
            format!(
                "the member at {} came {:.1} s later and was refused",
                r.client().address,
                r.first.seconds_since(f.time)
            )
        }
        (None, Some(peer)) => format!("the member at {peer}, for which it waited, can no longer come"),
        (None, None) => "the member for which it waited can no longer come".to_string(),
    };
    f.explanation = format!(
        "{rank} waited at {listener} for one peer and took the connection of {}, which is none of its group, in the \
         peer's place: {whom}. The group fails on all ranks.",
        first.connection.record.client().address
    );
    f.evidence
        .push("its address stands in the store without a number: PyTorch 1.4–2.0, a listener for each pair".into());
    Some(f)
}

/// The eight bytes that a client names itself by.
fn hello(g: &DistinctFlow<'_>) -> Option<u64> {
    let head = g.connection.observation?.head(Direction::ToServer, NUMBER);
    number(&head, 0).filter(|n| *n < MAX_NUMBER)
}

/// From 2.1 on: whoever sends a member's number is taken for it, if it has not come yet.
fn numbers(
    groups: &Groups,
    listener: Endpoint,
    connections: Connections<'_, '_>,
    strangers: &[&DistinctFlow<'_>],
) -> Vec<Finding> {
    let announced = groups.announced(listener);
    let size = announced.map(|a| a.size).filter(|n| *n > 0).unwrap_or(LIKELY_MEMBERS);
    let mut findings: Vec<Finding> = Vec::new();
    let mut told: BTreeSet<(Address, u64)> = BTreeSet::new();
    for g in strangers {
        let Some(n) = hello(g).filter(|n| *n < size && announced.is_none_or(|a| a.rank != *n)) else { continue };
        let r = g.connection.record;
        if !told.insert((r.client().address, n)) {
            continue;
        }
        let same = |other: &&DistinctFlow<'_>| {
            !groups.is_stranger(other.connection.record.client().address, listener) && hello(other) == Some(n)
        };
        let of_member: Vec<&DistinctFlow<'_>> = connections.iter().filter(same).collect();
        let came = of_member.iter().any(|m| m.connection.record.first < r.first);
        let due = groups.rank(listener, n).is_some_and(|address| address.0 > listener.address.0);
        let served = r.bytes[Direction::ToClient.index()];
        let mut f = base(GlooRule::GlooNumberByStranger, listener, g);
        let who = r.client().address;
        if !came && (due || served > 0) {
            let later = of_member.first().map(|m| m.connection.record);
            f.failed = later.map(|r| r.first);
            f.listener_outcome = Some(Outcome::Replies);
            f.explanation = format!(
                "{who}, which is none of the group, sent {n}, the number of a member that had not come yet, and was taken \
                 for it{}. The group's next collective hangs until its timeout.",
                match later {
                    Some(l) => format!(
                        "; the member at {} sent the same {:.1} s later",
                        l.client().address,
                        l.first.seconds_since(f.time)
                    ),
                    None => String::new(),
                }
            );
            if served > 0 {
                f.evidence.push(format!("the listener sent it {served} bytes, as to a member"));
            }
        } else {
            f.severity = Severity::Warning;
            f.explanation = format!(
                "{who}, which is none of the group, sent {n}, a member's number. {} It costs the rank a descriptor.",
                if came {
                    "The member had come before and keeps its place."
                } else {
                    "No member with that number was due here."
                }
            );
        }
        findings.push(f);
    }
    findings
}

/// Descriptors that each source cost the rank, and all of them together.
fn descriptors(
    class: Class,
    listener: Endpoint,
    connections: Connections<'_, '_>,
    strangers: &[&DistinctFlow<'_>],
) -> Vec<Finding> {
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let mut by_source: BTreeMap<Address, (Vec<&DistinctFlow<'_>>, u64)> = BTreeMap::new();
    for g in strangers {
        let r = g.connection.record;
        let head = g.connection.observation.map(|o| o.head(Direction::ToServer, NUMBER)).unwrap_or_default();
        // Known numbers are closed at once, and so is less than a number.
        let kept = number(&head, 0).is_some_and(|n| seen.insert(n)) && r.server_closed().is_none();
        let lost = match class {
            Class::KeepsNumbers => kept,
            Class::TakesFirst => false,
            Class::KeepsAll | Class::Later => true,
        };
        if lost {
            let (all, certain) = by_source.entry(r.client().address).or_default();
            *certain += u64::from(kept || class == Class::KeepsAll);
            all.push(g);
        }
    }
    let together: u64 =
        by_source.values().map(|(all, certain)| if class == Class::Later { *certain } else { all.len() as u64 }).sum();
    let end = death(connections, together);
    let one = |(source, (all, certain)): (&Address, &(Vec<&DistinctFlow<'_>>, u64))| {
        let n = all.len() as u64;
        let mut f = base(GlooRule::GlooDescriptorsLost, listener, all.first()?);
        f.occurrences = n;
        f.severity = match class {
            Class::KeepsAll => Severity::Warning,
            Class::Later if *certain == 0 => Severity::Info,
            _ => Severity::Notice,
        };
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        f.explanation = match (class, *certain) {
            (Class::Later, 0) => format!(
                "{n} connection{} of {source} to a Gloo listener: harmless up to PyTorch 2.7; from 2.8 on each costs a \
                 descriptor until the group ends. The capture does not tell which it is.",
                plural(n)
            ),
            (Class::Later, certain) => format!(
                "{n} connection{} of {source} cost this Gloo listener {certain} file descriptor{} in PyTorch 2.1–2.7, {n} \
                 from 2.8 on, until its group ends.",
                plural(n),
                plural(certain)
            ),
            _ => format!(
                "{n} connection{} of {source} cost{} this Gloo listener a file descriptor{} until its group ends.",
                plural(n),
                if n == 1 { "s" } else { "" },
                if n == 1 { "" } else { " each" }
            ),
        };
        f.explanation.push_str(&format!(" Strangers cost it {together} so far, of {DESCRIPTORS} by default."));
        f.evidence.push(format!("read as {}", class.releases()));
        if let Some(end) = end {
            f.severity = Severity::Critical;
            f.failed = Some(end);
            f.explanation.push_str(" Then the rank was gone: its listener refused, and its connections were closed.");
        }
        Some(f)
    };
    by_source.iter().filter_map(one).collect()
}

/// When the rank was seen to be gone, where it had lost nearly all its descriptors.
fn death(connections: Connections<'_, '_>, lost: u64) -> Option<Timestamp> {
    let refused = connections.iter().map(|g| g.connection.record).filter(|r| r.refused()).map(|r| r.first);
    let last = connections.iter().map(|g| g.connection.record).filter(|r| r.accepted()).map(|r| r.first).max()?;
    refused.filter(|t| *t > last && lost >= NEARLY_ALL).min()
}
