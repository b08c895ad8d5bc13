//! Which kills belong together, and how sure it is.

use std::collections::{BTreeMap, BTreeSet};

use super::by_source::BySource;
use super::coincidence::Rates;
use super::ruled_out::ClaimsSent;
use super::summary;
use super::survivor::survivors;
use super::trigger::{Claims, Fit, Trigger, claimed, trigger_of};
use super::weigh::weigh;
use super::{Evidence, HostPart, Incident};
use crate::clock::longest_to_die;
use crate::finding::Finding;
use crate::names::short;
use crate::net::{Address, Endpoint};
use crate::oom::{OomEvent, OomKind};
use crate::size::bytes;
use crate::time::Timestamp;
use crate::vocabulary::{Cause, CoverageLevel, IncidentKind, Scope, Verdict};

/// A listener's death belongs to a kill when it is seen this close to it, in seconds: the kernel needs a while to
/// give back a terabyte, and closes sockets after that.
pub(super) const DEATH_SECONDS: f64 = 60.0;

/// The incidents of all kills, and of deaths of listeners that no kill explains, in order of time.
pub fn incidents(e: &Evidence<'_>) -> Vec<Incident> {
    let mut parts: Vec<HostPart> = Vec::new();
    let (claims, claims_sent) = (Claims::of(e), ClaimsSent::of(e));
    for (i, event) in e.events.iter().enumerate() {
        if event.kind != OomKind::Gpu {
            parts.push(of_event(e, &claims, &claims_sent, i, event));
        }
    }
    super::unseen::infer(e, &mut parts);
    super::swapped::tell(e, &mut parts);
    parts.extend(deaths_without_kill(e, &parts));
    parts.sort_by(|a, b| (moment(e, a), &a.host).cmp(&(moment(e, b), &b.host)));
    let groups = grouped(e, &parts);
    let (sent, rates) = (BySource::of(e), Rates::of(e.events, e.log_days));
    let mut parts: Vec<Option<HostPart>> = parts.into_iter().map(Some).collect();
    let mut all: Vec<Incident> = groups
        .into_iter()
        .map(|members| {
            let own = members.into_iter().filter_map(|i| parts.get_mut(i)?.take()).collect();
            assemble(e, &sent, &rates, own)
        })
        .collect();
    all.extend(super::nccl::incidents(e));
    all.sort_by(|a, b| (a.start, &a.id).cmp(&(b.start, &b.id)));
    all
}

/// When a part failed.
fn moment(e: &Evidence<'_>, p: &HostPart) -> Timestamp {
    p.event.map(|i| e.events[i].time).or(p.died).unwrap_or_default()
}

fn of_event(e: &Evidence<'_>, claims: &Claims, claims_sent: &ClaimsSent, index: usize, event: &OomEvent) -> HostPart {
    let name = event.host.as_deref().unwrap_or("(host unknown)");
    let host = e.names.canonical(name).to_string();
    let trigger = trigger_of(e, claims, event);
    let claim = trigger.as_ref().map(|t| (t, &e.findings[t.finding]));
    let covered = e.watch.of(e.names, &host, event.time, claim.map(|(_, f)| f.time), e.window);
    let listener = claim.and_then(|(_, f)| e.listener(f.target));
    let died = listener.zip(claim).and_then(|(l, (_, f))| l.death_after(f.time)).map(|d| d.time).filter(|d| {
        let after = d.seconds_since(event.time);
        // A terabyte takes more than a minute to be given back.
        let longest = longest_to_die(event.anon_rss_bytes, event.kind == OomKind::Cgroup);
        (-DEATH_SECONDS..=DEATH_SECONDS.max(longest)).contains(&after)
    });
    let mut part = HostPart {
        address: claim.map(|(_, f)| f.target.address).or(e.names.addresses(&host).first().copied()),
        host,
        event: Some(index),
        trigger: trigger.clone(),
        died,
        verdict: Verdict::Unexplained,
        reasons: Vec::new(),
        coverage: covered.level,
        bystander: false,
        claims_seen: claim.is_some(),
        swapped_with: None,
    };
    match claim {
        Some((t, f)) => weigh(e, &mut part, event, t, f),
        None => unexplained(e, claims_sent, &mut part, event, covered.reason),
    }
    part
}

/// What is to be said of a kill that no claim explains.
fn unexplained(e: &Evidence<'_>, sent: &ClaimsSent, part: &mut HostPart, event: &OomEvent, watched: Option<String>) {
    let before = sent.before(e, &part.host, event);
    part.bystander = before.lived;
    part.claims_seen = !before.said.is_empty();
    let watched = watched.map_or(String::new(), |r| format!(" ({r})"));
    part.reasons.push(match (part.coverage, before.said.is_empty()) {
        (CoverageLevel::NotObserved, true) => format!("unexplained: not observed{watched}"),
        (level, true) => format!(
            "unexplained: {level}{watched}, and no claim to a listener of this host was seen in the {:.0} s before the kill",
            e.max_lag
        ),
        (level, false) => format!("unexplained: {level}{watched}"),
    });
    part.reasons.extend(before.said);
    part.reasons.extend(super::weigh::cgroup(event));
    part.reasons.extend(super::memory_climb::weighed(e, &part.host, event.time, None, 0.0).map(|(text, _)| text));
    part.reasons.extend(e.clocks.of(&part.host).iter().map(|c| c.text.clone()));
}

/// Listeners that died of a claim on hosts of which no log tells.
fn deaths_without_kill(e: &Evidence<'_>, parts: &[HostPart]) -> Vec<HostPart> {
    let explained: BTreeSet<&str> = parts.iter().filter(|p| p.trigger.is_some()).map(|p| p.host.as_str()).collect();
    let mut sent: BTreeMap<Endpoint, Vec<&Finding>> = BTreeMap::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, f) in e.findings.iter().enumerate() {
        sent.entry(f.target).or_default().push(f);
        places.entry(&f.id).or_insert(i);
    }
    // Kills by host, in order of time, and how long after the one that takes longest a listener may still answer.
    let mut kills: BTreeMap<String, (Vec<(Timestamp, f64)>, f64)> = BTreeMap::new();
    for v in e.events.iter().filter(|v| v.kind != OomKind::Gpu) {
        if let Some(host) = v.host.as_deref() {
            let within = DEATH_SECONDS.max(longest_to_die(v.anon_rss_bytes, v.kind == OomKind::Cgroup));
            let (of_host, longest) = kills.entry(e.names.key(host)).or_default();
            of_host.push((v.time, within));
            *longest = longest.max(within);
        }
    }
    let mut deaths = Vec::new();
    for l in e.listeners {
        let host = e.host_of(l.endpoint.address);
        if explained.contains(host.as_str()) {
            continue;
        }
        let Some(claims) = sent.get(&l.endpoint) else { continue };
        for (fatal, death) in crate::protocol::fate::fatal_claims(l, claims) {
            let Some(death) = death else { continue };
            // A kill that the log does tell of is judged by itself, even where nothing explains it.
            let told = kills.get(&e.names.key(&host)).is_some_and(|(of_host, longest)| {
                let from = of_host.partition_point(|(t, _)| death.time.seconds_since(*t) > *longest);
                let near = of_host.get(from..).unwrap_or_default().iter();
                near.take_while(|(t, _)| death.time.seconds_since(*t) >= -DEATH_SECONDS)
                    .any(|(t, within)| death.time.seconds_since(*t) <= *within)
            });
            let logged = e.log_days.get(&short(&host)).is_some_and(|days| *days > 0.0);
            // A server that may have ignored the bytes, and a log without a kill: a job that ended.
            if logged && fatal.dialect.is_none() {
                continue;
            }
            let lag = death.time.seconds_since(fatal.time);
            let Some(finding) = places.get(fatal.id.as_str()).copied().filter(|_| !told && lag <= e.max_lag) else {
                continue;
            };
            let effect =
                fatal.effects.iter().position(|x| x.outcome == crate::vocabulary::Outcome::Allocates).unwrap_or(0);
            let trigger = Trigger {
                finding,
                effect,
                fit: Fit::Unknown,
                selected: false,
                at_limit: false,
                lag,
                lag_uncertainty: 0.0,
            };
            let claim = claimed(&trigger, fatal);
            let covered = e.watch.of(e.names, &host, death.time, Some(fatal.time), e.window);
            deaths.push(HostPart {
                host: host.clone(),
                address: Some(l.endpoint.address),
                event: None,
                trigger: Some(trigger),
                died: Some(death.time),
                verdict: if fatal.dialect.is_some() && !logged { Verdict::Probable } else { Verdict::Possible },
                reasons: vec![
                    format!(
                        "the listener {} died {lag:.1} s after the claim of {} that it never answered",
                        l.endpoint,
                        bytes(claim)
                    ),
                    if logged {
                        "the log of this host that was given tells of no kill then: the claim held the store, and something \
                         else may have ended it, so this is only possible"
                    } else {
                        "no log with a kill of this host was given: the death of its listener stands in for one, so this \
                         is at best probable (add the host's kernel log with --oom)"
                    }
                    .to_string(),
                ],
                coverage: covered.level,
                bystander: false,
                claims_seen: true,
                swapped_with: None,
            });
        }
    }
    deaths
}

/// What makes triggers one: source, payload or probe; and version mismatches are of one kind.
fn keys(e: &Evidence<'_>, t: &Trigger) -> Vec<String> {
    let f = &e.findings[t.finding];
    let mut keys = vec![format!("payload {:?}", f.bytes)];
    // Behind one address of a gateway may be many hosts.
    if !e.nat.contains(&f.source.address) {
        keys.push(format!("source {}", f.source.address));
    }
    if let Some(probe) = f.stray.as_ref().and_then(|s| s.probe) {
        keys.push(format!("probe {probe}"));
    }
    if f.rule == "version-mismatch" {
        keys.push("version mismatch".to_string());
    }
    keys
}

/// Indices of parts that belong together. Near-linear: parts are joined through keys, then through time.
fn grouped(e: &Evidence<'_>, parts: &[HostPart]) -> Vec<Vec<usize>> {
    let mut group: Vec<usize> = (0..parts.len()).collect();
    fn root(group: &mut [usize], mut i: usize) -> usize {
        while group[i] != i {
            group[i] = group[group[i]];
            i = group[i];
        }
        i
    }
    let join = |group: &mut Vec<usize>, a: usize, b: usize| {
        let (a, b) = (root(group, a), root(group, b));
        group[a.max(b)] = a.min(b);
    };
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (i, p) in parts.iter().enumerate() {
        for key in p.trigger.iter().flat_map(|t| keys(e, t)) {
            let other = *first.entry(key).or_insert(i);
            join(&mut group, other, i);
        }
    }
    // What comes from behind one gateway at one pace is one hand's work.
    let mut paced: BTreeMap<Address, Vec<(Timestamp, usize)>> = BTreeMap::new();
    for (i, p) in parts.iter().enumerate() {
        for f in p.trigger.iter().map(|t| &e.findings[t.finding]).filter(|f| e.nat.contains(&f.source.address)) {
            paced.entry(f.source.address).or_default().push((f.time, i));
        }
    }
    for mut claims in paced.into_values() {
        claims.sort_unstable();
        for pair in claims.windows(2) {
            if let [(a, i), (b, j)] = pair
                && b.seconds_since(*a) <= e.window
            {
                join(&mut group, *i, *j);
            }
        }
    }
    // A kill without a trigger goes to its neighbour in time, as long as that lies within the window. Two neighbours
    // with different triggers are not joined by it: it goes to the nearer one.
    for i in 0..parts.len() {
        // Nor is one of a host whose store is known to have lived on: that host's kill is another matter.
        if parts[i].trigger.is_some() || parts[i].bystander {
            continue;
        }
        let gap = |j: usize| moment(e, &parts[i]).seconds_since(moment(e, &parts[j])).abs();
        let near = |j: &usize| gap(*j) <= e.window && !parts[*j].bystander;
        let before = i.checked_sub(1).filter(near);
        let after = (i + 1 < parts.len()).then_some(i + 1).filter(|j| near(j) && parts[*j].trigger.is_some());
        let nearest = match (before, after) {
            (Some(b), Some(a)) if parts[b].trigger.is_none() || gap(a) < gap(b) => Some(a),
            (Some(b), _) => Some(b),
            (None, a) => a,
        };
        if let Some(j) = nearest {
            join(&mut group, i, j);
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for i in 0..parts.len() {
        groups.entry(root(&mut group, i)).or_default().push(i);
    }
    groups.into_values().collect()
}

fn assemble(e: &Evidence<'_>, sent: &BySource<'_>, rates: &Rates<'_>, hosts: Vec<HostPart>) -> Incident {
    let triggers: Vec<&Finding> =
        hosts.iter().filter_map(|h| h.trigger.as_ref()).map(|t| &e.findings[t.finding]).collect();
    let earliest = triggers.iter().min_by_key(|f| (f.time, &f.id));
    let first_event = hosts.iter().filter_map(|h| h.event).map(|i| &e.events[i]).min_by_key(|v| (v.time, &v.id));
    let id = match (earliest, first_event) {
        (Some(f), _) => f.id.clone(),
        (None, Some(v)) => v.id.clone(),
        (None, None) => String::new(),
    };
    let failures = || hosts.iter().map(|h| moment(e, h));
    let start = earliest.map(|f| f.time).or(failures().min()).unwrap_or_default();
    let end = failures().max().unwrap_or(start);
    let names: BTreeSet<&str> = hosts.iter().map(|h| h.host.as_str()).collect();
    let scope = if names.len() > 1 { Scope::Synchronized } else { Scope::SingleHost };
    let sources: BTreeSet<Address> = triggers.iter().map(|f| f.source.address).collect();
    let source = (sources.len() == 1).then(|| sources.first().copied()).flatten();
    let tool = triggers.iter().filter_map(|f| f.stray.as_ref()).find_map(|s| s.tool);
    let cause = cause(sent, &triggers, source);
    let mut incident = Incident {
        id,
        kind: if first_event.is_some() { IncidentKind::Oom } else { IncidentKind::ListenerDeath },
        scope,
        verdict: overall(scope, &hosts),
        start,
        end,
        chance: None,
        survivors: survivors(e, sent, &hosts, &sources),
        hosts,
        source,
        tool,
        cause,
        summary: String::new(),
        settled_by: Vec::new(),
    };
    incident.chance = super::coincidence::chance(&incident, e.events, rates);
    incident.settled_by = summary::settled_by(e, &incident);
    incident.summary = summary::summary(e, &incident);
    incident
}

/// One explained host does not explain the others: a failure of several is as sure as its second surest host.
fn overall(scope: Scope, hosts: &[HostPart]) -> Verdict {
    let mut by_host: BTreeMap<&str, Verdict> = BTreeMap::new();
    for h in hosts {
        let v = by_host.entry(&h.host).or_default();
        *v = (*v).max(h.verdict);
    }
    let mut verdicts: Vec<Verdict> = by_host.into_values().collect();
    verdicts.sort_unstable_by(|a, b| b.cmp(a));
    match (scope, verdicts.as_slice()) {
        (Scope::Synchronized, [first, second, ..]) => (*second).max((*first).min(Verdict::Probable)),
        (_, [first, ..]) => *first,
        _ => Verdict::Unexplained,
    }
}

fn cause(sent: &BySource<'_>, triggers: &[&Finding], source: Option<Address>) -> Cause {
    if triggers.is_empty() {
        return Cause::Unknown;
    }
    if triggers.iter().all(|f| f.rule == "version-mismatch") {
        return Cause::VersionMismatch;
    }
    // A scanner shows itself by a tool's probes, or by trying several things or places.
    let probes = triggers.iter().any(|f| f.stray.as_ref().is_some_and(|s| s.tool.is_some()));
    if probes || source.is_some_and(|a| sent.tried_several(a)) { Cause::Scan } else { Cause::ForeignClient }
}
