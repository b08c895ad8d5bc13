//! An analysis from beginning to end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::gather::{self, Gathered};
use super::inputs::{Inputs, host_of_file, plain_stem};
use super::jobs::{self, Job, Lessons};
use super::options::Options;
use super::reading::Reading;
use super::sets::{Capture, ReadCapture, Set};
use super::{logs, observe, quiet, reporting};
use crate::finding::Finding;
use crate::incident::{Evidence, HostWatch, Incident, Watch, incidents};
use crate::names::Names;
use crate::net::Endpoint;
use crate::oom::{self, LogSummary, OomEvent, OomKind};
use crate::protocol::listener::Listener;
use crate::protocol::nccl::Network;
use crate::report::model::{Input, Report};
use crate::words::InputKind;

/// An analysis, done.
#[derive(Debug)]
pub struct Analysis {
    /// The report.
    pub report: Report,
    /// The captures' paths as they are, in the order of `report.captures` (which shows them cleaned).
    pub captures: Vec<PathBuf>,
    /// An input that was named on the command line was not read.
    pub trouble: bool,
    /// Nothing at all could be read.
    pub nothing_read: bool,
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
    pub(super) incidents: &'a [Incident],
    pub(super) watch: &'a Watch,
    pub(super) scans: Vec<quiet::Scan>,
    pub(super) jobs: Vec<Job>,
    pub(super) lessons: &'a Lessons,
    pub(super) network: &'a Network,
    pub(super) notes: Vec<String>,
}

/// Reads everything and joins it.
pub fn analyze(options: &Options) -> Analysis {
    let mut reading = super::reading::read(options);
    let network = super::network::judged(&reading, options);
    let mut notes = std::mem::take(&mut reading.notes);
    let Reading { mut names, inputs, lists, captures, sets, mut read, lessons, stores, .. } = reading;
    let mut reported = lists;

    let gathered = gather::gather(&sets, &stores, &names);
    let studied = gather::studied(&sets, &gathered, options, &lessons);
    let jobs = jobs::jobs(&lessons, &studied, &names);
    let mut findings = observe::findings(&studied, &gathered);
    findings.extend(quiet::findings(&studied, &gathered));
    findings.extend(network.findings.iter().cloned());
    findings.sort_by_key(|f| (f.time, f.target, f.source, f.rule));
    let scans = quiet::scans(&sets, &findings);

    let (summaries, log_inputs) = read_logs(options, &inputs, &names, &sets);
    let merged = oom::merge(summaries.into_iter().flat_map(|s| s.sightings).collect());
    if !merged.untimed.is_empty() {
        notes.push(untimed_note(&merged.untimed));
    }
    let mut events: Vec<OomEvent> = merged.events;
    name_hosts(&mut events, &mut names);

    notes.extend(unknown_hosts(options, &names, &events, &sets));

    let watch = watched(&sets, &read, &gathered);
    let evidence = Evidence {
        events: &events,
        findings: &findings,
        listeners: &studied,
        names: &names,
        watch: &watch,
        window: options.window,
        max_lag: options.max_lag,
    };
    let mut incidents = incidents(&evidence);
    settle(&mut findings, &incidents, &events);
    let left_out = observe::bounded(&mut findings, &mut incidents, options.max_findings);

    let captures: Vec<(Capture, ReadCapture, String)> = captures
        .into_iter()
        .map(|c| {
            let outcome = read.remove(&c.index).unwrap_or_default();
            let label = c.path.to_string_lossy().into_owned();
            (c, outcome, label)
        })
        .collect();
    reported.extend(log_inputs);
    let mut trouble = false;
    for r in &inputs.refused {
        trouble |= r.named && !r.warning_only;
        reported.push(reporting::refused_input(&r.label, &r.error, r.warning_only));
    }
    trouble |= reported.iter().any(|i| i.error.is_some());
    trouble |= captures.iter().any(|(_, r, _)| r.error.is_some());
    let something = captures.iter().any(|(_, r, _)| r.summary.is_some())
        || reported.iter().any(|i| i.error.is_none() && i.kind.is_some())
        || inputs.refused.iter().any(|r| r.named && r.warning_only);
    let report = reporting::report(Material {
        options,
        names: &names,
        inputs: reported,
        captures: &captures,
        sets: &sets,
        listeners: &studied,
        findings: &findings,
        left_out,
        events: &events,
        incidents: &incidents,
        watch: &watch,
        scans,
        jobs,
        lessons: &lessons,
        network: &network.network,
        notes,
    });
    let captures = captures.into_iter().map(|(c, _, _)| c.path).collect();
    Analysis { report, captures, trouble, nothing_read: !something }
}

pub(super) fn read_hosts(path: &std::path::Path, names: &mut Names) -> Input {
    let mut input = Input {
        path: path.to_string_lossy().into_owned(),
        kind: Some(InputKind::Hosts),
        format: Some("hosts".to_string()),
        ..Input::default()
    };
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            input.lines = Some(text.lines().count() as u64);
            let errors = names.read_hosts(&text);
            input.not_understood = Some(errors.len() as u64);
            input.warnings.extend(errors.iter().take(8).map(ToString::to_string));
        }
        Err(e) => input.error = Some(format!("cannot read: {e}")),
    }
    input
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
        if let (None, Some(own)) = (&set.host, set.own) {
            let stem = set.captures.first().and_then(|i| captures.get(*i as usize)).and_then(|c| plain_stem(&c.path));
            if let Some(stem) = stem.filter(|_| !own.is_loopback()) {
                names.add(&stem, own);
                set.host = Some(stem);
            }
        }
    }
}

fn read_logs(options: &Options, inputs: &Inputs, names: &Names, sets: &[Set]) -> (Vec<LogSummary>, Vec<Input>) {
    let first = sets.iter().filter_map(|s| s.span).map(|s| s.0).min();
    let last = sets.iter().filter_map(|s| s.span).map(|s| s.1).max();
    let near = first.zip(last).map(|(a, b)| crate::time::Timestamp(a.0 / 2 + b.0 / 2));
    let mut summaries = Vec::new();
    let mut reported = Vec::new();
    for s in inputs.sources.iter().filter(|s| s.kind == InputKind::Log) {
        let of_name = host_of_file(&s.path, names, options.host_pattern.as_ref());
        let guessed = of_name.is_none();
        let log_options = oom::Options {
            boot: options.boot.clone(),
            zone: options.log_zone,
            host_zones: options.host_zones.clone(),
            near,
            year: None,
            explicit_host: s.host.clone(),
            file_host: of_name.or_else(|| plain_stem(&s.path)),
        };
        match logs::read_log(&s.path, &s.label, &log_options) {
            Ok((summary, trouble)) => {
                reported.push(reporting::log_input(&s.label, &summary, trouble, guessed && s.host.is_none(), s.named));
                summaries.push(summary);
            }
            Err(e) => reported.push(Input {
                path: s.label.clone(),
                kind: Some(InputKind::Log),
                error: Some(format!("cannot read: {e}")),
                ..Input::default()
            }),
        }
    }
    (summaries, reported)
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

fn untimed_note(untimed: &[oom::OomSighting]) -> String {
    let hosts: BTreeSet<&str> = untimed.iter().filter_map(oom::OomSighting::host).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    format!(
        "{} kill line(s) have no absolute time and were left out (hosts: {}): give the boot time with --boot HOST=TIME",
        untimed.len(),
        if hosts.is_empty() { "unknown".to_string() } else { hosts.join(", ") }
    )
}

/// What the captures watched of each address.
fn watched(sets: &[Set], read: &BTreeMap<u32, ReadCapture>, gathered: &BTreeMap<Endpoint, Vec<Gathered<'_>>>) -> Watch {
    let mut watch = Watch::default();
    for (number, set) in sets.iter().enumerate() {
        let Some((from, to)) = set.span else { continue };
        let drops = set
            .captures
            .iter()
            .filter_map(|i| read.get(i)?.summary.as_ref())
            .flat_map(|s| &s.interfaces)
            .filter_map(|i| i.drops)
            .reduce(|a, b| a + b);
        let addresses: BTreeSet<_> =
            set.seen.records.iter().flat_map(|r| [r.client().address, r.server().address]).collect();
        let mut gaps: BTreeMap<_, u64> = BTreeMap::new();
        for g in gathered.values().flatten() {
            if let Some(o) = g.connection.observation.filter(|o| o.set == number as u32) {
                *gaps.entry(o.server().address).or_default() += o.gaps;
            }
        }
        for address in addresses {
            let own = set.own == Some(address);
            let gaps = gaps.get(&address).copied().unwrap_or(0);
            watch.by_address.entry(address).or_default().push(HostWatch { from, to, own, drops, gaps });
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
