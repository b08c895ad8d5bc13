//! Earlier nights: which source came with which tool, on which day and at which hour.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction, params};
use serde_json::Value;

use super::error::CaseError;
use super::file::Case;
use crate::time::Timestamp;

const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;
/// What happened less than this before is the same night.
const NIGHT: i64 = 12 * HOUR;
/// Nights that are named in one place.
const MAX_NAMED: usize = 5;
/// Days for which nights are remembered.
pub(super) const DAYS: i64 = 400;

/// Earlier nights on which a source came with the same tool at about the same hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// How many.
    pub nights: u64,
    /// The latest of them, the first first: dates, UTC.
    pub dates: Vec<String>,
}

impl Sighting {
    /// As fields of an alert: `"history":{"nights":3,"dates":[…]}`.
    fn field(&self) -> String {
        let dates = serde_json::to_string(&self.dates).unwrap_or_default();
        format!("\"history\":{{\"nights\":{},\"dates\":{dates}}}", self.nights)
    }
}

/// Source, tool and time of a finding, from its document.
fn of_document(document: &str) -> Option<(String, String, Timestamp)> {
    let v: Value = serde_json::from_str(document).ok()?;
    let source = v.get("source")?.get("address")?.as_str()?.to_string();
    let tool = v.get("stray").and_then(|s| s.get("tool")).and_then(Value::as_str).unwrap_or_default().to_string();
    let time = crate::oom::parse_instant(v.get("time")?.as_str()?).ok()?;
    Some((source, tool, time))
}

/// Remembers what a finding tells of its night.
pub(super) fn remember(tx: &Transaction<'_>, document: &str) -> rusqlite::Result<()> {
    let Some((source, tool, time)) = of_document(document) else { return Ok(()) };
    tx.execute(
        "INSERT INTO sighting (source, tool, day, hour, first, findings) VALUES (?1, ?2, ?3, ?4, ?5, 1) \
         ON CONFLICT (source, tool, day, hour) DO UPDATE SET first=min(first, ?5), findings=findings+1",
        params![source, tool, time.0.div_euclid(DAY), time.0.rem_euclid(DAY) / HOUR, time.0],
    )?;
    Ok(())
}

/// The document of a finding, with what earlier nights saw of its source where they saw any.
pub(super) fn with_history(db: &Connection, document: &str) -> rusqlite::Result<String> {
    let Some((source, tool, time)) = of_document(document) else { return Ok(document.to_string()) };
    let seen = earlier(db, &source, &tool, time)?;
    match document.strip_suffix('}') {
        Some(open) if seen.nights > 0 => Ok(format!("{open},{}}}", seen.field())),
        _ => Ok(document.to_string()),
    }
}

/// Nights before `time` on which `source` came with `tool`, at the same hour or one beside it.
fn earlier(db: &Connection, source: &str, tool: &str, time: Timestamp) -> rusqlite::Result<Sighting> {
    let hour = time.0.rem_euclid(DAY) / HOUR;
    let mut statement = db.prepare(
        "SELECT first FROM sighting WHERE source=?1 AND tool=?2 AND first<?3 \
         AND (abs(hour-?4)<=1 OR abs(hour-?4)=23) ORDER BY first",
    )?;
    let before = time.0.saturating_sub(NIGHT);
    let firsts = statement.query_map(params![source, tool, before, hour], |r| r.get::<_, i64>(0))?;
    // Two hours of one night may lie on two days.
    let mut nights: Vec<i64> = Vec::new();
    for first in firsts {
        let first = first?;
        if nights.last().is_none_or(|n| first.saturating_sub(*n) > NIGHT) {
            nights.push(first);
        }
    }
    let date = |t: &i64| Timestamp(*t).to_rfc3339().chars().take(10).collect::<String>();
    let dates: BTreeSet<String> = nights.iter().rev().take(MAX_NAMED).map(date).collect();
    Ok(Sighting { nights: nights.len() as u64, dates: dates.into_iter().collect() })
}

impl Case {
    /// Earlier nights on which `source` came with `tool` (empty: an unknown one) at about the hour of `time`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn earlier_nights(&self, source: &str, tool: &str, time: Timestamp) -> Result<Sighting, CaseError> {
        earlier(&self.db, source, tool, time).map_err(self.failed("cannot read the case"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Delivered;

    #[test]
    fn earlier_nights_stand_in_the_alert() {
        let mut case = Case::in_memory().unwrap();
        let finding = |id: &str, time: &str, source: &str| Delivered {
            id: id.into(),
            kind: "finding",
            rank: 1,
            time: None,
            document: format!(
                "{{\"type\":\"finding\",\"id\":\"{id}\",\"time\":\"{time}\",\"source\":{{\"address\":\"{source}\"}},\"stray\":{{\"tool\":\"nmap\"}}}}"
            ),
            deliver: true,
        };
        for (id, time, source) in [
            ("1", "2026-11-26T01:59:00Z", "192.0.2.250"),
            // The same night, though on two days and in two hours; then another night, another hour, another source.
            ("2", "2026-11-26T02:10:00Z", "192.0.2.250"),
            ("3", "2026-11-27T23:50:00Z", "192.0.2.251"),
            ("4", "2026-11-28T00:10:00Z", "192.0.2.251"),
            ("5", "2026-11-27T15:00:00Z", "192.0.2.250"),
            ("6", "2026-11-28T02:01:00Z", "192.0.2.250"),
            ("7", "2026-11-29T01:10:00Z", "192.0.2.250"),
            ("8", "2026-11-29T00:20:00Z", "192.0.2.251"),
        ] {
            case.tell(&[finding(id, time, source)], false, Timestamp(0)).unwrap();
        }
        let letters = case.letters(0, 20).unwrap();
        let history = |i: usize| serde_json::from_str::<Value>(&letters[i].document).unwrap()["history"].clone();
        assert_eq!(history(0), Value::Null);
        assert_eq!(history(1), Value::Null);
        assert_eq!(history(6), serde_json::json!({"nights": 2, "dates": ["2026-11-26", "2026-11-28"]}));
        assert_eq!(history(7), serde_json::json!({"nights": 1, "dates": ["2026-11-27"]}));
    }
}
