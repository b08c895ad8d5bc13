//! The findings: those that matter as a table, the others counted.

use std::collections::BTreeMap;

use super::page::{Page, count, hard, severity, t};
use crate::report::escape::{clean, columns};
use crate::report::model::{Finding, Report, Severity};
use crate::report::size;
use crate::report::view::{by_severity, notable};

/// Rows of the table unless verbose.
const ROWS: usize = 24;

/// One row: the same message from the same source, however often and to however many targets.
struct Group<'a> {
    first: &'a Finding,
    occurrences: u64,
    others: Vec<&'a Finding>,
}

/// Places and targets that a row spells out.
const SPELLED: usize = 5;

/// The table of findings, the worst first, and a line that counts the rest.
pub(super) fn findings(page: &mut Page, report: &Report) {
    if report.findings.is_empty() {
        return;
    }
    let least = if page.verbose() { Severity::Info } else { Severity::Warning };
    let groups = grouped(report, least);
    page.heading("Findings");
    if !groups.is_empty() {
        let shown = groups.iter().take(page.at_most(ROWS));
        let rows: Vec<_> = shown.map(|group| row(page, report, group)).collect();
        let header: &[&str] = match page.narrow() {
            true => &["Severity, packet", "From, to", "Rule, and what happened"],
            false => &["Severity, time", "From, to", "Packet", "Rule, and what happened"],
        };
        page.table(header, &rows, true);
        let hidden = groups.len().saturating_sub(rows.len());
        page.rest(hidden, "more row", "more rows", 0);
    }
    for level in [Severity::Notice, Severity::Info].into_iter().filter(|level| *level < least) {
        below(page, report, level);
    }
}

/// `47 notices: 31 foreign-protocol, 16 version-mismatch; -v shows them`.
fn below(page: &mut Page, report: &Report, level: Severity) {
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in report.findings.iter().filter(|f| f.severity == level) {
        *rules.entry(finding.rule.as_str()).or_default() += 1;
    }
    if rules.is_empty() {
        return;
    }
    let total = rules.values().sum();
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut parts: Vec<_> =
        rules.iter().take(8).map(|(rule, n)| format!("{n} {}", clean(rule.as_bytes(), 40))).collect();
    if rules.len() > 8 {
        parts.push(format!("{} more rules", rules.len() - 8));
    }
    let (one, many) = if level == Severity::Notice { ("notice", "notices") } else { ("info", "infos") };
    page.hang(&format!("{}: {}; {}", count(total, one, many), parts.join(", "), page.shows()), 0, 2);
}

fn grouped(report: &Report, least: Severity) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: BTreeMap<_, usize> = BTreeMap::new();
    for finding in by_severity(report, least) {
        let source = finding.source.as_ref().map(|s| s.address.as_str());
        let declared = finding.declared.as_ref().map(|d| (d.bytes, d.count, d.field.as_deref()));
        let probe = finding.stray.as_ref().and_then(|s| s.probe.as_deref());
        let dialect = finding.dialect.as_deref();
        let key = (finding.severity, finding.rule.as_str(), source, declared, probe, finding.query.as_deref(), dialect);
        match places.get(&key).and_then(|place| groups.get_mut(*place)) {
            Some(group) => {
                group.occurrences = group.occurrences.saturating_add(finding.occurrences.max(1));
                group.others.push(finding);
            }
            None => {
                places.insert(key, groups.len());
                groups.push(Group { first: finding, occurrences: finding.occurrences.max(1), others: Vec::new() });
            }
        }
    }
    groups
}

fn row(page: &Page, report: &Report, group: &Group<'_>) -> Vec<String> {
    let finding = group.first;
    let mut when = vec![severity(finding.severity)];
    when.extend(
        finding.time.map(|time| hard(&page.times.within(time, finding.time_uncertainty_seconds.unwrap_or(0.0)))),
    );
    when.extend(finding.time_uncertainty_seconds.and_then(notable).map(|u| hard(&u)));
    if group.occurrences > 1 {
        when.push(hard(&format!("{} times", size::grouped(group.occurrences))));
    }
    let mut from = Vec::new();
    from.extend(finding.source.as_ref().map(|s| endpoint(&s.address, s.port)));
    let all = || std::iter::once(finding).chain(group.others.iter().copied());
    let mut targets: Vec<String> = Vec::new();
    for target in all().filter_map(|f| f.target.as_ref()) {
        let address = format!("→{}{}", super::page::HARD_SPACE, endpoint(&target.address, target.port));
        let host = target.host.as_deref().map_or(String::new(), |host| format!(" {}", clean(host.as_bytes(), 24)));
        let target = format!("{address}{host}");
        if !targets.contains(&target) {
            targets.push(target);
        }
        // One more than is spelled out, to know that there is more.
        if targets.len() > SPELLED {
            targets.truncate(SPELLED);
            targets.push("→ and more".to_string());
            break;
        }
    }
    from.extend(targets);
    let mut places: Vec<String> = all().take(SPELLED).filter_map(|f| place(report, f, page.name_width())).collect();
    if group.others.len() >= SPELLED {
        places.push(format!("and {} more", size::grouped((group.others.len() + 1 - SPELLED) as u64)));
    }
    let place = if places.is_empty() { "-".to_string() } else { places.join("\n") };
    if page.narrow() {
        when.push(place);
        return vec![when.join("\n"), from.join("\n"), what(finding)];
    }
    vec![when.join("\n"), from.join("\n"), place, what(finding)]
}

fn what(finding: &Finding) -> String {
    let mut lines = vec![clean(finding.rule.as_bytes(), 60)];
    let claim = claim(finding);
    if !claim.is_empty() {
        lines.push(claim);
    }
    if finding.explanation.is_empty() {
        lines.extend(finding.effect.as_ref().map(effect));
    } else {
        lines.push(clean(finding.explanation.as_bytes(), 400));
    }
    lines.join("\n")
}

/// What the message was read as and what it declares: `ADD, key length 962 696 183 808 bytes (0.96 TB, 0.876 TiB)`.
pub(in crate::report) fn claim(finding: &Finding) -> String {
    let mut parts: Vec<String> = finding.query.as_deref().map(|q| clean(q.as_bytes(), 40)).into_iter().collect();
    if let Some(declared) = &finding.declared {
        let field = declared.field.as_deref().map_or(String::new(), |f| format!("{} ", clean(f.as_bytes(), 40)));
        parts.extend(declared.bytes.map(|n| {
            if n < 10_000 {
                return format!("{field}{}", hard(&size::bytes(n)));
            }
            format!("{field}{} ({})", hard(&format!("{} bytes", size::grouped(n))), hard(&size::readings(n)))
        }));
        parts.extend(declared.count.map(|n| format!("{field}{}", hard(&format!("{} entries", size::grouped(n))))));
    }
    parts.join(", ")
}

/// What a server does: `a server of dialect B, poll backend, allocates 0.96 TB, 0.876 TiB, resident; no other client is served meanwhile`.
pub(in crate::report) fn effect(effect: &crate::report::model::Effect) -> String {
    effect_on(None, effect)
}

/// The effect that holds on the target of a finding, whose dialect may be open.
pub(in crate::report) fn effect_that_holds(finding: &Finding, effect: &crate::report::model::Effect) -> String {
    effect_on(Some(finding).filter(|f| f.dialect.is_none() && f.dialect_candidates.len() > 1), effect)
}

fn effect_on(open: Option<&Finding>, effect: &crate::report::model::Effect) -> String {
    let mut text = match &effect.dialect {
        Some(dialect) if open.is_some() => {
            format!("the server, its dialect open, as {} reads it,", dialect_words(dialect))
        }
        Some(dialect) => format!("a server of dialect {}", dialect_words(dialect)),
        None => "the server".to_string(),
    };
    if let Some(backend) = &effect.backend {
        text.push_str(&format!(", {} backend,", clean(backend.as_bytes(), 20)));
    }
    text.push_str(&format!(" {}", effect.outcome));
    if let Some(bytes) = effect.allocates_bytes {
        let bytes = if bytes < 10_000 { size::bytes(bytes) } else { size::readings(bytes) };
        text.push_str(&format!(" {}", hard(&bytes)));
    }
    if effect.resident == Some(true) {
        text.push_str(", resident");
    }
    if effect.blocks_server {
        text.push_str("; no other client is served meanwhile");
    }
    if let Some(condition) = &effect.condition {
        text.push_str(&format!(" ({})", t(condition)));
    }
    text
}

/// A dialect with the releases that speak it, where it is one of TCPStore's.
pub(in crate::report) fn dialect_words(dialect: &str) -> String {
    use crate::protocol::tcpstore::Dialect;
    match Dialect::ALL.iter().find(|d| d.name() == dialect) {
        Some(known) => format!("{dialect} ({})", known.releases()),
        None => clean(dialect.as_bytes(), 40),
    }
}

/// `192.0.2.11:29500`, `[2001:db8::11]:29500`.
pub(in crate::report) fn endpoint(address: &str, port: Option<u16>) -> String {
    let address = clean(address.as_bytes(), 60);
    match port {
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
        None => address,
    }
}

/// The capture's short name and the packet: `node-a.pcap #411`. A name of more than `most` columns is cut in the middle.
pub(in crate::report) fn place(report: &Report, finding: &Finding, most: usize) -> Option<String> {
    finding.capture.as_deref().map(|capture| place_of(report, capture, finding.packet, most))
}

/// The same of any capture and packet.
pub(in crate::report) fn place_of(report: &Report, capture: &str, packet: Option<u64>, most: usize) -> String {
    let name = short_path(report, capture, most);
    match packet {
        Some(packet) => format!("{name} #{packet}"),
        None => name,
    }
}

/// The end of a path that tells it from the report's other captures, at most `most` columns, cut in the middle.
fn short_path(report: &Report, path: &str, most: usize) -> String {
    let last = |depth: usize| {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        parts.get(parts.len().saturating_sub(depth)..).unwrap_or_default().join("/")
    };
    let same =
        |tail: &str| report.captures.iter().filter(|c| c.path.split('/').next_back() == Some(tail)).take(2).count();
    let tail = last(1);
    let name = if same(&tail) > 1 { last(2) } else { tail };
    let name = clean(name.as_bytes(), 400);
    if columns(&name) <= most {
        return name;
    }
    let half = most / 2;
    let chars: Vec<char> = name.chars().collect();
    let end: String = chars.iter().skip(chars.len().saturating_sub(half)).collect();
    format!("{}{end}", clean(name.as_bytes(), half))
}
