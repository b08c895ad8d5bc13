//! Jobs on a timeline: who joined, whose keep-alives stopped, who asked for a dump.

use std::collections::{BTreeMap, HashMap};

use super::track::{Kind, Mark, ROWS, Row, finish};
use crate::report::model::{Job, JobEvent, Moment, Report};
use crate::report::size::Times;
use crate::time::Timestamp;

/// The marks of all jobs by address, where their time lies between `from` and `to`.
pub(super) fn marks<'a>(
    report: &'a Report,
    (from, to): (Timestamp, Timestamp),
    times: &Times,
) -> HashMap<&'a str, Vec<Mark>> {
    let mut all: HashMap<&str, Vec<Mark>> = HashMap::new();
    for m in report.jobs.iter().flat_map(|j| &j.timeline) {
        let inside = m.time.is_some_and(|t| from <= t && t <= to);
        if let (Some(address), Some(mark), true) = (m.address.as_deref(), mark(m, times), inside) {
            all.entry(address).or_default().push(mark);
        }
    }
    all
}

/// A row for each host of a job whose stores tell when somebody joined or fell silent; those in trouble first.
pub(super) fn rows_of_job(job: &Job, times: &Times) -> Vec<Row> {
    let mut by_host: BTreeMap<(&str, &str), (bool, Row)> = BTreeMap::new();
    for m in &job.timeline {
        let (Some(address), Some(mark)) = (m.address.as_deref(), mark(m, times)) else { continue };
        let host = m.host.as_deref().unwrap_or(address);
        let (bad, row) = by_host.entry((host, address)).or_default();
        *bad |= m.kind == JobEvent::FellSilent;
        row.marks.push(mark);
    }
    for s in &job.signs_of_life {
        let Some(address) = s.address.as_deref() else { continue };
        let host = s.host.as_deref().unwrap_or(address);
        if let (Some(from), Some((_, row))) = (s.fell_silent, by_host.get_mut(&(host, address))) {
            let to = s.observed_until.unwrap_or(from);
            row.silence = Some(row.silence.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
        }
    }
    let mut rows: Vec<_> = by_host
        .into_iter()
        .map(|((host, address), (bad, row))| {
            let sub = if address == host { String::new() } else { address.to_string() };
            (bad, Row { name: host.to_string(), sub, ..row })
        })
        .collect();
    rows.sort_by_key(|(bad, _)| !bad);
    rows.truncate(ROWS);
    rows.into_iter()
        .map(|(_, mut row)| {
            finish(&mut row);
            row
        })
        .collect()
}

fn mark(m: &Moment, times: &Times) -> Option<Mark> {
    let kind = match m.kind {
        JobEvent::Joined => Kind::Joined,
        JobEvent::FellSilent => Kind::Silent,
        JobEvent::DumpRequested | JobEvent::Aborted | JobEvent::RemoteError => Kind::Dump,
        JobEvent::Removed | JobEvent::Disconnected | JobEvent::ExitBarrier => Kind::Left,
        JobEvent::Complete | JobEvent::Closed | JobEvent::DumpSeen => return None,
    };
    let time = m.time?;
    Some(Mark { kind, time, title: format!("{}, {}", m.text, times.short(time)) })
}
