//! A capture set that is read as it grows: what is worth keeping of it leaves in batches.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::codec;
use super::from_store::StoredSet;
use super::options::Options;
use super::reading::scan_options;
use super::scan::{ScanCounters, SegmentRole, SetScan};
use crate::capture::{CaptureError, Limits, Packet, Reader};
use crate::frame::{Decoder, Flags, Frame, Segment};
use crate::net::Endpoint;
use crate::stream::{FlowRecord, PacketRef};
use crate::time::Timestamp;

/// Payload that is kept of one flow, in bytes. What comes after is counted in its record, and its end is kept.
const FLOW_BYTES: u64 = 16 << 20;
/// Segments that are kept of one flow.
const FLOW_SEGMENTS: u64 = 1 << 17;

/// What came since the last batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// Packed segments of decoded flows.
    pub segments: Option<Vec<u8>>,
    /// Packed segments of listeners that became known late.
    pub late: Option<Vec<u8>>,
    /// Connections that may hold a claim, by client and listener.
    pub claims: Vec<(Endpoint, Endpoint)>,
    /// Records that are new or have changed.
    pub records: Vec<FlowRecord>,
    /// Counters of the whole set so far.
    pub counters: ScanCounters,
    /// Packets that could not be read, by reason, of the whole set so far.
    pub skipped: BTreeMap<String, u64>,
    /// Earliest and latest packet.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Packets.
    pub packets: u64,
}

/// The engine of a set that grows.
pub struct GrowingSet {
    scan: SetScan,
    also: HashSet<Endpoint>,
    segments: Vec<u8>,
    late: Vec<u8>,
    /// Bytes and segments kept, by flow.
    kept: HashMap<u32, (u64, u64)>,
    span: Option<(Timestamp, Timestamp)>,
    packets: u64,
    before: (ScanCounters, BTreeMap<String, u64>),
    at_start: (ScanCounters, BTreeMap<String, u64>),
}

impl std::fmt::Debug for GrowingSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrowingSet").field("packets", &self.packets).finish_non_exhaustive()
    }
}

impl GrowingSet {
    /// An engine that goes on where `stored` ends.
    pub fn new(options: &Options, stored: &StoredSet) -> GrowingSet {
        let mut scan = SetScan::new(0, scan_options(options, 1));
        let mut sizes: HashMap<u32, (u64, u64)> = HashMap::new();
        for blob in &stored.segments {
            codec::unpack(blob, &mut |s| {
                if let Some(flow) = s.replay(&mut scan) {
                    let size = sizes.entry(flow).or_default();
                    *size = (size.0 + s.segment().payload.len() as u64, size.1 + 1);
                }
                true
            });
        }
        let mut records = stored.records.clone();
        records.sort_by_key(|r| (r.first, r.first_packet));
        scan.restore(records);
        let (counters, skipped, _) = scan.counted();
        GrowingSet {
            scan,
            also: stored.promoted.iter().copied().collect(),
            segments: Vec::new(),
            late: Vec::new(),
            kept: sizes,
            span: None,
            packets: 0,
            before: (stored.counters.clone(), stored.skipped.clone()),
            at_start: (counters, skipped),
        }
    }

    /// The next packet of the capture with this number.
    pub fn packet(&mut self, capture: u32, packet: &Packet<'_>) {
        let (from, to) = self.span.unwrap_or((packet.time, packet.time));
        self.span = Some((from.min(packet.time), to.max(packet.time)));
        self.packets += 1;
        let GrowingSet { scan, also, segments, late, kept: sizes, .. } = self;
        scan.packet_kept(capture, packet, also, &mut |s, time, at, mark| {
            if also.contains(&s.src) || also.contains(&s.dst) {
                codec::put(late, s, time, at, None);
            }
            match mark {
                SegmentRole::Other => {}
                SegmentRole::Opens(flow, record) => {
                    sizes.insert(flow, (s.payload.len() as u64, 1));
                    codec::put(segments, s, time, at, Some(&record));
                }
                SegmentRole::Follows(flow) => {
                    let size = sizes.entry(flow).or_default();
                    let room = size.0 < FLOW_BYTES && size.1 < FLOW_SEGMENTS;
                    if room || s.flags.0 & (Flags::SYN | Flags::FIN | Flags::RST) != 0 {
                        *size = (size.0 + s.payload.len() as u64, size.1 + 1);
                        codec::put(segments, s, time, at, None);
                    }
                }
            }
        });
    }

    #[cfg(feature = "live")]
    /// From here on all segments from and to `listeners` are kept, whatever becomes of their flows.
    pub fn promote(&mut self, listeners: impl IntoIterator<Item = Endpoint>) {
        self.also.extend(listeners);
    }

    /// Forgets flows whose last packet is earlier.
    #[cfg(feature = "live")]
    pub fn forget_before(&mut self, time: Timestamp) {
        self.scan.forget_before(time);
    }

    /// Bytes that wait to be taken.
    pub fn pending(&self) -> usize {
        self.segments.len() + self.late.len()
    }

    /// What came since this was called last.
    ///
    /// # Errors
    /// Those of packing (memory).
    pub fn take(&mut self) -> std::io::Result<Batch> {
        let packed = |bytes: &mut Vec<u8>| {
            let batch = std::mem::take(bytes);
            if batch.is_empty() { Ok(None) } else { codec::pack(&batch).map(Some) }
        };
        let span = self.span.take();
        let since = span.map_or(Timestamp::MAX, |s| s.0);
        self.scan.forget_decoded();
        let records = self.scan.records().filter(|r| r.last >= since).cloned().collect();
        let (now, skipped, _) = self.scan.counted();
        let (then, skipped_then) = &self.at_start;
        let before = &self.before.0;
        let sum = |b: u64, n: u64, t: u64| b + n.saturating_sub(t);
        let counters = ScanCounters {
            packets: sum(before.packets, now.packets, then.packets),
            segments: sum(before.segments, now.segments, then.segments),
            evicted_flows: sum(before.evicted_flows, now.evicted_flows, then.evicted_flows),
            evicted_bytes: sum(before.evicted_bytes, now.evicted_bytes, then.evicted_bytes),
            bad_checksums: sum(before.bad_checksums, now.bad_checksums, then.bad_checksums),
            duplicates: sum(before.duplicates, now.duplicates, then.duplicates),
        };
        let mut all = self.before.1.clone();
        for (reason, n) in skipped {
            let fresh = n.saturating_sub(skipped_then.get(&reason).copied().unwrap_or(0));
            *all.entry(reason).or_default() += fresh;
        }
        Ok(Batch {
            segments: packed(&mut self.segments)?,
            late: packed(&mut self.late)?,
            claims: self.scan.take_claims(),
            records,
            counters,
            skipped: all,
            span,
            packets: std::mem::take(&mut self.packets),
        })
    }
}

/// Reads the first `packets` packets of a capture again for what was sent from or to `listeners`, packed.
///
/// # Errors
/// Those of opening and reading the capture, and of packing.
pub fn read_late(
    path: &Path,
    capture: u32,
    packets: u64,
    listeners: &HashSet<Endpoint>,
) -> Result<Option<Vec<u8>>, CaptureError> {
    let mut reader = Reader::open(path, &Limits::default())?;
    let mut decoder = Decoder::new(Default::default());
    let mut batch = Vec::new();
    while let Some(packet) = reader.next()? {
        if packet.number > packets {
            break;
        }
        if let Frame::Tcp(s) = decoder.decode(&packet)
            && wanted(&s, listeners)
        {
            let at = PacketRef { capture, number: packet.number };
            codec::put(&mut batch, &s, packet.time, at, None);
        }
    }
    let failed = |source| CaptureError::Open { path: path.to_owned(), source };
    if batch.is_empty() { Ok(None) } else { codec::pack(&batch).map(Some).map_err(failed) }
}

fn wanted(s: &Segment<'_>, listeners: &HashSet<Endpoint>) -> bool {
    listeners.contains(&s.src) || listeners.contains(&s.dst)
}
