//! What is let go, and when: by age, and before the file outgrows its budget.

use rusqlite::{OptionalExtension, Transaction, params};

use super::error::CaseError;
use super::file::Case;
use super::history::DAYS;
use crate::time::Timestamp;

/// Nanoseconds of a day.
const DAY: i64 = 86_400_000_000_000;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Seconds for which observations are kept, by the time of the newest packet.
    pub age: f64,
    /// Bytes of the file beyond which the oldest observations are let go.
    pub size: u64,
}

impl Default for Limits {
    /// Thirty days, 1 GiB.
    fn default() -> Self {
        Limits { age: 30.0 * 86_400.0, size: 1 << 30 }
    }
}

/// What was let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Batches of segments, of log lines, and facts of others' evidence.
    pub batches: u64,
    /// Flow records.
    pub flows: u64,
    /// Captures that nothing is held of any more.
    pub captures: u64,
}

impl Pruned {
    /// Whether nothing was.
    pub fn is_nothing(&self) -> bool {
        *self == Pruned::default()
    }
}

impl Case {
    /// Lets go what is older than `limits.age`, and the oldest beyond nine tenths of `limits.size`. What was told stays
    /// known: nothing is told again because its evidence went.
    ///
    /// # Errors
    /// SQLite's.
    pub fn prune(&mut self, limits: &Limits, now: Timestamp) -> Result<Pruned, CaseError> {
        let newest: Option<i64> = self
            .db
            .query_row(
                "SELECT max(last) FROM (SELECT max(last) AS last FROM capture_set UNION ALL \
                 SELECT max(last) FROM evidence)",
                [],
                |r| r.get(0),
            )
            .optional()
            .map_err(self.failed("cannot read the case"))?
            .flatten();
        let Some(newest) = newest else { return Ok(Pruned::default()) };
        // A clock that jumped ahead must not empty the case: its own packets say what is old.
        let cutoff = newest.min(now.0).saturating_sub((limits.age * 1e9) as i64);
        let mut pruned = self.transaction("cannot prune the case", |tx| forget(tx, cutoff, newest))?;
        for _ in 0..64 {
            if self.used()? <= limits.size / 10 * 9 {
                break;
            }
            // The oldest tenth of the batches goes.
            let cutoff: Option<i64> = self
                .db
                .query_row(
                    "WITH all_last AS (SELECT last FROM segment WHERE last IS NOT NULL UNION ALL \
                     SELECT last FROM evidence WHERE last IS NOT NULL UNION ALL \
                     SELECT seen FROM log_part WHERE seen IS NOT NULL) \
                     SELECT last FROM all_last ORDER BY last LIMIT 1 OFFSET (SELECT count(*) / 10 FROM all_last)",
                    [],
                    |r| r.get(0),
                )
                .optional()
                .map_err(self.failed("cannot read the case"))?;
            let cutoff = match cutoff {
                Some(c) if c < newest => c + 1,
                _ => break,
            };
            let more = self.transaction("cannot prune the case", |tx| forget(tx, cutoff, newest))?;
            if more.is_nothing() {
                break;
            }
            pruned.batches += more.batches;
            pruned.flows += more.flows;
            pruned.captures += more.captures;
        }
        Ok(pruned)
    }

    /// Whether no more should be put in before something was let go.
    ///
    /// # Errors
    /// SQLite's.
    pub fn is_full(&self, limits: &Limits) -> Result<bool, CaseError> {
        Ok(self.used()? >= limits.size)
    }

    /// Lets the oldest go where more than `most` flows are held: who concludes from a case holds all of them in memory,
    /// however small they are packed.
    ///
    /// # Errors
    /// SQLite's.
    pub fn prune_flows(&mut self, most: u64) -> Result<Pruned, CaseError> {
        let held: i64 = self
            .db
            .query_row("SELECT count(*) FROM flow", [], |r| r.get(0))
            .map_err(self.failed("cannot read the case"))?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        if held <= most {
            return Ok(Pruned::default());
        }
        // A tenth more than must be, so that the next packet is not the next time.
        let cutoff: i64 = self
            .db
            .query_row("SELECT last FROM flow ORDER BY last LIMIT 1 OFFSET ?1", [held - most / 10 * 9], |r| r.get(0))
            .map_err(self.failed("cannot read the case"))?;
        let newest: i64 = self
            .db
            .query_row("SELECT max(last) FROM flow", [], |r| r.get(0))
            .map_err(self.failed("cannot read the case"))?;
        self.transaction("cannot prune the case", |tx| forget(tx, cutoff, newest))
    }

    /// The earliest last packet of the flows that are held.
    ///
    /// # Errors
    /// SQLite's.
    #[cfg(feature = "live")]
    pub fn oldest_flow(&self) -> Result<Option<Timestamp>, CaseError> {
        let oldest = self.db.query_row("SELECT min(last) FROM flow", [], |r| r.get::<_, Option<i64>>(0));
        Ok(oldest.map_err(self.failed("cannot read the case"))?.map(Timestamp))
    }

    pub(super) fn used(&self) -> Result<u64, CaseError> {
        let (page, pages, free): (i64, i64, i64) =
            (self.pragma("page_size")?, self.pragma("page_count")?, self.pragma("freelist_count")?);
        Ok(u64::try_from(pages.saturating_sub(free).saturating_mul(page)).unwrap_or(0))
    }
}

fn forget(tx: &Transaction<'_>, cutoff: i64, newest: i64) -> rusqlite::Result<Pruned> {
    let batches = tx.execute("DELETE FROM segment WHERE last < ?1", params![cutoff])?;
    let flows = tx.execute("DELETE FROM flow WHERE last < ?1", params![cutoff])?;
    // Rows of captures stay as long as their files may still lie there: they say that these were read.
    let captures = tx.execute(
        "DELETE FROM capture WHERE last < ?1 AND state = 'gone' \
         AND NOT EXISTS (SELECT 1 FROM flow WHERE flow.set_id = capture.set_id AND flow.capture_id = capture.id) \
         AND NOT EXISTS (SELECT 1 FROM segment WHERE segment.capture_id = capture.id)",
        params![cutoff],
    )?;
    tx.execute(
        "DELETE FROM capture_set WHERE last < ?1 AND NOT EXISTS (SELECT 1 FROM capture WHERE capture.set_id = capture_set.id)",
        params![cutoff],
    )?;
    tx.execute("DELETE FROM outbox WHERE sent_at < ?1", params![cutoff])?;
    // How far logs were read stays known: what lies there is not read again.
    let lines = tx.execute("DELETE FROM log_part WHERE seen < ?1", params![cutoff])?;
    let evidence = tx.execute("DELETE FROM evidence WHERE last < ?1", params![cutoff])?;
    tx.execute("DELETE FROM arrived WHERE seen < ?1", params![cutoff.saturating_sub(DAY)])?;
    // What was told is known for as long again as its evidence was, in case a file that holds it turns up once more.
    let age = newest.saturating_sub(cutoff).max(DAY);
    tx.execute("DELETE FROM told WHERE coalesce(time, told_at) < ?1", params![cutoff.saturating_sub(age)])?;
    tx.execute("DELETE FROM sighting WHERE first < ?1", params![newest.saturating_sub(DAYS * DAY)])?;
    Ok(Pruned { batches: (batches + lines + evidence) as u64, flows: flows as u64, captures: captures as u64 })
}
