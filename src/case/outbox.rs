//! What was told, and what is still to be delivered.
//!
//! A finding and its alert are written in one transaction. Delivery comes after, and is marked when it has succeeded: an
//! alert is delivered at least once, always with the same id.

use std::collections::BTreeMap;

use rusqlite::params;

use super::error::CaseError;
use super::file::{Case, set_meta};
use super::history;
use super::write::FRESH;
use crate::time::Timestamp;

/// Something that is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its stable id.
    pub id: String,
    /// `finding`, `incident` or `notice`.
    pub kind: &'static str,
    /// How grave it is: told again when this grows.
    pub rank: i64,
    /// When it happened.
    pub time: Option<Timestamp>,
    /// One JSON object.
    pub document: String,
    /// Whether it is to be delivered, or only remembered.
    pub deliver: bool,
}

/// An alert that was not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its place in the order of alerts.
    pub sequence: i64,
    /// The stable id of what it is about.
    pub id: String,
    /// `finding`, `incident` or `notice`.
    pub kind: String,
    /// One JSON object.
    pub document: String,
    /// How often delivery was tried.
    pub attempts: u64,
}

impl Case {
    /// Whether something was observed that no report was made of yet.
    ///
    /// # Errors
    /// SQLite's.
    pub fn is_fresh(&self) -> Result<bool, CaseError> {
        Ok(self.meta(FRESH)?.is_some_and(|v| v == "1"))
    }

    /// Remembers what a report tells; gives what of it is new or graver than before. All in one transaction, alerts
    /// included. `whole`: it is all that the case tells, so that nothing is fresh any more.
    ///
    /// # Errors
    /// SQLite's.
    pub fn tell(&mut self, all: &[Told], whole: bool, now: Timestamp) -> Result<Vec<Told>, CaseError> {
        self.transaction("cannot keep what was found", |tx| {
            let mut known: BTreeMap<(String, String), i64> = BTreeMap::new();
            let mut statement = tx.prepare("SELECT id, kind, rank FROM told")?;
            let mut rows = statement.query([])?;
            while let Some(r) = rows.next()? {
                known.insert((r.get(0)?, r.get(1)?), r.get(2)?);
            }
            drop(rows);
            let mut fresh = Vec::new();
            for told in all {
                let before = known.get(&(told.id.clone(), told.kind.to_string()));
                if before.is_some_and(|rank| *rank >= told.rank) {
                    continue;
                }
                let document = if told.kind == "finding" {
                    if before.is_none() {
                        history::remember(tx, &told.document)?;
                    }
                    history::with_history(tx, &told.document)?
                } else {
                    told.document.clone()
                };
                tx.execute(
                    "INSERT INTO told (id, kind, rank, time, told_at, document) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                     ON CONFLICT (id, kind) DO UPDATE SET rank=?3, time=?4, document=?6",
                    params![told.id, told.kind, told.rank, told.time.map(|t| t.0), now.0, document],
                )?;
                if told.deliver {
                    tx.execute(
                        "INSERT INTO outbox (id, kind, document) VALUES (?1, ?2, ?3)",
                        params![told.id, told.kind, document],
                    )?;
                }
                fresh.push(Told { document, ..told.clone() });
            }
            if whole {
                set_meta(tx, FRESH, "0")?;
            }
            Ok(fresh)
        })
    }

    /// Alerts that were not delivered, the oldest first, at most `max`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn letters(&self, max: u32) -> Result<Vec<Letter>, CaseError> {
        let failed = self.failed("cannot read the case");
        let sql = "SELECT sequence, id, kind, document, attempts FROM outbox WHERE sent_at IS NULL ORDER BY sequence LIMIT ?1";
        let mut statement = self.db.prepare(sql).map_err(&failed)?;
        let rows = statement
            .query_map([max], |r| {
                Ok(Letter {
                    sequence: r.get(0)?,
                    id: r.get(1)?,
                    kind: r.get(2)?,
                    document: r.get(3)?,
                    attempts: r.get::<_, i64>(4)?.try_into().unwrap_or(0),
                })
            })
            .map_err(&failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(&failed)
    }

    /// Notes that an alert was delivered, or that this was tried in vain.
    ///
    /// # Errors
    /// SQLite's.
    pub fn tried(&mut self, sequence: i64, delivered: bool, now: Timestamp) -> Result<(), CaseError> {
        self.transaction("cannot note a delivery", |tx| {
            let sent = delivered.then_some(now.0);
            tx.execute("UPDATE outbox SET attempts=attempts+1, sent_at=?2 WHERE sequence=?1", params![sequence, sent])?;
            Ok(())
        })
    }

    /// Ids of the findings and incidents that were told since `since`, with their documents, in order of time.
    ///
    /// # Errors
    /// SQLite's.
    pub fn told(&self) -> Result<Vec<(String, String, String)>, CaseError> {
        let failed = self.failed("cannot read the case");
        let sql = "SELECT id, kind, document FROM told ORDER BY time, kind, id";
        let mut statement = self.db.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).map_err(&failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(&failed)
    }
}
