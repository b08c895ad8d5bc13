//! What a timeline shows, before it is drawn: rows of marks.

use std::collections::HashMap;

use crate::report::model::{Finding, Incident, OomEvent, Report, Severity};
use crate::report::size::{Times, bytes};
use crate::report::table::claim;
use crate::report::view::{Part, parts};
use crate::time::{NANOS, Timestamp};

/// Rows drawn; further hosts stand in the table.
pub(super) const ROWS: usize = 60;
/// Marks drawn in a row.
const MARKS: usize = 400;

/// What a mark stands for, in the order in which they are drawn over one another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// Somebody joined a job.
    Joined,
    /// Somebody left a job, or was taken out of it.
    Left,
    /// A stray that the server closes or ignores.
    Stray,
    /// A lesser or refused claim.
    Lesser,
    /// A claim that a server honours.
    Claim,
    /// A dump was asked for, a communicator aborted.
    Dump,
    /// The last sign of life before keep-alives stay away.
    Silent,
    /// The claim that set the failure off.
    Trigger,
    /// The listener's end, as the network saw it.
    Death,
    /// The kernel's kill.
    Kill,
}

/// One mark.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) kind: Kind,
    pub(super) time: Timestamp,
    pub(super) title: String,
}

/// One host.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) sub: String,
    /// From the first to the last message of strangers.
    pub(super) scan: Option<(Timestamp, Timestamp)>,
    /// From the claim after which the listener said nothing to its end.
    pub(super) silence: Option<(Timestamp, Timestamp)>,
    /// From trigger to kill, and its text.
    pub(super) lag: Option<(Timestamp, Timestamp, String)>,
    pub(super) marks: Vec<Mark>,
}

/// A whole scan, above the hosts.
#[derive(Clone, Debug)]
pub(super) struct Band {
    pub(super) name: String,
    pub(super) sub: String,
    pub(super) span: (Timestamp, Timestamp),
}

/// The rows of an incident: its hosts, then those that got the same and lived.
pub(super) fn rows_of_incident(report: &Report, incident: &Incident, times: &Times) -> Vec<Row> {
    let by_target = by_target(report);
    let mut rows = Vec::new();
    for Part { host, trigger, event, failed } in parts(report, incident).into_iter().take(ROWS) {
        let mut row = row(&host.host, host.address.as_deref(), &by_target, trigger, times);
        if let Some(event) = event {
            row.marks.extend(event.time.map(|time| Mark { kind: Kind::Kill, time, title: kill(event, times) }));
            if let (Some(from), Some(to), Some(lag)) = (trigger.and_then(|f| f.time), event.time, host.lag_seconds) {
                row.lag = Some((from, to, crate::report::size::span(lag)));
            }
        }
        row.marks.extend(failed.map(|time| Mark {
            kind: Kind::Death,
            time,
            title: format!("{}, {}", incident.kind.gone(), times.short(time)),
        }));
        let silent_from = trigger.and_then(|f| f.time);
        let end = host.listener_died_at.or_else(|| row.marks.iter().find(|m| m.kind == Kind::Kill).map(|m| m.time));
        let silent = host
            .address
            .as_deref()
            .and_then(|a| by_target.get(a))
            .is_some_and(|all| all.iter().any(|f| f.rule == "listener-silent" || f.rule == "listener-died"));
        row.silence = silent_from.zip(end).filter(|(from, to)| silent && from < to);
        rows.push(row);
    }
    for survivor in incident.survivors.iter().take(ROWS.saturating_sub(rows.len())) {
        let mut row = row(&survivor.host, survivor.address.as_deref(), &by_target, None, times);
        row.sub = "lived".to_string();
        rows.push(row);
    }
    // What the jobs' stores tell, as far as it lies about the time of the incident.
    if let Some((from, to)) = extent(&rows, &[]) {
        let about = (to.seconds_since(from) * 0.5).clamp(60.0, 3600.0) * NANOS as f64;
        let span = (from.plus_nanos(-(about as i64)), to.plus_nanos(about as i64));
        let mut told = super::liveness::marks(report, span, times);
        let addresses = incident.hosts.iter().map(|h| h.address.as_deref());
        let addresses = addresses.chain(incident.survivors.iter().map(|s| s.address.as_deref()));
        for (row, address) in rows.iter_mut().zip(addresses) {
            row.marks.extend(address.and_then(|a| told.remove(a)).unwrap_or_default());
        }
    }
    for row in &mut rows {
        finish(row);
    }
    rows
}

/// Without an incident: a row for each host that strangers spoke to.
pub(super) fn rows_of_findings(report: &Report, times: &Times) -> Vec<Row> {
    let mut order: Vec<(&str, Option<&str>)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for f in report.findings.iter().filter(|f| f.severity >= Severity::Notice) {
        if let Some(t) = f.target.as_ref().filter(|t| seen.insert(t.address.as_str())) {
            order.push((&t.address, t.host.as_deref()));
        }
    }
    let by_target = by_target(report);
    let mut rows: Vec<Row> = order
        .iter()
        .take(ROWS)
        .map(|(address, host)| row(host.unwrap_or(address), Some(address), &by_target, None, times))
        .collect();
    for row in &mut rows {
        finish(row);
    }
    rows
}

/// Scans that fall into the time of `rows`.
pub(super) fn bands(report: &Report, rows: &[Row]) -> Vec<Band> {
    let Some((from, to)) = extent(rows, &[]) else { return Vec::new() };
    let touching =
        |s: &&crate::report::model::Scan| s.first.is_some_and(|f| f <= to) && s.last.is_some_and(|l| l >= from);
    let scans = report.scans.iter().filter(touching).take(6);
    scans
        .filter_map(|s| {
            let tool = [s.tool.as_deref(), s.profile.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(", ");
            let name = s.source.label.as_deref().unwrap_or(&s.source.address).to_string();
            Some(Band { name, sub: tool, span: (s.first?, s.last?) })
        })
        .collect()
}

/// First and last instant of all that is to be drawn.
pub(super) fn extent(rows: &[Row], bands: &[Band]) -> Option<(Timestamp, Timestamp)> {
    let marks = rows.iter().flat_map(|r| r.marks.iter().map(|m| m.time));
    let spans = rows.iter().filter_map(|r| r.silence).flat_map(|(a, b)| [a, b]);
    let scans = bands.iter().flat_map(|b| [b.span.0, b.span.1]);
    let all: Vec<Timestamp> = marks.chain(spans).chain(scans).collect();
    Some((*all.iter().min()?, *all.iter().max()?))
}

fn by_target(report: &Report) -> HashMap<&str, Vec<&Finding>> {
    let mut all: HashMap<&str, Vec<&Finding>> = HashMap::new();
    for f in &report.findings {
        if let Some(target) = &f.target {
            all.entry(target.address.as_str()).or_default().push(f);
        }
    }
    all
}

fn row(
    host: &str,
    address: Option<&str>,
    by_target: &HashMap<&str, Vec<&Finding>>,
    trigger: Option<&Finding>,
    times: &Times,
) -> Row {
    let mut row = Row { name: host.to_string(), sub: address.unwrap_or_default().to_string(), ..Row::default() };
    if row.sub == row.name {
        row.sub.clear();
    }
    for f in address.and_then(|a| by_target.get(a)).into_iter().flatten() {
        let Some(time) = f.time else { continue };
        // Silence and death have marks of their own; a half-open connection never reached the process.
        if f.rule.starts_with("listener-") || f.severity < Severity::Notice {
            continue;
        }
        let kind = match f.severity {
            _ if trigger.is_some_and(|t| t.id == f.id) => Kind::Trigger,
            Severity::Critical => Kind::Claim,
            Severity::Warning => Kind::Lesser,
            _ => Kind::Stray,
        };
        row.scan = Some(row.scan.map_or((time, time), |(a, b)| (a.min(time), b.max(time))));
        let what = f.stray.as_ref().and_then(|s| s.probe.as_deref().or(s.protocol.as_deref())).unwrap_or(&f.rule);
        let said = claim(f);
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        row.marks.push(Mark { kind, time, title: format!("{what}{said}, {}", times.short(time)) });
    }
    row
}

fn kill(event: &OomEvent, times: &Times) -> String {
    let process = event.process.as_deref().unwrap_or("a process");
    let pid = event.pid.map_or(String::new(), |p| format!(" (pid {p})"));
    let vm = event.total_vm_bytes.map_or(String::new(), |n| format!(", total-vm {}", bytes(n)));
    let time = event.time.map_or(String::new(), |t| format!(", {}", times.short(t)));
    format!("OOM kill of {process}{pid}{vm}{time}")
}

/// The heaviest marks of a row, the lightest first, so that what matters is drawn last.
pub(super) fn finish(row: &mut Row) {
    row.marks.sort_by_key(|m| (std::cmp::Reverse(m.kind), m.time));
    row.marks.truncate(MARKS);
    row.marks.sort_by_key(|m| (m.kind, m.time));
}
