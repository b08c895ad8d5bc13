//! Logs that fit another host's capture: swapped when they were collected, or named after the wrong host.

use std::collections::BTreeMap;

use super::{Evidence, HostPart, kill_of};
use crate::clock::death_misses;
use crate::oom::{OomEvent, OomKind};
use crate::time::Timestamp;
use crate::vocabulary::Verdict;

/// Hosts whose kills fit no death of their own that are looked at.
const MISFITS: usize = 64;
/// Kills and deaths of one host that are looked at.
const EACH: usize = 16;

/// Kills of a host's log, and deaths of its listeners on the wire.
#[derive(Default)]
struct Ends<'a> {
    kills: Vec<&'a OomEvent>,
    deaths: Vec<Timestamp>,
}

impl Ends<'_> {
    /// Whether a kill of this log fits a death of `other`.
    fn fits(&self, other: &Ends<'_>) -> bool {
        self.kills.iter().any(|k| {
            let beside = k.uncertainty_nanos as f64 / 1e9 + 0.25;
            other.deaths.iter().any(|d| death_misses(*d, &kill_of(k), k.reaped_at, beside) == 0.0)
        })
    }
}

/// Hosts whose logs fit each other's captures, and none its own; by the keys of their names, each with the other.
pub fn swapped_logs(e: &Evidence<'_>) -> BTreeMap<String, String> {
    let mut ends: BTreeMap<String, Ends<'_>> = BTreeMap::new();
    for event in e.events.iter().filter(|v| v.kind != OomKind::Gpu) {
        let Some(host) = event.host.as_deref() else { continue };
        let of_host = ends.entry(e.names.key(host)).or_default();
        if of_host.kills.len() < EACH {
            of_host.kills.push(event);
        }
    }
    for l in e.listeners.iter().filter(|l| !l.deaths.is_empty()) {
        if let Some(of_host) = ends.get_mut(&e.names.key(&e.host_of(l.endpoint.address))) {
            of_host.deaths.extend(l.deaths.iter().map(|d| d.time).take(EACH));
        }
    }
    let misfits: Vec<(&String, &Ends<'_>)> =
        ends.iter().filter(|(_, x)| !x.deaths.is_empty() && !x.fits(x)).take(MISFITS).collect();
    let mut pairs: BTreeMap<String, String> = BTreeMap::new();
    for (i, (a, of_a)) in misfits.iter().enumerate() {
        let free = |b: &String| !pairs.contains_key(*a) && !pairs.contains_key(b);
        let other = misfits.iter().skip(i + 1).find(|(b, of_b)| free(b) && of_a.fits(of_b) && of_b.fits(of_a));
        if let Some((b, _)) = other.copied() {
            pairs.insert((*a).clone(), b.clone());
            pairs.insert(b.clone(), (*a).clone());
        }
    }
    pairs
}

/// Says of parts whose logs may be swapped that they may be; nothing is sure then.
pub(super) fn tell(e: &Evidence<'_>, parts: &mut [HostPart]) {
    let pairs = swapped_logs(e);
    for p in parts.iter_mut().filter(|p| p.event.is_some()) {
        let Some(other) = pairs.get(&e.names.key(&p.host)) else { continue };
        let other = e.names.canonical(other).to_string();
        p.reasons.push(format!("the logs of {} and {other} fit each other's captures: swapped?", p.host));
        p.verdict = p.verdict.min(Verdict::Probable);
        p.swapped_with = Some(other);
    }
}
