//! The kernel's messages: from the journal, or from its own buffer.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::WatchError;
use super::logs;
use crate::case::Case;
use crate::time::{NANOS, Timestamp};

/// Where the place in the journal is kept.
const CURSOR: &str = "journal-cursor";
/// Where the boot and the last sequence number of the kernel's buffer are kept.
const SEQUENCE: &str = "kmsg-sequence";
/// Opening with this flag (Linux, all architectures that Rust has but MIPS, SPARC and PA-RISC), reading does not wait.
const O_NONBLOCK: i32 = 0o4000;
/// Records read in one pass: the buffer holds fewer.
const MAX_RECORDS: u32 = 1 << 20;

/// The kernel's messages in the journal since the last pass; what went wrong, in words.
pub(super) fn journal(case: &mut Case, now: Timestamp) -> Result<Option<String>, WatchError> {
    let mut command = Command::new("journalctl");
    command.args(["-k", "--no-pager", "--quiet", "--show-cursor", "-o", "short-iso-precise"]);
    match case.meta(CURSOR)? {
        Some(cursor) => command.arg(format!("--after-cursor={cursor}")),
        None => command.args(["--since", "-1d"]),
    };
    let output = match command.output() {
        Ok(output) => output,
        Err(e) => return Ok(Some(format!("journalctl: {e}"))),
    };
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Ok(Some(format!("journalctl: {}: {text}", output.status)));
    }
    let mark = b"-- cursor: ";
    let (mut text, mut cursor) = (Vec::new(), None);
    for line in output.stdout.split(|b| *b == b'\n') {
        match line.strip_prefix(mark) {
            Some(c) => cursor = Some(String::from_utf8_lossy(c).into_owned()),
            None => text.extend(line.iter().copied().chain([b'\n'])),
        }
    }
    // The lines first: those of a pass that is killed in between are one kill all the same.
    logs::append(case, "journal", &text, now)?;
    if let Some(cursor) = cursor {
        case.set_meta(CURSOR, &cursor)?;
    }
    Ok(None)
}

/// The kernel's buffer, one record a read; `RDZVSCOPE_KMSG` names another file of such records, a line each.
fn device() -> PathBuf {
    std::env::var_os("RDZVSCOPE_KMSG").map_or_else(|| PathBuf::from("/dev/kmsg"), PathBuf::from)
}

/// The records of the kernel's buffer since the last pass, as lines with wall times; how many, and what went wrong.
pub(super) fn kmsg(case: &mut Case, now: Timestamp) -> Result<(u64, Option<String>), WatchError> {
    let path = device();
    let Some(boot) = Boot::read() else {
        return Ok((0, Some("/proc/stat: cannot tell when this machine booted: kmsg is not read".to_string())));
    };
    // Numbers begin anew with each boot.
    let (seen_boot, mut sequence) = match case.meta(SEQUENCE)? {
        Some(text) => match text.split_once(' ') {
            Some((id, n)) => (id.to_string(), n.parse::<u64>().ok()),
            None => (String::new(), None),
        },
        None => (String::new(), None),
    };
    if seen_boot != boot.id {
        sequence = None;
    }
    let records = match read_records(&path, sequence) {
        Ok(records) => records,
        Err(e) => return Ok((0, Some(format!("{}: cannot read: {e}", path.display())))),
    };
    let (mut text, mut last, mut lost) = (String::new(), sequence, 0);
    for r in &records {
        if let Some(before) = last {
            lost += r.sequence.saturating_sub(before).saturating_sub(1);
        }
        last = Some(r.sequence);
        if !r.kernel {
            continue;
        }
        let time = boot.at.plus_nanos(r.micros.saturating_mul(1000));
        text.push_str(&format!("{} {} kernel: {}\n", time.to_rfc3339(), boot.host, r.text));
    }
    if !records.is_empty() {
        logs::append(case, "kmsg", text.as_bytes(), now)?;
        if let Some(n) = last {
            case.set_meta(SEQUENCE, &format!("{} {n}", boot.id))?;
        }
    }
    // The kernel overwrote what was not read in time; numbers of records that a filter hides are not given.
    let wrong =
        (lost > 0).then(|| format!("{}: {lost} messages were overwritten before they were read", path.display()));
    Ok((records.len() as u64, wrong))
}

/// This boot.
struct Boot {
    id: String,
    host: String,
    /// The instant from which the kernel's stamps count, by the clock as it is set now.
    at: Timestamp,
}

impl Boot {
    fn read() -> Option<Boot> {
        let text = |path: &str| std::fs::read_to_string(path).ok().map(|t| t.trim().to_string());
        let host = text("/proc/sys/kernel/hostname").filter(|h| !h.is_empty() && !h.contains(char::is_whitespace));
        Some(Boot {
            id: text("/proc/sys/kernel/random/boot_id").unwrap_or_else(|| "-".to_string()),
            host: host.unwrap_or_else(|| "localhost".to_string()),
            at: boot_time()?,
        })
    }
}

/// When this machine booted: the clock less the time since, to a hundredth of a second; else the second of `/proc/stat`.
fn boot_time() -> Option<Timestamp> {
    let stat = || {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let seconds: i64 = text.lines().find_map(|l| l.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(Timestamp(seconds.checked_mul(NANOS)?))
    };
    let exact = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        let text = std::fs::read_to_string("/proc/uptime").ok()?;
        let up: f64 = text.split_whitespace().next()?.parse().ok()?;
        Some(Timestamp(i64::try_from(now.as_nanos()).ok()? - (up * NANOS as f64) as i64))
    };
    exact().or_else(stat)
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    sequence: u64,
    /// Microseconds of the kernel's clock.
    micros: i64,
    /// The kernel wrote it, not a program (a facility above 0, in the bits above the lowest three).
    kernel: bool,
    text: String,
}

/// A record: `priority,sequence,microseconds,flags[,…];text`, then lines that begin with a space: fields of it.
fn parse(record: &str) -> Option<Record> {
    let (head, rest) = record.split_once(';')?;
    let mut words = head.split(',');
    let priority: u32 = words.next()?.parse().ok()?;
    let (sequence, micros) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let text = rest.lines().next().unwrap_or_default();
    Some(Record { sequence, micros, kernel: priority >> 3 == 0, text: text.to_string() })
}

fn read_records(path: &Path, after: Option<u64>) -> std::io::Result<Vec<Record>> {
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let new = |r: &Record| after.is_none_or(|n| r.sequence > n);
    let mut records = Vec::new();
    if file.metadata()?.is_file() {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        records.extend(text.lines().filter(|l| !l.starts_with(' ')).filter_map(parse).filter(new));
        return Ok(records);
    }
    let mut buffer = vec![0u8; 16 << 10];
    for _ in 0..MAX_RECORDS {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => records.extend(parse(&String::from_utf8_lossy(buffer.get(..n).unwrap_or_default())).filter(new)),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
            // EPIPE: the record that was next was overwritten; the next read gives the oldest there is.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_the_kernel_writes_them() {
        let record = "3,1234,5678901,-,caller=T1;Out of memory: Killed process 10273 (python3)\n SUBSYSTEM=x\n";
        let text = "Out of memory: Killed process 10273 (python3)".to_string();
        assert_eq!(parse(record), Some(Record { sequence: 1234, micros: 5_678_901, kernel: true, text }));
        assert!(!parse("30,7,1,-;systemd: Out of memory").unwrap().kernel);
        assert_eq!(parse("6,7;x"), None);
    }

    #[test]
    fn this_machines_own_buffer_is_read_without_waiting() {
        match read_records(Path::new("/dev/kmsg"), None) {
            Ok(records) => assert!(records.windows(2).all(|w| w[0].sequence < w[1].sequence)),
            // Containers and users without the right to read it.
            Err(e) => assert_ne!(e.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(boot_time().is_some());
    }
}
