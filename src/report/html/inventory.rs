//! Who else was there, and what was read.

use super::markup::Html;
use crate::report::liveness_lines;
use crate::report::model::{Input, Listener, Report};
use crate::report::size::{Times, grouped, readings, span};
use crate::report::table::{dialect_words, endpoint};
use crate::report::view;

/// Rows of each table.
const ROWS: usize = 500;

/// Kills that no incident holds.
pub(super) fn oom_events(h: &mut Html, report: &Report, times: &Times) {
    let events = view::lone_kills(report);
    if events.is_empty() {
        return;
    }
    h.raw("<section><h2>OOM events outside incidents</h2>\n");
    super::section::head(h, "sortable", &["Host", "Time", "Process", "Killed by", "total-vm", "Log"]);
    for e in events.iter().take(ROWS) {
        h.raw("<tr>").leaf("td", &[], e.host.as_deref().unwrap_or("unknown"));
        let sure = e.uncertainty_seconds.unwrap_or(0.0);
        h.leaf("td", &[("class", "when")], &e.time.map_or("unknown".into(), |t| times.within(t, sure)));
        let pid = e.pid.map_or(String::new(), |p| format!(" pid {p}"));
        h.leaf("td", &[], &format!("{}{pid}", e.process.as_deref().unwrap_or("unknown")));
        h.leaf("td", &[], e.kind.text()).leaf("td", &[], &e.total_vm_bytes.map_or("–".into(), readings));
        let line = |s: &crate::report::model::LogLine| format!("{}:{}", s.path, s.line.unwrap_or(0));
        h.leaf("td", &[], &e.sources.first().map_or("–".into(), line)).raw("</tr>\n");
    }
    super::section::foot(h);
    super::section::rest(h, events.len(), ROWS, "events");
    h.raw("</section>\n");
}

/// Listeners.
pub(super) fn listeners(h: &mut Html, report: &Report, times: &Times) {
    if report.listeners.is_empty() {
        return;
    }
    h.raw("<section><h2>Listeners</h2>\n");
    super::section::head(
        h,
        "sortable",
        &["Listener", "Speaks", "Validates", "Connections", "Gone at", "Known by", "Advice"],
    );
    for l in report.listeners.iter().take(ROWS) {
        h.raw("<tr><td class=\"name\">").leaf("b", &[], &endpoint(&l.address, Some(l.port)));
        h.leaf("small", &[], l.host.as_deref().unwrap_or_default()).raw("</td><td>");
        h.text(&l.role.map_or(l.protocol.to_string(), |r| format!("{} {r}", l.protocol)));
        h.leaf("small", &[], &speaks(l)).raw("</td>");
        let validates = match l.validates {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        h.leaf("td", &[], validates);
        let key = l.connections.to_string();
        h.leaf("td", &[("class", "num"), ("data-sort", &key)], &grouped(l.connections));
        h.leaf("td", &[("class", "when")], &l.died_at.map_or("–".into(), |t| times.short(t)));
        h.leaf("td", &[], l.learned_from.as_deref().unwrap_or("–"));
        h.leaf("td", &[("class", "wide")], l.advice.as_deref().unwrap_or("–")).raw("</tr>\n");
    }
    super::section::foot(h);
    super::section::rest(h, report.listeners.len(), ROWS, "listeners");
    h.raw("</section>\n");
}

fn speaks(l: &Listener) -> String {
    let dialect = match &l.dialect {
        Some(d) => dialect_words(d),
        None if l.dialect_candidates.is_empty() => l.version.clone().unwrap_or_default(),
        None => format!("dialect unknown: {}", l.dialect_candidates.join(", ")),
    };
    [Some(dialect), l.backend.as_ref().map(|b| format!("{b} backend"))]
        .into_iter()
        .flatten()
        .filter(|s| !s.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Scans.
pub(super) fn scans(h: &mut Html, report: &Report, times: &Times) {
    if report.scans.is_empty() {
        return;
    }
    h.raw("<section><h2>Scans</h2>\n");
    super::section::head(
        h,
        "sortable",
        &["Source", "Tool", "From", "To", "Length", "Hosts", "Ports", "Connections", "Findings"],
    );
    for s in report.scans.iter().take(ROWS) {
        h.raw("<tr><td class=\"name\">").leaf("b", &[], &s.source.address);
        let nat = if s.source.may_be_nat { " (may be a NAT)" } else { "" };
        h.leaf("small", &[], &format!("{}{nat}", s.source.label.as_deref().unwrap_or_default())).raw("</td>");
        let tool = [s.tool.as_deref(), s.profile.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(", ");
        h.leaf("td", &[], &tool);
        h.leaf("td", &[("class", "when")], &s.first.map_or("–".into(), |t| times.short(t)));
        h.leaf("td", &[("class", "when")], &s.last.map_or("–".into(), |t| times.short(t)));
        let length = s.first.zip(s.last).map(|(a, b)| b.seconds_since(a));
        let key = length.map_or(String::new(), |l| l.to_string());
        h.leaf("td", &[("data-sort", &key)], &length.map_or("–".into(), span));
        for n in [s.hosts, s.ports, s.connections, s.findings.len() as u64] {
            h.leaf("td", &[("class", "num"), ("data-sort", &n.to_string())], &grouped(n));
        }
        h.raw("</tr>\n");
    }
    super::section::foot(h);
    super::section::rest(h, report.scans.len(), ROWS, "scans");
    h.raw("</section>\n");
}

/// Jobs drawn; the others stand in the list.
const FIGURES: usize = 8;

/// Jobs and communicators.
pub(super) fn jobs(h: &mut Html, report: &Report, times: &Times) {
    if report.jobs.is_empty() && report.communicators.is_empty() {
        return;
    }
    h.raw("<section><h2>Jobs and communicators</h2><ul>\n");
    for job in report.jobs.iter().take(ROWS) {
        let run = job.run_id.as_deref().map_or(String::new(), |id| format!(" run {id}"));
        let world = job.world_size.map_or(String::new(), |n| format!(", world size {n}"));
        let members: Vec<&str> =
            job.participants.iter().filter_map(|p| p.host.as_deref().or(p.address.as_deref())).take(16).collect();
        let of = job.participants.len();
        h.raw("<li>").text(&format!("{}{run}{world}, {of} participants: {}", job.protocol, members.join(", ")));
        let troubles = liveness_lines::troubles(report, job, times);
        if !troubles.is_empty() {
            h.raw("<ul>");
            for line in troubles.iter().take(ROWS) {
                h.leaf("li", &[], line);
            }
            h.raw("</ul>");
        }
        h.raw("</li>").line();
    }
    for c in report.communicators.iter().take(ROWS) {
        let of = c.nranks.map_or("an unknown number of".to_string(), grouped);
        let state = if c.complete { "complete" } else { "incomplete" };
        let root = c.root.as_deref().map_or(String::new(), |r| format!(", root {r}"));
        let magic = c.magic.as_deref().unwrap_or("id unknown");
        h.leaf("li", &[], &format!("NCCL {magic}{root}: {} of {of} ranks, {state}", c.ranks.len())).line();
    }
    h.raw("</ul>\n");
    for job in report.jobs.iter().filter(|j| !j.signs_of_life.is_empty()).take(FIGURES) {
        h.leaf("h3", &[], &format!("Who was there: {}", liveness_lines::title(report, job))).line();
        super::timeline::of_job(h, report, job, times);
    }
    h.raw("</section>\n");
}

/// Clocks.
pub(super) fn clocks(h: &mut Html, report: &Report) {
    if report.clocks.is_empty() {
        return;
    }
    h.raw("<section><h2>Clocks</h2><ul>\n");
    for c in report.clocks.iter().take(ROWS) {
        let (host, text) = view::clock(c);
        h.leaf("li", &[], &format!("{host}: {text}")).line();
    }
    h.raw("</ul></section>\n");
}

/// Every input, and the totals.
pub(super) fn inputs(h: &mut Html, report: &Report, times: &Times) {
    h.raw("<section><h2>Inputs</h2>\n");
    super::section::head(h, "sortable", &["Path", "Kind", "Host", "Holds", "From", "To", "Remarks"]);
    for input in report.inputs.iter().take(ROWS) {
        let capture = report.captures.iter().find(|c| c.path == input.path);
        h.raw("<tr>").leaf("td", &[("class", "path")], &input.path);
        let kind = input.kind.map_or("not understood", |k| k.text());
        h.raw("<td>").text(kind).leaf("small", &[], input.format.as_deref().unwrap_or_default()).raw("</td>");
        h.leaf("td", &[], input.host.as_deref().unwrap_or("–"));
        let holds = match (capture, input.lines) {
            (Some(c), _) => format!("{} packets", grouped(c.packets)),
            (None, Some(lines)) => format!("{} lines", grouped(lines)),
            (None, None) => "–".to_string(),
        };
        h.leaf("td", &[], &holds);
        h.leaf("td", &[("class", "when")], &capture.and_then(|c| c.first).map_or("–".into(), |t| times.short(t)));
        h.leaf("td", &[("class", "when")], &capture.and_then(|c| c.last).map_or("–".into(), |t| times.short(t)));
        let remarks = remarks(report, input);
        let class = if input.error.is_some() { "wide error" } else { "wide" };
        h.leaf("td", &[("class", class)], if remarks.is_empty() { "–" } else { &remarks }).raw("</tr>\n");
    }
    super::section::foot(h);
    super::section::rest(h, report.inputs.len(), ROWS, "inputs");
    let t = &report.totals;
    let mut parts = view::totals(t);
    parts.extend(t.skipped.iter().take(20).map(|(reason, n)| format!("{} packets skipped: {reason}", grouped(*n))));
    h.leaf("p", &[("class", "muted")], &format!("Totals: {}.", parts.join(", "))).raw("</section>\n");
}

fn remarks(report: &Report, input: &Input) -> String {
    let mut all: Vec<String> = input.error.iter().map(|e| format!("error: {e}")).collect();
    all.extend(input.warnings.iter().take(8).cloned());
    if let Some(n) = input.not_understood.filter(|n| *n > 0) {
        all.push(format!("{} lines not understood", grouped(n)));
    }
    if let Some(c) = report.captures.iter().find(|c| c.path == input.path) {
        all.extend(view::losses(c));
    }
    all.extend(input.timezone.iter().map(|z| format!("zone {z}")));
    all.join("; ")
}

/// Which program, with which arguments.
pub(super) fn footer(h: &mut Html, report: &Report) {
    let tool = &report.tool;
    let commit = tool.commit.as_deref().map_or(String::new(), |c| format!(" ({c})"));
    h.raw("<footer><p>");
    h.text(&format!("{} {}{commit}, server models {}, {}", tool.name, tool.version, tool.model_version, report.schema));
    h.raw("</p><p class=\"path\">").text(&report.arguments.join(" ")).raw("</p></footer>\n");
}
