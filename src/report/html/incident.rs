//! One incident: timeline, hosts, reasons, survivors, what to do.

use super::markup::Html;
use super::summary::class;
use super::timeline;
use crate::report::firewall;
use crate::report::model::{CoverageLevel, Finding, Incident, IncidentKind, OomEvent, Report, Severity, Workload};
use crate::report::size::{Times, grouped, readings};
use crate::report::table::{headline, place};
use crate::report::view::{self, Part, triggers};

/// Hosts in the table.
const HOSTS: usize = 1000;
/// Different lists of reasons that are spelled out.
const REASONED: usize = 40;

/// Everything about one incident; `number` when there are several.
pub(super) fn section(h: &mut Html, report: &Report, incident: &Incident, times: &Times, number: Option<usize>) {
    h.raw("<section>\n");
    match number {
        Some(1) | None => h.raw("<h2>Timeline</h2>\n"),
        Some(n) => {
            h.raw("<h2>").text(&format!("Incident {n}: {}", headline(report, incident))).raw("</h2>\n");
            h.leaf("p", &[], &incident.summary).line()
        }
    };
    timeline::of_incident(h, report, incident, times);
    h.raw("</section>\n<section>\n<h2>Hosts</h2>\n");
    hosts(h, report, incident, times);
    h.raw("</section>\n<div class=\"columns\">\n<section>\n<h2>Why</h2>\n");
    reasons(h, incident);
    survivors(h, incident);
    odds(h, incident);
    h.raw("</section>\n");
    to_do(h, report, incident);
    h.raw("</div>\n");
}

fn hosts(h: &mut Html, report: &Report, incident: &Incident, times: &Times) {
    let gone = if incident.kind == IncidentKind::Oom { "Listener gone" } else { "Failed" };
    let columns = ["Host", "Verdict", "Job", "Trigger", "Declared", "OOM kill", "Lag", gone, "Watched"];
    super::section::head(h, "hosts sortable", &columns);
    for part in view::parts(report, incident).iter().take(HOSTS) {
        row(h, report, part, times);
    }
    super::section::foot(h);
    super::section::rest(h, incident.hosts.len(), HOSTS, "hosts");
}

fn row(h: &mut Html, report: &Report, part: &Part<'_>, times: &Times) {
    let Part { host, trigger, event, failed } = *part;
    h.raw("<tr><td class=\"name\">").leaf("b", &[], &host.host);
    if let Some(address) = part.address() {
        h.leaf("small", &[], &address);
    }
    h.raw("</td><td>").leaf("span", &[("class", class(host.verdict))], host.verdict.text());
    h.raw("</td><td class=\"name\">");
    match event.and_then(|e| e.workload.as_ref()) {
        Some(w) => workload(h, w),
        None => {
            h.text("–");
        }
    }
    h.raw("</td>");
    let key = trigger.and_then(|f| f.time).map_or(0, |t| t.0).to_string();
    h.open("td", &[("class", "when"), ("data-sort", &key)]);
    match trigger {
        Some(f) => {
            h.text(&f.time.map_or(String::new(), |t| times.short(t)));
            let link = format!("#f-{}", f.id);
            h.raw("<small>").open("a", &[("href", &link)]);
            h.text(&place(report, f, super::section::NAME).unwrap_or_default()).raw("</a>");
            h.raw("</small>").leaf("small", &[], &part.probe().unwrap_or_default());
        }
        None => {
            h.text("none found");
        }
    }
    h.raw("</td>");
    declared(h, trigger, event);
    let key = event.and_then(|e| e.time).map_or(0, |t| t.0).to_string();
    h.open("td", &[("class", "when"), ("data-sort", &key)]);
    match event {
        Some(e) => {
            h.text(&part.killed_at(times, 0.0).unwrap_or_default());
            let process = e.process.as_deref().unwrap_or("process unknown");
            let pid = e.pid.map_or(String::new(), |p| format!(" pid {p}"));
            h.leaf("small", &[], &format!("{process}{pid}"));
        }
        None => {
            h.text("no log tells");
        }
    }
    h.raw("</td>");
    let key = host.lag_seconds.map_or(String::new(), |l| l.to_string());
    let (lag, sure) = part.lag().unwrap_or(("–".into(), None));
    h.open("td", &[("class", "num"), ("data-sort", &key)]).leaf("b", &[], &lag);
    if let Some(u) = sure {
        h.leaf("small", &[], &u);
    }
    h.raw("</td>");
    let key = failed.map_or(0, |t| t.0).to_string();
    h.leaf("td", &[("class", "when"), ("data-sort", &key)], &failed.map_or("–".into(), |t| times.short(t)));
    let watched = match host.coverage {
        CoverageLevel::Observed => "observed",
        CoverageLevel::Partial => "in part",
        CoverageLevel::NotObserved => "not observed",
    };
    h.leaf("td", &[], watched).raw("</tr>\n");
}

fn workload(h: &mut Html, w: &Workload) {
    let (name, id) = view::workload(w);
    h.text(&name);
    let id = id.map_or(String::new(), |id| format!(" {id}"));
    h.leaf("small", &[], &format!("{}{id}", w.kind));
}

/// The claim, and the size of the killed process beside it.
fn declared(h: &mut Html, trigger: Option<&Finding>, event: Option<&OomEvent>) {
    let claim = trigger.and_then(|f| f.declared.as_ref());
    let key = claim.and_then(|d| d.bytes.or(d.count)).map_or(String::new(), |n| n.to_string());
    h.open("td", &[("data-sort", &key)]);
    if let Some(f) = trigger {
        let field = claim.and_then(|d| d.field.as_deref()).unwrap_or_default();
        h.text(&format!("{} {field}", f.query.as_deref().unwrap_or_default()));
    }
    if let Some(bytes) = claim.and_then(|d| d.bytes) {
        h.leaf("small", &[("class", "when")], &format!("{} B", grouped(bytes)));
        h.leaf("small", &[], &readings(bytes));
    }
    if let Some(count) = claim.and_then(|d| d.count) {
        h.leaf("small", &[], &format!("{} entries", grouped(count)));
    }
    if let Some(vm) = event.and_then(|e| e.total_vm_bytes) {
        h.leaf("small", &[("class", "when")], &format!("total-vm {}", readings(vm)));
    }
    h.raw("</td>");
}

fn reasons(h: &mut Html, incident: &Incident) {
    let shared = view::shared_reasons(incident);
    let all = incident.hosts.iter().filter(|o| !o.reasons.is_empty());
    for host in all.clone().take(REASONED) {
        h.raw("<h3>").text(&host.host).raw("</h3><ul>");
        for reason in host.reasons.iter().filter(|r| !shared.contains(r)) {
            h.raw("<li>").prose(reason).raw("</li>");
        }
        h.raw("</ul>\n");
    }
    super::section::rest(h, all.count(), REASONED, "hosts with reasons");
    if !shared.is_empty() {
        h.raw("<h3>All of them</h3><ul>");
        for reason in shared {
            h.raw("<li>").prose(reason).raw("</li>");
        }
        h.raw("</ul>\n");
    }
}

fn survivors(h: &mut Html, incident: &Incident) {
    if incident.survivors.is_empty() {
        return;
    }
    h.raw("<h3>Got the same and lived</h3><ul>");
    for s in incident.survivors.iter().take(100) {
        h.raw("<li>").leaf("b", &[], &s.host).text(&format!(": {}", s.reason)).raw("</li>");
    }
    h.raw("</ul>\n");
    super::section::rest(h, incident.survivors.len(), 100, "survivors");
}

fn odds(h: &mut Html, incident: &Incident) {
    if let Some(text) = view::chance(incident) {
        h.raw("<h3>Could the times fit by accident?</h3>").leaf("p", &[], &text).line();
    }
    if !incident.settled_by.is_empty() {
        h.raw("<h3>Would settle it</h3><ul>");
        for flag in incident.settled_by.iter().take(40) {
            h.leaf("li", &[], flag);
        }
        h.raw("</ul>\n");
    }
}

fn to_do(h: &mut Html, report: &Report, incident: &Incident) {
    let others = view::by_severity(report, Severity::Critical);
    let said = view::remedies(report, triggers(report, incident), others);
    let rule = firewall::rule(report, incident);
    if said.is_empty() && rule.is_empty() {
        return;
    }
    h.raw("<section>\n<h2>Do now</h2>\n<ul>");
    for remedy in said.iter().take(6) {
        h.leaf("li", &[], remedy);
    }
    h.raw("</ul>\n");
    if !rule.is_empty() {
        h.raw("<p>For <code>nft -f</code>, on every host that runs a store. Add the other hosts of the job to the ");
        h.raw("list first: who is not in it is shut out.</p>\n<pre class=\"command\">");
        for line in &rule {
            h.text(line).line();
        }
        h.raw("</pre>\n");
    }
    h.raw("</section>\n");
}
