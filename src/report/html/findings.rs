//! The table of findings: those that matter in sight, the others folded away.

use super::markup::Html;
use super::summary::severity_class;
use crate::report::model::{Finding, Report, Severity};
use crate::report::size::{Times, grouped};
use crate::report::table::{claim, endpoint, place};
use crate::report::view::by_severity;

/// Rows of each table.
const ROWS: usize = 2000;

pub(super) fn section(h: &mut Html, report: &Report, times: &Times) {
    if report.findings.is_empty() {
        return;
    }
    let all = by_severity(report, Severity::Info);
    let split = all.partition_point(|f| f.severity >= Severity::Warning);
    let (heavy, light) = all.split_at_checked(split).unwrap_or((&[], &[]));
    h.raw("<section id=\"findings\">\n<h2>Findings</h2>\n");
    if heavy.is_empty() {
        h.raw("<p>Nothing at warning or above.</p>\n");
    } else {
        table(h, report, heavy, times);
    }
    if !light.is_empty() {
        h.raw("<details><summary>").text(&format!("{} of lower severity", grouped(light.len() as u64)));
        h.raw("</summary>\n");
        table(h, report, light, times);
        h.raw("</details>\n");
    }
    h.raw("</section>\n");
}

fn table(h: &mut Html, report: &Report, findings: &[&Finding], times: &Times) {
    super::section::head(
        h,
        "findings sortable",
        &["Severity", "Time, packet", "From, to", "Rule", "Declared", "What happened"],
    );
    for f in findings.iter().take(ROWS) {
        let weight = (f.severity as u8).to_string();
        h.open("tr", &[]).open("td", &[("data-sort", &weight)]);
        h.leaf("span", &[("class", severity_class(f.severity))], f.severity.text());
        if f.occurrences > 1 {
            h.leaf("small", &[], &format!("{} times", grouped(f.occurrences)));
        }
        h.raw("</td>");
        let key = f.time.map_or(0, |t| t.0).to_string();
        h.open("td", &[("class", "when"), ("data-sort", &key)]).text(&f.time.map_or("–".into(), |t| times.short(t)));
        h.leaf("small", &[], &place(report, f, super::section::NAME).unwrap_or_default()).raw("</td>");
        h.raw("<td class=\"when\">").text(&f.source.as_ref().map_or("–".into(), |s| endpoint(&s.address, s.port)));
        let target = f.target.as_ref().map_or("–".into(), |t| endpoint(&t.address, t.port));
        let host = f.target.as_ref().and_then(|t| t.host.as_deref()).map_or(String::new(), |n| format!(" {n}"));
        h.leaf("small", &[], &format!("→ {target}{host}")).raw("</td>");
        h.raw("<td class=\"name\">").leaf("code", &[], &f.rule).leaf("small", &[("class", "id")], &f.id).raw("</td>");
        let declared = f.declared.as_ref().and_then(|d| d.bytes.or(d.count)).map_or(String::new(), |n| n.to_string());
        h.open("td", &[("class", "claim"), ("data-sort", &declared)])
            .prose(&claim(f).replace('\u{a0}', " "))
            .raw("</td>");
        h.raw("<td class=\"wide\">").prose(&f.explanation).raw("</td></tr>\n");
    }
    super::section::foot(h);
    super::section::rest(h, findings.len(), ROWS, "findings");
}
