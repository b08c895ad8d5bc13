//! Reading observations.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Row;

use super::error::CaseError;
use super::file::Case;
use super::row::{CaptureRow, CaptureState, LogRow};
use crate::analysis::{Stored, StoredCapture, StoredLog, StoredSet, counters_of, record_of_row, unpack_lines};
use crate::capture::Summary;
use crate::net::Endpoint;
use crate::time::Timestamp;

/// A part of a log unpacks to at most this many bytes.
const MAX_LOG_PART: u64 = 256 << 20;

const CAPTURE: &str = "SELECT id, set_id, path, device, inode, size, modified, head_length, head_hash, consumed, offset, \
                       state, first, last, summary, error FROM capture";

fn capture_row(r: &Row<'_>) -> rusqlite::Result<CaptureRow> {
    let n = |i: usize| r.get::<_, i64>(i).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(CaptureRow {
        id: r.get(0)?,
        set: r.get(1)?,
        path: r.get(2)?,
        inode: (n(3)?, n(4)?),
        size: n(5)?,
        modified: r.get(6)?,
        head_length: n(7)?,
        head_hash: r.get(8)?,
        consumed: n(9)?,
        offset: n(10)?,
        state: CaptureState::of(&r.get::<_, String>(11)?),
        first: r.get::<_, Option<i64>>(12)?.map(Timestamp),
        last: r.get::<_, Option<i64>>(13)?.map(Timestamp),
        summary: r.get::<_, Option<String>>(14)?.as_deref().and_then(Summary::from_json),
        error: r.get(15)?,
    })
}

pub(super) fn endpoint(text: &str) -> Option<Endpoint> {
    let (address, port) = text.rsplit_once(':')?;
    Some(Endpoint::new(address.parse::<std::net::IpAddr>().ok()?.into(), port.parse().ok()?))
}

impl Case {
    /// Rows of a query, all of them.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, CaseError> {
        let failed = self.failed("cannot read the case");
        let mut statement = self.db.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map(values, row).map_err(&failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(&failed)
    }

    /// All captures, in the order in which they were first read.
    ///
    /// # Errors
    /// SQLite's.
    pub fn captures(&self) -> Result<Vec<CaptureRow>, CaseError> {
        self.all(&format!("{CAPTURE} ORDER BY id"), [], capture_row)
    }

    /// All logs, in the order in which they were first read.
    ///
    /// # Errors
    /// SQLite's.
    pub fn logs(&self) -> Result<Vec<LogRow>, CaseError> {
        let sql =
            "SELECT id, path, host, device, inode, head_length, head_hash, offset, lines, kept FROM log ORDER BY id";
        self.all(sql, [], |r| {
            let n = |i: usize| r.get::<_, i64>(i).map(|n| u64::try_from(n).unwrap_or(0));
            Ok(LogRow {
                id: r.get(0)?,
                path: r.get(1)?,
                host: r.get(2)?,
                inode: (n(3)?, n(4)?),
                head_length: n(5)?,
                head_hash: r.get(6)?,
                offset: n(7)?,
                lines: n(8)?,
                kept: n(9)?,
            })
        })
    }

    /// One set, as far as it was kept.
    ///
    /// # Errors
    /// SQLite's, or that a value is none that was written.
    pub fn load_set(&self, key: i64) -> Result<StoredSet, CaseError> {
        let damaged = |what: &str| CaseError::Damaged { path: self.path.clone(), what: format!("set {key}: {what}") };
        let (counters, skipped): (String, String) = self
            .db
            .query_row("SELECT counters, skipped FROM capture_set WHERE id=?1", [key], |r| Ok((r.get(0)?, r.get(1)?)))
            .map_err(self.failed("cannot read the case"))?;
        let counters: Vec<u64> = serde_json::from_str(&counters).map_err(|e| damaged(&e.to_string()))?;
        let skipped: BTreeMap<String, u64> = serde_json::from_str(&skipped).map_err(|e| damaged(&e.to_string()))?;
        let captures = self.all(&format!("{CAPTURE} WHERE set_id=?1 ORDER BY first, id"), [key], capture_row)?;
        let rows: Vec<Vec<u8>> = self.all("SELECT data FROM flow WHERE set_id=?1", [key], |r| r.get(0))?;
        let records = rows.iter().filter_map(|r| record_of_row(r)).collect::<Vec<_>>();
        let damaged_records = (rows.len() - records.len()) as u64;
        let blobs = |late: i64| {
            let sql = "SELECT data FROM segment WHERE set_id=?1 AND late=?2 ORDER BY id";
            self.all(sql, [key, late], |r| r.get::<_, Vec<u8>>(0))
        };
        let promoted: Vec<String> = self.all("SELECT endpoint FROM promoted WHERE set_id=?1", [key], |r| r.get(0))?;
        Ok(StoredSet {
            key,
            host: None,
            label: None,
            captures: captures
                .into_iter()
                .map(|c| StoredCapture { id: c.id, path: c.path.into(), summary: c.summary, error: c.error })
                .collect(),
            records,
            ordinary: Vec::new(),
            segments: blobs(0)?,
            promoted: promoted.iter().filter_map(|e| endpoint(e)).collect(),
            late: blobs(1)?,
            counters: counters_of(&counters),
            skipped,
            damaged: damaged_records,
        })
    }

    /// All that was kept.
    ///
    /// # Errors
    /// SQLite's, or that a value is none that was written.
    pub fn load(&self) -> Result<Stored, CaseError> {
        let mut facts = self.evidence()?;
        let oversize = if self.evidence_is_weighed()? { Vec::new() } else { facts.oversize() };
        facts.remove(&oversize);
        let mut stored = crate::evidence::gather(facts);
        let fix = format!("rdzvscope case compact {} removes it", self.path.display());
        stored.lost.extend(oversize.iter().map(|o| format!("{o} ({fix})")));
        stored.join(self.load_own()?);
        Ok(stored)
    }

    /// The same without evidence of others.
    ///
    /// # Errors
    /// SQLite's, or that a value is none that was written.
    pub fn load_own(&self) -> Result<Stored, CaseError> {
        let keys: Vec<i64> = self.all("SELECT id FROM capture_set ORDER BY id", [], |r| r.get(0))?;
        let sets = keys.into_iter().map(|k| self.load_set(k)).collect::<Result<Vec<_>, _>>()?;
        let (mut logs, mut lost) = (Vec::new(), Vec::new());
        for row in self.logs()? {
            let mut lines = Vec::new();
            let parts: Vec<Vec<u8>> =
                self.all("SELECT data FROM log_part WHERE log_id=?1 ORDER BY id", [row.id], |r| r.get(0))?;
            for part in parts {
                if !unpack_lines(&part, MAX_LOG_PART, &mut lines) {
                    let path = crate::escape::clean(row.path.as_bytes(), 400);
                    lost.push(format!("a part of the kept lines of {path} is damaged: what it held is lost"));
                }
            }
            logs.push(StoredLog { path: PathBuf::from(row.path), host: row.host, from: None, lines });
        }
        let hosts = self.all("SELECT path, content FROM hosts ORDER BY path", [], |r| {
            Ok((PathBuf::from(r.get::<_, String>(0)?), r.get(1)?))
        })?;
        Ok(Stored { sets, logs, hosts, lost, ..Stored::default() })
    }
}
