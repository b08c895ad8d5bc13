//! What else was seen: kills outside incidents, listeners, scans, jobs, communicators, clocks.

use super::evidence::{dialect_words, endpoint};
use super::page::{Ink, Page, count, hard, ink};
use crate::report::escape::clean;
use crate::report::liveness_lines;
use crate::report::model::{Listener, OomEvent, Protocol, Report, Scan};
use crate::report::size;
use crate::report::view::{self, lone_kills, notable};

/// OOM events that no incident holds.
pub(super) fn oom_events(page: &mut Page, report: &Report) {
    let events = lone_kills(report);
    if events.is_empty() {
        return;
    }
    page.heading("OOM events outside incidents");
    let rows: Vec<_> = events.iter().take(page.at_most(20)).map(|event| oom_row(page, event)).collect();
    page.table(&["Host, time", "Process, killed by", "Size", "Log"], &rows, true);
    rest(page, events.len(), rows.len());
}

fn oom_row(page: &Page, event: &OomEvent) -> Vec<String> {
    let mut time = event
        .time
        .map_or("unknown".to_string(), |time| hard(&page.times.within(time, event.uncertainty_seconds.unwrap_or(0.0))));
    if let Some(u) = event.uncertainty_seconds.and_then(notable) {
        time.push_str(&format!("\n{}", hard(&u)));
    }
    let mut process = event.process.as_deref().map_or("-".to_string(), |p| clean(p.as_bytes(), 20));
    process.push_str(&event.pid.map_or(String::new(), |pid| format!(" {pid}")));
    let mut sizes = Vec::new();
    sizes.extend(event.total_vm_bytes.map(|n| hard(&format!("vm {}", size::readings(n)))));
    sizes.extend(event.anon_rss_bytes.map(|n| hard(&format!("anon {}", size::readings(n)))));
    let log = event.sources.first().map_or("-".to_string(), |source| {
        let name = source.path.rsplit('/').next().unwrap_or_default();
        let line = source.line.map_or(String::new(), |line| format!(":{line}"));
        format!("{}{line}", clean(name.as_bytes(), 30))
    });
    let host = event.host.as_deref().map_or("unknown".to_string(), |h| clean(h.as_bytes(), 30));
    vec![format!("{host}\n{time}"), format!("{process}\n({})", event.kind), sizes.join("\n"), log]
}

/// Listeners that speak something known, or that died, or that need advice.
pub(super) fn listeners(page: &mut Page, report: &Report) {
    let matters = |l: &&Listener| l.protocol != Protocol::Unknown || l.died_at.is_some() || l.advice.is_some();
    let mut shown: Vec<_> = report.listeners.iter().filter(matters).collect();
    let others = report.listeners.len() - shown.len();
    if report.listeners.is_empty() {
        return;
    }
    shown.sort_by_key(|l| l.died_at.is_none());
    page.heading("Listeners");
    if !shown.is_empty() {
        let rows: Vec<_> = shown.iter().take(page.at_most(20)).map(|listener| listener_row(page, listener)).collect();
        let header: &[&str] = match page.narrow() {
            true => &["Listener", "Speaks", "Advice"],
            false => &["Listener", "Speaks", "Validates", "Died at", "Advice"],
        };
        page.table(header, &rows, true);
        rest(page, shown.len(), rows.len());
    }
    if others > 0 {
        let others = count(others, "other listener speaks", "other listeners speak");
        page.paragraph(&format!("{others} nothing that is known here."));
    }
}

fn listener_row(page: &Page, listener: &Listener) -> Vec<String> {
    let mut name = endpoint(&listener.address, Some(listener.port));
    if let Some(host) = &listener.host {
        name.push_str(&format!("\n({})", clean(host.as_bytes(), 30)));
    }
    let mut speaks = vec![match listener.role {
        Some(role) => format!("{} {role}", listener.protocol),
        None => listener.protocol.to_string(),
    }];
    match (&listener.dialect, listener.dialect_candidates.as_slice()) {
        (Some(dialect), _) => speaks.push(dialect_words(dialect)),
        (None, []) => {}
        (None, candidates) => {
            let names: Vec<_> = candidates.iter().take(8).map(|c| clean(c.as_bytes(), 20)).collect();
            speaks.push(format!("dialect unknown: {}", names.join(", ")));
        }
    }
    speaks.extend(listener.version.as_deref().map(|v| clean(v.as_bytes(), 60)));
    speaks.extend(listener.backend.as_deref().map(|b| clean(b.as_bytes(), 20)));
    let validates = match listener.validates {
        Some(true) => "yes".to_string(),
        Some(false) => ink(Ink::Yellow, "no"),
        None => "unknown".to_string(),
    };
    let died = listener.died_at.map_or("-".to_string(), |time| ink(Ink::Red, &hard(&page.times.short(time))));
    let advice = listener.advice.as_deref().map_or("-".to_string(), |a| clean(a.as_bytes(), 300));
    if page.narrow() {
        speaks.push(format!("validates: {validates}"));
        let gone = if listener.died_at.is_some() { format!("\ndied at\n{died}") } else { String::new() };
        return vec![format!("{name}{gone}"), speaks.join("\n"), advice];
    }
    vec![name, speaks.join("\n"), validates, died, advice]
}

/// Scans.
pub(super) fn scans(page: &mut Page, report: &Report) {
    if report.scans.is_empty() {
        return;
    }
    page.heading("Scans");
    let rows: Vec<_> = report.scans.iter().take(page.at_most(20)).map(|scan| scan_row(page, scan)).collect();
    page.table(&["Source", "Tool", "Reached", "From, to"], &rows, true);
    rest(page, report.scans.len(), rows.len());
}

fn scan_row(page: &Page, scan: &Scan) -> Vec<String> {
    let mut source = clean(scan.source.address.as_bytes(), 45);
    source.push_str(&scan.source.label.as_deref().map_or(String::new(), |l| format!("\n{}", clean(l.as_bytes(), 40))));
    if scan.source.may_be_nat {
        source.push_str("\n(may be a NAT)");
    }
    let tool = [&scan.tool, &scan.profile].into_iter().flatten().map(|name| clean(name.as_bytes(), 40));
    let tool = tool.collect::<Vec<_>>().join(", ");
    let many = |n: u64, one, many| count(usize::try_from(n).unwrap_or(usize::MAX), one, many);
    let reached = format!(
        "{}, {}\n{}\n{}",
        many(scan.hosts, "host", "hosts"),
        many(scan.ports, "port", "ports"),
        many(scan.connections, "connection", "connections"),
        count(scan.findings.len(), "finding", "findings")
    );
    let mut span: Vec<_> =
        [scan.first, scan.last].into_iter().flatten().map(|time| hard(&page.times.short(time))).collect();
    if let (Some(first), Some(last)) = (scan.first, scan.last) {
        span.push(format!("({})", hard(&size::span(last.seconds_since(first)))));
    }
    let tool = if tool.is_empty() { "unknown".to_string() } else { tool };
    vec![source, tool, reached, span.join("\n")]
}

/// Jobs, communicators and clocks, a line each.
pub(super) fn groups(page: &mut Page, report: &Report) {
    if !report.jobs.is_empty() {
        page.heading("Jobs");
    }
    for job in report.jobs.iter().take(page.at_most(12)) {
        let run = job.run_id.as_deref().map_or(String::new(), |id| format!(" run {}", clean(id.as_bytes(), 60)));
        let world = job.world_size.map_or(String::new(), |n| format!(", world size {}", size::grouped(n)));
        let store = job.listener.as_deref().and_then(|id| report.listeners.iter().find(|l| l.id == id));
        let store = store.map_or(String::new(), |l| format!(", store {}", endpoint(&l.address, Some(l.port))));
        let mut members: Vec<_> = job
            .participants
            .iter()
            .take(8)
            .filter_map(|p| p.host.as_deref().or(p.address.as_deref()))
            .map(|name| clean(name.as_bytes(), 40))
            .collect();
        members.dedup();
        let people = count(job.participants.len(), "participant", "participants");
        let members = if members.is_empty() { String::new() } else { format!(" ({})", members.join(", ")) };
        page.bullet(1, &format!("{}{run}{world}{store}, {people}{members}", job.protocol));
        let troubles = liveness_lines::troubles(report, job, &page.times);
        for line in troubles.iter().take(page.at_most(6)) {
            page.bullet(2, line);
        }
        rest(page, troubles.len(), page.at_most(6));
    }
    rest(page, report.jobs.len(), page.at_most(12));
    if !report.communicators.is_empty() {
        page.heading("NCCL communicators");
    }
    let mut communicators: Vec<_> = report.communicators.iter().collect();
    communicators.sort_by_key(|c| c.complete);
    for communicator in communicators.iter().take(page.at_most(12)) {
        let magic = communicator.magic.as_deref().map_or("id unknown".to_string(), |m| clean(m.as_bytes(), 40));
        let mut roots: Vec<&str> = communicator.roots.iter().map(String::as_str).collect();
        if roots.is_empty() {
            roots.extend(communicator.root.as_deref());
        }
        let shown: Vec<_> = roots.iter().take(4).map(|r| clean(r.as_bytes(), 60)).collect();
        let root = match shown.len() {
            0 => String::new(),
            n => format!(", root{} {}", if n > 1 { "s" } else { "" }, shown.join(", ")),
        };
        let of = communicator.nranks.map_or("an unknown number of".to_string(), size::grouped);
        let state = if communicator.complete { "complete".to_string() } else { ink(Ink::Yellow, "incomplete") };
        page.bullet(1, &format!("{magic}{root}: {} of {of} ranks checked in, {state}", communicator.ranks.len()));
    }
    rest(page, communicators.len(), page.at_most(12));
    if !report.clocks.is_empty() {
        page.heading("Clocks");
    }
    for clock in report.clocks.iter().take(page.at_most(12)) {
        let (host, text) = view::clock(clock);
        page.bullet(1, &format!("{host}: {text}"));
    }
    rest(page, report.clocks.len(), page.at_most(12));
}

fn rest(page: &mut Page, all: usize, shown: usize) {
    page.rest(all.saturating_sub(shown), "more", "more", 0);
}
