//! From what a case holds to what is new in it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use serde::Serialize;

use super::captures::still_there;
use crate::analysis::{Analysis, Options, Stored, analyze_stored, late_of_kept, read_late};
use crate::case::{CaptureRow, Case, CaseError, Delivered, save_late};
use crate::net::Endpoint;
use crate::report::model::Report;
use crate::time::Timestamp;
use crate::vocabulary::Severity;

/// Rounds of reading again: what is learnt may name listeners whose traffic teaches more.
const ROUNDS: usize = 5;

/// Concludes from what a case holds. Flows to listeners that became known late are fetched from the captures that are
/// still there, and kept from here on; `promoted` is told of each set that this happened to.
///
/// # Errors
/// The case's.
pub fn conclude(
    case: &mut Case,
    options: &Options,
    promoted: &mut dyn FnMut(i64, &BTreeSet<Endpoint>),
) -> Result<Analysis, CaseError> {
    conclude_from(case, options, &Case::load, promoted)
}

/// The same from what `load` makes of the case.
///
/// # Errors
/// The case's.
pub(super) fn conclude_from(
    case: &mut Case,
    options: &Options,
    load: &dyn Fn(&Case) -> Result<Stored, CaseError>,
    promoted: &mut dyn FnMut(i64, &BTreeSet<Endpoint>),
) -> Result<Analysis, CaseError> {
    let mut concluded = analyze_stored(options, load(case)?);
    for _ in 0..ROUNDS {
        if !fetch_wanted(case, &concluded.wanted, promoted)? {
            break;
        }
        concluded = analyze_stored(options, load(case)?);
    }
    Ok(concluded.analysis)
}

/// Fetches what was missed of flows to listeners that became known late, of the sets of this case; whether there was any.
///
/// # Errors
/// The case's.
pub fn fetch_wanted(
    case: &mut Case,
    wanted: &[(i64, BTreeSet<Endpoint>)],
    promoted: &mut dyn FnMut(i64, &BTreeSet<Endpoint>),
) -> Result<bool, CaseError> {
    // Captures of others' evidence lie elsewhere: they cannot be read again.
    let mut any = false;
    for (set, listeners) in wanted.iter().filter(|(set, _)| *set >= 0) {
        fetch(case, *set, listeners)?;
        promoted(*set, listeners);
        any = true;
    }
    Ok(any)
}

fn fetch(case: &mut Case, set: i64, listeners: &BTreeSet<Endpoint>) -> Result<(), CaseError> {
    let stored = case.load_set(set)?;
    let wanted: HashSet<Endpoint> = listeners.iter().copied().collect();
    let mut late: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut gone = BTreeSet::new();
    let rows: Vec<CaptureRow> = case.captures()?.into_iter().filter(|c| c.set == set).collect();
    for row in &rows {
        let path = Path::new(&row.path);
        let read = if still_there(row) { read_late(path, row.id, row.consumed, &wanted).ok() } else { None };
        match read {
            Some(batch) => late.extend(batch.map(|b| (row.id, b))),
            None => {
                gone.insert(row.id);
            }
        }
    }
    let failed = |source| case.io("cannot pack segments", source);
    late.extend(late_of_kept(&stored, &gone, &wanted).map_err(failed)?);
    // In the order in which the captures were taken.
    let mut batches: Vec<(u32, Vec<u8>)> = Vec::new();
    for c in &stored.captures {
        batches.extend(late.remove(&c.id).map(|b| (c.id, b)));
    }
    case.transaction("cannot keep what was fetched", |tx| save_late(tx, set, listeners.iter().copied(), &batches))
}

/// One object with its type before its own fields.
#[derive(Serialize)]
struct NewsLine<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// What a report tells, each thing with its stable id: findings, and incidents that have a trigger or grow.
/// `deliver_from`: findings of at least this severity are alerts.
pub fn told(report: &Report, deliver_from: Option<Severity>) -> Vec<Delivered> {
    let mut all = Vec::new();
    for f in &report.findings {
        all.push(Delivered {
            id: f.id.clone(),
            kind: "finding",
            rank: f.severity as i64,
            time: f.time,
            document: document("finding", f),
            deliver: deliver_from.is_some_and(|s| f.severity >= s),
        });
    }
    for i in &report.incidents {
        let triggered = i.hosts.iter().any(|h| h.trigger.is_some());
        all.push(Delivered {
            id: i.id.clone(),
            kind: "incident",
            rank: i64::from(triggered) << 32 | (i.verdict as i64) << 24 | i.hosts.len() as i64,
            time: i.start,
            document: document("incident", i),
            deliver: deliver_from.is_some(),
        });
    }
    all
}

fn document<T: Serialize>(kind: &str, body: &T) -> String {
    crate::escape::json(serde_json::to_string(&NewsLine { kind, body }).unwrap_or_default())
}

/// Something that went wrong with the watching itself, as an alert.
#[derive(Serialize)]
struct Notice<'a> {
    id: &'a str,
    rule: &'a str,
    severity: Severity,
    time: Timestamp,
    path: String,
    explanation: &'a str,
}

/// An alert about the watching itself: `rule` names what is wrong, `key` tells one occurrence from the next.
pub(super) fn notice(
    rule: &str,
    path: &Path,
    key: &str,
    explanation: &str,
    now: Timestamp,
    deliver: bool,
) -> Delivered {
    let shown = path.to_string_lossy();
    let id = crate::finding::short_hash([rule.as_bytes(), shown.as_bytes(), key.as_bytes()]);
    let body = Notice {
        id: &id,
        rule,
        severity: Severity::Warning,
        time: now,
        path: crate::escape::clean(shown.as_bytes(), 400),
        explanation,
    };
    Delivered { document: document("notice", &body), id, kind: "notice", rank: 0, time: Some(now), deliver }
}
