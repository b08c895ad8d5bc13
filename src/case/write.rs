//! Writing observations, inside a transaction.

use rusqlite::{OptionalExtension, Transaction, params};
use std::path::Path;

use super::counter::{self, Labels};
use super::error::CaseError;
use super::file::{Case, set_meta};
use super::row::{CaptureRow, LogRow, SetRow};
use super::ship::SHIP;
use crate::analysis::{Batch, flow_row, pack_lines};
use crate::net::Endpoint;
use crate::time::Timestamp;

/// A number as SQLite holds it: the largest stands for all that are larger.
pub(super) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Marks that there is something that no report was made of yet.
pub(super) const FRESH: &str = "fresh";

/// Makes a set.
pub(crate) fn new_set(tx: &Transaction<'_>, stem: &(std::path::PathBuf, String)) -> rusqlite::Result<i64> {
    tx.execute("INSERT INTO capture_set (directory, stem) VALUES (?1, ?2)", params![stem.0.to_string_lossy(), stem.1])?;
    Ok(tx.last_insert_rowid())
}

/// Writes a capture's row; gives it a number where it has none.
pub(crate) fn save_capture(tx: &Transaction<'_>, row: &mut CaptureRow) -> rusqlite::Result<()> {
    let values = params![
        if row.id == 0 { None } else { Some(row.id) },
        row.set,
        row.path,
        int(row.inode.0),
        int(row.inode.1),
        int(row.size),
        row.modified,
        int(row.head_length),
        row.head_hash,
        int(row.consumed),
        int(row.offset),
        row.state.text(),
        row.first.map(|t| t.0),
        row.last.map(|t| t.0),
        row.summary.as_ref().map(crate::capture::Summary::to_json),
        row.error,
    ];
    tx.execute(
        "INSERT INTO capture (id, set_id, path, device, inode, size, modified, head_length, head_hash, consumed, offset, \
         state, first, last, summary, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
         ON CONFLICT (id) DO UPDATE SET path=?3, device=?4, inode=?5, size=?6, modified=?7, head_length=?8, head_hash=?9, \
         consumed=?10, offset=?11, state=?12, first=?13, last=?14, summary=?15, error=?16, unshipped=1",
        values,
    )?;
    if row.id == 0 {
        row.id = u32::try_from(tx.last_insert_rowid()).unwrap_or(u32::MAX);
    }
    Ok(())
}

/// Writes what came of a capture since the last batch.
pub(crate) fn save_batch(tx: &Transaction<'_>, set: i64, capture: u32, batch: &Batch) -> rusqlite::Result<()> {
    let (first, last) = batch.span.map_or((None, None), |(a, b)| (Some(a.0), Some(b.0)));
    let mut segment = tx
        .prepare("INSERT INTO segment (set_id, capture_id, late, first, last, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (late, data) in [(0, &batch.segments), (1, &batch.late)] {
        if let Some(data) = data {
            segment.execute(params![set, capture, late, first, last, data])?;
        }
    }
    // Where evidence is shipped: 1, a flow that is new or has ended; 2, one that grew since it was shipped.
    let ships = tx.query_row("SELECT value FROM meta WHERE key=?1", [SHIP], |r| r.get::<_, String>(0)).optional()?;
    let ships = ships.is_some_and(|v| v == "1");
    let mut flow = tx.prepare(
        "INSERT INTO flow (set_id, capture_id, packet, last, data, unshipped) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT (set_id, capture_id, packet) DO UPDATE SET last=?4, data=?5, \
         unshipped=CASE WHEN ?6 IS NULL THEN NULL WHEN ?7 OR unshipped=1 THEN 1 ELSE 2 END",
    )?;
    for record in &batch.records {
        let (at, data) = flow_row(record);
        let ended = record.fin.iter().chain(&record.rst).any(|m| m.get().is_some());
        flow.execute(params![set, at.capture, int(at.number), record.last.0, data, ships.then_some(1), ended])?;
    }
    let c = &batch.counters;
    let counters = [c.packets, c.segments, c.evicted_flows, c.evicted_bytes, c.bad_checksums, c.duplicates];
    let counters = serde_json::to_string(&counters).unwrap_or_default();
    let skipped = serde_json::to_string(&batch.skipped).unwrap_or_default();
    tx.execute(
        "UPDATE capture_set SET counters=?2, skipped=?3, first=min(coalesce(first, ?4), coalesce(?4, first)), \
         last=max(coalesce(last, ?5), coalesce(?5, last)), unshipped=1 WHERE id=?1",
        params![set, counters, skipped, first, last],
    )?;
    counter::add(tx, counter::PACKETS, &Labels::default(), batch.packets)?;
    set_meta(tx, FRESH, "1")
}

/// Writes segments of listeners that became known late, and that these are kept from here on.
pub(crate) fn save_late(
    tx: &Transaction<'_>,
    set: i64,
    listeners: impl Iterator<Item = Endpoint>,
    segments: &[(u32, Vec<u8>)],
) -> rusqlite::Result<()> {
    for e in listeners {
        tx.execute("INSERT OR IGNORE INTO promoted (set_id, endpoint) VALUES (?1, ?2)", params![set, e.to_string()])?;
    }
    tx.execute("UPDATE capture_set SET unshipped=1 WHERE id=?1", [set])?;
    for (capture, data) in segments {
        tx.execute(
            "INSERT INTO segment (set_id, capture_id, late, data) VALUES (?1, ?2, 1, ?3)",
            params![set, capture, data],
        )?;
    }
    set_meta(tx, FRESH, "1")
}

/// Writes how far a log was read, and the lines that came.
pub(crate) fn save_log(
    tx: &Transaction<'_>,
    row: &mut LogRow,
    lines: &[(u64, Vec<u8>)],
    now: Timestamp,
) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO log (id, path, host, device, inode, head_length, head_hash, offset, lines, kept, seen) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (id) DO UPDATE SET \
         path=?2, device=?4, inode=?5, head_length=?6, head_hash=?7, offset=?8, lines=?9, kept=?10, seen=?11, unshipped=1",
        params![
            if row.id == 0 { None } else { Some(row.id) },
            row.path,
            row.host,
            int(row.inode.0),
            int(row.inode.1),
            int(row.head_length),
            row.head_hash,
            int(row.offset),
            int(row.lines),
            int(row.kept),
            now.0,
        ],
    )?;
    if row.id == 0 {
        row.id = tx.last_insert_rowid();
    }
    if lines.is_empty() {
        return Ok(());
    }
    let data = pack_lines(lines).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    tx.execute("INSERT INTO log_part (log_id, seen, data) VALUES (?1, ?2, ?3)", params![row.id, now.0, data])?;
    set_meta(tx, FRESH, "1")
}

impl Case {
    /// Keeps a hosts list; whether it is new or has changed.
    ///
    /// # Errors
    /// SQLite's.
    pub fn save_hosts(&mut self, path: &Path, content: &[u8]) -> Result<bool, CaseError> {
        let path = path.to_string_lossy().into_owned();
        self.transaction("cannot keep a hosts list", |tx| {
            let before: Option<Vec<u8>> =
                tx.query_row("SELECT content FROM hosts WHERE path=?1", [&path], |r| r.get(0)).optional()?;
            if before.as_deref() == Some(content) {
                return Ok(false);
            }
            tx.execute(
                "INSERT INTO hosts (path, content) VALUES (?1, ?2) ON CONFLICT (path) DO UPDATE SET content=?2, unshipped=1",
                params![path, content],
            )?;
            set_meta(tx, FRESH, "1")?;
            Ok(true)
        })
    }

    /// The latest set of captures with this name.
    ///
    /// # Errors
    /// SQLite's.
    pub fn latest_set(&self, stem: &(std::path::PathBuf, String)) -> Result<Option<SetRow>, CaseError> {
        self.db
            .query_row(
                "SELECT id, last FROM capture_set WHERE directory=?1 AND stem=?2 ORDER BY id DESC LIMIT 1",
                params![stem.0.to_string_lossy(), stem.1],
                |r| Ok(SetRow { id: r.get(0)?, last: r.get::<_, Option<i64>>(1)?.map(Timestamp) }),
            )
            .optional()
            .map_err(self.failed("cannot read the case"))
    }
}
