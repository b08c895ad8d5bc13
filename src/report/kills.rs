//! Kills, a row each: for a terminal, a ticket, a spreadsheet.

use std::borrow::Cow;
use std::io::{self, Write};

use super::columns::{Align, Columns};
use super::csv;
use super::escape::clean;
use super::markdown_text::{cell, md};
use super::model::{OomEvent, Report};
use super::size::readings as size_of;

/// The columns of the sheet, in order. They keep their names and their order; new ones go to the end.
const COLUMNS: [&str; 19] = [
    "host",
    "time",
    "time_source",
    "uncertainty_seconds",
    "process",
    "pid",
    "total_vm_bytes",
    "workload",
    "path",
    "line",
    "told_by",
    "kind",
    "anon_rss_bytes",
    "cgroup",
    "limit_bytes",
    "usage_bytes",
    "boot_seconds",
    "occurrences",
    "time_basis",
];

/// Writes a header line, then a line a kill. Lines end in CR LF; an unknown value is an empty cell.
///
/// # Errors
/// Whatever `out` fails with.
pub fn write_csv(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    csv::line(out, COLUMNS.map(Cow::Borrowed))?;
    for e in &report.oom_events {
        let text = |t: &Option<String>| csv::text(t.as_deref()).into_owned();
        let number = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
        let real = |n: Option<f64>| n.map_or(String::new(), |n| n.to_string());
        let cells = [
            text(&e.host),
            e.time.map_or(String::new(), |t| t.to_rfc3339()),
            text(&e.time_source),
            real(e.uncertainty_seconds),
            text(&e.process),
            number(e.pid),
            number(e.total_vm_bytes),
            workload(e).map_or(String::new(), |w| csv::text(Some(&w)).into_owned()),
            text(&e.path),
            number(e.line),
            text(&e.told_by),
            e.kind.to_string(),
            number(e.anon_rss_bytes),
            text(&e.cgroup),
            number(e.limit_bytes),
            number(e.usage_bytes),
            real(e.boot_seconds),
            e.occurrences.to_string(),
            text(&e.time_basis),
        ];
        csv::line(out, cells.map(Cow::Owned))?;
    }
    Ok(())
}

/// The job, pod, unit or container.
fn workload(e: &OomEvent) -> Option<String> {
    let w = e.workload.as_ref()?;
    let name = w.name.as_deref().or(w.id.as_deref())?;
    let name = w.namespace.as_deref().map_or_else(|| name.to_string(), |n| format!("{n}/{name}"));
    Some(format!("{} {name}", w.kind))
}

/// The cells that people read: host, time, how good it is, process, size, cgroup or job, who tells, where.
fn cells(e: &OomEvent, width: usize) -> Vec<String> {
    let text = |t: &Option<String>| t.as_deref().map(|t| clean(t.as_bytes(), width));
    let unsure = e.uncertainty_seconds.unwrap_or(0.0);
    let digits = match unsure {
        u if u >= 1.0 => 0,
        u if u >= 0.001 => 3,
        _ => 6,
    };
    let time = match (e.time, e.boot_seconds) {
        (Some(t), _) => {
            let full = t.to_rfc3339();
            let (whole, fraction) = full.trim_end_matches('Z').split_once('.').unwrap_or((&full, ""));
            let fraction = fraction.get(..digits).filter(|f| !f.is_empty()).map_or(String::new(), |f| format!(".{f}"));
            format!("{whole}{fraction}Z")
        }
        (None, Some(boot)) => format!("{boot:.6} s since boot"),
        (None, None) => "not told".to_string(),
    };
    let within = match unsure {
        u if e.time.is_none() || u < 0.0005 => String::new(),
        u if u >= 365.0 * 86_400.0 => ", the year is a guess".to_string(),
        u if e.at_or_after => format!(", or up to {u:.0} s later"),
        u if u >= 1.0 => format!(" +/- {u:.0} s"),
        u => format!(" +/- {:.0} ms", u * 1000.0),
    };
    let source = format!("{}{within}", e.time_source.as_deref().unwrap_or("none"));
    let mut size = e.total_vm_bytes.map_or("-".to_string(), |b| format!("vm {}", size_of(b)));
    if let Some(limit) = e.limit_bytes {
        size.push_str(&format!(", limit {}", size_of(limit)));
    }
    let of = workload(e).map(|w| clean(w.as_bytes(), width)).or_else(|| text(&e.cgroup)).unwrap_or("-".to_string());
    let told = match &e.writer {
        Some(writer) => format!("process ({})", clean(writer.as_bytes(), 40)),
        None => text(&e.told_by).unwrap_or("-".to_string()),
    };
    let stands = e.path.as_deref().map_or("-".to_string(), |p| {
        let more = if e.sources.len() > 1 { format!(" +{}", e.sources.len() - 1) } else { String::new() };
        format!("{}:{}{more}", clean(p.as_bytes(), 200), e.line.unwrap_or(0))
    });
    vec![
        text(&e.host).unwrap_or("(unknown)".to_string()),
        time,
        source,
        text(&e.process).unwrap_or("-".to_string()),
        e.pid.map_or("-".to_string(), |p| p.to_string()),
        size,
        of,
        format!("{told}, {}", e.kind),
        stands,
    ]
}

const HEADER: [&str; 9] =
    ["Host", "Time", "Time from", "Process", "Pid", "Size", "Cgroup or job", "Told by", "Stands in"];

/// Writes a table, and below it what is to be known of each log.
///
/// # Errors
/// Whatever `out` fails with.
pub fn write_table(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.oom_events.is_empty() {
        let lines: u64 = report.inputs.iter().filter_map(|i| i.lines).sum();
        writeln!(out, "No OOM kill is told by the {lines} lines of {} log(s).", report.inputs.len())?;
    } else {
        let heads = HEADER.map(|h| (h, if h == "Pid" { Align::Right } else { Align::Left }));
        let mut table = Columns::new(&mut *out, "  ", &heads);
        report.oom_events.iter().try_for_each(|e| table.row(cells(e, 60), Vec::new()))?;
        table.finish()?;
    }
    for input in &report.inputs {
        for w in &input.warnings {
            writeln!(out, "{}: {w}", input.path)?;
        }
        if let Some(n) = input.not_understood.filter(|n| *n > 0) {
            let (lines, look) = if n == 1 { ("line looks", "was") } else { ("lines look", "were") };
            writeln!(out, "{}: {n} {lines} like an OOM and {look} not understood", input.path)?;
        }
    }
    for note in &report.notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// The same for a ticket.
///
/// # Errors
/// Whatever `out` fails with.
pub fn write_markdown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "| {} |", HEADER.join(" | "))?;
    writeln!(out, "|{}", " --- |".repeat(HEADER.len()))?;
    for e in &report.oom_events {
        let cells: Vec<String> = cells(e, 80).iter().map(|c| cell(&md(c))).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    for input in report.inputs.iter().filter(|i| i.not_understood.unwrap_or(0) > 0) {
        let n = input.not_understood.unwrap_or(0);
        writeln!(out, "\n{}: {n} lines look like an OOM and were not understood", md(&input.path))?;
    }
    for note in &report.notes {
        writeln!(out, "\n{}", md(note))?;
    }
    Ok(())
}
