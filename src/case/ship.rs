//! Rows as evidence, and evidence as rows.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{OptionalExtension, Row, params};
use serde_json::{Map, Value, json};

use super::error::CaseError;
use super::file::{Case, set_meta};
use super::load::endpoint;
use super::write::{FRESH, int};
use crate::analysis::{decoded_listeners, record_of_row};
use crate::evidence::{
    COUNTERS, Entry, FactSet, FlowFact, Kind, Oversize, contradiction, hosts_key, key_of, pieces, set_of,
};
use crate::net::Endpoint;
use crate::stream::FlowRecord;
use crate::time::Timestamp;

/// Under which key a case keeps whether flow records are marked when they change.
pub(super) const SHIP: &str = "ship";
/// Number of the last segment of evidence that was finished.
const SEGMENT: &str = "shipped";
/// Number of the last batch of TCP segments, and of log lines, that was shipped.
const BATCH: &str = "shipped-batch";
const PART: &str = "shipped-part";
/// Under which key a case keeps that all of its evidence was weighed.
const WEIGHED: &str = "evidence-weighed";
/// About how much one shipment holds, in packed bytes, and how many flow records.
const ROOM: usize = 4 << 20;
const FLOWS: u32 = 20_000;

/// Rows in order of their numbers, as many as there is room for, but at least one.
struct Load {
    /// Bytes that are left.
    room: usize,
    /// The last row that was taken.
    last: Option<i64>,
    /// One had to stay.
    full: bool,
}

impl Load {
    fn new(room: usize) -> Load {
        Load { room, last: None, full: false }
    }

    /// Whether the row goes along.
    fn takes(&mut self, number: i64, bytes: usize) -> bool {
        self.full |= bytes > self.room && self.last.is_some();
        if !self.full {
            self.room = self.room.saturating_sub(bytes);
            self.last = Some(number);
        }
        !self.full
    }
}

/// What was not shipped yet, or a part of it.
#[derive(Debug, Default)]
pub struct Shipment {
    /// The facts.
    pub pile: FactSet,
    /// The number of the segment that they make up.
    pub segment: u64,
    /// Whether there is more.
    pub more: bool,
    flows: Vec<(i64, i64, i64)>,
    batch: Option<i64>,
    part: Option<i64>,
}

/// Which rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those that are new or have changed; of flow records, those that only grew too.
    Changed {
        grown: bool,
    },
}

impl Case {
    /// The name of this case among all: sixteen hexadecimal digits, drawn when it was made.
    ///
    /// # Errors
    /// SQLite's.
    pub fn origin(&self) -> Result<String, CaseError> {
        Ok(self.meta("origin")?.unwrap_or_default())
    }

    /// From here on flow records are marked when they change. What is there already is marked now.
    ///
    /// # Errors
    /// SQLite's.
    pub fn begin_shipping(&mut self) -> Result<(), CaseError> {
        if self.meta(SHIP)?.is_some_and(|v| v == "1") {
            return Ok(());
        }
        self.transaction("cannot mark what is to be shipped", |tx| {
            tx.execute("UPDATE flow SET unshipped=1", [])?;
            set_meta(tx, SHIP, "1")
        })
    }

    fn number(&self, key: &str) -> Result<u64, CaseError> {
        Ok(self.meta(key)?.and_then(|n| n.parse().ok()).unwrap_or(0))
    }

    /// What was not shipped yet, as the next segment; `None` when there is nothing. `grown`: flow records that only
    /// count more packets than before, too. `waits`: whether a record stays for a later segment.
    ///
    /// # Errors
    /// SQLite's, or that a value is none that was written.
    pub fn shipment(&self, grown: bool, waits: &dyn Fn(&FlowRecord) -> bool) -> Result<Option<Shipment>, CaseError> {
        let mut s = Shipment { segment: self.number(SEGMENT)? + 1, ..Shipment::default() };
        self.rows(Which::Changed { grown }, waits, &mut s)?;
        Ok((!s.pile.is_empty()).then_some(s))
    }

    /// Adds the listeners whose flows were decoded, by the batches of segments behind `from`, and those that became known late.
    ///
    /// # Errors
    /// SQLite's.
    pub fn read_listeners(&self, spared: &mut BTreeSet<Endpoint>, from: &mut i64) -> Result<(), CaseError> {
        self.until("SELECT id, data FROM segment WHERE id>?1 ORDER BY id", *from, |r| {
            *from = r.get(0)?;
            spared.extend(decoded_listeners(&[r.get(1)?]));
            Ok(true)
        })?;
        self.each("SELECT DISTINCT endpoint FROM promoted", [], |r| {
            spared.extend(endpoint(&r.get::<_, String>(0)?));
            Ok(())
        })
    }

    /// Notes that a shipment is where it belongs.
    ///
    /// # Errors
    /// SQLite's.
    pub fn shipped(&mut self, s: &Shipment) -> Result<(), CaseError> {
        self.transaction("cannot note what was shipped", |tx| {
            for table in ["capture_set", "capture", "log", "hosts"] {
                tx.execute(&format!("UPDATE {table} SET unshipped=0 WHERE unshipped<>0"), [])?;
            }
            let mut flow =
                tx.prepare("UPDATE flow SET unshipped=NULL WHERE set_id=?1 AND capture_id=?2 AND packet=?3")?;
            for (set, capture, packet) in &s.flows {
                flow.execute([set, capture, packet])?;
            }
            for (key, n) in [(BATCH, s.batch), (PART, s.part)] {
                if let Some(n) = n {
                    set_meta(tx, key, &n.to_string())?;
                }
            }
            set_meta(tx, SEGMENT, &s.segment.to_string())
        })
    }

    /// All that the case holds, evidence of others included.
    ///
    /// # Errors
    /// SQLite's, or that a value is none that was written.
    pub fn pile(&self) -> Result<FactSet, CaseError> {
        let origin = self.origin()?;
        let mut s = Shipment { segment: self.number(SEGMENT)?, ..Shipment::default() };
        // What it shipped is all here: no segment of it is missing.
        for n in 1..=s.segment {
            let entry = Entry { rank: 1, segment: n, ..Entry::default() };
            s.pile.put(&origin, Kind::Segment, key_of(&[n]), entry);
        }
        s.segment += 1;
        self.rows(Which::All, &|_| false, &mut s)?;
        s.pile.join(self.evidence()?);
        Ok(s.pile)
    }

    /// Adds rows to a shipment.
    fn rows(&self, which: Which, waits: &dyn Fn(&FlowRecord) -> bool, s: &mut Shipment) -> Result<(), CaseError> {
        let origin = self.origin()?;
        let changed = which != Which::All;
        let only = if changed { "WHERE unshipped<>0" } else { "" };
        let segment = s.segment;
        let pile = &mut s.pile;
        let mut put = |kind, key, rank, last: Option<i64>, data: Vec<u8>| {
            pile.put(&origin, kind, key, Entry { rank, segment, last: last.map(Timestamp), data });
        };
        let n = |r: &Row<'_>, i: usize| r.get::<_, i64>(i).map(|n| u64::try_from(n).unwrap_or(0));
        let object = |v: Value| v.to_string().into_bytes();
        self.each(&format!("SELECT id, counters, skipped, last FROM capture_set {only}"), [], |r| {
            let id = n(r, 0)?;
            let numbers: Vec<u64> = serde_json::from_str(&r.get::<_, String>(1)?).unwrap_or_default();
            let counters: Map<String, Value> =
                COUNTERS.iter().zip(numbers).map(|(name, n)| ((*name).to_string(), n.into())).collect();
            let skipped: Value = serde_json::from_str(&r.get::<_, String>(2)?).unwrap_or_default();
            let mut statement = self.db.prepare("SELECT endpoint FROM promoted WHERE set_id=?1 ORDER BY endpoint")?;
            let promoted: Vec<String> = statement.query_map([int(id)], |r| r.get(0))?.collect::<Result<_, _>>()?;
            let body = json!({ "counters": counters, "skipped": skipped, "promoted": promoted });
            let rank = body.as_object().map_or(0, crate::evidence::rank_of_set);
            put(Kind::Set, key_of(&[id]), rank, r.get(3)?, object(body));
            Ok(())
        })?;
        let sql = format!("SELECT set_id, id, path, summary, error, consumed, last FROM capture {only}");
        self.each(&sql, [], |r| {
            let summary: Option<String> = r.get(3)?;
            let summary: Value = summary.and_then(|s| serde_json::from_str(&s).ok()).unwrap_or_default();
            let (path, error): (String, Option<String>) = (r.get(2)?, r.get(4)?);
            let packets = n(r, 5)?;
            let body = json!({ "path": path, "summary": summary, "error": error, "packets": packets });
            put(Kind::Capture, key_of(&[n(r, 0)?, n(r, 1)?]), packets, r.get(6)?, object(body));
            Ok(())
        })?;
        let only_flows = match which {
            Which::All => String::new(),
            Which::Changed { grown: false } => format!("WHERE unshipped=1 LIMIT {FLOWS}"),
            Which::Changed { grown: true } => format!("WHERE unshipped IS NOT NULL LIMIT {FLOWS}"),
        };
        let flows = &mut s.flows;
        let (mut kept, mut waiting) = (Vec::new(), 0);
        self.each(&format!("SELECT set_id, capture_id, packet, data FROM flow {only_flows}"), [], |r| {
            let record = record_of_row(&r.get::<_, Vec<u8>>(3)?);
            if record.as_ref().is_some_and(waits) {
                waiting += 1;
                return Ok(());
            }
            if changed {
                flows.push((r.get(0)?, r.get(1)?, r.get(2)?));
            }
            // One that is damaged is found by `case check`.
            if let Some(record) = record {
                kept.push((n(r, 0)?, FlowFact { segment, record }));
            }
            Ok(())
        })?;
        s.more |= changed && !flows.is_empty() && flows.len() + waiting >= FLOWS as usize;
        let from = |key| if changed { self.number(key).map(int) } else { Ok(0) };
        let mut load = Load::new(if changed { ROOM } else { usize::MAX });
        let sql = "SELECT id, set_id, capture_id, late, last, data FROM segment WHERE id>?1 ORDER BY id";
        self.until(sql, from(BATCH)?, |r| {
            let data: Vec<u8> = r.get(5)?;
            if !load.takes(r.get(0)?, data.len()) {
                return Ok(false);
            }
            for (part, parts, piece) in pieces(&data) {
                let key = key_of(&[n(r, 1)?, n(r, 0)?, n(r, 2)?, n(r, 3)?, part, parts]);
                put(Kind::Segments, key, 0, r.get(4)?, piece.to_vec());
            }
            Ok(true)
        })?;
        (s.batch, s.more) = (load.last, s.more | load.full);
        self.each(&format!("SELECT id, path, host FROM log {only}"), [], |r| {
            let (path, host): (String, Option<String>) = (r.get(1)?, r.get(2)?);
            put(Kind::Log, key_of(&[n(r, 0)?]), 0, None, object(json!({ "path": path, "host": host })));
            Ok(())
        })?;
        let mut load = Load::new(if changed { ROOM } else { usize::MAX });
        self.until("SELECT id, log_id, seen, data FROM log_part WHERE id>?1 ORDER BY id", from(PART)?, |r| {
            let data: Vec<u8> = r.get(3)?;
            if !load.takes(r.get(0)?, data.len()) {
                return Ok(false);
            }
            for (part, parts, piece) in pieces(&data) {
                put(Kind::Lines, key_of(&[n(r, 1)?, n(r, 0)?, part, parts]), 0, r.get(2)?, piece.to_vec());
            }
            Ok(true)
        })?;
        (s.part, s.more) = (load.last, s.more | load.full);
        self.each(&format!("SELECT path, content FROM hosts {only}"), [], |r| {
            let (path, content): (String, Vec<u8>) = (r.get(0)?, r.get(1)?);
            let hash = crate::finding::short_hash([content.as_slice()]);
            let packed =
                zstd::bulk::compress(&content, 3).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
            for (part, parts, piece) in pieces(&packed) {
                put(Kind::Hosts, hosts_key(&hash, part, parts, &path), 0, None, piece.to_vec());
            }
            Ok(())
        })?;
        kept.into_iter().for_each(|(set, fact)| s.pile.put_flow(&origin, set, fact));
        if !s.pile.is_empty() || !changed {
            let setup = self.meta("setup")?.and_then(|text| serde_json::from_str::<Value>(&text).ok());
            let mut put = |kind, rank, body: Value| {
                s.pile.put(&origin, kind, String::new(), Entry { rank, segment, last: None, data: object(body) });
            };
            if let Some(setup) = setup {
                put(Kind::SiteFacts, 0, json!({ "setup": setup }));
            }
            put(Kind::Origin, 0, json!({ "host": null }));
        }
        Ok(())
    }

    fn each(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), CaseError> {
        let failed = self.failed("cannot read the case");
        let mut statement = self.db.prepare(sql).map_err(&failed)?;
        let mut rows = statement.query(values).map_err(&failed)?;
        while let Some(r) = rows.next().map_err(&failed)? {
            row(r).map_err(&failed)?;
        }
        Ok(())
    }

    /// The same, as long as `row` wants more.
    fn until(
        &self,
        sql: &str,
        from: i64,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> Result<(), CaseError> {
        let failed = self.failed("cannot read the case");
        let mut statement = self.db.prepare(sql).map_err(&failed)?;
        let mut rows = statement.query([from]).map_err(&failed)?;
        while let Some(r) = rows.next().map_err(&failed)? {
            if !row(r).map_err(&failed)? {
                break;
            }
        }
        Ok(())
    }

    /// The evidence of others that was taken.
    ///
    /// # Errors
    /// SQLite's.
    pub fn evidence(&self) -> Result<FactSet, CaseError> {
        self.evidence_of(None)
    }

    /// Whether all evidence was weighed when it was taken: earlier versions took whatever came.
    ///
    /// # Errors
    /// SQLite's.
    pub fn evidence_is_weighed(&self) -> Result<bool, CaseError> {
        Ok(self.meta(WEIGHED)?.is_some_and(|v| v == "1"))
    }

    /// Removes evidence that takes more memory than it may; what was removed.
    ///
    /// # Errors
    /// SQLite's.
    pub fn remove_oversize(&mut self) -> Result<Vec<Oversize>, CaseError> {
        let oversize = self.evidence()?.oversize();
        self.transaction("cannot remove evidence", |tx| {
            let mut remove = tx.prepare("DELETE FROM evidence WHERE origin=?1 AND segment=?2")?;
            for o in &oversize {
                remove.execute(params![o.origin, int(o.segment)])?;
            }
            drop(remove);
            set_meta(tx, WEIGHED, "1")
        })?;
        Ok(oversize)
    }

    /// Whose evidence was taken.
    ///
    /// # Errors
    /// SQLite's.
    pub fn evidence_origins(&self) -> Result<Vec<String>, CaseError> {
        self.all("SELECT DISTINCT origin FROM evidence ORDER BY origin", [], |r| r.get(0))
    }

    /// The evidence of one origin, or of all.
    ///
    /// # Errors
    /// SQLite's.
    pub fn evidence_of(&self, origin: Option<&str>) -> Result<FactSet, CaseError> {
        let mut pile = FactSet::default();
        let only = if origin.is_some() { "WHERE origin=?1" } else { "WHERE ?1 IS NULL" };
        let sql = format!("SELECT origin, kind, key, rank, segment, last, data FROM evidence {only}");
        self.each(&sql, [origin], |r| {
            let number = |i: usize| r.get::<_, i64>(i).map(|n| u64::try_from(n).unwrap_or(0));
            let entry = Entry {
                rank: number(3)?,
                segment: number(4)?,
                last: r.get::<_, Option<i64>>(5)?.map(Timestamp),
                data: r.get(6)?,
            };
            let (origin, key): (String, String) = (r.get(0)?, r.get(2)?);
            match (Kind::of(&r.get::<_, String>(1)?), record_of_row(&entry.data), set_of(&key)) {
                (Some(Kind::Flow), Some(record), Some(set)) => {
                    pile.put_flow(&origin, set, FlowFact { segment: entry.segment, record });
                }
                (Some(kind), ..) => drop(pile.entries.insert((origin, kind, key), entry)),
                (None, ..) => {}
            }
            Ok(())
        })?;
        Ok(pile)
    }

    /// Takes evidence that came as the file `path`, of this size and change time, in one transaction with the note that
    /// it came. Whether it says anything new.
    ///
    /// # Errors
    /// SQLite's.
    pub fn take_evidence(
        &mut self,
        pile: &FactSet,
        (path, size, modified): (&Path, u64, i64),
        now: Timestamp,
    ) -> Result<bool, CaseError> {
        self.transaction("cannot keep evidence", |tx| {
            let mut fresh = 0;
            let sql = "SELECT rank, segment, data FROM evidence WHERE origin=?1 AND kind=?2 AND key=?3";
            let mut known = tx.prepare(sql)?;
            let mut put = tx.prepare(
                "INSERT OR REPLACE INTO evidence (origin, kind, key, rank, segment, last, data) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            let mut contradictions = FactSet::default();
            let mut one = |origin: &str, kind: Kind, key: &str, e: &Entry, said: &mut FactSet| {
                let there = known.query_row(params![origin, kind.text(), key], |r| {
                    let n = |i: usize| r.get::<_, i64>(i).map(|n| u64::try_from(n).unwrap_or(0));
                    Ok(Entry { rank: n(0)?, segment: n(1)?, last: None, data: r.get(2)? })
                });
                if let Some(there) = there.optional()? {
                    let (wins, contradicts) = e.settle(kind, &there);
                    if contradicts {
                        let (key, entry) = contradiction(origin, [e.segment, there.segment]);
                        said.put(origin, Kind::Refused, key, entry);
                    }
                    if !wins {
                        return Ok::<usize, rusqlite::Error>(0);
                    }
                }
                let last = e.last.map(|t| t.0);
                put.execute(params![origin, kind.text(), key, int(e.rank), int(e.segment), last, e.data])
            };
            for ((origin, kind, key), e) in &pile.entries {
                fresh += one(origin, *kind, key, e, &mut contradictions)?;
            }
            for (origin, key, e) in pile.flow_entries() {
                fresh += one(origin, Kind::Flow, &key, &e, &mut contradictions)?;
            }
            for ((origin, kind, key), e) in &std::mem::take(&mut contradictions).entries {
                fresh += one(origin, *kind, key, e, &mut contradictions)?;
            }
            drop((known, put));
            tx.execute(
                "INSERT INTO arrived (path, size, modified, seen) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (path) DO UPDATE SET size=?2, modified=?3, seen=?4",
                params![path.to_string_lossy(), int(size), modified, now.0],
            )?;
            if fresh > 0 {
                set_meta(tx, FRESH, "1")?;
            }
            Ok(fresh > 0)
        })
    }

    /// Whether a file of this size and change time came as evidence already.
    ///
    /// # Errors
    /// SQLite's.
    pub fn has_arrived(&self, path: &Path, size: u64, modified: i64) -> Result<bool, CaseError> {
        let sql = "SELECT size=?2 AND modified=?3 FROM arrived WHERE path=?1";
        let found = self.db.query_row(sql, params![path.to_string_lossy(), int(size), modified], |r| r.get(0));
        Ok(found.optional().map_err(self.failed("cannot read the case"))?.unwrap_or(false))
    }
}
