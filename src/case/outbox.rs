//! What was told, and what is still to be delivered.
//!
//! A finding and its alert are written in one transaction. Delivery comes after, and is marked when it has succeeded: an
//! alert is delivered at least once, always with the same id.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use super::counter::{self, Labels};
use super::error::CaseError;
use super::file::{Case, set_meta};
use super::history;
use super::write::FRESH;
use crate::time::Timestamp;

/// Something that is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
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
pub struct Alert {
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
    /// Receivers that have it already.
    pub done: Vec<String>,
}

/// Why something that was found is no alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The entry that withholds it.
    pub entry: String,
    /// Why that entry is there.
    pub reason: String,
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
    pub fn tell(&mut self, all: &[Delivered], whole: bool, now: Timestamp) -> Result<Vec<Delivered>, CaseError> {
        self.tell_but(all, &BTreeMap::new(), whole, now)
    }

    /// [`Case::tell`], where some of it (by id and kind) is remembered and counted, but is no alert.
    ///
    /// # Errors
    /// SQLite's.
    pub fn tell_but(
        &mut self,
        all: &[Delivered],
        withheld: &BTreeMap<(String, String), Withheld>,
        whole: bool,
        now: Timestamp,
    ) -> Result<Vec<Delivered>, CaseError> {
        self.transaction("cannot keep what was found", |tx| {
            let mut known: BTreeMap<(String, String), i64> = BTreeMap::new();
            let mut statement = tx.prepare("SELECT id, kind, rank FROM told")?;
            let mut rows = statement.query([])?;
            while let Some(r) = rows.next()? {
                known.insert((r.get(0)?, r.get(1)?), r.get(2)?);
            }
            drop(rows);
            let (mut fresh, mut alerts) = (Vec::new(), Vec::new());
            for told in all {
                let key = (told.id.clone(), told.kind.to_string());
                let before = known.get(&key);
                if before.is_some_and(|rank| *rank >= told.rank) {
                    continue;
                }
                let labels = Labels::of(told.kind, &told.document);
                let earlier = match before {
                    Some(_) => Some(Labels::of(told.kind, &document_of(tx, &key)?)),
                    None => None,
                };
                let withheld = withheld.get(&key);
                // Once, and once more where it became graver: who looks for the grave ones must see it.
                if earlier.as_ref() != Some(&labels) {
                    match withheld {
                        Some(_) => counter::add(tx, counter::WITHHELD, &labels.withheld(told.kind), 1)?,
                        None => counter::add(tx, counter::of(told.kind), &labels, 1)?,
                    }
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
                if let Some(w) = withheld {
                    tx.execute(
                        "INSERT INTO withheld (entry, reason, count, first, last) VALUES (?1, ?2, 1, ?3, ?3) \
                         ON CONFLICT (entry) DO UPDATE SET reason=?2, count=count+1, last=?3",
                        params![w.entry, w.reason, now.0],
                    )?;
                } else if told.deliver {
                    alerts.push((told.id.as_str(), told.kind, document.clone()));
                }
                fresh.push(Delivered { document, ..told.clone() });
            }
            post(tx, &alerts, now)?;
            if whole {
                set_meta(tx, FRESH, "0")?;
            }
            Ok(fresh)
        })
    }

    /// Alerts that were not delivered to all, by their numbers: incidents first, the gravest before the others, then notices,
    /// then findings by how grave they are; of equal ones the oldest first.
    ///
    /// # Errors
    /// SQLite's.
    pub fn waiting(&self) -> Result<Vec<i64>, CaseError> {
        let sql = "SELECT sequence FROM outbox LEFT JOIN told ON told.id=outbox.id AND told.kind=outbox.kind \
                   WHERE sent_at IS NULL ORDER BY \
                   CASE outbox.kind WHEN 'incident' THEN 0 WHEN 'notice' THEN 1 ELSE 2 END, told.rank DESC, sequence";
        self.all(sql, [], |r| r.get(0))
    }

    /// An alert by its number.
    ///
    /// # Errors
    /// SQLite's.
    pub fn letter(&self, sequence: i64) -> Result<Option<Alert>, CaseError> {
        Ok(self.letters(sequence - 1, 1)?.into_iter().find(|l| l.sequence == sequence))
    }

    /// Alerts that were not delivered to all, later ones than `after`, the oldest first, at most `max`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn letters(&self, after: i64, max: u32) -> Result<Vec<Alert>, CaseError> {
        let failed = self.failed("cannot read the case");
        let sql = "SELECT sequence, id, kind, document, attempts, done FROM outbox \
                   WHERE sent_at IS NULL AND sequence > ?1 ORDER BY sequence LIMIT ?2";
        let mut statement = self.db.prepare(sql).map_err(&failed)?;
        let rows = statement
            .query_map(params![after, max], |r| {
                Ok(Alert {
                    sequence: r.get(0)?,
                    id: r.get(1)?,
                    kind: r.get(2)?,
                    document: r.get(3)?,
                    attempts: r.get::<_, i64>(4)?.try_into().unwrap_or(0),
                    done: serde_json::from_str(&r.get::<_, String>(5)?).unwrap_or_default(),
                })
            })
            .map_err(&failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(&failed)
    }

    /// Notes who has an alert now (`letter.done`); `whole`: all who should.
    ///
    /// # Errors
    /// SQLite's.
    pub fn tried(&mut self, letter: &Alert, whole: bool, now: Timestamp) -> Result<(), CaseError> {
        self.transaction("cannot note a delivery", |tx| {
            let done = serde_json::to_string(&letter.done).unwrap_or_default();
            tx.execute(
                "UPDATE outbox SET attempts=attempts+1, sent_at=?2, done=?3 WHERE sequence=?1",
                params![letter.sequence, whole.then_some(now.0), done],
            )?;
            let name = if whole { counter::DELIVERED } else { counter::FAILED };
            counter::add(tx, name, &Labels::default(), 1)
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

/// Puts alerts into the outbox; floods of findings as one each.
fn post(tx: &rusqlite::Transaction<'_>, alerts: &[(&str, &str, String)], now: Timestamp) -> rusqlite::Result<()> {
    let findings: Vec<usize> = (0..alerts.len()).filter(|i| alerts.get(*i).is_some_and(|a| a.1 == "finding")).collect();
    let texts: Vec<&str> = findings.iter().filter_map(|i| alerts.get(*i)).map(|a| a.2.as_str()).collect();
    let (left_out, floods) = super::flood::folded(&texts, now);
    let left_out: BTreeSet<usize> = left_out.iter().filter_map(|i| findings.get(*i)).copied().collect();
    let mut insert = tx.prepare("INSERT INTO outbox (id, kind, document) VALUES (?1, ?2, ?3)")?;
    for (_, (id, kind, document)) in alerts.iter().enumerate().filter(|(i, _)| !left_out.contains(i)) {
        insert.execute(params![id, kind, document])?;
    }
    for flood in floods {
        insert.execute(params![flood.id, "notice", flood.document])?;
        counter::add(tx, counter::of("notice"), &Labels::of("notice", &flood.document), 1)?;
    }
    Ok(())
}

fn document_of(tx: &rusqlite::Transaction<'_>, key: &(String, String)) -> rusqlite::Result<String> {
    tx.query_row("SELECT document FROM told WHERE id=?1 AND kind=?2", [&key.0, &key.1], |r| r.get(0))
}
