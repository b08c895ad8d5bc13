//! A list that a person keeps: `host,time[,process[,pid]]`, with or without a line of names.

use super::super::event::{Facts, OomKind, Role};
use super::super::format::Format;
use super::super::options::Clock;
use super::super::prefix::Peeled;
use super::super::stamp::{Stamp, iso_stamp};
use super::super::teller::Saying;
use super::super::{parse_instant, text};

/// Which column holds what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    host: usize,
    time: usize,
    process: Option<usize>,
    pid: Option<usize>,
}

/// The order of a list without a line of names.
pub(crate) const USUAL: Columns = Columns { host: 0, time: 1, process: Some(2), pid: Some(3) };

const LISTED: Clock = Clock { from: "list of OOM times", floor: 1_000_000, after: false };

fn cells(line: &[u8]) -> Vec<&[u8]> {
    line.split(|b| *b == b',').take(32).map(|c| c.trim_ascii().trim_ascii_start()).map(unquoted).collect()
}

fn unquoted(cell: &[u8]) -> &[u8] {
    cell.strip_prefix(b"\"").and_then(|c| c.strip_suffix(b"\"")).unwrap_or(cell)
}

/// The columns that a line of names gives.
pub(crate) fn names(line: &[u8]) -> Option<Columns> {
    let names: Vec<String> = cells(line).iter().map(|c| text::lossy(c, 32).to_ascii_lowercase()).collect();
    let find = |wanted: &[&str]| names.iter().position(|n| wanted.contains(&n.as_str()));
    Some(Columns {
        host: find(&["host", "node", "hostname"])?,
        time: find(&["time", "timestamp", "oom_time"])?,
        process: find(&["process", "comm", "command"]),
        pid: find(&["pid"]),
    })
}

/// Whether a line without names before it is of such a list: its time must be one beyond doubt, no small number.
pub(crate) fn opens(line: &[u8]) -> bool {
    let long = cells(line).get(USUAL.time).is_some_and(|time| time.len() >= b"1700000000".len());
    long && row(line, USUAL).is_some()
}

/// A line of the list.
pub(crate) fn row<'a>(line: &'a [u8], columns: Columns) -> Option<(Peeled<'a>, Saying)> {
    let cells = cells(line);
    let host = *cells.get(columns.host)?;
    if host.is_empty() || host.contains(&b' ') {
        return None;
    }
    let time = *cells.get(columns.time)?;
    let stamp = match iso_stamp(time) {
        Some((stamp, [])) => stamp,
        _ => {
            let at = parse_instant(std::str::from_utf8(time).ok()?).ok()?;
            Stamp::Absolute { at, unit: if time.contains(&b'.') { 1_000_000 } else { super::super::stamp::SECOND } }
        }
    };
    let cell = |at: Option<usize>| at.and_then(|at| cells.get(at)).copied();
    let facts = Facts {
        kind: Some(OomKind::Host),
        process: cell(columns.process).and_then(text::name),
        pid: cell(columns.pid).and_then(text::whole),
        ..Facts::default()
    };
    let peeled = Peeled {
        format: Some(Format::Csv),
        stamp: Some((stamp, LISTED)),
        host: Some(host.into()),
        message: line.into(),
        ..Peeled::default()
    };
    Some((peeled, Saying::new(Role::Report, facts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_by_name_or_in_the_usual_order() {
        let columns = names(b"Time, pid ,Host").expect("names");
        let (peeled, saying) = row(b"\"2026-11-29 11:20:39\",7,node-b", columns).expect("row");
        assert_eq!((peeled.host.as_deref(), saying.facts.pid), (Some(&b"node-b"[..]), Some(7)));
        assert!(row(b"node-b,1795951205,python", USUAL).is_some());
        assert!(opens(b"node-b,1795951205,python") && !opens(b"a,1"));
        for line in [&b"a,b"[..], b"", b"x y,2026-11-29", b"host,time", b"a"] {
            assert!(row(line, USUAL).is_none());
        }
    }
}
