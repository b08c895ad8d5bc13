//! Counters and gauges as node_exporter's textfile collector reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::notices::notice_rules;
use crate::case::{Counter, Labels};
use crate::protocol::rules;
use crate::time::{NANOS, Timestamp};
use crate::vocabulary::{IncidentKind, Severity};

/// What is so at this moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// The end of the last pass in which all went well.
    pub last_success: Option<Timestamp>,
    /// The newest packet.
    pub last_packet: Option<Timestamp>,
    /// Bytes of captures that lie there and were not analyzed.
    pub lag_bytes: u64,
    /// Things that went wrong in the last pass.
    pub problems: u64,
    /// Alerts that wait to be delivered.
    pub pending: u64,
    /// Bytes of the case.
    pub case_bytes: u64,
}

/// The labels of a family, and what is there from the start.
enum Family {
    Plain,
    RuleAndSeverity,
    KindAndSeverity,
    Rule,
    Withheld,
}

const COUNTERS: [(&str, &str, Family, &str); 8] = [
    (
        "findings",
        "rdzvscope_findings_total",
        Family::RuleAndSeverity,
        "Findings told and not withheld; one that becomes graver counts under both severities.",
    ),
    (
        "incidents",
        "rdzvscope_incidents_total",
        Family::KindAndSeverity,
        "Incidents told and not withheld; critical: with a trigger.",
    ),
    (
        "notices",
        "rdzvscope_notices_total",
        Family::Rule,
        "Notices about the watching itself: captures stopped, overwritten, unreadable.",
    ),
    (
        "withheld",
        "rdzvscope_withheld_total",
        Family::Withheld,
        "Findings, incidents and notices withheld by the list of --suppress.",
    ),
    ("delivered", "rdzvscope_alerts_delivered_total", Family::Plain, "Alerts that all receivers have taken."),
    ("failed", "rdzvscope_alert_failures_total", Family::Plain, "Deliveries that failed; they are tried again."),
    ("packets", "rdzvscope_packets_total", Family::Plain, "Packets analyzed."),
    ("drops", "rdzvscope_kernel_drops_total", Family::Plain, "Packets that the kernel dropped while listening (live)."),
];

/// The text of a file: every series from the start, at zero where nothing was counted, in a fixed order, without times.
pub fn render(counters: &[Counter], gauges: &Gauges) -> String {
    let mut text = String::new();
    let mut by_name: BTreeMap<&str, BTreeMap<Labels, u64>> = BTreeMap::new();
    for c in counters {
        by_name.entry(&c.name).or_default().insert(c.labels.clone(), c.value);
    }
    for (name, metric, family, help) in &COUNTERS {
        let mut series: BTreeMap<Labels, u64> = from_the_start(family).into_iter().map(|l| (l, 0)).collect();
        series.extend(by_name.remove(name).unwrap_or_default());
        let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} counter");
        for (labels, value) in &series {
            let _ = writeln!(text, "{metric}{} {value}", shown(labels));
        }
    }
    let seconds = |t: Option<Timestamp>| t.map_or("0".to_string(), |t| format!("{:.3}", t.0 as f64 / NANOS as f64));
    for (metric, help, value) in [
        (
            "rdzvscope_last_success_timestamp_seconds",
            "End of the last pass in which all went well; 0: never.",
            seconds(gauges.last_success),
        ),
        ("rdzvscope_last_packet_timestamp_seconds", "Time of the newest packet; 0: none.", seconds(gauges.last_packet)),
        (
            "rdzvscope_lag_bytes",
            "Bytes of captures that lie there and were not analyzed.",
            gauges.lag_bytes.to_string(),
        ),
        ("rdzvscope_problems", "Things that went wrong in the last pass.", gauges.problems.to_string()),
        ("rdzvscope_alerts_pending", "Alerts that wait to be delivered.", gauges.pending.to_string()),
        ("rdzvscope_case_size_bytes", "Size of the case.", gauges.case_bytes.to_string()),
    ] {
        let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge\n{metric} {value}");
    }
    text
}

fn from_the_start(family: &Family) -> Vec<Labels> {
    let of = |rule: &str, severity: &str, kind: &str| Labels {
        rule: rule.to_string(),
        severity: severity.to_string(),
        kind: kind.to_string(),
    };
    let severities = || Severity::ALL.iter().map(|s| s.text());
    match family {
        Family::Plain => vec![Labels::default()],
        Family::RuleAndSeverity => rules().flat_map(|r| severities().map(move |s| of(r.id, s, ""))).collect(),
        Family::KindAndSeverity => (IncidentKind::ALL.iter())
            .flat_map(|k| [Severity::Warning, Severity::Critical].map(|s| of("", s.text(), k.text())))
            .collect(),
        Family::Rule => notice_rules().map(|r| of(r.id, r.severity.text(), "")).collect(),
        Family::Withheld => {
            (["finding", "incident", "notice"].iter()).flat_map(|k| severities().map(move |s| of("", s, k))).collect()
        }
    }
}

fn shown(labels: &Labels) -> String {
    let all = [("rule", &labels.rule), ("severity", &labels.severity), ("kind", &labels.kind)];
    let set: Vec<String> =
        all.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| format!("{n}=\"{}\"", escaped(v))).collect();
    if set.is_empty() { String::new() } else { format!("{{{}}}", set.join(",")) }
}

/// Nothing here comes from a wire; a rule of a later version's case might be anything all the same.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Puts `text` in the place of `path` at one moment, readable by all: who scrapes is another user, and must never see half
/// a file.
///
/// # Errors
/// The file system's.
pub fn write_metrics(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("a file was required"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    // Not .prom: the collector reads all files that end so.
    hidden.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(hidden);
    let _ = std::fs::remove_file(&new);
    let mut file = File::create_new(&new)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    drop(file);
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_series_are_there_from_the_start_and_counters_fill_them() {
        let empty = render(&[], &Gauges::default());
        let series = |text: &str| {
            text.lines()
                .filter(|l| !l.starts_with('#'))
                .map(|l| l.rsplit_once(' ').unwrap().0.to_string())
                .collect::<Vec<_>>()
        };
        assert!(empty.contains("rdzvscope_findings_total{rule=\"store-claim\",severity=\"critical\"} 0\n"), "{empty}");
        assert!(empty.contains("rdzvscope_incidents_total{severity=\"critical\",kind=\"oom\"} 0\n"), "{empty}");
        let labels = Labels { rule: "store-claim".into(), severity: "critical".into(), kind: String::new() };
        let counted = [Counter { name: "findings".into(), labels, value: 3 }];
        let gauges = Gauges { last_success: Some(Timestamp(1_500_000_000_250_000_000)), ..Gauges::default() };
        let full = render(&counted, &gauges);
        assert_eq!(series(&empty), series(&full));
        assert!(full.contains("rdzvscope_findings_total{rule=\"store-claim\",severity=\"critical\"} 3\n"));
        assert!(full.contains("\nrdzvscope_last_success_timestamp_seconds 1500000000.250\n"));
    }

    #[test]
    fn the_file_is_replaced_whole_and_anybody_may_read_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rdzvscope.prom");
        write_metrics(&path, "a 1\n").unwrap();
        write_metrics(&path, "a 2\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a 2\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        assert!(write_metrics(Path::new("/nonexistent/x"), "").is_err());
    }
}
