//! From values to the report document: names, paths and words are put in here, and text from outside is cleaned.

use std::collections::{BTreeMap, BTreeSet};

use super::job_rows;
use super::listener_rows::{described, group, listener, listener_id};
use super::run::Material;
use crate::capture::LinkType;
use crate::escape::clean;
use crate::finding::{self, CaptureRule, Finding, community_id, hex};
use crate::incident::coincidence::in_words;
use crate::incident::{HostPart, Incident};
use crate::net::{Address, Endpoint};
use crate::oom::{LogSummary, OomEvent, OomKind as Kind, TimeSource, WorkloadKind as Kindred};
use crate::protocol::listener::KnownBy;
use crate::protocol::observation::FlowObservation;
use crate::protocol::{DISSECTORS, rule};
use crate::report::model::{
    Capture, CgroupLimit, Chance, ClockStep, Coverage, Declared, Effect, Finding as FindingOut, HostCoverage,
    Incident as IncidentOut, IncidentHost, IncidentSource, Input, Interface, LogLine, OomEvent as OomEventOut,
    OuterHeader, Report, Scan, ScanSource, Sender, Sighting, Stray, Survivor, Target, Tool, Totals, Workload,
};
use crate::stream::{FlowRecord, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::{Cause, CoverageLevel, InputKind, OomKind, Outcome, WorkloadKind};

/// Names of hosts, processes and files in a report are at most this wide.
const NAME: usize = 256;

/// Version of the server models: it changes whenever an effect does.
const MODEL_VERSION: &str = "1";

pub(super) fn text(s: &str) -> String {
    clean(s.as_bytes(), NAME)
}

/// An input that is not read.
pub(super) fn refused_input(label: &str, error: &str, warning_only: bool) -> Input {
    let mut input = Input { path: text(label), ..Input::default() };
    if warning_only {
        input.warnings.push(text(error));
    } else {
        input.error = Some(text(error));
    }
    input
}

/// A log.
pub(super) fn log_input(label: &str, s: &LogSummary, trouble: Option<String>, guessed: bool, named: bool) -> Input {
    let mut warnings: Vec<String> = s.warnings.iter().map(|w| clean(w.as_bytes(), 400)).collect();
    warnings.extend(trouble.map(|t| text(&t)));
    let own_host = s.sightings.iter().any(|x| x.host().is_some());
    if guessed && own_host && s.host.is_some() {
        let host = text(s.host.as_deref().unwrap_or_default());
        let of_file = super::inputs::plain_stem(std::path::Path::new(label));
        if of_file.as_deref() == s.host.as_deref() {
            warnings.push(format!(
                "no line names the host: {host} is taken from the file's name (settle it with --oom HOST=PATH)"
            ));
        }
    }
    let understood = s.format.is_some() || !s.sightings.is_empty() || s.not_understood > 0;
    let mut error = None;
    if s.lines == 0 {
        warnings.push("empty: no line".to_string());
    } else if s.sightings.is_empty() && s.not_understood == 0 && s.connection_errors.is_empty() {
        warnings.push(format!("no line of {} tells of an OOM kill", s.lines));
    } else if !understood && named {
        error = Some("not understood: no line of a known log format".to_string());
    }
    Input {
        path: text(label),
        kind: Some(InputKind::Log),
        format: s.format.map(|f| f.name().to_string()),
        host: s.host.as_deref().map(text),
        lines: Some(s.lines),
        not_understood: Some(s.not_understood),
        timezone: s.timezone.as_deref().map(text),
        boot_time: s.boot_time,
        error,
        warnings,
    }
}

/// The document.
pub(super) fn report(m: Material<'_>) -> Report {
    let outer = outer_headers(&m);
    let died: BTreeSet<Endpoint> = m.findings.iter().filter(|f| f.rule == "listener-died").map(|f| f.target).collect();
    let mut report = Report {
        tool: Tool {
            name: "rdzvscope".to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: option_env!("RDZVSCOPE_COMMIT").map(str::to_string),
            model_version: MODEL_VERSION.to_string(),
        },
        arguments: m.options.arguments.iter().map(|a| text(a)).collect(),
        inputs: m.inputs.clone(),
        captures: captures(&m),
        coverage: coverage(&m),
        listeners: m
            .listeners
            .iter()
            .map(|l| listener(&m, l, &died))
            .chain(DISSECTORS.iter().zip(m.studies).flat_map(|(d, s)| {
                let m = &m;
                s.listeners.iter().map(move |l| described(m, d.protocol(), l))
            }))
            .collect(),
        jobs: m.jobs.iter().map(|j| job_rows::job(&m, j)).collect(),
        communicators: m.studies.iter().flat_map(|s| &s.groups).map(group).collect(),
        scans: m.scans.iter().map(|s| scan(&m, s)).collect(),
        findings: m.findings.iter().map(|f| finding(&m, f, &outer)).collect(),
        oom_events: m.events.iter().chain(m.undated).map(oom_event).collect(),
        incidents: m.incidents.iter().map(|i| incident(&m, i)).collect(),
        totals: totals(&m),
        clocks: m.clocks.clone(),
        incomplete: m.incomplete,
        notes: m.notes.iter().map(|n| clean(n.as_bytes(), 600)).collect(),
        ..Report::default()
    };
    let mut inputs: Vec<Input> = report.captures.iter().map(capture_input).collect();
    inputs.append(&mut report.inputs);
    report.inputs = inputs;
    mark_steps(&mut report);
    let steps = report.captures.iter().flat_map(clock_steps).collect::<Vec<_>>();
    report.findings.extend(steps);
    report.findings.sort_by_key(|f| f.time);
    report.totals.unread = report.inputs.iter().filter(|i| i.error.is_some()).count() as u64;
    let lost = &report.totals;
    if lost.evicted_flows > 0 || lost.evicted_bytes > 0 {
        report.notes.push(format!(
            "Memory ran out: {} flows were forgotten and flows that held {} bytes were read no further, so what they \
             carried later is not judged (--memory raises the limit).",
            lost.evicted_flows, lost.evicted_bytes
        ));
    }
    report.notes.extend(left_out_of_streams(&m));
    if m.left_out > 0 {
        report.notes.push(format!("{} findings were left out (--max-findings)", m.left_out));
    }
    let spoken = m.listeners.iter().any(|l| l.known_by != KnownBy::Port)
        || m.studies.iter().flat_map(|s| &s.listeners).any(|l| !l.possible);
    if !spoken && !m.captures.is_empty() {
        let ports: Vec<String> = m.options.ports.iter().map(|p| p.to_string()).take(12).collect();
        report.notes.push(format!(
            "No stream of a known protocol was seen: nobody spoke to a listener as a store client does, on any port, and \
             was answered{}.",
            if m.listeners.is_empty() {
                format!("; no connection to ports {} was opened or answered (one from before the captures may go on unseen)", ports.join(", "))
            } else {
                "; listeners are taken for stores by their port alone".to_string()
            }
        ));
    }
    report
}

fn capture_input(c: &Capture) -> Input {
    Input {
        path: c.path.clone(),
        kind: Some(InputKind::Capture),
        format: c.format.clone(),
        host: c.host.clone(),
        error: c.error.clone(),
        warnings: c.warnings.clone(),
        ..Input::default()
    }
}

fn captures(m: &Material<'_>) -> Vec<Capture> {
    m.captures
        .iter()
        .map(|(capture, read, label)| {
            let set = read.set.and_then(|s| m.sets.get(s as usize));
            let host = set.and_then(|s| s.host.clone()).or_else(|| capture.host.clone());
            let mut out = Capture {
                path: text(label),
                host: host.as_deref().map(text),
                error: read.error.as_deref().map(|e| clean(e.as_bytes(), 400)),
                warnings: read.skipped.iter().map(|s| s.to_string()).collect(),
                ..Capture::default()
            };
            out.one_direction = set.is_some_and(|s| one_direction(&s.seen.records));
            if let Some(s) = &read.summary {
                let step = |&(packet, time, by): &(u64, i64, i64)| ClockStep {
                    packet,
                    seconds: by as f64 / 1e9,
                    time: Some(Timestamp(time)),
                };
                out.clock_steps = s.clock_steps.iter().map(step).collect();
                out.format =
                    s.form.format.map(|f| s.form.compression.map_or_else(|| f.to_string(), |c| format!("{f}+{c}")));
                out.link_types = s.link_types.iter().map(|l| link_name(*l)).collect();
                out.interfaces = s
                    .interfaces
                    .iter()
                    .map(|i| Interface { name: (!i.name.is_empty()).then(|| text(&i.name)), drops: i.drops })
                    .collect();
                out.packets = s.packets;
                out.bytes = s.bytes;
                out.first = s.first();
                out.last = s.last();
                out.truncated = s.truncated;
                out.cut_packets = s.cut_packets;
                out.warnings = s.warnings.iter().map(|w| clean(w.as_bytes(), 400)).collect();
                if s.warnings_left_out > 0 {
                    out.warnings.push(format!("{} more warnings", s.warnings_left_out));
                }
            }
            out
        })
        .collect()
}

/// Says, of findings behind a step of their capture's clock, that their times are of another clock.
fn mark_steps(report: &mut Report) {
    for c in report.captures.iter().filter(|c| !c.clock_steps.is_empty()) {
        for f in report.findings.iter_mut().filter(|f| f.capture.as_deref() == Some(&c.path)) {
            let before = |s: &&ClockStep| f.packet >= Some(s.packet);
            if let Some(step) = c.clock_steps.iter().rev().find(before) {
                f.evidence.push(format!(
                    "its time is of the clock as it was set at packet {} ({:+.3} s)",
                    step.packet, step.seconds
                ));
            }
        }
    }
}

/// Findings of one capture that tell of steps of its clock.
const STEPS: usize = 8;

/// A finding for each step of a capture's clock, of the first few.
fn clock_steps(c: &Capture) -> Vec<FindingOut> {
    let rule = CaptureRule::ClockStep.text();
    let one = |s: &ClockStep| {
        let way = if s.seconds < 0.0 { "back" } else { "forward" };
        let place = format!("{} {}", s.packet, s.seconds);
        let first = c.first.map_or(0, |t| t.0).to_be_bytes();
        FindingOut {
            id: finding::short_hash([rule.id.as_bytes(), place.as_bytes(), &first]),
            rule: rule.id.to_string(),
            severity: rule.severity,
            time: s.time,
            capture: Some(c.path.clone()),
            packet: Some(s.packet),
            packets: vec![s.packet],
            occurrences: 1,
            explanation: format!(
                "At packet {} the clock of the capture steps {way} by {:.3} s. Packets stay in the order of the file; times on both \
                 sides of it are of two clocks.",
                s.packet,
                s.seconds.abs()
            ),
            remedy: Some(rule.remedy.to_string()),
            ..FindingOut::default()
        }
    };
    c.clock_steps.iter().take(STEPS).map(one).collect()
}

/// Whether packets of one direction only were captured: flows carry bytes, and none was seen both ways.
fn one_direction(records: &[FlowRecord]) -> bool {
    records.iter().any(|r| r.bytes != [0, 0]) && records.iter().all(|r| r.packets.contains(&0))
}

fn link_name(l: LinkType) -> String {
    let name = match l.0 {
        0 => "NULL",
        1 => "EN10MB",
        12 | 14 | 101 => "RAW",
        108 => "LOOP",
        113 => "LINUX_SLL",
        228 => "IPV4",
        229 => "IPV6",
        276 => "LINUX_SLL2",
        n => return format!("LINKTYPE {n}"),
    };
    name.to_string()
}

fn coverage(m: &Material<'_>) -> Coverage {
    let mut worst: BTreeMap<String, HostCoverage> = BTreeMap::new();
    // A kill's part in its incident, by the kill: found by search for each kill, a log of 100 000 takes minutes.
    let mut parts: BTreeMap<&str, &HostPart> = BTreeMap::new();
    for part in m.incidents.iter().flat_map(|i| &i.hosts) {
        if let Some(event) = part.event.and_then(|e| m.events.get(e)) {
            parts.entry(&event.id).or_insert(part);
        }
    }
    for event in m.events.iter().filter(|e| e.kind != Kind::Gpu) {
        let name = event.host.as_deref().unwrap_or("(host unknown)");
        let host = m.names.canonical(name).to_string();
        let trigger = parts
            .get(event.id.as_str())
            .and_then(|p| p.trigger.as_ref())
            .and_then(|t| m.findings.get(t.finding))
            .map(|f| f.time);
        let c = m.watch.of(m.names, &host, event.time, trigger, m.options.window);
        let entry = HostCoverage {
            host: text(&host),
            coverage: c.level,
            from: c.from,
            to: c.to,
            drops: c.drops,
            gaps: c.gaps,
            reason: c.reason,
        };
        let slot = worst.entry(crate::names::short(&host)).or_insert_with(|| entry.clone());
        if entry.coverage < slot.coverage {
            *slot = entry;
        }
    }
    let hosts: Vec<HostCoverage> = worst.into_values().collect();
    let count = |l| hosts.iter().filter(|h| h.coverage == l).count() as u64;
    Coverage {
        oom_hosts: hosts.len() as u64,
        observed: count(CoverageLevel::Observed),
        partial: count(CoverageLevel::Partial),
        not_observed: count(CoverageLevel::NotObserved),
        hosts,
    }
}

pub(super) fn host_of(m: &Material<'_>, endpoint: Endpoint) -> Option<String> {
    m.names.host(endpoint.address).map(text)
}

/// What the user calls a source, else its host's name.
fn label(m: &Material<'_>, source: Address) -> Option<String> {
    m.options.label_of(source).or_else(|| m.names.host(source)).map(text)
}

fn scan(m: &Material<'_>, s: &super::scans::Scan) -> Scan {
    Scan {
        id: s.id.clone(),
        source: ScanSource {
            address: s.source.to_string(),
            label: label(m, s.source),
            may_be_nat: m.nat.contains(&s.source),
        },
        tool: s.tool.map(str::to_string),
        profile: Some(s.profile.to_string()),
        first: Some(s.first),
        last: Some(s.last),
        hosts: s.hosts,
        ports: s.ports,
        connections: s.connections,
        findings: s.findings.clone(),
    }
}

type Outer<'a> = BTreeMap<(Endpoint, Endpoint), &'a FlowObservation>;

/// Flows that arrived in an encapsulation.
fn outer_headers<'a>(m: &Material<'a>) -> Outer<'a> {
    m.sets
        .iter()
        .flat_map(|s| &s.seen.flows)
        .filter(|f| !f.outer.is_empty())
        .map(|f| ((f.client(), f.server()), f))
        .collect()
}

fn sighting(m: &Material<'_>, p: PacketRef) -> Sighting {
    Sighting { capture: capture_path(m, p), packet: Some(p.number) }
}

pub(super) fn capture_path(m: &Material<'_>, p: PacketRef) -> String {
    m.captures.get(p.capture as usize).map_or_else(String::new, |(_, _, label)| text(label))
}

fn finding(m: &Material<'_>, f: &Finding, outer: &Outer<'_>) -> FindingOut {
    let wrapped = outer.get(&(f.source, f.target)).or_else(|| outer.get(&(f.target, f.source)));
    FindingOut {
        id: f.id.clone(),
        rule: f.rule.to_string(),
        severity: f.severity,
        time: Some(f.time),
        time_uncertainty_seconds: Some(1e-6),
        capture: f.packet.map(|p| capture_path(m, p)),
        packet: f.packet.map(|p| p.number),
        packets: f
            .packets
            .iter()
            .filter(|p| f.packet.is_some_and(|x| x.capture == p.capture))
            .map(|p| p.number)
            .collect(),
        sightings: f.sightings.iter().map(|p| sighting(m, *p)).collect(),
        source: Some(Sender { address: f.source.address.to_string(), port: Some(f.source.port) }),
        target: Some(Target {
            address: f.target.address.to_string(),
            port: Some(f.target.port),
            host: host_of(m, f.target),
        }),
        outer: wrapped.map_or_else(Vec::new, |o| {
            o.outer
                .iter()
                .map(|l| OuterHeader {
                    kind: l.kind.to_string(),
                    source: l.source.to_string(),
                    target: l.target.to_string(),
                    id: l.id,
                })
                .collect()
        }),
        community_id: (f.source != f.target).then(|| community_id(f.source, f.target)),
        protocol: f.protocol.map(str::to_string),
        dialect: f.dialect.map(|d| d.name().to_string()),
        dialect_candidates: f.dialect_candidates.iter().map(|d| d.name().to_string()).collect(),
        query: f.query.map(str::to_string),
        stream_offset: f.stream_offset,
        bytes_hex: (!f.bytes.is_empty()).then(|| hex(&f.bytes)),
        alternate_bytes_hex: f.alternate_bytes.as_deref().map(hex),
        declared: f.declared.as_ref().map(declared),
        delivered_bytes: f.delivered,
        occurrences: f.occurrences,
        stray: f.stray.as_ref().map(|s| Stray {
            protocol: Some(text(&s.protocol)),
            tool: s.tool.map(str::to_string),
            probe: s.probe.map(str::to_string),
        }),
        effects: f.effects.iter().map(effect).collect(),
        effect: f.effect.as_ref().map(|e| held_effect(f, e)).or_else(|| f.listener_outcome.map(outcome_alone)),
        explanation: clean(f.explanation.as_bytes(), 1200),
        remedy: rule(remedied(m, f)).map(|r| r.remedy.to_string()),
        evidence: f.evidence.iter().map(|e| clean(e.as_bytes(), 400)).collect(),
        failed_at: f.failed,
        acknowledged: f.acknowledged,
    }
}

/// The rule whose remedy helps: no firewall keeps a launch from disagreeing with itself.
fn remedied(m: &Material<'_>, f: &Finding) -> &'static str {
    let of_launch = |i: &&Incident| i.cause == Cause::LaunchMismatch && i.source == Some(f.source.address);
    let quarrel = f.rule == "nccl-root-died" && m.incidents.iter().any(|i| of_launch(&i) && i.id == f.id);
    if quarrel { "nccl-rank-mismatch" } else { f.rule }
}

fn declared(d: &finding::Declared) -> Declared {
    Declared { bytes: d.bytes, count: d.count, field: Some(d.field.to_string()) }
}

fn effect(e: &finding::Effect) -> Effect {
    Effect {
        dialect: Some(e.dialect.name().to_string()),
        backend: Some(e.backend.to_string()),
        outcome: e.outcome,
        allocates_bytes: e.allocates_bytes,
        resident: e.resident,
        blocks_server: e.blocks_server,
        condition: e.condition.clone(),
    }
}

/// The effect that holds: without a dialect where several do the same and it is open which of them it is.
fn held_effect(f: &Finding, e: &finding::Effect) -> Effect {
    let alike = |x: &finding::Effect| {
        x.dialect != e.dialect && (x.outcome, x.allocates_bytes) == (e.outcome, e.allocates_bytes)
    };
    let open = f.dialect.is_none() && f.effects.iter().any(alike);
    Effect { dialect: effect(e).dialect.filter(|_| !open), ..effect(e) }
}

/// The effect on a listener that is no store: what it does, without a claim.
fn outcome_alone(outcome: Outcome) -> Effect {
    Effect { outcome, blocks_server: outcome == Outcome::Waits, ..Effect::default() }
}

/// How far a time may be off whose year is a guess.
const YEAR_SECONDS: f64 = 366.0 * 86_400.0;

fn oom_event(e: &OomEvent) -> OomEventOut {
    let timed = e.time_kind != TimeSource::None;
    let guessed = e.time_source.contains("year guessed");
    OomEventOut {
        id: e.id.clone(),
        host: e.host.as_deref().map(text),
        time: timed.then_some(e.time),
        uncertainty_seconds: timed.then(|| if guessed { YEAR_SECONDS } else { e.uncertainty_nanos as f64 / 1e9 }),
        kind: match e.kind {
            Kind::Host => OomKind::Host,
            Kind::Cgroup => OomKind::Cgroup,
            Kind::Userspace => OomKind::Userspace,
            Kind::Gpu => OomKind::Gpu,
        },
        process: e.process.as_deref().map(text),
        pid: e.pid,
        total_vm_bytes: e.total_vm_bytes,
        anon_rss_bytes: e.anon_rss_bytes,
        cgroup: e.cgroup.as_deref().map(text),
        workload: e.workload.as_ref().map(|w| Workload {
            kind: match w.kind {
                Kindred::Slurm => WorkloadKind::Slurm,
                Kindred::Pod => WorkloadKind::Pod,
                Kindred::Unit => WorkloadKind::Unit,
                Kindred::Container => WorkloadKind::Container,
                Kindred::Job => WorkloadKind::Job,
            },
            id: Some(text(&w.id)),
            name: w.name.as_deref().map(text),
            namespace: w.namespace.as_deref().map(text),
        }),
        sources: e.sources.iter().map(|s| LogLine { path: text(&s.path), line: Some(s.line) }).collect(),
        time_source: Some(e.time_kind.name().to_string()),
        time_basis: Some(e.time_source.to_string()),
        at_or_after: e.at_or_after,
        boot_seconds: e.boot_nanos.map(|n| n as f64 / 1e9),
        told_by: e.told_by.map(|t| t.name().to_string()),
        writer: e.writer.as_deref().map(text),
        limit_cgroup: e.limit_cgroup.as_deref().map(text),
        limit_bytes: e.limit_bytes,
        usage_bytes: e.usage_bytes,
        occurrences: e.occurrences,
        path: e.sources.first().map(|s| text(&s.path)),
        line: e.sources.first().map(|s| s.line),
    }
}

/// The cgroup whose limit a kill was at.
fn cgroup_limit(e: &OomEvent) -> Option<CgroupLimit> {
    let name = e.limit_cgroup.as_deref().or(e.cgroup.as_deref()).filter(|_| e.kind == Kind::Cgroup)?;
    Some(CgroupLimit { name: text(name), limit_bytes: e.limit_bytes })
}

/// The job of a batch scheduler that a killed process belonged to.
fn batch_job(e: &OomEvent) -> Option<String> {
    e.workload.as_ref().filter(|w| matches!(w.kind, Kindred::Slurm | Kindred::Job)).map(|w| text(&w.id))
}

fn incident(m: &Material<'_>, i: &Incident) -> IncidentOut {
    IncidentOut {
        id: i.id.clone(),
        kind: i.kind,
        scope: i.scope,
        verdict: i.verdict,
        start: Some(i.start),
        end: Some(i.end),
        hosts: i
            .hosts
            .iter()
            .map(|h| {
                let trigger = h.trigger.as_ref().and_then(|t| m.findings.get(t.finding));
                // Where neither a kill nor a failure was seen there is no lag to tell.
                let ended = h.event.is_some() || h.died.is_some();
                let timed = h.trigger.as_ref().filter(|t| ended || t.lag > 0.0);
                IncidentHost {
                    host: text(&h.host),
                    address: h.address.map(|a| a.to_string()),
                    oom_event: h.event.and_then(|e| m.events.get(e)).map(|e| e.id.clone()),
                    trigger: trigger.map(|f| f.id.clone()),
                    lag_seconds: timed.map(|t| round(t.lag)),
                    lag_uncertainty_seconds: timed.map(|t| t.lag_uncertainty),
                    listener_died_at: h.died,
                    verdict: h.verdict,
                    reasons: h.reasons.iter().map(|r| clean(r.as_bytes(), 400)).collect(),
                    coverage: h.coverage,
                    trigger_packet: trigger.and_then(|f| f.packet).map(|p| sighting(m, p)),
                    declared_bytes: trigger.and_then(|f| f.declared.as_ref()).and_then(|d| d.bytes),
                    cgroup: h.event.and_then(|e| m.events.get(e)).and_then(cgroup_limit),
                    acknowledged: trigger.and_then(|f| f.acknowledged),
                    job: h.event.and_then(|e| m.events.get(e)).and_then(batch_job),
                }
            })
            .collect(),
        source: i.source.map(|a| IncidentSource {
            address: a.to_string(),
            tool: i.tool.map(str::to_string),
            label: label(m, a),
            may_be_nat: m.nat.contains(&a),
        }),
        cause: i.cause,
        chance: i.chance.as_ref().map(|c| Chance {
            expected_per_year: c.expected_per_year,
            window_seconds: Some(c.window),
            method: Some(match c.expected_per_year {
                Some(e) => format!("{} ({})", in_words(e), c.method),
                None => c.method.clone(),
            }),
        }),
        survivors: i
            .survivors
            .iter()
            .map(|s| Survivor {
                host: text(&s.host),
                address: Some(s.address.to_string()),
                listener: Some(listener_id(s.listener)),
                reason: clean(s.reason.as_bytes(), 400),
            })
            .collect(),
        summary: clean(i.summary.as_bytes(), 2000),
        settled_by: i.settled_by.iter().map(|s| clean(s.as_bytes(), 400)).collect(),
    }
}

/// To nanoseconds: binary fractions of a difference of two clocks are no figures.
fn round(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

/// Flows that the note of bytes left out names.
const NAMED_FLOWS: usize = 5;

/// Names the flows to listeners of which captured bytes are in no stream.
fn left_out_of_streams(m: &Material<'_>) -> Option<String> {
    let listeners: BTreeSet<Endpoint> = m.listeners.iter().map(|l| l.endpoint).collect();
    let mut all: Vec<String> = Vec::new();
    for o in m.sets.iter().flat_map(|s| &s.seen.flows).filter(|o| listeners.contains(&o.server())) {
        let ends = [(o.client(), o.server()), (o.server(), o.client())];
        for (c, (from, to)) in o.counters.iter().zip(ends) {
            all.extend(c.left_out().map(|left| format!("{from} > {to}: {left}")));
        }
    }
    all.sort();
    all.dedup();
    let more = all.len().saturating_sub(NAMED_FLOWS);
    all.truncate(NAMED_FLOWS);
    let more = if more > 0 { format!("; and {more} more (streams lists them)") } else { String::new() };
    (!all.is_empty()).then(|| format!("Captured bytes that no server or client read: {}{more}.", all.join("; ")))
}

fn totals(m: &Material<'_>) -> Totals {
    let mut t = Totals::default();
    for set in m.sets {
        let c = &set.seen.counters;
        t.packets += c.packets;
        t.flows += set.seen.records.len() as u64;
        t.gaps += set.seen.flows.iter().map(|f| f.gaps).sum::<u64>();
        t.overlap_conflicts += set.seen.flows.iter().map(|f| f.overlap_count).sum::<u64>();
        for c in set.seen.flows.iter().flat_map(|f| &f.counters) {
            t.out_of_window += c.out_of_window;
            t.before_start += c.before_start;
            t.given_up += c.given_up;
            t.refused += c.refused;
            t.urgent += c.urgent_bytes;
        }
        t.evicted_flows += c.evicted_flows;
        t.evicted_bytes += c.evicted_bytes;
        t.bad_checksums += c.bad_checksums;
        t.duplicates += c.duplicates;
        for (reason, n) in &set.seen.skipped {
            *t.skipped.entry(reason.clone()).or_default() += n;
        }
    }
    t.bytes = m.captures.iter().filter_map(|(_, r, _)| r.summary.as_ref()).map(|s| s.bytes).sum();
    t
}
