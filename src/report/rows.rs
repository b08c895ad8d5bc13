//! The report as flat rows for analytic engines: one file a type, JSON lines, every column in every row, of one type or null.
//!
//! Times are RFC 3339 with nine digits, sizes integers, keys those of the report. Columns keep their names and their order; new ones go to the end.
//! `contrib/lake/` has the schemas and queries that go with them.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use super::model::Report;

/// A file of rows: its name, and each column with the place of its value in an element of the report's list.
type Table = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Elements of the report's lists. Of `incident_hosts` each element is a host, with its incident's id and verdict added.
const TABLES: &[Table] = &[
    (
        "findings",
        "findings",
        &[
            ("id", "/id"),
            ("rule", "/rule"),
            ("severity", "/severity"),
            ("time", "/time"),
            ("capture", "/capture"),
            ("packet", "/packet"),
            ("source_address", "/source/address"),
            ("source_port", "/source/port"),
            ("target_address", "/target/address"),
            ("target_port", "/target/port"),
            ("target_host", "/target/host"),
            ("community_id", "/community_id"),
            ("protocol", "/protocol"),
            ("dialect", "/dialect"),
            ("query", "/query"),
            ("stream_offset", "/stream_offset"),
            ("declared_bytes", "/declared/bytes"),
            ("declared_count", "/declared/count"),
            ("acknowledged", "/acknowledged"),
            ("occurrences", "/occurrences"),
            ("stray_protocol", "/stray/protocol"),
            ("stray_tool", "/stray/tool"),
            ("stray_probe", "/stray/probe"),
            ("outcome", "/effect/outcome"),
            ("allocates_bytes", "/effect/allocates_bytes"),
            ("explanation", "/explanation"),
        ],
    ),
    (
        "oom_events",
        "oom_events",
        &[
            ("id", "/id"),
            ("host", "/host"),
            ("time", "/time"),
            ("kind", "/kind"),
            ("process", "/process"),
            ("pid", "/pid"),
            ("total_vm_bytes", "/total_vm_bytes"),
            ("anon_rss_bytes", "/anon_rss_bytes"),
            ("workload_kind", "/workload/kind"),
            ("workload_id", "/workload/id"),
        ],
    ),
    (
        "incidents",
        "incidents",
        &[
            ("id", "/id"),
            ("kind", "/kind"),
            ("scope", "/scope"),
            ("verdict", "/verdict"),
            ("start", "/start"),
            ("end", "/end"),
            ("cause", "/cause"),
            ("source_address", "/source/address"),
            ("source_tool", "/source/tool"),
            ("summary", "/summary"),
        ],
    ),
    (
        "incident_hosts",
        "incidents",
        &[
            ("incident", "/incident"),
            ("incident_verdict", "/incident_verdict"),
            ("host", "/host"),
            ("address", "/address"),
            ("oom_event", "/oom_event"),
            ("finding", "/trigger"),
            ("lag_seconds", "/lag_seconds"),
            ("declared_bytes", "/declared_bytes"),
            ("verdict", "/verdict"),
            ("coverage", "/coverage"),
        ],
    ),
    (
        "listeners",
        "listeners",
        &[
            ("id", "/id"),
            ("address", "/address"),
            ("port", "/port"),
            ("host", "/host"),
            ("protocol", "/protocol"),
            ("role", "/role"),
            ("dialect", "/dialect"),
            ("version", "/version"),
            ("backend", "/backend"),
            ("validates", "/validates"),
            ("connections", "/connections"),
            ("first_seen", "/first_seen"),
            ("last_seen", "/last_seen"),
            ("died_at", "/died_at"),
        ],
    ),
    (
        "scans",
        "scans",
        &[
            ("id", "/id"),
            ("source_address", "/source/address"),
            ("source_label", "/source/label"),
            ("tool", "/tool"),
            ("profile", "/profile"),
            ("first", "/first"),
            ("last", "/last"),
            ("hosts", "/hosts"),
            ("ports", "/ports"),
            ("connections", "/connections"),
        ],
    ),
];

/// Writes `DIR/findings.jsonl` and its like. The directory is made; one that holds something is refused.
///
/// # Errors
/// A directory that is not empty, and whatever the disk fails with.
pub fn write_rows(report: &Report, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    if fs::read_dir(directory)?.next().is_some() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "rows go into a new or empty directory"));
    }
    let document = serde_json::to_value(report)?;
    for (name, list, columns) in TABLES {
        let file = fs::File::create_new(directory.join(format!("{name}.jsonl")))?;
        let mut out = BufWriter::new(file);
        for element in elements(&document, name, list) {
            row(&mut out, &element, columns)?;
        }
        out.flush()?;
    }
    Ok(())
}

fn elements(document: &Value, name: &str, list: &str) -> Vec<Value> {
    let all = |v: &Value, key: &str| v.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    if name != "incident_hosts" {
        return all(document, list);
    }
    let hosts = |incident: Value| {
        let mut hosts = all(&incident, "hosts");
        for host in hosts.iter_mut().filter_map(Value::as_object_mut) {
            for (key, of) in [("incident", "id"), ("incident_verdict", "verdict")] {
                host.insert(key.to_owned(), incident.get(of).cloned().unwrap_or_default());
            }
        }
        hosts
    };
    all(document, list).into_iter().flat_map(hosts).collect()
}

/// One line. A list stands as the number of its elements, an object has no place in a row.
fn row(out: &mut impl Write, element: &Value, columns: &[(&str, &str)]) -> io::Result<()> {
    for (i, (name, at)) in columns.iter().enumerate() {
        out.write_all(if i == 0 { b"{" } else { b"," })?;
        serde_json::to_writer(&mut *out, name)?;
        out.write_all(b":")?;
        match element.pointer(at) {
            Some(Value::Array(list)) => serde_json::to_writer(&mut *out, &list.len())?,
            None | Some(Value::Object(_)) => out.write_all(b"null")?,
            Some(value) => serde_json::to_writer(&mut *out, value)?,
        }
    }
    out.write_all(b"}\n")
}
