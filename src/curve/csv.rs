//! `host,time,used_bytes` or `host,time,used_percent`, in the order that a line of names gives.

use super::series::{Collector, Sample, host, local};
use crate::oom::{Options, instant_or_local};

/// Which column holds what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    host: Option<usize>,
    time: usize,
    bytes: Option<usize>,
    percent: Option<usize>,
    total: Option<usize>,
}

fn cells(line: &str) -> Vec<&str> {
    line.split(',').take(64).map(|c| c.trim().trim_matches('"')).collect()
}

/// The columns, if the line names them.
pub(super) fn columns(line: &str) -> Option<Columns> {
    let names: Vec<String> =
        cells(line).iter().map(|c| c.trim_start_matches('#').trim().to_ascii_lowercase()).collect();
    let find = |wanted: &[&str]| names.iter().position(|n| wanted.contains(&n.as_str()));
    let columns = Columns {
        host: find(&["host", "node", "hostname", "instance"]),
        time: find(&["time", "timestamp", "at"])?,
        bytes: find(&["used_bytes", "mem_used_bytes", "memory_used_bytes"]),
        percent: find(&["used_percent", "mem_used_percent", "memory_used_percent", "percent"]),
        total: find(&["total_bytes", "mem_total_bytes", "memory_total_bytes"]),
    };
    (columns.bytes.is_some() || columns.percent.is_some()).then_some(columns)
}

pub(super) fn read(text: &str, options: &Options, to: &mut Collector) {
    const REQUIRED: &str = "host,time,used_bytes|used_percent as the first line names them";
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let Some(columns) = lines.next().and_then(|(_, l)| columns(l)) else { return };
    for (number, line) in lines.filter(|(_, l)| !l.starts_with('#')) {
        if row(line, columns, options, to).is_none() {
            to.bad(number, REQUIRED, line);
        }
    }
}

fn row(line: &str, columns: Columns, options: &Options, to: &mut Collector) -> Option<()> {
    let cells = cells(line);
    let number = |at: Option<usize>| -> Option<f64> {
        cells.get(at?)?.trim_end_matches('%').parse().ok().filter(|v: &f64| v.is_finite() && *v >= 0.0)
    };
    let host = host(options, columns.host.and_then(|at| cells.get(at).copied()))?;
    let (at, assumed) = match instant_or_local(cells.get(columns.time)?)? {
        Ok(at) => (at, false),
        Err(naive) => local(options, host, naive)?,
    };
    let (bytes, percent, total) = (number(columns.bytes), number(columns.percent), number(columns.total));
    let total = total.filter(|t| *t > 0.0);
    let used_bytes = bytes.or_else(|| Some(percent? / 100.0 * total?));
    let used_percent = percent.or_else(|| Some(bytes? / total? * 100.0));
    used_bytes.or(used_percent)?;
    to.add(host, Sample { at, used_bytes, used_percent }, assumed);
    Some(())
}
