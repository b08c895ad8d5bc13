//! Logs that grow: what was not read yet, whole lines only.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::content_head::{Head, Stat};
use super::error::WatchError;
use crate::analysis::Named;
use crate::capture::{Limits, unpacked};
use crate::case::{Case, LogRow, save_log};
use crate::oom::{MAX_LINE, may_matter};
use crate::time::Timestamp;

/// Up to so many bytes of a log all lines are kept; beyond, those that may speak of an OOM kill.
const WHOLE_BYTES: u64 = 8 << 20;
/// Bytes of lines after which a part is written.
const PART_BYTES: usize = 4 << 20;
/// A last line without its end is taken once the log has rested this long, in nanoseconds.
const RESTED: i64 = 2_000_000_000;

/// Reads what is new in a log; how many lines came.
pub(super) fn follow(case: &mut Case, rows: &mut Vec<LogRow>, log: &Named, now: Timestamp) -> Result<u64, Failed> {
    let path = log.path.to_string_lossy().into_owned();
    let stat = Stat::of(&log.path)?;
    let head = Head::read(&log.path)?;
    if head.length() == 0 {
        return Ok(0);
    }
    // The same log under its name, or renamed by rotation; else a new one.
    let same = |r: &LogRow| r.host == log.host && head.is(r.head_length, &r.head_hash);
    let at = rows
        .iter()
        .rposition(|r| r.path == path && same(r))
        .or_else(|| rows.iter().rposition(|r| same(r) && r.head_length >= 256 && !Path::new(&r.path).exists()));
    let mut row = match at.and_then(|i| rows.get(i)) {
        Some(row) => row.clone(),
        None => LogRow {
            id: 0,
            path: path.clone(),
            host: log.host.clone(),
            inode: stat.inode,
            head_length: 0,
            head_hash: [0; 32],
            offset: 0,
            lines: 0,
            kept: 0,
        },
    };
    let before = row.lines;
    let rested = now.0.saturating_sub(stat.modified) > RESTED;
    row.path = path;
    row.inode = stat.inode;
    row.head_length = head.length();
    row.head_hash = head.hash(head.length()).unwrap_or_default();
    read(case, &mut row, &log.path, rested, now)?;
    let fresh = row.lines - before;
    match at.and_then(|i| rows.get_mut(i)) {
        Some(place) => *place = row,
        None => rows.push(row),
    }
    Ok(fresh)
}

fn read(case: &mut Case, row: &mut LogRow, path: &Path, rested: bool, now: Timestamp) -> Result<(), Failed> {
    let mut input = BufReader::with_capacity(1 << 18, unpacked(path, &Limits::default())?);
    std::io::copy(&mut Read::by_ref(&mut input).take(row.offset), &mut std::io::sink())?;
    let mut lines: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut size = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = Read::by_ref(&mut input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)? as u64;
        let whole = line.ends_with(b"\n");
        if n == 0 || !whole && line.len() <= MAX_LINE && !rested {
            break;
        }
        row.offset += n;
        if !whole && line.len() > MAX_LINE {
            row.offset += skip(&mut input)?;
        }
        row.lines += 1;
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if row.kept < WHOLE_BYTES || may_matter(text) {
            row.kept += text.len() as u64 + 1;
            size += text.len();
            lines.push((row.lines, text.to_vec()));
        }
        if size > PART_BYTES {
            case.transaction("cannot keep a log", |tx| save_log(tx, row, &lines, now)).map_err(WatchError::from)?;
            lines.clear();
            size = 0;
        }
    }
    case.transaction("cannot keep a log", |tx| save_log(tx, row, &lines, now)).map_err(WatchError::from)?;
    Ok(())
}

/// Passes over the rest of a line; how long it was.
fn skip(input: &mut impl BufRead) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let (used, end) = {
            let buffer = input.fill_buf()?;
            match buffer.iter().position(|b| *b == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            }
        };
        input.consume(used);
        skipped += used as u64;
        if end {
            return Ok(skipped);
        }
    }
}

/// Keeps lines that a program printed, as more of the log called `name`.
pub(super) fn append(case: &mut Case, name: &str, text: &[u8], now: Timestamp) -> Result<(), WatchError> {
    let known = case.logs()?.into_iter().rfind(|r| r.path == name);
    let mut row = known.unwrap_or(LogRow {
        id: 0,
        path: name.to_string(),
        host: None,
        inode: (0, 0),
        head_length: 0,
        head_hash: [0; 32],
        offset: 0,
        lines: 0,
        kept: 0,
    });
    let mut lines = Vec::new();
    for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        row.lines += 1;
        row.offset += line.len() as u64 + 1;
        if may_matter(line) {
            row.kept += line.len() as u64 + 1;
            lines.push((row.lines, line.get(..MAX_LINE).unwrap_or(line).to_vec()));
        }
    }
    Ok(case.transaction("cannot keep a log", |tx| save_log(tx, &mut row, &lines, now))?)
}

/// Why a log was not read on.
#[derive(Debug)]
pub(super) enum Failed {
    /// The log's own trouble: the pass goes on.
    Io(std::io::Error),
    /// The case's: it does not.
    Watch(WatchError),
}

impl From<std::io::Error> for Failed {
    fn from(e: std::io::Error) -> Self {
        Failed::Io(e)
    }
}

impl From<WatchError> for Failed {
    fn from(e: WatchError) -> Self {
        Failed::Watch(e)
    }
}
