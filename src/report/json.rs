//! The report as JSON: one document, or one object a line.

use std::io::{self, Write};

use serde::Serialize;

use super::model::{Report, Tool, Totals};

/// Writes the whole document, indented, with a newline at its end.
///
/// # Errors
/// Whatever `out` fails with; a broken pipe is the caller's to forgive.
pub fn write_json(report: &Report, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}

/// Writes one object a line, each with its `type` first: `report` (schema, tool, arguments, totals, incomplete, notes),
/// then `input`, `capture`, `coverage`, `listener`, `job`, `communicator`, `scan`, `clock`, `finding`, `oom_event`,
/// `incident`, in the order of the document.
///
/// # Errors
/// Whatever `out` fails with; a broken pipe is the caller's to forgive.
pub fn write_jsonl(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let header = Header {
        schema: &report.schema,
        tool: &report.tool,
        arguments: &report.arguments,
        totals: &report.totals,
        incomplete: report.incomplete,
        notes: &report.notes,
    };
    write_line(out, "report", &header)?;
    write_lines(out, "input", &report.inputs)?;
    write_lines(out, "capture", &report.captures)?;
    write_line(out, "coverage", &report.coverage)?;
    write_lines(out, "listener", &report.listeners)?;
    write_lines(out, "job", &report.jobs)?;
    write_lines(out, "communicator", &report.communicators)?;
    write_lines(out, "scan", &report.scans)?;
    write_lines(out, "clock", &report.clocks)?;
    write_lines(out, "finding", &report.findings)?;
    write_lines(out, "oom_event", &report.oom_events)?;
    write_lines(out, "incident", &report.incidents)
}

/// What of the document belongs to no list.
#[derive(Serialize)]
struct Header<'a> {
    schema: &'a str,
    tool: &'a Tool,
    arguments: &'a [String],
    totals: &'a Totals,
    incomplete: bool,
    notes: &'a [String],
}

/// An object with its type before its own fields.
#[derive(Serialize)]
struct TypedLine<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// Writes one object of type `kind` and a newline; for any output of JSON lines, not only reports.
///
/// # Errors
/// Whatever `out` fails with, or that `body` is no object.
pub fn write_line<T: Serialize>(out: &mut impl Write, kind: &str, body: &T) -> io::Result<()> {
    let line = serde_json::to_string(&TypedLine { kind, body })?;
    writeln!(out, "{}", super::escape::json(line))
}

fn write_lines<T: Serialize>(out: &mut impl Write, kind: &str, bodies: &[T]) -> io::Result<()> {
    bodies.iter().try_for_each(|body| write_line(out, kind, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Declared, Finding, Input};

    fn report() -> Report {
        Report {
            inputs: vec![Input { path: "a\"\n.pcap".into(), ..Input::default() }],
            findings: vec![Finding {
                id: "f1".into(),
                declared: Some(Declared { bytes: Some(u64::MAX), ..Declared::default() }),
                time_uncertainty_seconds: Some(f64::NAN),
                ..Finding::default()
            }],
            ..Report::default()
        }
    }

    #[test]
    fn keys_keep_their_order_and_nothing_is_absent() {
        let mut out = Vec::new();
        write_json(&report(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let places: Vec<_> = ["schema", "tool", "arguments", "inputs", "coverage", "findings", "totals", "notes"]
            .iter()
            .map(|k| text.find(&format!("\n  \"{k}\":")).unwrap())
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(text.ends_with("}\n") && text.contains("18446744073709551615"));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let finding = value["findings"][0].as_object().unwrap();
        assert!(finding.contains_key("effect") && finding["effect"].is_null());
        assert!(finding["time_uncertainty_seconds"].is_null());
    }

    #[test]
    fn lines_start_with_their_type() {
        let mut out = Vec::new();
        write_jsonl(&report(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let starts = ["report\",\"schema", "input\",\"path", "coverage\",\"oom_hosts", "finding\",\"id"];
        assert_eq!(lines.len(), starts.len());
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(&format!("{{\"type\":\"{start}\":")), "{line}");
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }

    #[test]
    fn a_broken_pipe_comes_back() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert_eq!(write_json(&report(), &mut Broken).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(write_jsonl(&report(), &mut Broken).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
