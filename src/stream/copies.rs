//! Packets that were captured twice.

use crate::frame::Segment;
use crate::time::Timestamp;

/// Copies of one packet are seen within this time; a retransmission takes longer (RFC 6298: 200 ms and more).
const COPY_NANOS: i64 = 20_000_000;

/// What the headers of two copies of one packet have in common.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Print {
    seq: u32,
    ack: u32,
    length: u32,
    captured: u32,
    ip_id: u32,
    window: u16,
    checksum: u16,
    flags: u8,
}

/// Tells the header of a packet that was captured twice (another interface of `any`, a mirror port) from that of a
/// retransmission. Whether the bytes are the same as well is for the assembler to say.
#[derive(Default, Debug)]
pub(super) struct Copies {
    recent: [Option<(Print, Timestamp)>; 4],
    at: usize,
}

impl Copies {
    pub(super) fn is_copy(&mut self, segment: &Segment<'_>, time: Timestamp) -> bool {
        let print = Print {
            seq: segment.seq,
            ack: segment.ack,
            length: segment.wire_length,
            // A copy that a smaller snaplen cut earlier is no copy of all of it.
            captured: segment.payload.len() as u32,
            ip_id: segment.ip_id,
            window: segment.window,
            checksum: segment.checksum().unwrap_or(0),
            flags: segment.flags.0,
        };
        let near = |t: Timestamp| time.0.abs_diff(t.0) <= COPY_NANOS as u64;
        if self.recent.iter().flatten().any(|(p, t)| *p == print && near(*t)) {
            return true;
        }
        if let Some(slot) = self.recent.get_mut(self.at) {
            *slot = Some((print, time));
        }
        self.at = (self.at + 1) % self.recent.len();
        false
    }
}
