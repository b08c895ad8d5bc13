//! The findings as a sheet: RFC 4180, a line each, for spreadsheets and for scripts that know nothing else.
//!
//! Columns keep their names and their order; new ones go to the end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use super::escape::clean_text;
use super::model::{Finding, Incident, Report};

/// The columns, in order.
pub const COLUMNS: [&str; 33] = [
    "id",
    "rule",
    "severity",
    "time",
    "time_uncertainty_seconds",
    "capture",
    "packet",
    "source_address",
    "source_port",
    "target_address",
    "target_port",
    "target_host",
    "community_id",
    "protocol",
    "dialect",
    "query",
    "stream_offset",
    "declared_bytes",
    "declared_count",
    "declared_field",
    "delivered_bytes",
    "occurrences",
    "stray_protocol",
    "stray_tool",
    "stray_probe",
    "outcome",
    "allocates_bytes",
    "blocks_server",
    "incident",
    "incident_verdict",
    "lag_seconds",
    "bytes_hex",
    "explanation",
];

/// Writes a header line, then a line for each finding in the order of the document. Lines end in CR LF; an unknown
/// value is an empty cell.
///
/// A text that a spreadsheet would take for a formula (it begins with `=`, `+`, `-` or `@`, or with these in their full
/// width) gets an apostrophe before it, as spreadsheets mark text.
///
/// # Errors
/// Whatever `out` fails with; a broken pipe is the caller's to forgive.
pub fn write_csv(report: &Report, out: &mut impl Write) -> io::Result<()> {
    line(out, COLUMNS.map(Cow::Borrowed))?;
    let mut triggers: HashMap<&str, (&Incident, Option<f64>)> = HashMap::new();
    for incident in &report.incidents {
        for host in &incident.hosts {
            if let Some(trigger) = host.trigger.as_deref() {
                triggers.entry(trigger).or_insert((incident, host.lag_seconds));
            }
        }
    }
    report.findings.iter().try_for_each(|f| line(out, row(f, triggers.get(f.id.as_str()))))
}

fn row<'a>(f: &'a Finding, incident: Option<&(&'a Incident, Option<f64>)>) -> [Cow<'a, str>; 33] {
    let declared = f.declared.as_ref();
    let stray = f.stray.as_ref();
    let effect = f.effect.as_ref();
    [
        text(Some(&f.id)),
        text(Some(&f.rule)),
        f.severity.text().into(),
        f.time.map_or_else(|| "".into(), |t| t.to_rfc3339().into()),
        number(f.time_uncertainty_seconds),
        text(f.capture.as_deref()),
        number(f.packet),
        text(f.source.as_ref().map(|s| s.address.as_str())),
        number(f.source.as_ref().and_then(|s| s.port)),
        text(f.target.as_ref().map(|t| t.address.as_str())),
        number(f.target.as_ref().and_then(|t| t.port)),
        text(f.target.as_ref().and_then(|t| t.host.as_deref())),
        text(f.community_id.as_deref()),
        text(f.protocol.as_deref()),
        text(f.dialect.as_deref()),
        text(f.query.as_deref()),
        number(f.stream_offset),
        number(declared.and_then(|d| d.bytes)),
        number(declared.and_then(|d| d.count)),
        text(declared.and_then(|d| d.field.as_deref())),
        number(f.delivered_bytes),
        number(Some(f.occurrences)),
        text(stray.and_then(|s| s.protocol.as_deref())),
        text(stray.and_then(|s| s.tool.as_deref())),
        text(stray.and_then(|s| s.probe.as_deref())),
        effect.map_or("", |e| e.outcome.text()).into(),
        number(effect.and_then(|e| e.allocates_bytes)),
        number(effect.map(|e| e.blocks_server)),
        text(incident.map(|(i, _)| i.id.as_str())),
        incident.map_or("", |(i, _)| i.verdict.text()).into(),
        number(incident.and_then(|(_, lag)| *lag)),
        text(f.bytes_hex.as_deref()),
        text(Some(&f.explanation)),
    ]
}

fn number<'a>(value: Option<impl ToString>) -> Cow<'a, str> {
    value.map_or_else(|| "".into(), |n| n.to_string().into())
}

/// Outside text: no control characters (so no line breaks), and no formula.
pub(super) fn text(value: Option<&str>) -> Cow<'_, str> {
    let cleaned = clean_text(value.unwrap_or_default());
    // Some programs trim a cell before they look at its first character.
    let first = cleaned.trim_start().chars().next();
    match first {
        Some('=' | '+' | '-' | '@' | '\u{ff1d}' | '\u{ff0b}' | '\u{ff0d}' | '\u{ff20}') => format!("'{cleaned}").into(),
        _ => cleaned,
    }
}

pub(super) fn line<'a>(
    out: &mut (impl Write + ?Sized),
    cells: impl IntoIterator<Item = Cow<'a, str>>,
) -> io::Result<()> {
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        if cell.contains(['"', ',', '\r', '\n']) || cell.starts_with(' ') || cell.ends_with(' ') {
            write!(out, "\"{}\"", cell.replace('"', "\"\""))?;
        } else {
            out.write_all(cell.as_bytes())?;
        }
    }
    out.write_all(b"\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Target;

    fn written(findings: Vec<Finding>) -> String {
        let mut out = Vec::new();
        write_csv(&Report { findings, ..Report::default() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let f = Finding { explanation: "said \"no\", and left\r\nquickly".into(), ..Finding::default() };
        let text = written(vec![f]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.ends_with(",\"said \"\"no\"\", and left\\r\\nquickly\"\r\n"), "{text}");
    }

    #[test]
    fn no_cell_is_a_formula() {
        for bad in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\u{ff1d}1"] {
            let target = Some(Target { host: Some(bad.into()), ..Target::default() });
            let text = written(vec![Finding { target, ..Finding::default() }]);
            let row = text.lines().nth(1).unwrap();
            let cell = row.split(',').nth(11).unwrap().trim_matches('"');
            assert!(cell.starts_with(['\'', '\\']), "{bad:?} became {cell:?}");
        }
    }

    #[test]
    fn every_line_has_every_column() {
        let text = written(vec![Finding::default(), Finding::default()]);
        assert!(text.lines().all(|l| l.split(',').count() == COLUMNS.len()), "{text}");
    }
}
