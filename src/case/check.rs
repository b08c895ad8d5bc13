//! Whether a case is sound, and what it holds.

pub use super::file::is_network_filesystem;

use super::error::CaseError;
use super::file::Case;

/// What a case holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Info {
    /// Version of its tables.
    pub schema: i32,
    /// Bytes of the file, what is not used any more included.
    pub bytes: u64,
    /// Bytes in it that are free.
    pub free_bytes: u64,
    /// Capture sets.
    pub sets: u64,
    /// Captures.
    pub captures: u64,
    /// Packets that were read.
    pub packets: u64,
    /// Flow records.
    pub flows: u64,
    /// Bytes of kept segments, packed.
    pub segment_bytes: u64,
    /// Logs.
    pub logs: u64,
    /// Findings that were told.
    pub findings: u64,
    /// Incidents that were told.
    pub incidents: u64,
    /// Alerts that were not delivered yet.
    pub undelivered: u64,
    /// It lies on a network file system.
    pub network_filesystem: bool,
    /// Alerts that were withheld, by the entry that did.
    pub withheld: Vec<super::counter::WithheldCount>,
}

impl Case {
    /// What it holds.
    ///
    /// # Errors
    /// SQLite's.
    pub fn info(&self) -> Result<Info, CaseError> {
        let n = |sql: &str| -> Result<u64, CaseError> {
            let n: i64 = self.db.query_row(sql, [], |r| r.get(0)).map_err(self.failed("cannot read the case"))?;
            Ok(u64::try_from(n).unwrap_or(0))
        };
        let page: i64 = self.pragma("page_size")?;
        let free: i64 = self.pragma("freelist_count")?;
        Ok(Info {
            schema: self.pragma("user_version")?,
            bytes: self.bytes()?,
            free_bytes: u64::try_from(free.saturating_mul(page)).unwrap_or(0),
            sets: n("SELECT count(*) FROM capture_set")?,
            captures: n("SELECT count(*) FROM capture")?,
            packets: n("SELECT coalesce(sum(consumed), 0) FROM capture")?,
            flows: n("SELECT count(*) FROM flow")?,
            segment_bytes: n("SELECT coalesce(sum(length(data)), 0) FROM segment")?,
            logs: n("SELECT count(*) FROM log")?,
            findings: n("SELECT count(*) FROM told WHERE kind = 'finding'")?,
            incidents: n("SELECT count(*) FROM told WHERE kind = 'incident'")?,
            undelivered: n("SELECT count(*) FROM outbox WHERE sent_at IS NULL")?,
            network_filesystem: is_network_filesystem(&self.path),
            withheld: self.withheld()?,
        })
    }

    /// Bytes of the file, what is not used any more included.
    ///
    /// # Errors
    /// SQLite's.
    pub fn bytes(&self) -> Result<u64, CaseError> {
        let (page, pages): (i64, i64) = (self.pragma("page_size")?, self.pragma("page_count")?);
        Ok(u64::try_from(pages.saturating_mul(page)).unwrap_or(0))
    }

    /// What is wrong with it; nothing where it is sound.
    ///
    /// # Errors
    /// SQLite's, where it is so damaged that it cannot even be checked.
    pub fn check(&self) -> Result<Vec<String>, CaseError> {
        let failed = self.failed("cannot check the case");
        let mut wrong = Vec::new();
        for pragma in ["PRAGMA integrity_check", "PRAGMA foreign_key_check"] {
            let mut statement = self.db.prepare(pragma).map_err(&failed)?;
            let mut rows = statement.query([]).map_err(&failed)?;
            while let Some(row) = rows.next().map_err(&failed)? {
                let text: String = row.get(0).map_err(&failed)?;
                if text != "ok" {
                    wrong.push(if pragma.contains("foreign") {
                        format!("{text}: a row without its set")
                    } else {
                        text
                    });
                }
            }
        }
        if wrong.is_empty() {
            let stored = self.load()?;
            let damaged = crate::analysis::damaged_batches(&stored) + stored.damaged;
            if damaged > 0 {
                wrong.push(format!("{damaged} batches of segments cannot be unpacked"));
            }
            let records: u64 = stored.sets.iter().map(|s| s.damaged).sum();
            if records > 0 {
                wrong.push(format!("{records} flow records are damaged"));
            }
            wrong.extend(stored.lost);
        }
        Ok(wrong)
    }

    /// Gives the space of what was removed back to the file system.
    ///
    /// # Errors
    /// SQLite's: a full disk, for the file is written anew.
    pub fn compact(&self) -> Result<(), CaseError> {
        self.db
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")
            .map_err(self.failed("cannot compact the case"))
    }
}
