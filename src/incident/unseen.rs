//! Triggers that no capture holds, told by what they did: the process is as large as the others' claim makes it, its listener died,
//! the same source was there at the time.

use std::collections::{BTreeMap, BTreeSet};

use super::summary::clock;
use super::trigger::{Fit, claimed};
use super::{Evidence, HostPart, kill_of};
use crate::clock::death_misses;
use crate::net::Address;
use crate::oom::OomEvent;
use crate::protocol::listener::Listener;
use crate::size::{bytes, readings};
use crate::time::Timestamp;
use crate::vocabulary::Verdict;

/// Two processes of one job's kind that hold the same claim differ in size by less than this.
const ALIKE_BYTES: u64 = 16 << 30;
/// One deed reaches its hosts within this many seconds.
const DEED_SECONDS: f64 = 120.0;
/// A claim below this is like the sizes of many processes.
const TELLING_BYTES: u64 = 64 << 30;

/// Known claims that kills are held against.
const CLAIMS: usize = 64;

/// Claims that scanners and clients are known to make of old stores, by what makes them.
const KNOWN: [(u64, &str, &str); 2] = [
    (962_696_183_808, "nmap's TerminalServerCookie probe", "PyTorch 1.9-2.1"),
    (962_174_058_496, "nmap's TerminalServer probe", "PyTorch 1.9-2.1"),
];

/// A claim that explained another host's kill.
struct Known {
    claim: u64,
    at: Timestamp,
    source: Address,
    host: String,
    what: String,
}

/// Gives kills without a trigger the verdict that the others' triggers allow.
pub(super) fn infer(e: &Evidence<'_>, parts: &mut [HostPart]) {
    let known = known(e, parts);
    let seen = Seen::of(e, &known);
    for p in parts.iter_mut().filter(|p| p.trigger.is_none()) {
        let Some(event) = p.event.and_then(|i| e.events.get(i)) else { continue };
        match known.values().filter(|k| alike(k, event)).min_by_key(|k| event.total_vm_bytes.map(|vm| vm - k.claim)) {
            Some(k) => of_others(e, &seen, p, event, k),
            None => p.reasons.extend(by_itself(event)),
        }
    }
}

/// The claims that explain other hosts' kills, by size; the first of each.
fn known(e: &Evidence<'_>, parts: &[HostPart]) -> BTreeMap<u64, Known> {
    let mut known: BTreeMap<u64, Known> = BTreeMap::new();
    for p in parts.iter().filter(|p| p.verdict >= Verdict::Probable) {
        let Some((t, f)) = p.trigger.as_ref().and_then(|t| Some((t, e.findings.get(t.finding)?))) else { continue };
        let claim = claimed(t, f);
        if t.fit == Fit::Fits && claim >= TELLING_BYTES && known.len() < CLAIMS {
            let probe = f.stray.as_ref().and_then(|s| s.probe);
            let what = probe.map_or("the claim".to_string(), |p| format!("nmap's {p} probe"));
            let this = Known { claim, at: f.time, source: f.source.address, host: p.host.clone(), what };
            known.entry(claim).or_insert(this);
        }
    }
    known
}

/// What was seen of the hosts, by the key of their names: their listeners, and when each source of a known claim sent them something.
struct Seen<'a> {
    listeners: BTreeMap<String, Vec<&'a Listener>>,
    met: BTreeMap<(Address, String), Vec<Timestamp>>,
}

impl<'a> Seen<'a> {
    fn of(e: &Evidence<'a>, known: &BTreeMap<u64, Known>) -> Seen<'a> {
        let mut seen = Seen { listeners: BTreeMap::new(), met: BTreeMap::new() };
        if known.is_empty() {
            return seen;
        }
        let key = |address| e.names.key(&e.host_of(address));
        for l in e.listeners.iter().filter(|l| !l.deaths.is_empty()) {
            seen.listeners.entry(key(l.endpoint.address)).or_default().push(l);
        }
        let sources: BTreeSet<Address> = known.values().map(|k| k.source).collect();
        for f in e.findings.iter().filter(|f| sources.contains(&f.source.address)) {
            seen.met.entry((f.source.address, key(f.target.address))).or_default().push(f.time);
        }
        seen
    }

    /// Whether a source sent a host something within the time of one deed.
    fn met(&self, source: Address, host: String, at: Timestamp) -> bool {
        let times = self.met.get(&(source, host)).map(Vec::as_slice).unwrap_or_default();
        let from = times.partition_point(|t| at.seconds_since(*t) > DEED_SECONDS);
        times.get(from).is_some_and(|t| t.seconds_since(at) <= DEED_SECONDS)
    }

    /// A death on the wire that fits a kill.
    fn death(&self, host: &str, event: &OomEvent, beside: f64) -> Option<(&'a Listener, Timestamp)> {
        self.listeners.get(host)?.iter().find_map(|l| {
            let from = l.deaths.partition_point(|d| event.time.seconds_since(d.time) > beside);
            let d = l.deaths.get(from)?;
            (death_misses(d.time, &kill_of(event), event.reaped_at, beside) == 0.0).then_some((*l, d.time))
        })
    }
}

fn alike(k: &Known, event: &OomEvent) -> bool {
    let besides = event.total_vm_bytes.and_then(|vm| vm.checked_sub(k.claim));
    besides.is_some_and(|b| b <= ALIKE_BYTES) && event.time.seconds_since(k.at).abs() <= DEED_SECONDS
}

fn of_others(e: &Evidence<'_>, seen: &Seen<'_>, p: &mut HostPart, event: &OomEvent, k: &Known) {
    let host = e.names.key(&p.host);
    let besides = event.total_vm_bytes.unwrap_or(0).saturating_sub(k.claim);
    p.reasons.push(format!(
        "no capture holds its trigger, but its total-vm is what {} made of the process on {}: {} and {} besides",
        k.what,
        k.host,
        bytes(k.claim),
        bytes(besides)
    ));
    let death = seen.death(&host, event, event.uncertainty_nanos as f64 / 1e9 + 0.5);
    if let Some((listener, died)) = death {
        let text = format!("its listener {} died on the wire with the kill ({})", listener.endpoint, clock(died));
        p.reasons.push(text);
        p.died = Some(died);
        p.address = Some(listener.endpoint.address);
    }
    let met = seen.met(k.source, host, k.at);
    if met {
        p.reasons.push(format!("{} sent something to it within {DEED_SECONDS:.0} s of that claim", k.source));
    }
    let one_way = e.watch.one_way(e.names, &p.host);
    if one_way {
        p.reasons.push("its own capture holds one direction only: what it received is in no capture".to_string());
    }
    p.verdict = if (death.is_some() || met) && !one_way { Verdict::Probable } else { Verdict::Possible };
}

/// What the size of a process says by itself.
fn by_itself(event: &OomEvent) -> Option<String> {
    let vm = event.total_vm_bytes?;
    let (claim, what, releases) = KNOWN.iter().find(|(c, ..)| vm.checked_sub(*c).is_some_and(|b| b <= ALIKE_BYTES))?;
    // Both probes are near each other: the larger claim that the process can hold is the likelier.
    Some(format!(
        "its total-vm is {}: what {what} makes a store of {releases} ask for, and {} besides",
        readings(vm).split(',').next().unwrap_or_default(),
        readings(vm - claim).split(',').next().unwrap_or_default()
    ))
}
