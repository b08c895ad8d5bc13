//! What kept segments and lines would take in memory, reckoned before they are taken: a blob of a kilobyte may unpack to
//! a hundred megabytes, or open a hundred thousand connections.

use super::codec;
use super::options::Options;
use super::reading::scan_options;
use super::scan::SetScan;
use crate::protocol::observation::FlowObservation;

/// What an open connection takes at most while it is decoded, in bytes, with all that is concluded from it.
const CONNECTION: u64 = 24 << 10;
/// What a connection that was decoded takes besides what its observation holds, in bytes: its record, what a finding
/// and a report say of it.
const CONCLUDED: u64 = 2 << 10;
/// Payload that waits for missing bytes takes no more than this, in bytes: the reassembly has a budget.
const WAITING: u64 = 40 << 20;
/// What a line takes besides its bytes.
const LINE: u64 = 64;
/// Segments between two looks at what they came to.
const LOOK: u64 = 256;

/// Bytes of memory that the segments of packed batches come to, once they are decoded. More than `room` is only known
/// to be more: reckoning ends there.
pub fn weigh_segments(blobs: &[&[u8]], room: u64) -> u64 {
    let (mut opened, mut payload) = (0u64, 0u64);
    let mut weight = 0;
    for blob in blobs {
        codec::unpack(blob, &mut |s| {
            opened += u64::from(s.opens.is_some());
            payload += s.segment().payload.len() as u64;
            weight = opened * CONNECTION + payload.min(WAITING);
            weight <= room
        });
    }
    // Honest connections are many and alike, and most of them are folded: only decoding them tells.
    if weight > room { decoded(blobs, room) } else { weight }
}

/// The same by decoding them.
fn decoded(blobs: &[&[u8]], room: u64) -> u64 {
    let mut scan = SetScan::new(0, scan_options(&Options::default(), 1));
    let (mut weight, mut looked, mut seen, mut payload) = (0u64, 0usize, 0u64, 0u64);
    for blob in blobs {
        codec::unpack(blob, &mut |s| {
            s.replay(&mut scan);
            seen += 1;
            payload += s.segment().payload.len() as u64;
            if seen.is_multiple_of(LOOK) {
                let done = scan.decoded();
                weight += done.get(looked..).unwrap_or_default().iter().map(memory_of).sum::<u64>();
                looked = done.len();
            }
            weight + scan.open_flows() as u64 * CONNECTION + payload.min(WAITING) <= room
        });
    }
    let done = scan.decoded();
    weight += done.get(looked..).unwrap_or_default().iter().map(memory_of).sum::<u64>();
    weight + scan.open_flows() as u64 * CONNECTION + payload.min(WAITING)
}

/// Bytes that an observation takes, with what is concluded from it.
fn memory_of(o: &FlowObservation) -> u64 {
    let kept: usize = o.kept.iter().flatten().map(|k| size_of_val(k) + k.bytes.capacity()).sum();
    let overlaps: usize = o.overlaps.iter().map(|o| size_of_val(o) + o.first.capacity() + o.second.capacity()).sum();
    let decoded: u64 = o.decoded.iter().map(|d| d.memory()).sum();
    (size_of::<FlowObservation>() + kept + overlaps) as u64 + decoded + CONCLUDED
}

/// Bytes of memory that packed lines come to. More than `room` is only known to be more.
pub fn weigh_lines(part: &[u8], room: u64) -> u64 {
    let mut weight = 0u64;
    codec::unpack_each_line(part, &mut |_, line| {
        // As it is kept, and as it is read.
        weight += LINE + 2 * line.len() as u64;
        weight <= room
    });
    weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::pack_lines;

    #[test]
    fn what_unpacks_to_much_weighs_much() {
        let lines: Vec<(u64, Vec<u8>)> = (0..100_000).map(|n| (n, Vec::new())).collect();
        let part = pack_lines(&lines).unwrap();
        assert!(part.len() < 600_000);
        assert_eq!(weigh_lines(&part, u64::MAX), 6_400_000);
        let weight = weigh_lines(&part, 1000);
        assert!((1000..2000).contains(&weight), "{weight}");
        assert_eq!(weigh_segments(&[b"damaged"], 10), 0);
    }
}
