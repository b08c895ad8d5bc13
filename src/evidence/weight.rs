//! What evidence takes in memory, reckoned fact by fact as it comes: no segment may take more than ten times its own
//! size and a fixed amount, whatever it claims.

use std::collections::BTreeMap;
use std::io::Read;

use super::facts::{Entry, FactSet, Kind, numbers_of, split_part};
use crate::analysis::{weigh_lines, weigh_segments};

/// A segment takes at most so many times its own size in memory, and [`FIXED`] bytes.
const TIMES: u64 = 10;
/// Bytes of memory that any segment may take. The bound that is promised is 64 MiB; what the program itself takes to read
/// and to report lies between.
const FIXED: u64 = 32 << 20;
/// What a flow record takes, from its line to the report.
pub(super) const FLOW: u64 = 800;
/// Bytes of a flow record and of its key in a case.
const ROW: u64 = 228;
/// What a line of a hosts list takes besides its bytes: an address, a name, an alias and their places.
const LIST_LINE: u64 = 320;

/// Memory that a segment of this size may take, in bytes.
pub(super) fn allowed(size: u64) -> u64 {
    size.saturating_mul(TIMES).saturating_add(FIXED)
}

/// Memory that one fact takes, without what its bytes unpack to.
pub(super) fn of_fact(kind: Kind, key: &str, entry: &Entry) -> u64 {
    let data = entry.data.len() as u64;
    let own = match kind {
        Kind::Flow => FLOW,
        // A row of a report, and a summary with its lists.
        Kind::Capture => 4096 + 12 * data,
        Kind::Origin | Kind::Segment => 512,
        Kind::Set | Kind::Machine | Kind::SiteFacts | Kind::Refused | Kind::Log => 1024 + 24 * data,
        // A piece, and the whole.
        Kind::Hosts | Kind::Ordinary | Kind::Segments | Kind::Lines => 512 + 2 * data,
    };
    own + 4 * key.len() as u64
}

/// Memory that the packed bytes among facts unpack to, at most a little more than `room`.
fn of_blobs(facts: &[(&str, Kind, &Entry)], room: u64) -> u64 {
    let mut blobs: BTreeMap<(Kind, &str), BTreeMap<u64, &[u8]>> = BTreeMap::new();
    for (key, kind, entry) in facts {
        // Pieces of one blob differ in `part`, the last number but one.
        let (whole, part) = match kind {
            Kind::Ordinary | Kind::Segments | Kind::Lines => {
                (split_part(key), numbers_of(key).and_then(|n| n.iter().rev().nth(1).copied()))
            }
            Kind::Hosts => (*key, super::facts::hosts_of(key).map(|(_, part, ..)| part)),
            _ => continue,
        };
        // Of a list, each version is a blob of its own; its pieces are few, and weigh alone what they weigh together.
        blobs.entry((*kind, whole)).or_default().insert(part.unwrap_or(0), &entry.data);
    }
    let mut weight = 0u64;
    let mut segments: Vec<Vec<u8>> = Vec::new();
    for ((kind, _), pieces) in blobs {
        let blob: Vec<u8> = pieces.into_values().flatten().copied().collect();
        let left = room.saturating_sub(weight);
        match kind {
            Kind::Segments => segments.push(blob),
            Kind::Lines => weight += weigh_lines(&blob, left),
            _ => weight += weigh_list(&blob, left),
        }
        if weight > room {
            return weight;
        }
    }
    let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
    weight + weigh_segments(&segments, room.saturating_sub(weight))
}

fn weigh_list(packed: &[u8], room: u64) -> u64 {
    let Ok(mut decoder) = zstd::stream::read::Decoder::with_buffer(packed) else { return 0 };
    let _ = decoder.window_log_max(23);
    let mut buffer = vec![0u8; 1 << 16];
    let mut weight = 0u64;
    while let Ok(n @ 1..) = decoder.read(&mut buffer) {
        let text = &buffer[..n];
        weight += 4 * n as u64 + LIST_LINE * memchr::memchr_iter(b'\n', text).count() as u64;
        if weight > room {
            break;
        }
    }
    weight
}

/// Whether facts, and so many flow records, take more memory than a segment of `size` bytes may.
pub(super) fn is_oversize(facts: &[(&str, Kind, &Entry)], flows: u64, size: u64) -> bool {
    let room = allowed(size);
    let plain = facts.iter().map(|(key, kind, entry)| of_fact(*kind, key, entry)).sum::<u64>() + flows * FLOW;
    plain > room || plain + of_blobs(facts, room - plain) > room
}

/// What is said of evidence that is refused, behind its name.
pub(super) fn refusal(size: u64) -> String {
    format!(
        "would take more memory than {TIMES} times its {size} bytes and 64 MiB: refused, and nothing of it is taken"
    )
}

/// Facts of one segment that take more than they may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// The origin that it claims to be of.
    pub origin: String,
    /// Its number.
    pub segment: u64,
    /// Bytes that it has.
    pub size: u64,
}

impl std::fmt::Display for Oversize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let origin = crate::escape::clean(self.origin.as_bytes(), 64);
        write!(f, "segment {} of evidence {origin} {}", self.segment, refusal(self.size))
    }
}

impl FactSet {
    /// The segments that take more memory than they may, in order; each by the bytes of its own facts.
    pub fn oversize(&self) -> Vec<Oversize> {
        type Facts<'a> = (Vec<(&'a str, Kind, &'a Entry)>, u64);
        let mut segments: BTreeMap<(&str, u64), Facts<'_>> = BTreeMap::new();
        for ((origin, kind, key), entry) in &self.entries {
            segments.entry((origin, entry.segment)).or_default().0.push((key, *kind, entry));
        }
        for (origin, flows) in &self.flows {
            flows.values().for_each(|f| segments.entry((origin, f.segment)).or_default().1 += 1);
        }
        let mut found = Vec::new();
        for ((origin, segment), (facts, flows)) in segments {
            let own: u64 = facts.iter().map(|(key, _, e)| (key.len() + e.data.len()) as u64).sum();
            let size = own + flows * ROW;
            if is_oversize(&facts, flows, size) {
                found.push(Oversize { origin: origin.to_string(), segment, size });
            }
        }
        found
    }

    /// Removes the facts of segments.
    pub fn remove(&mut self, refused: &[Oversize]) {
        let names = |origin: &str, segment| refused.iter().any(|o| o.origin == origin && o.segment == segment);
        if !refused.is_empty() {
            self.entries.retain(|(origin, ..), e| !names(origin, e.segment));
            for (origin, flows) in &mut self.flows {
                flows.retain(|_, f| !names(origin, f.segment));
            }
        }
    }
}
