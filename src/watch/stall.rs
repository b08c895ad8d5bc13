//! Captures that no longer grow, and the likely cause.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::captures::CaptureIndex;
use super::content_head::Stat;
use super::writers::{Writer, writer_of};
use crate::analysis::{Survey, capture_stem};
use crate::time::Timestamp;

/// Less free space than this is the likely cause that a capture stopped, in bytes.
const FULL: u64 = 1 << 20;

/// A capture that has stopped, or seems to have.
#[derive(Debug)]
pub(super) struct Stall {
    pub(super) path: PathBuf,
    /// Tells one halt from the next: when the file was changed last.
    pub(super) key: String,
    pub(super) text: String,
}

/// The newest file of each name that has gained nothing for `limit` seconds.
pub(super) fn stalls(shelf: &CaptureIndex, found: &Survey, limit: f64, now: Timestamp) -> Vec<Stall> {
    let mut newest: BTreeMap<(PathBuf, String), (i64, &Path, Stat)> = BTreeMap::new();
    let stems: BTreeSet<(PathBuf, String)> = found.captures.iter().map(|p| capture_stem(p)).collect();
    // Files of other programs are empty too.
    let empty = found.empty.iter().filter(|p| stems.contains(&capture_stem(p)) || is_named_as_one(p));
    for path in found.captures.iter().chain(empty) {
        let Ok(stat) = Stat::of(path) else { continue };
        let place = newest.entry(capture_stem(path)).or_insert((stat.modified, path, stat));
        if (stat.modified, path.as_path()) > (place.0, place.1) {
            *place = (stat.modified, path, stat);
        }
    }
    let mut all = Vec::new();
    for (_, path, stat) in newest.into_values() {
        let rested = now.seconds_since(Timestamp(stat.modified));
        if rested < limit {
            continue;
        }
        // What waits to be read is lag, not a halt.
        let row = shelf.row_of(path);
        let packets = row.map_or(0, |r| r.consumed);
        let cut = row.and_then(|r| r.summary.as_ref()).is_some_and(|s| s.truncated);
        let text = text(path, rested, packets, cut, &writer_of(path));
        all.push(Stall { path: path.to_owned(), key: stat.modified.to_string(), text });
    }
    all
}

/// Whether a file is called as captures are.
fn is_named_as_one(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    name.contains("pcap") || [".cap", ".dmp", ".dump"].iter().any(|e| name.ends_with(e))
}

fn text(path: &Path, rested: f64, packets: u64, cut: bool, writer: &Writer) -> String {
    let gained = if packets == 0 { "it holds no packet, and has gained" } else { "it has gained" };
    match writer {
        Writer::Alive(name, pid) => {
            let cause = if cut {
                "it ends in the middle of a packet, so packets wait in its writer's buffer (tcpdump writes them at once with \
                 -U --immediate-mode)"
            } else {
                "nothing is sent on these ports, or packets wait in its buffer (tcpdump writes them at once with -U \
                 --immediate-mode)"
            };
            format!("{gained} nothing for {rested:.0} s while {name} (process {pid}) has it open: {cause}")
        }
        Writer::None => {
            let cause = match free(path) {
                Some(bytes) if bytes < FULL => format!(
                    "its file system is full ({bytes} bytes are free): give it room, and start the capture again"
                ),
                _ if cut => {
                    "it ends in the middle of a packet: its writer was killed, or the machine went down, and what \
                             was in its buffer is lost (with -U nothing is)"
                        .to_string()
                }
                _ if packets == 0 => {
                    "its writer ended before a packet was written; what was in its buffer is lost (with -U \
                                      nothing is)"
                        .to_string()
                }
                _ => "it ends with a whole packet: its writer was stopped, or killed and wrote with -U; start it again"
                    .to_string(),
            };
            format!(
                "the capture has stopped: {gained} nothing for {rested:.0} s, and no process has it open any more: {cause}"
            )
        }
        Writer::Unknown => format!(
            "the capture has gained nothing for {rested:.0} s; whether a process still has it open cannot be seen by this \
             user"
        ),
    }
}

/// Bytes that are free where a file lies.
fn free(path: &Path) -> Option<u64> {
    #[cfg(feature = "live")]
    {
        let stat = nix::sys::statvfs::statvfs(path.parent()?).ok()?;
        Some(stat.blocks_available().saturating_mul(stat.fragment_size()))
    }
    #[cfg(not(feature = "live"))]
    {
        let _ = path;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likely_cause_is_said() {
        let path = Path::new("/tmp/x.pcap");
        let alive = Writer::Alive("tcpdump".into(), 7);
        assert!(text(path, 600.0, 5, true, &alive).contains("middle of a packet, so packets wait"));
        assert!(text(path, 600.0, 5, false, &alive).contains("nothing is sent on these ports"));
        assert!(text(path, 600.0, 5, true, &Writer::None).contains("killed"));
        assert!(text(path, 600.0, 5, false, &Writer::None).contains("whole packet"));
        assert!(text(path, 600.0, 0, false, &Writer::None).contains("holds no packet"));
    }
}
