//! Texts whose lines need their heading: tables, records of several lines, lists, counters.

pub(crate) mod counter;
pub(crate) mod export;
mod kubectl;
pub(crate) mod list;
pub(crate) mod slurm;
pub(crate) mod spreadsheet;
mod unit;

use super::prefix::Peeled;
use super::stamp::Stamp;
use super::teller::Saying;
use super::text;
use crate::time::{NANOS, Timestamp};

/// A kill that a table or record tells.
pub(crate) struct Told {
    /// The lines, from 1.
    pub(crate) lines: Vec<u64>,
    pub(crate) peeled: Peeled<'static>,
    pub(crate) saying: Saying,
}

/// The tables and records that are open.
#[derive(Default)]
pub(crate) struct Sheets {
    slurm: slurm::Accounts,
    kubectl: kubectl::Output,
    unit: unit::Status,
}

impl Sheets {
    /// Takes a line; what it completes goes to `told`. Says whether the line was one of theirs. `written`: when the text
    /// was written, to which ages in it refer.
    pub(crate) fn line(&mut self, number: u64, line: &[u8], written: Option<Timestamp>, told: &mut Vec<Told>) -> bool {
        // A unit's status holds lines of the journal, which are read as such too.
        self.unit.line(number, line, told)
            || self.slurm.line(number, line, told)
            || self.kubectl.line(number, line, written, told)
    }

    /// Whether a table or record is open whose lines must all be seen.
    pub(crate) fn is_open(&self) -> bool {
        self.slurm.is_open() || self.kubectl.is_open() || self.unit.is_open()
    }

    /// Ends all.
    pub(crate) fn finish(&mut self, told: &mut Vec<Told>) {
        self.slurm.finish(told);
        self.unit.finish(told);
    }
}

/// The parts of a line between two or more blanks, and where each begins.
fn columns(line: &[u8]) -> Vec<(usize, &[u8])> {
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Some(rest) = line.get(at..).filter(|r| !r.is_empty() && parts.len() < 64) {
        let blank = rest.iter().take_while(|b| **b == b' ').count();
        let body = rest.get(blank..).unwrap_or_default();
        let end = text::find(body, b"  ").unwrap_or(body.len());
        if let Some(part) = body.get(..end).filter(|p| !p.is_empty()) {
            parts.push((at + blank, part.trim_ascii_end()));
        }
        at += blank + end.max(1);
    }
    parts
}

/// `5m`, `2d3h`, `17m12s`: how long ago, and the unit of the last figure, both in nanoseconds.
fn age(text: &[u8]) -> Option<(i64, i64)> {
    let (mut rest, mut total, mut unit) = (text, 0i64, 0);
    while !rest.is_empty() {
        let (n, after) = text::number(rest)?;
        let (letter, after) = after.split_first()?;
        unit = match letter {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'y' => 365 * 86_400,
            _ => return None,
        };
        total = total.checked_add(i64::try_from(n).ok()?.checked_mul(unit)?)?;
        rest = after;
    }
    (unit > 0).then_some((total.checked_mul(NANOS)?, unit * NANOS))
}

/// A time before `written`, good to the unit of its last figure.
fn ago(text: &[u8], written: Option<Timestamp>) -> Option<(Stamp, i64)> {
    let (ago, unit) = age(text)?;
    // An age is cut down: the truth is that or up to one unit more.
    let at = written?.plus_nanos(-ago).plus_nanos(-unit / 2);
    Some((Stamp::Absolute { at, unit }, unit))
}

#[cfg(test)]
mod tests;
