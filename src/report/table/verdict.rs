//! The first lines: what happened, how sure that is, and what was watched.

use std::cmp::Reverse;

use super::page::{Ink, Page, count, ink, t};
use crate::report::liveness_lines;
use crate::report::model::{Cause, CoverageLevel, Incident, IncidentKind, Protocol, Report, Severity, Verdict};
use crate::report::size::grouped;
use crate::report::view::{self, capital, triggers};

/// Incidents, the surest first, then in order of time.
pub(crate) fn by_weight(report: &Report) -> Vec<&Incident> {
    let mut incidents: Vec<&Incident> = report.incidents.iter().collect();
    incidents.sort_by_key(|i| (Reverse(i.verdict), Reverse(i.hosts.len()), i.start));
    incidents
}

/// The verdict on an incident in one sentence, without a full stop:
/// `CONFIRMED: one synchronized failure of 3 hosts, caused by a scan from 192.0.2.250 (nmap TerminalServerCookie)`.
///
/// Names from the wire are cleaned.
pub fn headline(report: &Report, incident: &Incident) -> String {
    let verdict = incident.verdict.text().to_uppercase();
    let text = format!("{verdict}: {}, {}", what(incident), cause(report, incident));
    text.replace(super::page::HARD_SPACE, " ")
}

fn what(incident: &Incident) -> String {
    let names = incident.host_names();
    let hosts = match names.as_slice() {
        [] => "no named host".to_string(),
        [one] => t(one).into_owned(),
        [one, two] => format!("2 hosts ({}, {})", t(one), t(two)),
        many => count(many.len(), "host", "hosts"),
    };
    let one_host = names.len() <= 1;
    match incident.kind {
        IncidentKind::Oom if incident.hosts.len() <= 1 => format!("an OOM kill on {hosts}"),
        IncidentKind::Oom if incident.scope == crate::report::model::Scope::Synchronized => {
            format!("one synchronized failure of {hosts}")
        }
        IncidentKind::Oom => format!("OOM kills on {hosts}"),
        IncidentKind::NcclInit => format!("an NCCL communicator that never came up on {hosts}"),
        IncidentKind::NcclSplit => format!("an NCCL communicator split that failed on {hosts}"),
        IncidentKind::GlooGroup => format!("a Gloo process group that failed on {hosts}"),
        IncidentKind::ListenerDeath if one_host => format!("the death of a listener on {hosts}"),
        IncidentKind::ListenerDeath => format!("the death of listeners on {hosts}"),
    }
}

/// What caused it, as far as that is known: `probably caused by a scan from 192.0.2.250 (nmap)`. Names are cleaned.
pub fn cause(report: &Report, incident: &Incident) -> String {
    let triggers = triggers(report, incident);
    if triggers.is_empty() && incident.source.is_none() {
        let watched = incident.hosts.iter().filter(|h| h.coverage == CoverageLevel::Observed).count();
        return match watched {
            0 if incident.hosts.iter().all(|h| h.coverage == CoverageLevel::NotObserved) => {
                "no capture watched it".to_string()
            }
            w if w == incident.hosts.len() => "no trigger found in the captures that watched it".to_string(),
            _ => "no trigger found in what was watched".to_string(),
        };
    }
    let how = match incident.verdict {
        Verdict::Confirmed => "caused by",
        Verdict::Probable => "probably caused by",
        Verdict::Possible => "possibly caused by",
        Verdict::Unexplained => "not explained by",
    };
    let who = match incident.cause {
        Cause::Scan => "a scan",
        Cause::VersionMismatch if matches!(incident.kind, IncidentKind::Oom | IncidentKind::ListenerDeath) => {
            "a client of another PyTorch release (no scan)"
        }
        Cause::VersionMismatch => "a client of another NCCL release (no scan)",
        Cause::ForeignClient => "a client that is none of the job's",
        Cause::LaunchMismatch => "a launch that disagrees with itself (no scan), with a rank",
        Cause::Unknown => "messages of unknown origin",
    };
    let mut text = format!("{how} {who}");
    let address = incident.source.as_ref().map(|s| s.address.as_str());
    let address = address.or_else(|| triggers.iter().find_map(|f| f.source.as_ref()).map(|s| s.address.as_str()));
    if let Some(address) = address {
        text.push_str(&format!(" from {}", t(address)));
    }
    let tool = incident.source.as_ref().and_then(|s| s.tool.as_deref());
    let stray = triggers.iter().find_map(|f| f.stray.as_ref());
    let tool = tool.or_else(|| stray.and_then(|s| s.tool.as_deref()));
    let mut probes: Vec<&str> = Vec::new();
    for probe in triggers.iter().filter_map(|f| f.stray.as_ref()?.probe.as_deref()) {
        if !probes.contains(&probe) {
            probes.push(probe);
        }
    }
    let mut names: Vec<String> = tool.into_iter().map(|tool| t(tool).into_owned()).collect();
    if let Some(probe) = probes.first() {
        names.push(t(probe).into_owned());
    }
    if probes.len() > 1 {
        names.push(format!("and {} more probes", probes.len() - 1));
    }
    let label = incident.source.as_ref().and_then(|s| s.label.as_deref()).map(|l| t(l).into_owned());
    let tool = (!names.is_empty()).then(|| names.join(" "));
    let known: Vec<String> = label.into_iter().chain(tool).collect();
    if !known.is_empty() {
        text.push_str(&format!(" ({})", known.join("; ")));
    }
    text
}

/// The verdict, the coverage, and what stands above everything else.
pub(super) fn lead(page: &mut Page, report: &Report) {
    let incidents = by_weight(report);
    match incidents.first() {
        Some(first) => {
            let line = headline(report, first);
            let colour = if first.verdict == Verdict::Unexplained { Ink::Bold } else { Ink::Red };
            page.hang(&ink(colour, &line), 0, 2);
            for other in incidents.iter().skip(1).take(page.at_most(4)) {
                page.hang(&format!("also {}", headline(report, other)), 0, 2);
            }
            let hidden = incidents.len().saturating_sub(1).saturating_sub(page.at_most(4));
            if hidden > 0 {
                page.paragraph(&format!("and {}, below", count(hidden, "more incident", "more incidents")));
            }
        }
        None => page.hang(&ink(Ink::Bold, &quiet(report)), 0, 2),
    }
    if report.incomplete {
        let text = "INCOMPLETE: reading stopped early. What stands here is true, but it is not all.";
        page.paragraph(&ink(Ink::Yellow, text));
    }
    coverage(page, report);
    if incidents.is_empty() {
        watched(page, report);
    }
    if report.totals.unread > 0 {
        let unread = count(report.totals.unread.try_into().unwrap_or(usize::MAX), "input was", "inputs were");
        page.paragraph(&format!("{unread} not read: see \"Inputs\" at the end."));
    }
    // With no incident what was watched is told at length above; the document's own note says the same.
    let said = |note: &&String| !(incidents.is_empty() && note.starts_with("No stream of a known protocol"));
    for note in report.notes.iter().filter(said) {
        page.hang(&format!("Note: {}", t(note)), 0, 2);
    }
    for job in report.jobs.iter().filter(|j| j.signs_of_life.iter().any(|s| s.first_of_job)).take(page.at_most(3)) {
        if let Some(line) = liveness_lines::first_silence(job, &page.times) {
            page.hang(&ink(Ink::Bold, &format!("{}: {line}.", capital(&liveness_lines::title(report, job)))), 0, 2);
        }
    }
    if let Some(date) = page.times.date {
        page.paragraph(&format!("Times are {}, of {date} where no date stands with them.", page.zone()));
    }
}

/// The first line when there is no incident.
pub(in crate::report) fn quiet(report: &Report) -> String {
    let at = |severity| report.findings.iter().filter(|f| f.severity == severity).count();
    match (at(Severity::Critical), at(Severity::Warning)) {
        (0, 0) if !report.oom_events.is_empty() => format!(
            "No incident: {}, nothing flagged at warning or above to explain them.",
            count(report.oom_events.len(), "OOM event", "OOM events")
        ),
        // Silence about what nobody looked at would be taken for an answer.
        (0, 0) if report.totals.unread > 0 && report.inputs.iter().all(|i| i.error.is_some()) => {
            "Nothing could be read, so nothing can be said.".to_string()
        }
        (0, 0) => "No incident, and nothing flagged at warning or above.".to_string(),
        (critical, warning) => {
            let parts: Vec<String> = [(critical, "critical"), (warning, "warning")]
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, word)| format!("{} {word}", grouped(*n as u64)))
                .collect();
            let findings = if critical + warning == 1 { "finding" } else { "findings" };
            format!("No incident, but {} {findings}: see \"Findings\".", parts.join(" and "))
        }
    }
}

fn coverage(page: &mut Page, report: &Report) {
    let coverage = &report.coverage;
    if coverage.oom_hosts == 0 {
        return;
    }
    page.paragraph(&ink(Ink::Bold, &format!("{}.", view::coverage(report))));
    for host in coverage.hosts.iter().filter(|h| h.coverage != CoverageLevel::Observed).take(page.at_most(12)) {
        page.bullet(1, &format!("{}: {}", t(&host.host), view::watched(host, &page.times)));
    }
    let others = coverage.hosts.iter().filter(|h| h.coverage != CoverageLevel::Observed).count();
    page.rest(others.saturating_sub(page.at_most(12)), "more host", "more hosts", 2);
}

/// What a "no" rests on.
pub(super) fn watched(page: &mut Page, report: &Report) {
    let of_kind = |kind| report.inputs.iter().filter(|i| i.kind == Some(kind) && i.error.is_none()).count();
    let logs = of_kind(crate::report::model::InputKind::Log);
    let mut text = match logs {
        0 => "No log was given, so no OOM kill could be seen".to_string(),
        logs => {
            format!("{} in {}", count(report.oom_events.len(), "OOM event", "OOM events"), count(logs, "log", "logs"))
        }
    };
    let totals = &report.totals;
    text.push_str(&format!(
        "; {}, {}, {}",
        count(report.captures.len(), "capture", "captures"),
        count(usize::try_from(totals.packets).unwrap_or(usize::MAX), "packet", "packets"),
        count(usize::try_from(totals.flows).unwrap_or(usize::MAX), "TCP flow", "TCP flows")
    ));
    let first = report.captures.iter().filter_map(|c| c.first).min();
    let last = report.captures.iter().filter_map(|c| c.last).max();
    if let (Some(first), Some(last)) = (first, last) {
        text.push_str(&format!(", from {} to {}", page.times.short(first), page.times.short(last)));
    }
    text.push('.');
    page.paragraph(&text);
    let mut known: Vec<String> = Vec::new();
    for protocol in [Protocol::Tcpstore, Protocol::Nccl, Protocol::Gloo] {
        let n = report.listeners.iter().filter(|l| l.protocol == protocol).count();
        if n > 0 {
            known.push(format!("{protocol} at {}", count(n, "listener", "listeners")));
        }
    }
    if known.is_empty() && !report.findings.is_empty() {
        page.paragraph(&ink(
            Ink::Yellow,
            "No client of a store or of NCCL spoke in these captures: what was flagged is judged as if the listeners \
             at the named ports were stores, of any release.",
        ));
    } else if known.is_empty() {
        page.paragraph(&ink(
            Ink::Yellow,
            "No stream of a known protocol was seen: this says nothing about stores on ports that these captures do \
             not hold. --port names the ports of stores, --nccl-port those of NCCL roots.",
        ));
    } else {
        page.paragraph(&format!("Known protocols seen: {}.", known.join(", ")));
    }
}
