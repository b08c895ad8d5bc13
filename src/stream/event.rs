//! What reassembly says about one direction of a flow, and what it counts.

use super::{Chunk, PacketRef};
use crate::time::Timestamp;

/// Captured TCP payload of one packet, with what the headers said about it.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Sequence number of the first payload byte; of a SYN that carries data, the SYN's own number plus one.
    pub seq: u32,
    /// The captured bytes.
    pub payload: &'a [u8],
    /// Payload length on the wire, in bytes; larger than `payload` when the snaplen cut the packet.
    pub wire_length: u32,
    /// When the packet was seen.
    pub time: Timestamp,
    /// The packet.
    pub packet: PacketRef,
}

/// Why bytes of a stream are not there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapCause {
    /// The peer acknowledged them, so they were delivered: the capture lost them.
    Missed,
    /// No acknowledgement of them was seen either.
    NeverCame,
    /// The packet was captured, the snaplen cut them off.
    Cut,
    /// They may yet have come, but the budget for what waits behind them was used up.
    Evicted,
}

/// One step of a stream. Offsets count bytes from the stream's start and only grow, conflicts excepted.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The next bytes. Their time is the packet's own, so it may lie before that of an earlier chunk.
    Chunk(Chunk<'a>),
    /// Bytes that are not there; what follows starts after them. Never touches a byte that was handed on.
    Gap {
        /// Offset of the first byte missing.
        offset: u64,
        /// Bytes missing.
        length: u64,
        /// Why.
        cause: GapCause,
    },
    /// Two packets carried different bytes for the same place; those named first are what a Linux receiver keeps. At most [`Conflict::EVENTS`] a stream are told, all are counted.
    Conflict(Conflict<'a>),
}

/// Two readings of the same place in a stream.
#[derive(Clone, Copy, Debug)]
pub struct Conflict<'a> {
    /// Offset of the first byte that differs. It may lie before or after what was handed on last.
    pub offset: u64,
    /// From the first byte that differs to the last one, in bytes.
    pub length: u64,
    /// What a Linux receiver keeps, cut to [`Conflict::BYTES`].
    pub first: &'a [u8],
    /// What the other packet carried, as many bytes.
    pub second: &'a [u8],
    /// The packet that carried `first`.
    pub packet_first: PacketRef,
    /// The packet that carried `second`.
    pub packet_second: PacketRef,
}

impl Conflict<'_> {
    /// Conflicts told of one stream; an overlap attack could otherwise make more output than input.
    pub const EVENTS: u64 = 64;
    /// Bytes of each reading that are kept.
    pub const BYTES: usize = 256;
}

/// What was seen of one direction of a flow, in bytes unless said otherwise.
///
/// Once finished, `delivered + gap_bytes + cut_bytes + tail_missed` is the span of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct StreamCounters {
    /// Segments that carried or claimed payload.
    pub segments: u64,
    /// Handed on in chunks.
    pub delivered: u64,
    /// Missing between the start (the SYN; without one, the first byte held) and the last byte held, whatever the cause.
    pub gap_bytes: u64,
    /// Cut off by a snaplen after the last byte held.
    pub cut_bytes: u64,
    /// Known to have been sent after the last byte held, by a FIN, an acknowledgement or a cut segment behind them, and
    /// in no packet of the capture. A lower bound.
    pub tail_missed: u64,
    /// Came again, after they were held or handed on.
    pub retransmitted_bytes: u64,
    /// Of these: compared and the same.
    pub duplicate_bytes: u64,
    /// Of these: too old to be compared.
    pub unverified_bytes: u64,
    /// Segments (a number) that brought only bytes that were there already, all the same.
    pub duplicates: u64,
    /// Places (a number) where a later packet had different bytes.
    pub conflicts: u64,
    /// Bytes that differed.
    pub conflict_bytes: u64,
    /// Came for places before the start: late in a stream that was joined midway, or older than its SYN.
    pub before_start: u64,
    /// Dropped because the budget for what waits behind a hole was used up, came for a hole after it had been given up, or
    /// waited to the end behind bytes that never came.
    pub given_up: u64,
    /// How often (a number) the budget was used up.
    pub evictions: u64,
    /// Left out of the stream because the urgent pointer marked them.
    pub urgent_bytes: u64,
    /// Refused by the receiver, and never acknowledged: a bad checksum, an old timestamp, an acknowledgement of what was
    /// never sent, no ACK flag, payload of a SYN or RST, after the FIN or the end of the connection.
    pub refused: u64,
    /// Segments (a number) that probe whether the peer is still there: at the byte before the next one, with no byte or one.
    pub keep_alives: u64,
    /// Came for places outside the receiver's window.
    pub out_of_window: u64,
    /// Cut ranges (a number) whose place was forgotten because there were too many; they read as missed.
    pub forgotten_cuts: u64,
    /// Held behind holes now.
    pub held_bytes: u64,
    /// Memory taken now by what is held, its bookkeeping and the history.
    pub allocated_bytes: u64,
}

impl StreamCounters {
    /// Captured bytes that are not in the stream because its receiver did not take them, or reading gave them up, in words:
    /// `11 bytes refused by the receiver, 3 out of its window`.
    pub fn left_out(&self) -> Option<String> {
        let parts = [
            (self.refused, "refused by the receiver"),
            (self.out_of_window, "out of its window"),
            (self.before_start, "before the start"),
            (self.given_up, "read no further"),
            (self.urgent_bytes, "urgent, which the kernel takes out"),
        ];
        let mut text = String::new();
        for (n, what) in parts.into_iter().filter(|p| p.0 > 0) {
            let unit = match (text.is_empty(), n) {
                (true, 1) => " byte",
                (true, _) => " bytes",
                _ => "",
            };
            let before = if text.is_empty() { "" } else { ", " };
            text.push_str(&format!("{before}{n}{unit} {what}"));
        }
        (!text.is_empty()).then_some(text)
    }
}

impl StreamCounters {
    /// Bytes from the start of the stream to the last one known of. Exact once the stream is finished.
    pub fn span(&self) -> u64 {
        self.delivered.saturating_add(self.gap_bytes).saturating_add(self.cut_bytes).saturating_add(self.tail_missed)
    }
}
