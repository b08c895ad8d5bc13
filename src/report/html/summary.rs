//! The top of the page: verdict, what happened in a few sentences, the figures that a meeting asks for.

use super::markup::Html;
use crate::report::escape::clean;
use crate::report::model::{CoverageLevel, Incident, Report, Severity, Verdict};
use crate::report::size::{Times, grouped, readings, span};
use crate::report::table::{headline, quiet};
use crate::report::view::{capital, triggers, watched};

/// Title, verdict, summary, tiles, notes.
pub(super) fn header(h: &mut Html, report: &Report, incidents: &[&Incident], times: &Times) {
    h.raw("<header>\n<p class=\"kicker\">rdzvscope · packet-capture forensics");
    if let Some(date) = times.date {
        h.text(&format!(" · times are UTC, of {date} where no date stands with them"));
    }
    h.raw("</p>\n");
    match incidents.first() {
        Some(first) => {
            let line = headline(report, first);
            let (verdict, what) = line.split_once(": ").unwrap_or(("", &line));
            h.raw("<h1>").leaf("span", &[("class", class(first.verdict))], &verdict.to_lowercase());
            h.text(" ").text(&capital(what)).raw("</h1>\n");
            if !first.summary.is_empty() {
                h.raw("<p class=\"lead\">").prose(&first.summary).raw("</p>\n");
            }
            tiles(h, report, first);
            if incidents.len() > 1 {
                h.raw("<ul class=\"also\">");
                for other in incidents.iter().skip(1).take(5) {
                    h.leaf("li", &[], &format!("also {}", headline(report, other)));
                }
                h.raw("</ul>\n");
            }
        }
        None => {
            h.leaf("h1", &[], &quiet(report)).line();
            no_incident(h, report);
        }
    }
    if report.incomplete {
        h.raw("<p class=\"note warn\">Incomplete: reading stopped early. What stands here is true, but it is not all.</p>\n");
    }
    coverage(h, report, times);
    for note in &report.notes {
        h.leaf("p", &[("class", "note")], note).line();
    }
    h.raw("</header>\n");
}

/// The class of a verdict's badge.
pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Confirmed => "badge bad",
        Verdict::Probable | Verdict::Possible => "badge doubt",
        Verdict::Unexplained => "badge open",
    }
}

/// The class of a severity's badge.
pub(super) fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "badge bad",
        Severity::Warning => "badge doubt",
        Severity::Notice => "badge open",
        Severity::Info => "badge plain",
    }
}

fn tiles(h: &mut Html, report: &Report, incident: &Incident) {
    let triggers = triggers(report, incident);
    let lags: Vec<f64> = incident.hosts.iter().filter_map(|host| host.lag_seconds).collect();
    let (low, high) = (lags.iter().copied().fold(f64::MAX, f64::min), lags.iter().copied().fold(f64::MIN, f64::max));
    let largest = triggers.iter().filter_map(|f| f.declared.as_ref()?.bytes).max();
    let c = &report.coverage;
    h.raw("<div class=\"tiles\">\n");
    tile(h, "Hosts", &grouped(incident.host_names().len() as u64), &names(incident));
    if let Some(source) = &incident.source {
        let what = [source.label.as_deref(), source.tool.as_deref()];
        let what: Vec<String> = what.into_iter().flatten().map(|w| clean(w.as_bytes(), 40)).collect();
        tile(h, "Source", &source.address, &what.join(", "));
    }
    if let Some(bytes) = largest {
        let both = readings(bytes);
        let (decimal, binary) = both.split_once(", ").unwrap_or((&both, ""));
        tile(h, "Declared, each", decimal, &format!("{binary}: {} bytes", grouped(bytes)));
    }
    if !lags.is_empty() {
        let value = if lags.len() == 1 || low == high { span(low) } else { range(low, high) };
        tile(
            h,
            "Trigger to kill",
            &value,
            &format!("lag of {} of {}", lags.len(), crate::report::table::count(incident.hosts.len(), "kill", "kills")),
        );
    }
    if c.oom_hosts > 0 {
        let mut sub = "OOM hosts observed".to_string();
        if c.observed < c.oom_hosts {
            sub.push_str(&format!("; {} in part, {} not observed", c.partial, c.not_observed));
        }
        tile(h, "Watched", &format!("{} of {}", c.observed, c.oom_hosts), &sub);
    }
    h.raw("</div>\n");
}

fn range(low: f64, high: f64) -> String {
    if high < 59.95 { format!("{low:.1} – {high:.1} s") } else { format!("{} – {}", span(low), span(high)) }
}

fn names(incident: &Incident) -> String {
    let all = incident.host_names();
    let mut names: Vec<String> = all.iter().take(6).map(|host| clean(host.as_bytes(), 30)).collect();
    if all.len() > 6 {
        names.push(format!("{} more", all.len() - 6));
    }
    names.join(", ")
}

fn tile(h: &mut Html, name: &str, value: &str, sub: &str) {
    h.raw("<div>").leaf("p", &[("class", "term")], name).leaf("p", &[("class", "value")], value);
    h.leaf("p", &[("class", "sub")], sub).raw("</div>\n");
}

/// What a "no" rests on.
fn no_incident(h: &mut Html, report: &Report) {
    let t = &report.totals;
    let text = format!(
        "{} captures, {} packets, {} TCP flows; {} OOM events in the logs; {} listeners known.",
        report.captures.len(),
        grouped(t.packets),
        grouped(t.flows),
        report.oom_events.len(),
        report.listeners.len()
    );
    h.leaf("p", &[("class", "lead")], &text).line();
}

/// Hosts that were not watched throughout: the verdict says nothing about what nobody saw.
fn coverage(h: &mut Html, report: &Report, times: &Times) {
    let short: Vec<_> = report.coverage.hosts.iter().filter(|c| c.coverage != CoverageLevel::Observed).collect();
    if report.totals.unread > 0 {
        let text = format!("{} inputs were not read: see \"Inputs\".", grouped(report.totals.unread));
        h.leaf("p", &[("class", "note warn")], &text).line();
    }
    if short.is_empty() {
        return;
    }
    h.raw("<ul class=\"note warn\">");
    for host in short.iter().take(40) {
        h.raw("<li>").leaf("b", &[], &host.host).text(&format!(": {}", watched(host, times))).raw("</li>");
    }
    h.raw("</ul>\n");
    super::section::rest(h, short.len(), 40, "hosts");
}
