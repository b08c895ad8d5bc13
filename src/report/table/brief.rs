//! The report on one screen: verdict, what happened, a line a host, why, what to do, what was not watched, what shows more.

use std::collections::{BTreeMap, HashMap};

use super::evidence::{endpoint, place};
use super::page::{Column, Ink, Page, count, ink, severity, t, verdict};
use super::proof::command;
use super::verdict::{by_weight, headline, quiet, watched};
use super::{Style, inputs};
use crate::report::escape::clean;
use crate::report::liveness_lines;
use crate::report::model::{CoverageLevel, Finding, Incident, IncidentKind, Protocol, Report, Severity, Verdict};
use crate::report::size::{grouped, readings};
use crate::report::view::{self, Part};

/// Lines of one screen.
pub const LINES: usize = 50;

/// Hosts that have a line each, however many lines that takes.
const HOSTS: usize = 10;

/// How many entries of each list are tried, until the whole fits on one screen.
const MOST: [usize; 6] = [10, 6, 4, 3, 2, 1];

/// Times have no more digits than milliseconds: seconds of uncertainty that [`crate::report::size::Times::within`] takes.
const MILLISECONDS: f64 = 0.001;

/// The report in [`LINES`] lines where it tells of at most ten hosts, every line at most `style.width` columns.
pub fn brief(report: &Report, style: &Style) -> String {
    let incidents = by_weight(report);
    let told = Told::of(report, incidents.first().copied());
    let mut page = Page::new(report, style);
    for most in MOST {
        page = Page::new(report, style);
        write(&mut page, report, &incidents, &told, most);
        if page.height() <= LINES {
            break;
        }
    }
    page.finish()
}

/// What is worked out once, whatever fits.
struct Told<'a> {
    parts: Vec<Part<'a>>,
    reasons: (String, Vec<String>),
    remedies: Vec<&'a str>,
    flagged: Vec<&'a Finding>,
}

impl<'a> Told<'a> {
    fn of(report: &'a Report, incident: Option<&'a Incident>) -> Told<'a> {
        let triggers = report.incidents.iter().flat_map(|i| view::triggers(report, i));
        let flagged = view::by_severity(report, Severity::Warning);
        Told {
            parts: incident.map(|i| view::parts(report, i)).unwrap_or_default(),
            reasons: incident.map(reasons).unwrap_or_default(),
            remedies: view::remedies(report, triggers, flagged.iter().copied()),
            flagged,
        }
    }
}

fn write(page: &mut Page, report: &Report, incidents: &[&Incident], told: &Told<'_>, most: usize) {
    match incidents.first() {
        Some(first) => {
            let colour = if first.verdict == Verdict::Unexplained { Ink::Bold } else { Ink::Red };
            page.hang(&ink(colour, &headline(report, first)), 0, 2);
            for other in incidents.iter().skip(1).take(most) {
                page.hang(&format!("also {}", headline(report, other)), 0, 2);
            }
            page.rest(incidents.len().saturating_sub(1 + most), "more incident", "more incidents", 0);
        }
        None => page.hang(&ink(Ink::Bold, &quiet(report)), 0, 2),
    }
    if report.incomplete {
        page.paragraph(&ink(
            Ink::Yellow,
            "INCOMPLETE: reading stopped early. What stands here is true, but it is not all.",
        ));
    }
    let observed = (report.coverage.oom_hosts > 0).then(|| format!("{}.", view::coverage(report)));
    let dated = page.times.date.map(|date| format!("Times are {}, of {date}.", page.zone()));
    page.paragraph(&observed.into_iter().chain(dated).collect::<Vec<_>>().join(" "));
    match incidents.first() {
        Some(incident) => of_incident(page, report, incident, told, most),
        None => {
            watched(page, report);
            flagged(page, report, &told.flagged, most);
        }
    }
    list(page, "To do", told.remedies.iter().map(|r| t(r).into_owned()), most.min(3));
    not_watched(page, report, most);
    also_seen(page, report, incidents, most);
    more(page, told);
}

fn of_incident(page: &mut Page, report: &Report, incident: &Incident, told: &Told<'_>, most: usize) {
    page.gap();
    page.paragraph(&t(&incident.summary));
    page.gap();
    let shown = told.parts.len().min(most.max(HOSTS));
    page.columns(host_columns(page, report, incident.kind, told.parts.get(..shown).unwrap_or_default()));
    page.rest(told.parts.len() - shown, "more host", "more hosts", 0);
    list(page, &told.reasons.0, told.reasons.1.iter().cloned(), most.min(8));
    let survivors = incident.survivors.iter().map(|s| format!("{}: {}", clean(s.host.as_bytes(), 60), t(&s.reason)));
    list(page, "Got the same and lived", survivors, most.min(4));
    if incident.chance.as_ref().is_some_and(|c| c.expected_per_year.is_some()) {
        page.gap();
        page.hang(&view::chance(incident).unwrap_or_default(), 0, 2);
    }
    list(page, "Would settle it", incident.settled_by.iter().map(|s| t(s).into_owned()), most.min(3));
}

/// A line for each host. What a narrow page has no room for goes by weight: the probe, the query, the address first.
fn host_columns(page: &Page, report: &Report, kind: IncidentKind, parts: &[Part<'_>]) -> Vec<Column> {
    let times = page.times;
    let column = |head: &'static str, weight: u8, cell: &dyn Fn(&Part<'_>) -> Option<String>| Column {
        head,
        weight,
        cells: parts.iter().map(|p| cell(p).unwrap_or_default()).collect(),
    };
    let query = |p: &Part<'_>| {
        let field = p.trigger.and_then(|f| f.declared.as_ref()).and_then(|d| d.field.as_deref()).unwrap_or_default();
        let query = p.trigger.and_then(|f| f.query.as_deref()).unwrap_or_default();
        Some(clean(format!("{query} {field}").trim().as_bytes(), 30))
    };
    let claim = |p: &Part<'_>| {
        let declared = p.trigger.and_then(|f| f.declared.as_ref())?;
        let size = declared.bytes.map(|b| readings(b).split(',').next().unwrap_or_default().to_string());
        size.or_else(|| declared.count.map(|n| format!("{} entries", grouped(n))))
    };
    let killed = |p: &Part<'_>| {
        let gone = || p.failed.map(|f| format!("gone {}", times.within(f, MILLISECONDS)));
        let none = if kind == IncidentKind::Oom { "no log tells" } else { "-" };
        p.killed_at(&times, MILLISECONDS).or_else(gone).or(Some(none.to_string()))
    };
    vec![
        column("Host", 9, &|p| Some(clean(p.host.host.as_bytes(), 24))),
        column("Address", 3, &|p| p.address()),
        column("Trigger", 7, &|p| {
            let none = p.trigger.is_none().then(|| "none found".to_string());
            none.or_else(|| p.trigger.and_then(|f| f.time).map(|t| times.within(t, MILLISECONDS)))
        }),
        column("Frame", 5, &|p| p.trigger.and_then(|f| place(report, f, page.name_width()))),
        column("Probe", 1, &|p| p.probe()),
        column("Query", 2, &query),
        column("Declared", 8, &claim),
        column(kind.failure(), 9, &killed),
        column("Process", 4, &|p| p.event.and_then(|e| e.pid).map(|pid| format!("pid {pid}"))),
        column("Lag", 8, &|p| p.lag().map(|(lag, sure)| sure.map_or(lag.clone(), |u| format!("{lag} {u}")))),
        column("Verdict", 6, &|p| Some(verdict(p.host.verdict))),
    ]
}

/// Why each verdict, and whose figures stand in what all hosts have in common. A reason that all have stands once, also
/// where only numbers and names differ in it; what some have alone stands with their names.
fn reasons(incident: &Incident) -> (String, Vec<String>) {
    let mut order: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let (all, mut alike) = (incident.hosts.len(), false);
    for host in &incident.hosts {
        for reason in &host.reasons {
            let place = *places.entry(pattern(reason)).or_insert(order.len());
            match order.get_mut(place) {
                Some((first, hosts)) => {
                    hosts.push(&host.host);
                    alike |= first != reason;
                }
                None => order.push((reason, vec![&host.host])),
            }
        }
    }
    order.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len() == all));
    let name = |host: &&str| clean(host.as_bytes(), 40);
    let said = |(reason, hosts): (&str, Vec<&str>)| {
        let names: Vec<String> = hosts.iter().take(4).map(name).collect();
        match hosts.len() {
            n if n == all => t(reason).into_owned(),
            n if n > names.len() => format!("{} and {} more: {}", names.join(", "), n - names.len(), t(reason)),
            _ => format!("{}: {}", names.join(", "), t(reason)),
        }
    };
    let first = incident.hosts.first().map_or(String::new(), |h| name(&h.host.as_str()));
    let heading = if alike { format!("Why (figures of {first}, those of the others are alike)") } else { "Why".into() };
    (heading, order.into_iter().map(said).collect())
}

/// A sentence without its numbers, so that sentences that differ in them alone are known to be one.
fn pattern(reason: &str) -> String {
    let mut words: Vec<&str> =
        reason.split(' ').map(|w| if w.contains(|c: char| c.is_ascii_digit()) { "#" } else { w }).collect();
    words.dedup_by(|a, b| a == b && *a == "#");
    words.join(" ")
}

/// Without an incident: what was flagged, a line each.
fn flagged(page: &mut Page, report: &Report, findings: &[&Finding], most: usize) {
    if findings.is_empty() {
        return;
    }
    page.gap();
    let shown = findings.get(..findings.len().min(most)).unwrap_or_default();
    let times = page.times;
    let column = |head: &'static str, weight: u8, cell: &dyn Fn(&Finding) -> Option<String>| Column {
        head,
        weight,
        cells: shown.iter().map(|f| cell(f).unwrap_or_default()).collect(),
    };
    let host = |f: &Finding| f.target.as_ref().and_then(|t| t.host.as_deref()).map(|h| clean(h.as_bytes(), 24));
    page.columns(vec![
        column("Severity", 9, &|f| Some(severity(f.severity))),
        column("Time", 5, &|f| f.time.map(|t| times.within(t, MILLISECONDS))),
        column("Rule", 9, &|f| Some(clean(f.rule.as_bytes(), 30))),
        column("From", 7, &|f| f.source.as_ref().map(|s| endpoint(&s.address, s.port))),
        column("To", 8, &|f| f.target.as_ref().map(|t| endpoint(&t.address, t.port))),
        column("Host", 2, &host),
        column("Frame", 4, &|f| place(report, f, page.name_width())),
    ]);
    page.rest(findings.len() - shown.len(), "more finding", "more findings", 0);
    let first = findings.iter().take(2).filter(|f| !f.explanation.is_empty());
    for finding in first {
        page.hang(&format!("{}: {}", clean(finding.rule.as_bytes(), 40), t(&finding.explanation)), 0, 2);
    }
}

/// What no verdict speaks of: hosts that were not watched throughout, inputs that were not read, notes.
fn not_watched(page: &mut Page, report: &Report, most: usize) {
    let times = page.times;
    let hosts = report.coverage.hosts.iter().filter(|h| h.coverage != CoverageLevel::Observed);
    let hosts = hosts.map(|h| format!("{}: {}", clean(h.host.as_bytes(), 60), view::watched(h, &times)));
    let unread = report.inputs.iter().filter_map(|i| {
        let error = i.error.as_deref()?;
        Some(ink(Ink::Red, &format!("not read: {}: {}", t(&i.path), t(error))))
    });
    list(page, "Not watched, not read", hosts.chain(unread), most);
    // With no incident what was watched is told at length above; the document's own note says the same.
    let said = |n: &&String| !(report.incidents.is_empty() && n.starts_with("No stream of a known protocol"));
    let notes = report.notes.iter().filter(said).map(|n| t(n).into_owned());
    let silences = report.jobs.iter().filter_map(|j| {
        Some(format!(
            "{}: {}.",
            view::capital(&liveness_lines::title(report, j)),
            liveness_lines::first_silence(j, &times)?
        ))
    });
    list(page, "Notes", silences.chain(notes).chain(inputs::warnings(report)), most.min(4));
}

/// What else was seen, a line each.
fn also_seen(page: &mut Page, report: &Report, incidents: &[&Incident], most: usize) {
    let mut lines = Vec::new();
    let counts: Vec<String> = [Severity::Critical, Severity::Warning, Severity::Notice, Severity::Info]
        .into_iter()
        .filter_map(|level| {
            let of: Vec<&str> =
                report.findings.iter().filter(|f| f.severity == level).map(|f| f.rule.as_str()).collect();
            (!of.is_empty()).then(|| format!("{} {} ({})", grouped(of.len() as u64), level, rules(&of)))
        })
        .collect();
    if !counts.is_empty() {
        lines.push(format!("findings: {}", counts.join("; ")));
    }
    for scan in report.scans.iter().take(2) {
        let label = scan.source.label.as_deref().map_or(String::new(), |l| format!(" ({})", clean(l.as_bytes(), 30)));
        let tool =
            [scan.tool.as_deref(), scan.profile.as_deref()].into_iter().flatten().map(|w| clean(w.as_bytes(), 30));
        let tool = tool.collect::<Vec<_>>().join(", ");
        let many = |n: u64, one, many| count(usize::try_from(n).unwrap_or(usize::MAX), one, many);
        lines.push(format!(
            "scan by {}{label}: {tool}; {}, {}, {}",
            clean(scan.source.address.as_bytes(), 45),
            many(scan.hosts, "host", "hosts"),
            many(scan.ports, "port", "ports"),
            many(scan.connections, "connection", "connections"),
        ));
    }
    if report.scans.len() > 2 {
        lines.push(count(report.scans.len() - 2, "more scan", "more scans"));
    }
    if !incidents.is_empty() {
        let lone = view::lone_kills(report).len();
        lines.extend((lone > 0).then(|| format!("{} outside the incident", count(lone, "OOM kill", "OOM kills"))));
    }
    let stores = report.listeners.iter().filter(|l| l.validates == Some(false) && l.protocol != Protocol::Unknown);
    let open: Vec<String> = stores.map(|l| endpoint(&l.address, Some(l.port))).collect();
    if !open.is_empty() {
        let more = if open.len() > 4 { format!(" and {} more", open.len() - 4) } else { String::new() };
        let shown: Vec<&str> = open.iter().take(4).map(String::as_str).collect();
        lines.push(format!("listeners that take any length from anybody: {}{more}", shown.join(", ")));
    }
    list(page, "Also seen", lines.into_iter(), most);
}

/// `4 store-claim, 3 listener-died`, the most frequent first.
fn rules(of: &[&str]) -> String {
    let mut by_rule: BTreeMap<&str, usize> = BTreeMap::new();
    of.iter().for_each(|rule| *by_rule.entry(rule).or_default() += 1);
    let mut all: Vec<_> = by_rule.into_iter().collect();
    all.sort_by_key(|(rule, n)| (std::cmp::Reverse(*n), *rule));
    let shown: Vec<String> =
        all.iter().take(3).map(|(rule, n)| format!("{n} {}", clean(rule.as_bytes(), 40))).collect();
    let more = if all.len() > 3 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// What shows more: flags, and commands that can be pasted.
fn more(page: &mut Page, told: &Told<'_>) {
    let first = told.parts.iter().find_map(|p| p.trigger).or(told.flagged.first().copied());
    page.gap();
    let html = "-o report.html the timeline";
    let label = ink(Ink::Bold, "More:");
    page.hang(&format!("{label} -v every host, proof and finding; {html}; -o report.md a ticket"), 0, 2);
    let Some(finding) = first else { return };
    let rule = clean(finding.rule.as_bytes(), 40);
    page.exactly(&format!("  rdzvscope explain {rule}"));
    let capture = finding.capture.as_deref().filter(|c| view::is_file(c));
    if let (Some(capture), Some(packet)) = (capture, finding.packet) {
        let source = finding.source.as_ref().map(|s| format!("--host {}", clean(s.address.as_bytes(), 45)));
        command(page, "rdzvscope messages", capture, &source.unwrap_or_default());
        command(page, "tshark", capture, &format!("-Y frame.number=={packet} -x"));
    }
}

/// A heading and what stands below it, `most` entries; nothing where there is none.
fn list(page: &mut Page, heading: &str, entries: impl Iterator<Item = String>, most: usize) {
    let mut entries = entries.peekable();
    if entries.peek().is_none() {
        return;
    }
    page.heading(heading);
    let mut hidden = 0;
    for (at, entry) in entries.enumerate() {
        if at < most {
            page.bullet(1, &entry);
        } else {
            hidden += 1;
        }
    }
    page.rest(hidden, "more", "more", 2);
}
