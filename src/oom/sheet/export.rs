//! `journalctl -o export` and `-o verbose`: blocks of `KEY=value` lines. In an export a blank line ends a block; verbose
//! indents the lines, and each block begins with its time and cursor.
//!
//! A value that is no text stands on the lines after its bare key, behind eight bytes of length; a message is one line,
//! so the length is skipped, not believed.

use super::super::object::Record;
use super::super::{stamp, text};

/// The block being read.
#[derive(Default)]
pub(crate) struct Export {
    record: Record,
    /// The line at which its message stands.
    line: u64,
    binary: bool,
}

/// Whether a line opens a block.
pub(crate) fn opens(line: &[u8]) -> bool {
    line.starts_with(b"__CURSOR=") || line.starts_with(b"__REALTIME_TIMESTAMP=") || heads(line).is_some()
}

/// `Mon 2026-09-21 14:13:20.123456 UTC [s=…;i=…;…]` of verbose output.
fn heads(line: &[u8]) -> Option<stamp::Stamp> {
    let (stamp, rest) = stamp::any(line)?;
    (rest.starts_with(b" [s=") && rest.ends_with(b"]")).then_some(stamp)
}

impl Export {
    /// Takes one line; at the end of a block gives the record and the line of its message.
    pub(crate) fn line(&mut self, number: u64, line: &[u8]) -> Option<(Record, u64)> {
        if std::mem::take(&mut self.binary) {
            self.record.message = line.get(8..).unwrap_or_default().to_vec();
            self.line = number;
            return None;
        }
        if line.is_empty() {
            return self.finish();
        }
        if let Some(stamp) = heads(line) {
            let before = self.finish();
            self.record.printed = Some(stamp);
            return before;
        }
        let line = line.trim_ascii_start();
        if line == b"MESSAGE" {
            self.binary = true;
        }
        let (key, value) = text::cut(line, b"=")?;
        match key {
            b"__REALTIME_TIMESTAMP" => self.record.micros = text::whole(value),
            b"_HOSTNAME" => self.record.host = text::name(value),
            b"_TRANSPORT" => self.record.transport = text::name(value),
            b"SYSLOG_IDENTIFIER" => self.record.identifier = text::name(value),
            b"MESSAGE" => {
                self.record.message = value.to_vec();
                self.line = number;
            }
            _ => {}
        }
        None
    }

    /// The last block.
    pub(crate) fn finish(&mut self) -> Option<(Record, u64)> {
        let record = std::mem::take(&mut self.record);
        (!record.message.is_empty()).then_some((record, self.line))
    }
}
