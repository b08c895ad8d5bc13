//! What table, ticket and page say alike: values joined and put into words once, whoever lays them out.
//!
//! Texts that came from a wire or a log are cleaned here; escaping for Markdown or HTML is the writer's.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::escape::{clean, clean_text};
use super::model::{
    Capture, Clock, CoverageLevel, Finding, HostCoverage, Incident, IncidentHost, OomEvent, Report, Severity, Totals,
    Verdict, Workload,
};
use super::size::{Times, Zone, bytes, grouped, span, uncertainty};
use crate::time::Timestamp;

/// What standard input is called unless it is given a name.
const STDIN: &str = "standard input";

/// One host of an incident with the finding and the kill that it names.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) host: &'a IncidentHost,
    pub(super) trigger: Option<&'a Finding>,
    pub(super) event: Option<&'a OomEvent>,
    /// When its listener was gone, or its communicator failed.
    pub(super) failed: Option<Timestamp>,
}

/// The hosts of an incident, in its order. Findings and kills are gone through once, however many hosts there are.
pub(super) fn parts<'a>(report: &'a Report, incident: &'a Incident) -> Vec<Part<'a>> {
    let triggers = triggers_by_id(report, incident);
    let events: HashMap<&str, &OomEvent> = report.oom_events.iter().map(|e| (e.id.as_str(), e)).collect();
    let part = |host: &'a IncidentHost| {
        let trigger = host.trigger.as_deref().and_then(|id| triggers.get(id)).copied();
        let event = host.oom_event.as_deref().and_then(|id| events.get(id)).copied();
        Part { host, trigger, event, failed: host.failed(incident.kind, trigger) }
    };
    incident.hosts.iter().map(part).collect()
}

/// The trigger of each host of an incident, in the order of its hosts, none twice.
pub(super) fn triggers<'a>(report: &'a Report, incident: &Incident) -> Vec<&'a Finding> {
    let mut found = triggers_by_id(report, incident);
    incident.hosts.iter().filter_map(|host| found.remove(host.trigger.as_deref()?)).collect()
}

fn triggers_by_id<'a>(report: &'a Report, incident: &Incident) -> HashMap<&'a str, &'a Finding> {
    let ids: HashSet<&str> = incident.hosts.iter().filter_map(|host| host.trigger.as_deref()).collect();
    let wanted = report.findings.iter().filter(|finding| ids.contains(finding.id.as_str()));
    wanted.map(|finding| (finding.id.as_str(), finding)).collect()
}

impl Part<'_> {
    /// Its address, where its name is another word.
    pub(super) fn address(&self) -> Option<String> {
        let address = self.host.address.as_deref().filter(|a| *a != self.host.host);
        address.map(|a| clean(a.as_bytes(), 45))
    }

    /// nmap's name for what set it off.
    pub(super) fn probe(&self) -> Option<String> {
        let probe = self.trigger.and_then(|f| f.stray.as_ref()).and_then(|s| s.probe.as_deref());
        probe.map(|p| clean(p.as_bytes(), 24))
    }

    /// The time of its kill, with no more digits than are sure, or than an uncertainty of `least` seconds allows; `None`
    /// where no log tells of a kill.
    pub(super) fn killed_at(&self, times: &Times, least: f64) -> Option<String> {
        self.event?;
        let killed = self.killed().map(|(time, within)| times.within(time, within.max(least)));
        Some(killed.unwrap_or("time unknown".to_string()))
    }

    /// The time of its kill and its uncertainty in seconds: that of the log, or, where this is the finer, what trigger and
    /// lag say of it.
    pub(super) fn killed(&self) -> Option<(Timestamp, f64)> {
        let event = self.event?;
        let (time, within) = (event.time?, event.uncertainty_seconds.unwrap_or(0.0));
        let lag =
            self.host.lag_seconds.zip(self.host.lag_uncertainty_seconds).filter(|(_, u)| (COARSE..within).contains(u));
        let by_lag = self.trigger.and_then(|f| f.time).zip(lag);
        Some(by_lag.map_or((time, within), |(t, (lag, u))| (t.plus_nanos((lag * 1e9) as i64), u)))
    }

    /// The time from trigger to kill, and its uncertainty where that is a millisecond or more.
    pub(super) fn lag(&self) -> Option<(String, Option<String>)> {
        let within = self.host.lag_uncertainty_seconds;
        // No digit that the uncertainty swallows.
        let text = |lag: f64| if lag < 1.0 && within >= Some(COARSE) { format!("{lag:.1} s") } else { span(lag) };
        self.host.lag_seconds.map(|lag| (text(lag), within.and_then(notable)))
    }
}

/// An uncertainty from which on a lag is told as a range, in seconds.
const COARSE: f64 = 0.05;

/// An uncertainty that matters beside times of several seconds: a millisecond or more.
pub(super) fn notable(seconds: f64) -> Option<String> {
    (seconds.is_nan() || seconds.abs() >= 0.001).then(|| uncertainty(seconds))
}

/// Reasons that all hosts of an incident of several hosts have.
pub(super) fn shared_reasons(incident: &Incident) -> Vec<&String> {
    match incident.hosts.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => {
            first.reasons.iter().filter(|r| rest.iter().all(|h| h.reasons.contains(r))).collect()
        }
        _ => Vec::new(),
    }
}

/// What to do, each thing once: the remedies of `triggers`, then of `others`. A kill that a log tells of needs no
/// further look for it, so the remedy of a dead listener is left out where every host's kill is known.
pub(super) fn remedies<'a>(
    report: &'a Report,
    triggers: impl IntoIterator<Item = &'a Finding>,
    others: impl IntoIterator<Item = &'a Finding>,
) -> Vec<&'a str> {
    let mut hosts = report.incidents.iter().flat_map(|i| &i.hosts);
    let all_told = !report.incidents.is_empty() && hosts.all(|h| h.oom_event.is_some());
    let mut said = BTreeSet::new();
    let all = triggers.into_iter().chain(others).filter(|f| !(all_told && f.rule == "listener-died"));
    all.filter_map(|f| f.remedy.as_deref()).filter(|r| !r.is_empty() && said.insert(*r)).collect()
}

/// How likely the incident is by accident, in a sentence; `None` where nobody asked.
pub(super) fn chance(incident: &Incident) -> Option<String> {
    let chance = incident.chance.as_ref()?;
    let method = chance.method.as_deref().map(clean_text).unwrap_or_default();
    Some(match chance.expected_per_year.filter(|n| n.is_finite() && *n >= 0.0) {
        Some(n) => format!("Kills so close together by accident: {} ({method}).", odd(n)),
        None => format!("How likely the times fit by accident is {method}."),
    })
}

/// A rate a year in words.
fn odd(n: f64) -> String {
    if n >= 10.0 {
        return format!("about {n:.0} such coincidences to be expected in a year");
    }
    if n >= 0.1 {
        return format!("about {n:.1} such coincidences to be expected in a year");
    }
    let years = (1.0 / n).round();
    if years < 1e9 {
        format!("about one such coincidence to be expected in {} years", hard(&grouped(years as u64)))
    } else {
        "less than one such coincidence to be expected in a billion years".to_string()
    }
}

/// Text at whose spaces no line is broken: numbers with their units.
fn hard(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// Findings at `least` or above, the worst first, then in order of time.
pub(super) fn by_severity(report: &Report, least: Severity) -> Vec<&Finding> {
    let mut all: Vec<&Finding> = report.findings.iter().filter(|f| f.severity >= least).collect();
    all.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.time.cmp(&b.time)).then(a.id.cmp(&b.id)));
    all
}

/// Instants in `zone`, with the date of the report's first event going without saying.
pub(super) fn times(report: &Report, zone: Zone) -> Times {
    let first = report.incidents.iter().filter_map(|i| i.start.or(i.end)).min();
    let first = first.or_else(|| report.oom_events.iter().filter_map(|e| e.time).min());
    let first = first.or_else(|| report.findings.iter().filter_map(|f| f.time).min());
    let first = first.or_else(|| report.captures.iter().filter_map(|c| c.first).min());
    Times { zone, date: first.map(|time| zone.date(time)) }
}

/// How far a host was watched, beside its name: `observed in part, captures hold 11:19:59Z to 11:20:40Z (…)`.
pub(super) fn watched(host: &HostCoverage, times: &Times) -> String {
    let level = if host.coverage == CoverageLevel::Partial { "observed in part" } else { "not observed" };
    let mut text = level.to_string();
    if let (Some(from), Some(to)) = (host.from, host.to) {
        text.push_str(&format!(", captures hold {} to {}", times.short(from), times.short(to)));
    }
    if let Some(drops) = host.drops.filter(|drops| *drops > 0) {
        text.push_str(&format!(", {} dropped while capturing", many(drops, "packet", "packets")));
    }
    if host.gaps > 0 {
        text.push_str(&format!(", {}", many(host.gaps, "gap", "gaps")));
    }
    if let Some(reason) = &host.reason {
        text.push_str(&format!(" ({})", clean_text(reason)));
    }
    text
}

/// `2 of 3 OOM hosts observed, 1 in part`, without a full stop.
pub(super) fn coverage(report: &Report) -> String {
    let c = &report.coverage;
    let mut text = format!("{} of {} OOM hosts observed", grouped(c.observed), grouped(c.oom_hosts));
    if c.partial > 0 {
        text.push_str(" throughout");
    }
    for (n, how) in [(c.partial, "in part"), (c.not_observed, "not observed")] {
        if n > 0 {
            text.push_str(&format!(", {} {how}", grouped(n)));
        }
    }
    // Under a verdict that names a cause this would puzzle: a trigger may be seen in another host's capture.
    let caused = |i: &&Incident| i.verdict >= Verdict::Probable && i.hosts.iter().any(|h| h.trigger.is_some());
    if c.observed == 0 && report.incidents.iter().any(|i| caused(&i)) {
        text.push_str(" over the whole time before their kills; the triggers were seen all the same");
    }
    text
}

/// The owner of a killed process: `ml/train-0` and its id, where that is another word.
pub(super) fn workload(w: &Workload) -> (String, Option<String>) {
    let name = w.name.as_deref().or(w.id.as_deref()).unwrap_or("unknown");
    let id = w.id.as_deref().filter(|id| *id != name).map(|id| clean_text(id).into_owned());
    let namespace = w.namespace.as_deref().map_or(String::new(), |n| format!("{}/", clean_text(n)));
    (format!("{namespace}{}", clean_text(name)), id)
}

/// `node-b: +0.000001 s ± 4 µs against node-a (packets both ways), not applied`, in two parts: host, and the rest.
pub(super) fn clock(c: &Clock) -> (String, String) {
    let offset = c.offset_seconds.map_or("offset unknown".to_string(), |s| format!("{s:+.6} s"));
    let sure = c.uncertainty_seconds.map_or(String::new(), |u| format!(" {}", uncertainty(u)));
    let measure = format!("{offset}{sure}").replace(' ', "\u{a0}");
    let against = c.against.as_deref().map_or(String::new(), |a| format!(" against {}", clean(a.as_bytes(), 40)));
    let method = c.method.as_deref().map_or(String::new(), |m| format!(" ({})", clean_text(m)));
    let applied = if c.applied { "applied" } else { "not applied" };
    (clean(c.host.as_bytes(), 40), format!("{measure}{against}{method}, {applied}"))
}

/// What the capture itself lacks: an end, bytes of packets, packets.
pub(super) fn losses(c: &Capture) -> Vec<String> {
    let mut all = Vec::new();
    if c.truncated {
        all.push("ends within a packet: it is being written, or was cut".to_string());
    }
    if c.cut_packets > 0 {
        all.push(format!("{} cut by the snaplen", many(c.cut_packets, "packet", "packets")));
    }
    let drops = c.interfaces.iter().filter_map(|i| i.drops).fold(0u64, u64::saturating_add);
    if drops > 0 {
        all.push(format!("{} dropped while capturing", many(drops, "packet", "packets")));
    }
    all
}

/// What was read and what was lost on the way, with its figures.
pub(super) fn totals(t: &Totals) -> Vec<String> {
    let mut parts = vec![many(t.packets, "packet", "packets"), bytes(t.bytes), many(t.flows, "flow", "flows")];
    for (n, one, several) in [
        (t.gaps, "gap", "gaps"),
        (t.evicted_flows, "flow evicted", "flows evicted"),
        (t.evicted_bytes, "byte evicted", "bytes evicted"),
        (t.bad_checksums, "bad checksum", "bad checksums"),
        (t.overlap_conflicts, "overlap with different bytes", "overlaps with different bytes"),
        (t.duplicates, "duplicate", "duplicates"),
        (t.unread, "unread", "unread"),
    ] {
        if n > 0 {
            parts.push(many(n, one, several));
        }
    }
    parts
}

/// `1 packet`, `1 652 packets`.
pub(super) fn many(n: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { several })
}

/// Kills that no incident holds.
pub(super) fn lone_kills(report: &Report) -> Vec<&OomEvent> {
    let told: HashSet<&str> =
        report.incidents.iter().flat_map(|i| &i.hosts).filter_map(|h| h.oom_event.as_deref()).collect();
    report.oom_events.iter().filter(|e| !told.contains(e.id.as_str())).collect()
}

/// Whether a capture can be opened again by its name; what came through standard input cannot.
pub(super) fn is_file(capture: &str) -> bool {
    ![STDIN, "-"].contains(&capture)
}

/// With a capital letter at its beginning.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}
