//! From when to when a log reaches: how often a host is killed at all can only be said against that.

use memchr::memmem;

use super::options::{Clock, Options, Resolved};
use super::prefix::{Labels, peel};
use super::stamp::Stamp;
use crate::time::Timestamp;

/// Bytes of the last line that are kept until it is known to be the last.
const KEPT: usize = 512;
/// Lines at the beginning that are tried for a time.
const TRIED: u32 = 256;

/// The first and the last time of a log, at the cost of a short copy a line.
pub(super) struct LogSpan {
    first: Option<Timestamp>,
    /// A time that says its year, if any line looked at has one: the last such.
    pub(super) dated: Option<Timestamp>,
    tried: u32,
    last: [u8; KEPT],
    length: usize,
}

impl Default for LogSpan {
    fn default() -> Self {
        LogSpan { first: None, dated: None, tried: 0, last: [0; KEPT], length: 0 }
    }
}

impl LogSpan {
    /// Takes note of a line.
    pub(super) fn note(&mut self, line: &[u8], options: &Options) {
        if self.first.is_none() && self.tried < TRIED {
            self.tried += 1;
            self.first = time_of(line, options);
            self.dated = self.dated.or_else(|| year_of(line, options));
        }
        if line.len() > 8 {
            self.length = line.len().min(KEPT);
            self.last[..self.length].copy_from_slice(&line[..self.length]);
        }
    }

    /// The last line, or its beginning.
    pub(super) fn last_line(&self) -> &[u8] {
        &self.last[..self.length]
    }

    /// The first time, and the last one where the last line has any.
    pub(super) fn settle(&self, options: &Options) -> (Option<Timestamp>, Option<Timestamp>) {
        (self.first, time_of(&self.last[..self.length], options).or(self.first))
    }
}

fn time_of(line: &[u8], options: &Options) -> Option<Timestamp> {
    if line.first() == Some(&b'{') {
        return realtime(line);
    }
    let peeled = peel(line, &Labels::default());
    let (stamp, clock) = peeled.stamp?;
    let host = options.explicit_host.as_deref().or(options.file_host.as_deref());
    match options.resolve(stamp, clock, host, None) {
        Resolved::Time(time) => Some(time.at),
        _ => {
            let nanos = peeled.boot?;
            match options.resolve(Stamp::Boot { nanos }, Clock { from: "", floor: 0, after: false }, host, None) {
                Resolved::Time(time) => Some(time.at),
                _ => None,
            }
        }
    }
}

/// The time of a line that says its year.
pub(super) fn year_of(line: &[u8], options: &Options) -> Option<Timestamp> {
    let (stamp, clock) = peel(line, &Labels::default()).stamp.filter(|(stamp, _)| stamp.is_dated())?;
    match options.resolve(stamp, clock, None, None) {
        Resolved::Time(time) => Some(time.at),
        _ => None,
    }
}

/// The receive time of a journal entry, in microseconds.
fn realtime(line: &[u8]) -> Option<Timestamp> {
    const KEY: &[u8] = b"\"__REALTIME_TIMESTAMP\"";
    let at = memmem::find(line, KEY)? + KEY.len();
    let digits: Vec<u8> = line
        .get(at..)?
        .iter()
        .copied()
        .skip_while(|b| matches!(b, b' ' | b':' | b'"'))
        .take_while(u8::is_ascii_digit)
        .take(19)
        .collect();
    let micros: i64 = std::str::from_utf8(&digits).ok()?.parse().ok()?;
    Some(Timestamp(micros.checked_mul(1000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(log: &str) -> Option<f64> {
        let options = Options { year: Some(2023), ..Options::default() };
        let mut span = LogSpan::default();
        log.lines().for_each(|l| span.note(l.as_bytes(), &options));
        let (first, last) = span.settle(&options);
        Some(last?.seconds_since(first?))
    }

    #[test]
    fn the_first_and_the_last_line_tell_how_far_a_log_reaches() {
        let syslog =
            "garbage\nNov 14 22:14:25 gpu-07 systemd[1]: a\nNov 14 23:00:00 x y: b\nNov 15 22:14:25 gpu-07 kernel: c\n";
        assert_eq!(span(syslog), Some(86400.0));
        let iso = "2023-11-14T22:14:25,512040+00:00 a\n2023-11-14T22:14:26,512040+00:00 b\n";
        assert_eq!(span(iso), Some(1.0));
        let journal = "{\"__CURSOR\":\"s=1\",\"__REALTIME_TIMESTAMP\":\"1700000065512900\",\"MESSAGE\":\"a\"}\n\
                       {\"__CURSOR\":\"s=2\",\"__REALTIME_TIMESTAMP\":\"1700000165512900\",\"MESSAGE\":\"b\"}\n";
        assert_eq!(span(journal), Some(100.0));
        assert_eq!(span("no time here\n"), None);
    }
}
