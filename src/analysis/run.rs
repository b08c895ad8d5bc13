//! An analysis from beginning to end.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use super::dedup;
use super::inputs::{Inputs, plain_stem};
use super::jobs::{self, Job};
use super::kills::{self, ClockNotes};
use super::options::Options;
use super::progress::Progress;
use super::prune::{self, Plan};
use super::reading::{self, Reading};
use super::sets::{Capture, ReadCapture, Set};
use super::{acknowledged, clocks, logs, observe, reporting, scans};
use crate::finding::{Finding, KILLING_BYTES};
use crate::incident::{
    Claims, Correction, Evidence, Fit, HostClocks, HostWatch, Incident, Watch, Whose, incidents, swapped_logs,
    trigger_of,
};
use crate::names::{Names, short};
use crate::net::{Address, Endpoint};
use crate::oom::{self, OomEvent, OomKind, OomSighting};
use crate::protocol::listener::Listener;
use crate::protocol::seam::{DistinctFlow, Study};
use crate::report::model::{Clock, Input, Report};
use crate::stream::Direction;
use crate::time::Timestamp;

/// An analysis, done.
#[derive(Debug)]
pub struct Analysis {
    /// The report.
    pub report: Report,
    /// The captures' paths as they are, in the order of `report.captures` (which shows them cleaned).
    pub captures: Vec<PathBuf>,
    /// An input that was named on the command line was not read.
    pub trouble: bool,
    /// What is lost of what a case or evidence held, in words.
    pub lost: Vec<String>,
    /// Nothing at all could be read.
    pub nothing_read: bool,
    /// Reading was stopped from outside: the report is of what was read until then.
    pub stopped: bool,
    /// Selections (`--host`, `--net`, `--source`) that nothing in the inputs is of.
    pub unmatched: Vec<String>,
    /// Stores and NCCL roots that other streams named, with how, whether or not anybody was seen to speak to them.
    pub named: BTreeMap<Endpoint, String>,
}

/// All that a report is made of.
pub(super) struct Material<'a> {
    pub(super) options: &'a Options,
    pub(super) names: &'a Names,
    pub(super) inputs: Vec<Input>,
    pub(super) captures: &'a [(Capture, ReadCapture, String)],
    pub(super) sets: &'a [Set],
    pub(super) listeners: &'a [Listener],
    pub(super) findings: &'a [Finding],
    pub(super) left_out: usize,
    pub(super) events: &'a [OomEvent],
    /// Kills of which no line tells a time.
    pub(super) undated: &'a [OomEvent],
    pub(super) incidents: &'a [Incident],
    pub(super) watch: &'a Watch,
    pub(super) scans: Vec<scans::Scan>,
    pub(super) jobs: Vec<Job>,
    /// What each protocol concludes.
    pub(super) studies: &'a [Study],
    pub(super) clocks: Vec<Clock>,
    pub(super) nat: &'a BTreeSet<Address>,
    pub(super) incomplete: bool,
    pub(super) notes: Vec<String>,
}

/// Everything read: what is concluded from it depends on nothing else.
pub(super) struct AnalysisInput {
    pub(super) reading: Reading,
    pub(super) logs: logs::Logs,
    /// Kills, as all logs together tell them.
    pub(super) kills: Kills,
    /// How many days the logs of each host reach.
    pub(super) log_days: BTreeMap<String, f64>,
    /// What was told of clocks so far.
    pub(super) told: ClockNotes,
    /// Which captures were left out, in words.
    pub(super) pruned: Option<String>,
    /// Reading was stopped before its end.
    pub(super) stopped: bool,
}

/// Kills, merged once; what single logs tell is kept only where some of it has no time yet.
pub(super) struct Kills {
    merged: oom::Merged,
    sightings: Vec<OomSighting>,
}

impl Kills {
    pub(super) fn of(sightings: Vec<OomSighting>) -> Kills {
        let untimed = sightings.iter().any(|s| s.time().is_none());
        let kept = if untimed { sightings.clone() } else { Vec::new() };
        Kills { merged: oom::merge(sightings), sightings: kept }
    }
}

/// Takes from logs what they tell of kills and of machines.
pub(super) fn tell_of_hosts(logs: &mut logs::Logs, names: &mut Names) -> (Vec<OomSighting>, BTreeMap<String, f64>) {
    let log_days = log_days(&logs.summaries);
    let sightings = logs.summaries.iter_mut().flat_map(|s| std::mem::take(&mut s.sightings)).collect();
    for facts in logs.summaries.iter().flat_map(|s| &s.facts) {
        for address in &facts.addresses {
            names.add(&facts.host, *address);
            names.add_node(*address);
        }
    }
    (sightings, log_days)
}

/// Reads everything and joins it.
pub fn analyze(options: &Options) -> Analysis {
    let progress = Progress::new(options);
    let line = progress.line(options);
    let mut intake = reading::intake(options);
    let mut logs = logs::read_all(options, &intake.inputs, &intake.names, middle(&intake.first), &progress);
    let (sightings, log_days) = tell_of_hosts(&mut logs, &mut intake.names);
    let kills = Kills::of(sightings);
    let (plan, pruned) = planned(&intake, &kills.merged, options);
    let mut reading = reading::captures(intake, options, &plan, &progress);
    let mut told = ClockNotes::default();
    corrected_captures(&mut reading, options, &mut told);
    suspect_stores(&mut reading, &kills.merged.events, options);
    look_back(&mut reading, &plan, options);
    drop(line);
    let stopped = progress.stopped();
    conclude(options, AnalysisInput { reading, logs, kills, log_days, told, pruned, stopped })
}

/// Joins what was read.
pub(super) fn conclude(options: &Options, front: AnalysisInput) -> Analysis {
    let AnalysisInput {
        mut reading,
        logs,
        kills: Kills { mut merged, mut sightings },
        log_days,
        mut told,
        pruned,
        stopped,
    } = front;
    let connectors = scans::connectors(&reading.sets);
    let mut studies = super::protocols::studies(&reading, options, &connectors);
    let mut notes = std::mem::take(&mut reading.notes);
    let Reading { mut names, inputs, lists, captures, sets, mut read, lessons, .. } = reading;
    let studied: Vec<Listener> = studies.iter_mut().flat_map(|s| std::mem::take(&mut s.watched)).collect();
    let gathered = dedup::gather(&sets, &studied.iter().map(|l| l.endpoint).collect(), &names);
    let jobs = jobs::jobs(&lessons, &studied, &names);
    let mut findings: Vec<Finding> = studies.iter_mut().flat_map(|s| std::mem::take(&mut s.findings)).collect();
    notes.extend(scans::probed(&sets, &studied.iter().map(|l| l.endpoint).collect()));
    notes.extend(studied.iter().filter(|l| !l.heard).take(3).map(|l| {
        format!(
            "One direction only: the captures hold no packet from {}. What was sent to it is judged; whether it answered, fell silent or died they cannot tell.",
            l.endpoint
        )
    }));
    if !options.sources.is_empty() {
        findings.retain(|f| options.sources.iter().any(|n| n.contains(f.source.address)));
    }
    findings.sort_by_key(|f| (f.time, f.target, f.source, f.rule));
    scans::doubt_tools(&mut findings, &sets);
    acknowledged::note(&mut findings, &sets);
    super::protocols::corroborate(&mut findings, &logs.summaries);
    let mut scans = scans::scans(&sets, &findings, &connectors);

    let claims = kills::claims(&studied, &findings, &names);
    if !merged.untimed.is_empty() {
        kills::align(&mut sightings, &merged.untimed, &claims, &names, &mut told);
        merged = oom::merge(sightings);
    }
    let mut undated = std::mem::take(&mut merged.undated);
    name_hosts(&mut undated, &mut names);
    undated.retain(|e| meant(options, &names, e));
    notes.extend(untimed_note(&undated));
    let mut events: Vec<OomEvent> = merged.events;
    name_hosts(&mut events, &mut names);
    let watch = watched(&sets, &read, &gathered);
    let scanners: BTreeSet<_> = scans.iter().filter(|s| s.is_scan()).map(|s| s.source).collect();
    let (nobody, right) = (BTreeSet::new(), HostClocks::default());
    let mut evidence = Evidence {
        events: &[],
        findings: &findings,
        listeners: &studied,
        names: &names,
        watch: &watch,
        log_days: &log_days,
        window: options.window,
        max_lag: options.max_lag,
        curves: &logs.curves,
        clocks: &right,
        scanners: &scanners,
        nat: &nobody,
    };
    let open = Claims::of(&evidence);
    kills::repeated_hours(&mut events, |e| trigger_of(&evidence, &open, e).map(|t| t.fit));
    kills::common_zone(options, &mut events, &claims, &names, &mut told);
    let swapped = swapped_logs(&Evidence { events: &events, ..evidence });
    kills::log_clocks(&mut events, &claims, &names, &swapped, &mut told);
    let all_hosts: BTreeSet<String> = events.iter().filter_map(|e| e.host.as_deref()).map(|h| names.key(h)).collect();
    events.retain(|e| meant(options, &names, e));
    events.sort_by(|a, b| (a.time, &a.host, a.pid, &a.id).cmp(&(b.time, &b.host, b.pid, &b.id)));
    notes.extend(unknown_hosts(options, &names, &events, &sets));

    let unmatched = unmatched(options, &names, &sets, &all_hosts);
    let nat = gateways(&findings, &names, &studied, &events);
    (evidence.events, evidence.clocks, evidence.nat) = (&events, &told.corrections, &nat);
    let mut incidents = if options.kills_only { Vec::new() } else { incidents(&evidence) };
    settle(&mut findings, &incidents, &events);
    let left_out = observe::bounded(&mut findings, &mut incidents, options.max_findings);
    if left_out > 0 {
        let kept: std::collections::HashSet<&str> = findings.iter().map(|f| f.id.as_str()).collect();
        scans.iter_mut().for_each(|s| s.findings.retain(|id| kept.contains(id.as_str())));
    }

    let captures: Vec<(Capture, ReadCapture, String)> = captures
        .into_iter()
        .map(|c| {
            let outcome = read.remove(&c.index).unwrap_or_default();
            let label = options.name_of(&c.path);
            (c, outcome, label)
        })
        .collect();
    let mut reported = logs::joined(lists, logs.inputs);
    for input in reported.iter_mut().filter(|i| i.boot_time.is_none()) {
        let boot = input.host.as_deref().and_then(|h| told.boots.get(&short(names.canonical(h))));
        input.boot_time = boot.copied();
    }
    let mut trouble = false;
    for r in &inputs.refused {
        trouble |= r.named && !r.warning_only;
        reported.push(reporting::refused_input(&r.label, &r.error, r.warning_only));
    }
    trouble |= reported.iter().any(|i| i.error.is_some());
    trouble |= captures.iter().any(|(_, r, _)| r.error.is_some());
    let something = captures.iter().any(|(_, r, _)| r.summary.is_some() || r.skipped.is_some())
        || reported.iter().any(|i| i.error.is_none() && i.kind.is_some())
        || inputs.refused.iter().any(|r| r.named && r.warning_only);
    let mut first = told.first;
    if stopped {
        first.push("Reading was stopped: what is here is true, but it is not all.".to_string());
    }
    first.extend(pruned);
    first.extend(told.notes);
    first.extend(passed_over(&inputs));
    let mut report = reporting::report(Material {
        options,
        names: &names,
        inputs: reported,
        captures: &captures,
        sets: &sets,
        listeners: &studied,
        findings: &findings,
        left_out,
        events: &events,
        undated: &undated,
        incidents: &incidents,
        watch: &watch,
        scans,
        jobs,
        studies: &studies,
        clocks: told.clocks,
        nat: &nat,
        incomplete: stopped,
        notes: first.into_iter().chain(notes).collect(),
    });
    report.totals.flows += sets.iter().flat_map(|s| &s.seen.ordinary).map(|o| o.count).sum::<u64>();
    let captures = captures.into_iter().map(|(c, _, _)| c.path).collect();
    let named = lessons.named();
    Analysis { report, captures, trouble, lost: Vec::new(), nothing_read: !something, stopped, unmatched, named }
}

/// An instant amid the captures.
fn middle(first: &BTreeMap<u32, Timestamp>) -> Option<Timestamp> {
    let (a, b) = (first.values().min()?, first.values().max()?);
    Some(Timestamp(a.0 / 2 + b.0 / 2))
}

/// What to read, by what the logs tell.
fn planned(intake: &reading::CaptureGroups, early: &oom::Merged, options: &Options) -> (Plan, Option<String>) {
    let untimed: Vec<OomSighting> = early.untimed.iter().filter(|s| !s.is_gpu()).cloned().collect();
    let Some(windows) = prune::windows(&early.events, &untimed, options) else { return (Plan::default(), None) };
    let of_kills = untimed.is_empty() && early.events.iter().any(|e| e.kind != OomKind::Gpu);
    let plan = prune::plan(&intake.groups, &intake.first, &windows, of_kills);
    let note = prune::note(&intake.captures, &plan, &windows);
    (plan, note)
}

/// Finds captures whose clocks are off, and reads them again on the others' clock.
pub(super) fn corrected_captures(reading: &mut Reading, options: &Options, told: &mut ClockNotes) {
    let found = clocks::between(&reading.sets, &reading.captures, &reading.names);
    let mut any = false;
    for c in &found {
        let applied = c.off && reading.shift(c.set, c.shift(), options);
        any |= applied;
        let row = Clock {
            host: c.host.clone(),
            against: Some(c.against.clone()),
            offset_seconds: Some(kills::micro(c.offset.seconds)),
            uncertainty_seconds: Some(kills::micro(c.offset.uncertainty)),
            method: Some(c.offset.method.name().to_string()),
            applied,
        };
        if !told.clocks.contains(&row) {
            told.clocks.push(row);
        }
        if !c.off {
            continue;
        }
        let text = format!(
            "the clock of its captures is {:+.3} s off against {} ({}, {} packets){}",
            c.offset.seconds,
            c.against,
            c.offset.method.name(),
            c.offset.fits,
            if applied {
                "; times of its packets were corrected"
            } else {
                "; they cannot be read again: not corrected"
            }
        );
        told.notes.push(format!("{}: {text}.", c.host));
        let others = found.iter().filter(|o| o.host != c.host && o.off && o.offset.agrees(&c.offset)).count();
        let uncertainty = c.offset.uncertainty;
        told.corrections.add(&c.host, Correction { whose: Whose::Capture, text, uncertainty, agreed: others >= 2 });
    }
    if any {
        reading.relearn(options);
    }
}

/// A process that was killed with less address space than this was not told to allocate what ends a host.
const SUSPECT_BYTES: u64 = 128 << 30;
/// Endpoints that are read as stores for a kill's sake.
const SUSPECTS: usize = 16;

/// Reads endpoints of no known protocol as stores where a scan struck them, a large process was killed on their host, and what
/// they were sent declares just what this process had: no capture holds a client of theirs.
fn suspect_stores(reading: &mut Reading, kills: &[OomEvent], options: &Options) {
    let names = &reading.names;
    let vm_of = |endpoint: &Endpoint| -> Vec<u64> {
        let Some(host) = names.host(endpoint.address).map(|h| names.key(h)) else { return Vec::new() };
        let own = kills.iter().filter(|e| e.host.as_deref().is_some_and(|h| names.key(h) == host));
        own.filter_map(|e| e.total_vm_bytes).filter(|vm| *vm >= SUSPECT_BYTES).collect()
    };
    let known: BTreeSet<Endpoint> = reading.listeners.iter().flatten().copied().collect();
    let mut sizes: BTreeMap<Endpoint, Vec<u64>> =
        scans::struck(&reading.sets, &known).into_keys().map(|e| (e, vm_of(&e))).collect();
    sizes.retain(|_, vm| !vm.is_empty());
    if sizes.is_empty() || sizes.len() > SUSPECTS {
        return;
    }
    reading.suspects = sizes.keys().copied().collect();
    reading.relearn(options);
    let studies = super::protocols::studies(reading, options, &BTreeSet::new());
    let fits = |f: &Finding| {
        let claims = f.effects.iter().filter_map(|e| e.allocates_bytes).filter(|c| *c >= KILLING_BYTES);
        let vm = sizes.get(&f.target).map_or(&[][..], Vec::as_slice);
        // A process that was larger by more must have been seen to end.
        let ended = || {
            let mut stores = studies.iter().flat_map(|s| &s.watched);
            stores.any(|l| l.endpoint == f.target && l.death_after(f.time).is_some())
        };
        let fits = |vm: &u64, c: u64| match Fit::of(Some(*vm), c) {
            Fit::Fits => true,
            Fit::Unknown => ended(),
            Fit::Contradicts | Fit::Unrelated => false,
        };
        f.claims && claims.into_iter().any(|c| vm.iter().any(|vm| fits(vm, c)))
    };
    let due: BTreeSet<Endpoint> =
        studies.iter().flat_map(|s| &s.findings).filter(|f| fits(f)).map(|f| f.target).collect();
    if due != reading.suspects {
        reading.suspects = due;
        reading.relearn(options);
    }
}

/// Bytes of one earlier capture that are looked into for dialects, and of all of them.
const LOOK_BYTES: usize = 4 << 20;
const LOOK_BYTES_IN_ALL: usize = 256 << 20;

/// Opens captures of before the time that matters, the latest first, until the dialect of every listener is known.
fn look_back(reading: &mut Reading, plan: &Plan, options: &Options) {
    let (mut at, mut step, mut left) = (0, 1, LOOK_BYTES_IN_ALL);
    let longest = plan.earlier.iter().map(Vec::len).max().unwrap_or(0);
    while at < longest && left > 0 {
        let studies = super::protocols::studies(reading, options, &BTreeSet::new());
        let wanted = studies.iter().flat_map(|s| &s.watched).filter(|l| l.accepted > 0 && l.dialect().is_none());
        let wanted: HashSet<Endpoint> = wanted.map(|l| l.endpoint).collect();
        if wanted.is_empty() {
            return;
        }
        for group in &plan.earlier {
            for capture in group.iter().skip(at).take(step) {
                let of_group = |set: &Set| {
                    let first = set.captures.first().and_then(|i| reading.captures.get(*i as usize));
                    first.is_some_and(|c| c.stem == capture.stem && c.host == capture.host)
                };
                let Some(number) = reading.sets.iter().position(of_group) else { continue };
                left = left.saturating_sub(reading.look_back(number, capture, &wanted, LOOK_BYTES.min(left)));
                let outcome = reading.read.entry(capture.index).or_default();
                outcome.skipped = Some("skipped: it ends before the time that matters; opened for dialects only");
            }
        }
        at += step;
        step *= 2;
    }
}

/// Whether `--since`, `--until`, `--host` and `--net` mean a kill.
fn meant(options: &Options, names: &Names, e: &OomEvent) -> bool {
    let host = e.host.as_deref().unwrap_or_default();
    let addresses = names.addresses(host);
    let named = options.only_hosts.is_empty()
        || options.only_hosts.iter().any(|h| {
            names.same(h, host) || h.parse::<std::net::IpAddr>().is_ok_and(|ip| addresses.contains(&ip.into()))
        });
    // A host without a known address cannot be said to be elsewhere.
    let near = options.nets.is_empty()
        || addresses.is_empty()
        || addresses.iter().any(|a| options.nets.iter().any(|n| n.contains(*a)));
    options.in_time(e.time) && named && near
}

/// Selections that nothing is of: most likely a name or a network mistyped. `hosts`: the keys of all hosts with kills.
fn unmatched(options: &Options, names: &Names, sets: &[Set], hosts: &BTreeSet<String>) -> Vec<String> {
    let records = || sets.iter().flat_map(|s| &s.seen.records);
    let counted = || sets.iter().flat_map(|s| &s.seen.ordinary);
    let ends = || {
        let counted = counted().flat_map(|o| [o.client, o.server.address]);
        records().flat_map(|r| [r.client().address, r.server().address]).chain(counted).chain(names.all_addresses())
    };
    let mut none = Vec::new();
    for host in &options.only_hosts {
        let ip = host.parse::<std::net::IpAddr>().ok().map(Address::from);
        let known =
            names.knows(host) || hosts.contains(&names.key(host)) || ip.is_some_and(|ip| ends().any(|a| a == ip));
        let of_set = || sets.iter().filter_map(|s| s.host.as_deref()).any(|h| names.same(h, host));
        if !known && !of_set() {
            none.push(format!("--host {host}: no input has a host of that name or address (--hosts FILE names hosts)"));
        }
    }
    let net = |flag: &str, n: &dyn std::fmt::Display| format!("{flag} {n}: no address in the inputs lies in it");
    none.extend(options.nets.iter().filter(|n| !ends().any(|a| n.contains(a))).map(|n| net("--net", n)));
    let sent = |n: &&crate::net::Network| {
        records().any(|r| n.contains(r.client().address)) || counted().any(|o| n.contains(o.client))
    };
    none.extend(options.sources.iter().filter(|n| !sent(n)).map(|n| net("--source", n)));
    none
}

/// Sources that may stand for several hosts: nodes, gateways and bridges of the cluster.
fn gateways(findings: &[Finding], names: &Names, listeners: &[Listener], events: &[OomEvent]) -> BTreeSet<Address> {
    let serving: BTreeSet<String> = listeners
        .iter()
        .filter(|l| l.accepted > 0)
        .filter_map(|l| names.host(l.endpoint.address))
        .chain(events.iter().filter_map(|e| e.host.as_deref()).map(|h| names.canonical(h)))
        .map(short)
        .collect();
    findings
        .iter()
        .filter(|f| f.stray.is_some() && f.rule != "version-mismatch")
        .map(|f| f.source.address)
        .filter(|a| names.is_node(*a) || names.host(*a).is_some_and(|h| serving.contains(&short(h))))
        .collect()
}

/// What lay in directories and is none of ours.
fn passed_over(inputs: &Inputs) -> Option<String> {
    let n = inputs.refused.iter().filter(|r| r.error.starts_with("passed over")).count();
    (n > 0)
        .then(|| format!("{n} file(s) in the directories are neither captures nor logs, lists or curves: passed over."))
}

/// A capture is known by its content: `x.pcap` and its `x.pcap.gz` are one. A set of which every capture was read
/// before, under another name, is no second vantage point.
pub(super) fn drop_copies(captures: &[Capture], sets: &mut [Set], read: &mut BTreeMap<u32, ReadCapture>) {
    let mut first: BTreeMap<_, u32> = BTreeMap::new();
    let mut copies: BTreeMap<u32, u32> = BTreeMap::new();
    for (index, r) in read.iter() {
        let identity = r.summary.as_ref().filter(|s| s.packets > 0).and_then(|s| s.identity);
        if let Some(identity) = identity {
            let original = *first.entry(identity).or_insert(*index);
            if original != *index {
                copies.insert(*index, original);
            }
        }
    }
    for set in sets.iter_mut().filter(|s| s.captures.iter().all(|c| copies.contains_key(c))) {
        for copy in &set.captures {
            let original = copies.get(copy).and_then(|o| captures.get(*o as usize));
            if let (Some(original), Some(summary)) = (original, read.get_mut(copy).and_then(|r| r.summary.as_mut())) {
                let text = format!("the same content as {}: counted once", original.path.to_string_lossy());
                summary.warnings.push(text);
            }
        }
        set.seen = super::scan::SetObservations::default();
        set.span = None;
    }
}

/// Addresses name captures, and captures name addresses: a capture called `node-a.pcap` in which every packet is from
/// or to one address was taken on node-a, and that is its address.
pub(super) fn learn_hosts(
    names: &mut Names,
    captures: &[Capture],
    sets: &mut [Set],
    read: &BTreeMap<u32, ReadCapture>,
) {
    for r in read.values() {
        for (address, name) in r.summary.iter().flat_map(|s| &s.names) {
            if names.host(*address).is_none() {
                names.add(name, *address);
            }
        }
    }
    for set in sets {
        if set.host.is_none() {
            set.host = set.own.and_then(|a| names.host(a)).map(str::to_string);
        }
        // The host is known by a path or by whoever sent its evidence; here is one more of its addresses.
        if let (Some(host), Some(own)) = (&set.host, set.own)
            && names.host(own).is_none()
            && !own.is_loopback()
        {
            names.add(host, own);
        }
        if let (None, Some(own)) = (&set.host, set.own) {
            let stem = set.captures.first().and_then(|i| captures.get(*i as usize)).and_then(|c| plain_stem(&c.path));
            if let Some(stem) = stem.filter(|_| !own.is_loopback()) {
                names.add(&stem, own);
                set.host = Some(stem);
            }
        }
    }
}

/// A log may be named by its host's address.
fn name_hosts(events: &mut [OomEvent], names: &mut Names) {
    for event in events {
        let Some(host) = event.host.clone() else { continue };
        let Ok(ip) = host.parse::<std::net::IpAddr>() else { continue };
        match names.host(ip.into()) {
            Some(name) => event.host = Some(name.to_string()),
            None => names.add(&host, ip.into()),
        }
    }
}

/// Flags about hosts that no input has: most likely a name mistyped.
fn unknown_hosts(options: &Options, names: &Names, events: &[OomEvent], sets: &[Set]) -> Vec<String> {
    let mut named: Vec<(&str, &str)> = options.boot.iter().map(|(h, _)| ("--boot", h.as_str())).collect();
    named.extend(options.host_zones.iter().map(|(h, _)| ("--log-tz", h.as_str())));
    let known = |host: &str| {
        names.knows(host)
            || events.iter().filter_map(|e| e.host.as_deref()).any(|h| names.same(h, host))
            || sets.iter().filter_map(|s| s.host.as_deref()).any(|h| names.same(h, host))
    };
    named
        .into_iter()
        .filter(|(_, host)| !known(host))
        .map(|(flag, host)| format!("{flag} {host}=…: no input has a host of that name"))
        .collect()
}

/// How many days the logs of each host reach, by short name. A log of several hosts counts for each host it names.
fn log_days(summaries: &[oom::LogSummary]) -> BTreeMap<String, f64> {
    let mut days: BTreeMap<String, f64> = BTreeMap::new();
    for s in summaries {
        let (Some(first), Some(last)) = (s.first, s.last) else { continue };
        let reach = (last.seconds_since(first) / 86_400.0).max(0.0);
        let hosts: BTreeSet<String> =
            s.host.iter().map(String::as_str).chain(s.sightings.iter().filter_map(|x| x.host())).map(short).collect();
        for host in hosts {
            let slot = days.entry(host).or_default();
            *slot = slot.max(reach);
        }
    }
    days
}

/// What is said of kills that no line gives a time.
fn untimed_note(undated: &[OomEvent]) -> Option<String> {
    let undated: Vec<&OomEvent> = undated.iter().filter(|e| e.kind != OomKind::Gpu).collect();
    let (_, rest) = undated.split_first()?;
    let hosts: BTreeSet<&str> = undated.iter().filter_map(|e| e.host.as_deref()).collect();
    let hosts: Vec<&str> = hosts.into_iter().take(8).collect();
    let hosts = if hosts.is_empty() { "host unknown".to_string() } else { hosts.join(", ") };
    let advice = match undated.iter().any(|e| e.boot_nanos.is_some()) {
        true => "its seconds since boot become a time with --boot HOST=TIME (`uptime -s` on the host)",
        false => "its log prints none; one that does (journalctl -k -o short-iso-precise) settles it",
    };
    let many = if rest.is_empty() { "1 kill has".to_string() } else { format!("{} kills have", rest.len() + 1) };
    Some(format!("{many} no absolute time, listed without one and joined to nothing ({hosts}): {advice}"))
}

/// What the captures watched of each address.
fn watched(
    sets: &[Set],
    read: &BTreeMap<u32, ReadCapture>,
    gathered: &BTreeMap<Endpoint, Vec<DistinctFlow<'_>>>,
) -> Watch {
    let mut watch = Watch::default();
    let mut gaps_of: BTreeMap<(u32, Address), u64> = BTreeMap::new();
    for o in gathered.values().flatten().filter_map(|g| g.connection.observation).filter(|o| o.gaps > 0) {
        *gaps_of.entry((o.set, o.server().address)).or_default() += o.gaps;
    }
    for (number, set) in sets.iter().enumerate() {
        let Some((from, to)) = set.span else { continue };
        let drops = set
            .captures
            .iter()
            .filter_map(|i| read.get(i)?.summary.as_ref())
            .flat_map(|s| &s.interfaces)
            .filter_map(|i| i.drops)
            .reduce(|a, b| a + b);
        let mut addresses: BTreeMap<Address, [bool; 2]> = BTreeMap::new();
        for r in &set.seen.records {
            for (address, d) in [(r.client().address, Direction::ToServer), (r.server().address, Direction::ToClient)] {
                let [sent, received] = addresses.entry(address).or_default();
                *sent |= r.packets[d.index()] > 0;
                *received |= r.packets[d.reverse().index()] > 0;
            }
        }
        // Both sides sent packets on each.
        for address in set.seen.ordinary.iter().flat_map(|o| [o.client, o.server.address]) {
            addresses.insert(address, [true, true]);
        }
        for (address, [sent, received]) in addresses {
            let own = set.own == Some(address);
            let one_way = own && !(sent && received);
            let gaps = gaps_of.get(&(number as u32, address)).copied().unwrap_or(0);
            watch.by_address.entry(address).or_default().push(HostWatch { from, to, own, one_way, drops, gaps });
        }
    }
    watch
}

/// A kill that fits one reading of a claim settles what the capture left open, and the finding says so.
fn settle(findings: &mut [Finding], incidents: &[Incident], events: &[OomEvent]) {
    for part in incidents.iter().flat_map(|i| &i.hosts) {
        let (Some(t), Some(event)) = (&part.trigger, part.event.and_then(|e| events.get(e))) else { continue };
        let Some(f) = findings.get_mut(t.finding) else { continue };
        if event.kind == OomKind::Gpu || !t.selected {
            continue;
        }
        let Some(effect) = f.effects.get(t.effect).cloned() else { continue };
        f.query = effect.query;
        f.declared = effect.declared.clone();
        f.evidence.push(format!(
            "total-vm of the killed process ({} kB on {}) selects the reading {} of {} bytes among the candidates",
            event.total_vm_bytes.unwrap_or(0) / 1024,
            part.host,
            effect.query.unwrap_or("unknown"),
            effect.allocates_bytes.unwrap_or(0)
        ));
        f.effect = Some(effect);
    }
}
