//! What is counted for good: it stays when observations are let go, and when the program starts anew.

use rusqlite::{Transaction, params};
use serde_json::Value;

use super::error::CaseError;
use super::file::Case;
use crate::time::Timestamp;

/// Findings that were told and are not withheld.
pub(super) const FINDINGS: &str = "findings";
/// Incidents, likewise.
pub(super) const INCIDENTS: &str = "incidents";
/// Notices about the watching itself, likewise.
pub(super) const NOTICES: &str = "notices";
/// Those of all three that were withheld.
pub(super) const WITHHELD: &str = "withheld";
/// Alerts that all receivers have.
pub(super) const DELIVERED: &str = "delivered";
/// Deliveries that failed.
pub(super) const FAILED: &str = "failed";
/// Packets that were taken.
pub(super) const PACKETS: &str = "packets";
/// Packets that the kernel dropped.
pub(super) const DROPS: &str = "drops";

/// By what it is counted. Few values each: none of them comes from a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// The rule.
    pub rule: String,
    /// How bad it is.
    pub severity: String,
    /// `oom`, `nccl-init`, … of an incident; `finding`, `incident` or `notice` of what was withheld.
    pub kind: String,
}

impl Labels {
    /// Of something that is told.
    pub(super) fn of(kind: &str, document: &str) -> Labels {
        let document: Value = serde_json::from_str(document).unwrap_or(Value::Null);
        let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        let severity = crate::vocabulary::severity_of(kind, &document).text().to_string();
        match kind {
            "incident" => Labels { rule: String::new(), severity, kind: text("kind") },
            _ => Labels { rule: text("rule"), severity, kind: String::new() },
        }
    }
}

impl Labels {
    /// By which it is counted where it is withheld.
    pub(super) fn withheld(&self, kind: &str) -> Labels {
        Labels { rule: String::new(), severity: self.severity.clone(), kind: kind.to_string() }
    }
}

/// The counter of what is told under `kind`.
pub(super) fn of(kind: &str) -> &'static str {
    match kind {
        "finding" => FINDINGS,
        "incident" => INCIDENTS,
        _ => NOTICES,
    }
}

/// Counts.
pub(super) fn add(tx: &Transaction<'_>, name: &str, labels: &Labels, n: u64) -> rusqlite::Result<()> {
    tx.prepare(
        "INSERT INTO counter (name, rule, severity, kind, value) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (name, rule, severity, kind) DO UPDATE SET value=value+?5",
    )?
    .execute(params![name, labels.rule, labels.severity, labels.kind, i64::try_from(n).unwrap_or(i64::MAX)])
    .map(drop)
}

/// A counter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What is counted.
    pub name: String,
    /// By what.
    pub labels: Labels,
    /// How often.
    pub value: u64,
}

/// What an entry of a list has withheld so far.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct WithheldCount {
    /// The entry.
    pub entry: String,
    /// Why it is there.
    pub reason: String,
    /// Alerts.
    pub count: u64,
    /// When it withheld the first one.
    pub first: Timestamp,
    /// When it withheld the last one.
    pub last: Timestamp,
}

impl Case {
    /// All counters, by name and labels.
    ///
    /// # Errors
    /// SQLite's.
    pub fn counters(&self) -> Result<Vec<Counter>, CaseError> {
        let sql = "SELECT name, rule, severity, kind, value FROM counter ORDER BY name, rule, severity, kind";
        self.all(sql, [], |r| {
            Ok(Counter {
                name: r.get(0)?,
                labels: Labels { rule: r.get(1)?, severity: r.get(2)?, kind: r.get(3)? },
                value: r.get::<_, i64>(4)?.try_into().unwrap_or(0),
            })
        })
    }

    /// What was withheld, the entry that withholds most first.
    ///
    /// # Errors
    /// SQLite's.
    pub fn withheld(&self) -> Result<Vec<WithheldCount>, CaseError> {
        let sql = "SELECT entry, reason, count, first, last FROM withheld ORDER BY count DESC, entry";
        self.all(sql, [], |r| {
            Ok(WithheldCount {
                entry: r.get(0)?,
                reason: r.get(1)?,
                count: r.get::<_, i64>(2)?.try_into().unwrap_or(0),
                first: Timestamp(r.get(3)?),
                last: Timestamp(r.get(4)?),
            })
        })
    }

    /// Counts packets that the kernel dropped.
    ///
    /// # Errors
    /// SQLite's.
    pub fn count_drops(&mut self, n: u64) -> Result<(), CaseError> {
        self.transaction("cannot count dropped packets", |tx| add(tx, DROPS, &Labels::default(), n))
    }

    /// The newest packet of all.
    ///
    /// # Errors
    /// SQLite's.
    pub fn newest(&self) -> Result<Option<Timestamp>, CaseError> {
        let sql = "SELECT max(last) FROM capture_set";
        let newest: Option<i64> =
            self.db.query_row(sql, [], |r| r.get(0)).map_err(self.failed("cannot read the case"))?;
        Ok(newest.map(Timestamp))
    }

    /// Alerts that somebody still waits for.
    ///
    /// # Errors
    /// SQLite's.
    pub fn undelivered(&self) -> Result<u64, CaseError> {
        let sql = "SELECT count(*) FROM outbox WHERE sent_at IS NULL";
        let n: i64 = self.db.query_row(sql, [], |r| r.get(0)).map_err(self.failed("cannot read the case"))?;
        Ok(u64::try_from(n).unwrap_or(0))
    }
}
