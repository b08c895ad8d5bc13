//! Logs, line by line.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::capture::{Limits, unpacked};
use crate::oom::{LogSummary, MAX_LINE, Options, Scanner};

/// Reads one log. Lines longer than the scanner takes are cut there, and what follows up to the line's end is passed
/// over; memory does not depend on the log.
///
/// # Errors
/// The system's, from opening the file; a failure while reading ends the log and is said in the second value.
pub(super) fn read_log(path: &Path, label: &str, options: &Options) -> std::io::Result<(LogSummary, Option<String>)> {
    let mut reader = BufReader::with_capacity(1 << 18, unpacked(path, &Limits::default())?);
    let mut scanner = Scanner::new(label, options);
    let mut line = Vec::new();
    let mut number = 0;
    let mut trouble = None;
    loop {
        line.clear();
        match Read::by_ref(&mut reader).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {
                number += 1;
                let whole = line.ends_with(b"\n");
                let long = !whole && line.len() > MAX_LINE;
                scanner.line(number, line.strip_suffix(b"\n").unwrap_or(&line));
                if long && skip_line(&mut reader).is_err() {
                    break;
                }
            }
            Err(e) => {
                trouble = Some(format!("read failed after line {number}: {e}"));
                break;
            }
        }
    }
    Ok((scanner.finish(), trouble))
}

/// Reads lines that were kept of a log.
pub(super) fn read_kept(lines: &[(u64, Vec<u8>)], label: &str, options: &Options) -> (LogSummary, Option<String>) {
    let mut scanner = Scanner::new(label, options);
    for (number, line) in lines {
        scanner.line(*number, line);
    }
    (scanner.finish(), None)
}

fn skip_line(reader: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let (used, end) = {
            let buffer = reader.fill_buf()?;
            match buffer.iter().position(|b| *b == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            }
        };
        reader.consume(used);
        if end {
            return Ok(());
        }
    }
}
