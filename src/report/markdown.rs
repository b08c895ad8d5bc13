//! The report as it stands in a ticket: at most forty lines of GitHub-flavoured Markdown, whatever the report holds.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::firewall;
use super::liveness_lines;
use super::markdown_text::{cell, code, md};
use super::model::{Finding, Incident, IncidentKind, Report, Severity, Workload};
use super::size::{self, Times, Zone};
use super::table::{by_weight, claim, endpoint, headline, place, quiet, quoted};
use super::view::{self, Part, triggers};

/// Lines that a ticket takes before nobody reads it.
pub const MAX_LINES: usize = 40;

/// Hosts, findings and commands shown at first; fewer when the whole does not fit.
const MOST: usize = 12;
/// Columns of a file's name.
const NAME: usize = 60;

/// Writes [`render`]'s text.
///
/// # Errors
/// Whatever `out` fails with; a broken pipe is the caller's to forgive.
pub fn write_markdown(report: &Report, out: &mut impl Write) -> io::Result<()> {
    out.write_all(render(report).as_bytes())
}

/// The report in at most [`MAX_LINES`] lines: the surest incident in full, the others by their headlines.
///
/// Text from outside is cleaned for terminals and escaped for Markdown: it makes no markup, no link and no mention.
pub fn render(report: &Report) -> String {
    let incidents = by_weight(report);
    let mut lines = Vec::new();
    for most in (1..=MOST).rev() {
        lines = match incidents.first() {
            Some(incident) => of_incident(report, incident, &incidents, most),
            None => of_quiet(report, most),
        };
        if lines.len() <= MAX_LINES {
            break;
        }
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn of_incident(report: &Report, incident: &Incident, all: &[&Incident], most: usize) -> Vec<String> {
    let times = times(report, incident);
    let mut lines = vec![format!("### {}", md(&headline(report, incident)))];
    for other in all.iter().skip(1).take(most.min(3)) {
        lines.push(format!("- also {}", md(&headline(report, other))));
    }
    if let Some(more) = all.len().checked_sub(1 + most.min(3)).filter(|n| *n > 0) {
        lines.push(format!("- and {more} more incidents"));
    }
    lines.push(String::new());
    if !incident.summary.is_empty() {
        lines.push(format!("**What happened.** {}", md(&incident.summary)));
        lines.push(String::new());
    }
    hosts(&mut lines, report, incident, &times, most);
    lines.push(String::new());
    why(&mut lines, incident, most);
    for survivor in incident.survivors.iter().take(most.min(3)) {
        lines.push(format!("- {} got the same and lived: {}", code(&survivor.host), md(&survivor.reason)));
    }
    watched(&mut lines, report);
    jobs(&mut lines, report, &times, most);
    assumptions(&mut lines, report, incident, most);
    lines.push(String::new());
    to_do(&mut lines, report, incident);
    let triggers = triggers(report, incident);
    commands(&mut lines, &triggers, most);
    lines
}

fn of_quiet(report: &Report, most: usize) -> Vec<String> {
    let mut lines = vec![format!("### {}", quiet(report)), String::new()];
    let totals = &report.totals;
    lines.push(format!(
        "Read: {} captures, {} packets, {} TCP flows, {} OOM events, {} listeners.",
        report.captures.len(),
        size::grouped(totals.packets),
        size::grouped(totals.flows),
        report.oom_events.len(),
        report.listeners.len()
    ));
    watched(&mut lines, report);
    let date = report.captures.iter().filter_map(|c| c.first).min();
    jobs(&mut lines, report, &Times { zone: Zone::Utc, date: date.map(|t| Zone::Utc.date(t)) }, most);
    let flagged = view::by_severity(report, Severity::Warning);
    if flagged.is_empty() {
        return lines;
    }
    lines.extend([String::new(), row(&["Severity", "Time (UTC)", "From, to", "Packet", "What"]), rule(5)]);
    for f in flagged.iter().take(most) {
        let from = f.source.as_ref().map_or(String::new(), |s| endpoint(&s.address, s.port));
        let to = f.target.as_ref().map_or(String::new(), |t| endpoint(&t.address, t.port));
        lines.push(row(&[
            f.severity.text(),
            &f.time.map_or(String::new(), |t| Times { zone: Zone::Utc, date: None }.short(t)),
            &md(&format!("{from} → {to}")),
            &md(&packet(report, f)),
            &md(&format!("{} {}", f.rule, claim(f))),
        ]));
    }
    more(&mut lines, flagged.len(), most, "findings");
    lines.push(String::new());
    commands(&mut lines, &flagged, most);
    lines
}

fn hosts(lines: &mut Vec<String>, report: &Report, incident: &Incident, times: &Times, most: usize) {
    let date = times.date.map_or(String::new(), |d| format!(" (UTC, {d})"));
    lines.push(row(&["Host", "Job", &format!("Trigger{date}"), "Declared", incident.kind.failure(), "Lag", "Verdict"]));
    lines.push(rule(7));
    for part in view::parts(report, incident).iter().take(most) {
        lines.push(host_row(report, incident.kind, part, times));
    }
    more(lines, incident.hosts.len(), most, "hosts");
}

fn host_row(report: &Report, kind: IncidentKind, part: &Part<'_>, times: &Times) -> String {
    let address = part.address().map_or(String::new(), |a| format!(" {}", md(&a)));
    let sent = part.trigger.map_or("none found".to_string(), |f| {
        let time = f.time.map_or(String::new(), |t| format!("{}, ", times.short(t)));
        format!("{time}{}", md(&packet(report, f)))
    });
    let kill = match (part.event, part.failed) {
        (Some(e), _) => {
            let pid = e.pid.map_or(String::new(), |p| format!(" pid {p}"));
            let process = e.process.as_deref().map_or("process".to_string(), code);
            format!("{}, {process}{pid}", part.killed_at(times, 0.0).unwrap_or_default())
        }
        (None, Some(died)) if kind == IncidentKind::Oom => format!("no log; listener gone {}", times.short(died)),
        (None, Some(failed)) => format!("{} {}", kind.gone(), times.short(failed)),
        (None, None) if kind == IncidentKind::NcclInit => "a rank waits or is refused".to_string(),
        (None, None) => "none".to_string(),
    };
    let lag = part.lag().map_or("-".to_string(), |(lag, sure)| sure.map_or(lag.clone(), |u| format!("{lag} {u}")));
    row(&[
        &format!("{}{address}", code(&part.host.host)),
        &part.event.and_then(|e| e.workload.as_ref()).map_or("-".to_string(), workload),
        &sent,
        &part.trigger.map_or("-".to_string(), |f| md(&claim(f))),
        &kill,
        &lag,
        part.host.verdict.text(),
    ])
}

/// `unit train.service`, `pod ml/train-0`, `slurm 4711`.
fn workload(w: &Workload) -> String {
    let (name, id) = view::workload(w);
    let id = id.map_or(String::new(), |id| format!(" ({id})"));
    format!("{} {}", w.kind, code(&format!("{name}{id}")))
}

/// Where the frame is: `node-a.pcap frame 411`. (No `#411`: a ticket would link it to another ticket.)
fn packet(report: &Report, f: &Finding) -> String {
    place(report, f, NAME).map_or("no packet".to_string(), |p| p.replacen(" #", " frame ", 1))
}

/// Reasons, those that several hosts share said once.
fn why(lines: &mut Vec<String>, incident: &Incident, most: usize) {
    let shared = view::shared_reasons(incident);
    let mut own = 0;
    for host in &incident.hosts {
        let reasons: Vec<String> =
            host.reasons.iter().filter(|r| !shared.contains(r)).map(|r| md(r.trim_end_matches('.'))).collect();
        if reasons.is_empty() {
            continue;
        }
        own += 1;
        if own <= most.min(6) {
            lines.push(format!("- {} {}: {}.", code(&host.host), host.verdict, reasons.join("; ")));
        }
    }
    more(lines, own, most.min(6), "hosts with reasons");
    if !shared.is_empty() {
        let shared: Vec<String> = shared.iter().map(|r| md(r.trim_end_matches('.'))).collect();
        lines.push(format!("- all of them: {}.", shared.join("; ")));
    }
}

fn watched(lines: &mut Vec<String>, report: &Report) {
    let c = &report.coverage;
    if c.oom_hosts == 0 {
        lines.push("**Watched.** No log tells of an OOM kill.".to_string());
        return;
    }
    let mut text = format!("**Watched.** {}", view::coverage(report));
    let gaps: Vec<String> = c
        .hosts
        .iter()
        .filter_map(|h| h.reason.as_deref().map(|r| format!("{}: {}", code(&h.host), md(r))))
        .take(4)
        .collect();
    text.push_str(&if gaps.is_empty() { ".".to_string() } else { format!(" ({}).", gaps.join("; ")) });
    if report.totals.unread > 0 {
        text.push_str(&format!(" {} inputs were not read.", report.totals.unread));
    }
    if report.incomplete {
        text.push_str(" Reading stopped early: this is not all.");
    }
    lines.push(text);
}

/// What the jobs' own stores tell: who fell silent, which dumps were asked for.
fn jobs(lines: &mut Vec<String>, report: &Report, times: &Times, most: usize) {
    let told: Vec<(&super::model::Job, Vec<String>)> = report
        .jobs
        .iter()
        .map(|j| (j, liveness_lines::troubles(report, j, times)))
        .filter(|(_, t)| !t.is_empty())
        .collect();
    for (job, troubles) in told.iter().take(most.min(2)) {
        let shown = most.min(4);
        let mut text: Vec<String> = troubles.iter().take(shown).map(|t| md(&t.replace(" #", " frame "))).collect();
        if troubles.len() > shown {
            text.push(format!("and {} more", troubles.len() - shown));
        }
        lines.push(format!("**{}, by its own store.** {}.", md(&liveness_lines::title(report, job)), text.join("; ")));
    }
    more(lines, told.len(), most.min(2), "jobs with such signs");
}

/// What the verdict rests on besides what was seen, and what would settle it.
fn assumptions(lines: &mut Vec<String>, report: &Report, incident: &Incident, most: usize) {
    let mut parts: Vec<String> = Vec::new();
    let mut add = |text: String| {
        if !text.is_empty() && !parts.contains(&text) {
            parts.push(text);
        }
    };
    for f in triggers(report, incident) {
        if let Some(condition) = f.effect.as_ref().and_then(|e| e.condition.as_deref()) {
            add(md(condition));
        }
        if f.dialect.is_none() && f.dialect_candidates.len() > 1 {
            add(format!("the store's dialect is one of {}", md(&f.dialect_candidates.join(", "))));
        }
    }
    let killed: BTreeSet<&str> = incident.hosts.iter().filter_map(|h| h.oom_event.as_deref()).collect();
    for event in report.oom_events.iter().filter(|e| killed.contains(e.id.as_str())).map(Some) {
        add(event.and_then(|e| e.time_basis.as_deref()).map_or(String::new(), |s| format!("kill times: {}", md(s))));
    }
    for clock in report.clocks.iter().filter(|c| c.applied) {
        let offset = clock.offset_seconds.unwrap_or(0.0);
        add(format!("clock of {} was {offset:+.6} s ahead: corrected", code(&clock.host)));
    }
    match incident.chance.as_ref().and_then(|c| c.expected_per_year) {
        Some(n) => add(format!("as a coincidence {n:.2e} times a year is to be expected")),
        None => add("odds of a coincidence: not estimated".to_string()),
    }
    if let Some(source) = incident.source.as_ref().filter(|s| s.may_be_nat) {
        add(format!("{} may stand for several hosts (NAT)", md(&source.address)));
    }
    let hidden = parts.len().saturating_sub(6);
    parts.truncate(6);
    if hidden > 0 {
        parts.push(format!("and {hidden} more"));
    }
    lines.push(format!("**Assumed.** {}.", parts.join("; ")));
    for flag in incident.settled_by.iter().take(most.min(3)) {
        lines.push(format!("- would settle it: {}", md(flag)));
    }
}

fn to_do(lines: &mut Vec<String>, report: &Report, incident: &Incident) {
    let found = triggers(report, incident);
    let others = report.findings.iter().filter(|f| found.is_empty() && f.severity == Severity::Critical);
    let remedies: Vec<String> = view::remedies(report, found.iter().copied(), others).into_iter().map(md).collect();
    lines.push(match remedies.as_slice() {
        [] if incident.settled_by.is_empty() => "**Do now.** Nothing follows from what was seen.".to_string(),
        [] => "**Do now.** Settle what is open, as above: nothing else follows from what was seen.".to_string(),
        some => format!("**Do now.** {}", some.iter().take(2).cloned().collect::<Vec<_>>().join(" ")),
    });
    let rule = firewall::rule(report, incident);
    if !rule.is_empty() {
        lines.push("```sh".to_string());
        lines.push("# on every host that runs a store; add the other hosts of the job to the list first".to_string());
        // One line: a ticket has few, and a shell takes it so.
        lines.push(format!("nft '{}'", firewall::on_one_line(&rule)));
        lines.push("```".to_string());
    }
}

/// The line that shows each frame.
fn commands(lines: &mut Vec<String>, findings: &[&Finding], most: usize) {
    let all: Vec<String> = findings
        .iter()
        .filter_map(|f| Some((f.capture.as_deref().filter(|c| view::is_file(c))?, f.packet?)))
        .map(|(capture, packet)| format!("tshark -r {} -Y frame.number=={packet} -x", quoted(capture)))
        .collect();
    if all.is_empty() {
        return;
    }
    lines.push("**To check by hand:**".to_string());
    lines.push("```sh".to_string());
    lines.extend(all.iter().take(most).cloned());
    if all.len() > most {
        lines.push(format!("# and {} more", all.len() - most));
    }
    lines.push("```".to_string());
}

fn more(lines: &mut Vec<String>, all: usize, shown: usize, what: &str) {
    if all > shown {
        lines.push(format!("- and {} more {what}", all - shown));
    }
}

fn row(cells: &[&str]) -> String {
    format!("| {} |", cells.iter().map(|c| cell(c)).collect::<Vec<_>>().join(" | "))
}

fn rule(columns: usize) -> String {
    format!("|{}", "---|".repeat(columns))
}

fn times(report: &Report, incident: &Incident) -> Times {
    let first = incident.start.or_else(|| report.captures.iter().filter_map(|c| c.first).min());
    Times { zone: Zone::Utc, date: first.map(|t| Zone::Utc.date(t)) }
}
