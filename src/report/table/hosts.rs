//! One incident: its hosts, why each verdict, who survived.

use std::collections::HashMap;

use super::page::{Page, hard, t, verdict};
use super::verdict::headline;
use crate::report::escape::clean;
use crate::report::model::{
    CoverageLevel, Finding, Incident, IncidentKind, OomEvent, OomKind, Report, Severity, Verdict,
};
use crate::report::size;
use crate::report::view::{self, Part, notable};

/// Hosts whose reasons are spelled out unless verbose.
const REASONED: usize = 12;

/// Everything about one incident; `at` is its place, from 0.
pub(super) fn incident(page: &mut Page, report: &Report, incident: &Incident, at: usize) {
    if report.incidents.len() > 1 {
        page.heading(&format!("Incident {} of {}", at + 1, report.incidents.len()));
        page.hang(&headline(report, incident), 0, 2);
    }
    page.gap();
    if !incident.summary.is_empty() {
        page.paragraph(&t(&incident.summary));
        page.gap();
    }
    if !incident.hosts.is_empty() {
        let parts = view::parts(report, incident);
        let rows: Vec<_> = parts.iter().map(|part| row(page, report, incident.kind, part)).collect();
        let end = incident.kind.failure();
        let narrow = format!("{end}, lag");
        let header: &[&str] = match page.narrow() {
            true => &["Host", "Trigger", "Declared", &narrow],
            false => &["Host", "Trigger", "Declared", end, "Lag", "Verdict"],
        };
        page.table(header, &rows, true);
    }
    reasons(page, incident);
    unexplained(page, incident);
    survivors(page, incident);
    odds(page, incident);
}

fn row(page: &Page, report: &Report, kind: IncidentKind, part: &Part<'_>) -> Vec<String> {
    let mut name = clean(part.host.host.as_bytes(), 24);
    name.extend(part.address().map(|a| format!("\n{a}")));
    let lag = part
        .lag()
        .map_or("-".to_string(), |(lag, sure)| hard(&lag) + &sure.map_or(String::new(), |u| format!("\n{}", hard(&u))));
    let trigger = part.trigger.map_or("none found".to_string(), |f| {
        let time = f.time.map(|time| hard(&page.times.short(time)));
        [time, super::evidence::place(report, f, page.name_width()), part.probe()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n")
    });
    let declared = declared_cell(part.trigger, part.event);
    let kill = kill_cell(page, kind, part);
    let verdict = verdict(part.host.verdict);
    if page.narrow() {
        vec![format!("{name}\n{verdict}"), trigger, declared, format!("{kill}\nlag {lag}")]
    } else {
        vec![name, trigger, declared, kill, lag, verdict]
    }
}

/// The claim, and how the killed process's size compares with it.
fn declared_cell(trigger: Option<&Finding>, event: Option<&OomEvent>) -> String {
    let declared = trigger.and_then(|f| f.declared.as_ref());
    let claim = declared.and_then(|d| d.bytes);
    let mut lines = Vec::new();
    if let Some(query) = trigger.and_then(|f| f.query.as_deref()) {
        let field = declared.and_then(|d| d.field.as_deref()).unwrap_or("");
        lines.push(clean(format!("{query} {field}").trim().as_bytes(), 40));
    }
    if let Some(bytes) = claim {
        lines.push(hard(&format!("{} B", size::grouped(bytes))));
        lines.push(hard(&size::readings(bytes)));
    }
    if let Some(entries) = declared.and_then(|d| d.count) {
        lines.push(hard(&format!("{} entries", size::grouped(entries))));
    }
    if let Some(vm) = event.and_then(|e| e.total_vm_bytes) {
        lines.push("total-vm".to_string());
        lines.push(hard(&size::readings(vm)));
        if let Some(claim) = claim.filter(|claim| *claim > 0) {
            lines.push(hard(&compared(vm, claim)));
        }
    }
    if lines.is_empty() { "-".to_string() } else { lines.join("\n") }
}

/// `= claim + 1.03 GB`, `= 0.3 % of claim`.
fn compared(vm: u64, claim: u64) -> String {
    let share = vm as f64 / claim as f64 * 100.0;
    match vm.checked_sub(claim) {
        Some(more) if share < 1000.0 => {
            let more = size::readings(more);
            format!("= claim + {}", more.split(',').next().unwrap_or_default())
        }
        _ if share >= 1000.0 => format!("= {:.0} times the claim", share / 100.0),
        _ => format!("= {share:.1} % of claim"),
    }
}

fn kill_cell(page: &Page, kind: IncidentKind, part: &Part<'_>) -> String {
    let mut lines: Vec<String> = part.killed_at(&page.times, 0.0).iter().map(|time| hard(time)).collect();
    if let Some(event) = part.event {
        lines.extend(part.killed().and_then(|(_, within)| notable(within)).map(|u| hard(&u)));
        let process = event.process.as_deref().map(|p| clean(p.as_bytes(), 16));
        let pid = event.pid.map(|pid| format!("pid{}{pid}", super::page::HARD_SPACE));
        let who = [process, pid].into_iter().flatten().collect::<Vec<_>>().join(" ");
        lines.extend(Some(who).filter(|who| !who.is_empty()));
        if event.kind != OomKind::Host {
            lines.push(format!("({})", event.kind));
        }
    } else if kind == IncidentKind::Oom {
        lines.push("-".to_string());
    }
    match part.failed {
        Some(failed) => lines.push(format!("{}\n{}", kind.gone(), hard(&page.times.short(failed)))),
        None if lines.is_empty() && kind == IncidentKind::NcclInit => lines.push("a rank waits\nor is refused".into()),
        None if lines.is_empty() => lines.push("-".to_string()),
        None => {}
    }
    lines.join("\n")
}

/// Why each explained host's verdict; hosts with the same reasons are said together.
fn reasons(page: &mut Page, incident: &Incident) {
    let mut groups: Vec<(Verdict, &[String], Vec<&str>)> = Vec::new();
    let mut places = HashMap::new();
    for host in incident.hosts.iter().filter(|h| h.verdict != Verdict::Unexplained && !h.reasons.is_empty()) {
        let place = *places.entry((host.verdict, &host.reasons)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, _, hosts)) => hosts.push(&host.host),
            None => groups.push((host.verdict, &host.reasons, vec![&host.host])),
        }
    }
    if groups.is_empty() {
        return;
    }
    page.heading("Why");
    for (verdict, reasons, hosts) in groups.iter().take(page.at_most(REASONED)) {
        page.hang(&format!("{} ({verdict})", names(hosts)), 2, 4);
        for reason in *reasons {
            page.bullet(2, &t(reason));
        }
    }
    page.rest(groups.len().saturating_sub(page.at_most(REASONED)), "more host", "more hosts", 2);
}

/// Names, the first dozen of them.
fn names(hosts: &[&str]) -> String {
    let mut text = hosts.iter().take(12).map(|host| clean(host.as_bytes(), 40)).collect::<Vec<_>>().join(", ");
    if hosts.len() > 12 {
        text.push_str(&format!(" and {} more", hosts.len() - 12));
    }
    text
}

/// Hosts without an explanation are always named, with what was watched of them; those alike are said together.
fn unexplained(page: &mut Page, incident: &Incident) {
    let mut groups: Vec<(CoverageLevel, &[String], Vec<String>)> = Vec::new();
    let mut places = HashMap::new();
    for host in incident.hosts.iter().filter(|h| h.verdict == Verdict::Unexplained) {
        let name = clean(host.host.as_bytes(), 60);
        let place = *places.entry((host.coverage, &host.reasons)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, _, names)) => names.push(name),
            None => groups.push((host.coverage, &host.reasons, vec![name])),
        }
    }
    if groups.is_empty() {
        return;
    }
    page.heading("Not explained");
    for (coverage, reasons, names) in groups {
        let watched = match coverage {
            CoverageLevel::NotObserved => "not observed: no capture holds the traffic before the kill",
            CoverageLevel::Partial => "observed in part: what is missing may hold the trigger",
            CoverageLevel::Observed => "observed, and nothing that explains the kill was seen",
        };
        page.bullet(1, &format!("{}: {watched}", names.join(", ")));
        for reason in reasons {
            page.bullet(2, &t(reason));
        }
    }
}

fn survivors(page: &mut Page, incident: &Incident) {
    if incident.survivors.is_empty() {
        return;
    }
    page.heading("Got the same and lived");
    for survivor in incident.survivors.iter().take(page.at_most(20)) {
        let address = survivor.address.as_deref().filter(|a| *a != survivor.host);
        let address = address.map_or(String::new(), |a| format!(" ({})", clean(a.as_bytes(), 45)));
        page.bullet(1, &format!("{}{address}: {}", clean(survivor.host.as_bytes(), 60), t(&survivor.reason)));
    }
    page.rest(incident.survivors.len().saturating_sub(page.at_most(20)), "more host", "more hosts", 2);
}

fn odds(page: &mut Page, incident: &Incident) {
    if incident.chance.is_none() && incident.settled_by.is_empty() {
        return;
    }
    page.gap();
    page.hang(&view::chance(incident).unwrap_or_default(), 0, 2);
    for flag in &incident.settled_by {
        page.hang(&format!("Would settle it: {}", t(flag)), 0, 2);
    }
}

/// What to do, each thing once: the remedies of the triggers, then of other findings at warning or above.
pub(super) fn remedies(page: &mut Page, report: &Report) {
    let triggers = report.incidents.iter().flat_map(|incident| view::triggers(report, incident));
    let remedies = view::remedies(report, triggers, view::by_severity(report, Severity::Warning));
    if remedies.is_empty() {
        return;
    }
    page.heading("To do");
    for remedy in remedies.iter().take(page.at_most(6)) {
        page.bullet(1, &t(remedy));
    }
    page.rest(remedies.len().saturating_sub(page.at_most(6)), "more", "more", 2);
}
