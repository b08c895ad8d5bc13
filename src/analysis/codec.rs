//! Segments as they are kept between runs: what the decoders saw, so that they can see it again.
//!
//! A batch is one blob: a layout version, then the segments one after the other, numbers little-endian, packed with
//! zstd. Raw segments rather than what some version of a decoder made of them: a later version reads old ones anew.

use std::io::Read;

use super::scan::SetScan;
use crate::frame::{Flags, OuterLayer, Segment};
use crate::net::Endpoint;
use crate::stream::{FlowRecord, PacketRef, Take, put_endpoint, put_packet};
use crate::time::Timestamp;

/// Version of the layout.
const LAYOUT: u8 = 1;
/// A batch unpacks to at most this many bytes; one that is larger is damaged.
const MAX_BATCH: u64 = 256 << 20;
/// Encapsulations of a segment that are kept.
const MAX_OUTER: usize = 16;
/// Encapsulations by the number they are kept under; additions go to the end.
const KINDS: [&str; 15] = [
    "tunnel",
    "vxlan",
    "vxlan-gpe",
    "geneve",
    "gre",
    "nvgre",
    "erspan",
    "gtp",
    "mpls-in-udp",
    "mpls-in-ip",
    "ipip",
    "6in4",
    "4in6",
    "6in6",
    "etherip",
];

/// A segment, kept.
#[derive(Clone, Debug)]
pub(super) struct KeptSegment {
    pub(super) packet: PacketRef,
    pub(super) time: Timestamp,
    pub(super) opens: Option<FlowRecord>,
    src: Endpoint,
    dst: Endpoint,
    seq: u32,
    ack: u32,
    flags: Flags,
    window: u16,
    wire_length: u32,
    ip_id: u32,
    payload: Vec<u8>,
    outer: Vec<OuterLayer>,
}

impl KeptSegment {
    pub(super) fn segment(&self) -> Segment<'_> {
        Segment {
            src: self.src,
            dst: self.dst,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            payload: &self.payload,
            wire_length: self.wire_length,
            ip_id: self.ip_id,
            outer: &self.outer,
            // Checksums were counted when the packet was read.
            tcp: &[],
        }
    }

    /// Appends it to an unpacked batch.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put(out, &self.segment(), self.time, self.packet, self.opens.as_ref());
    }

    /// Gives it to a scan; the flow, if it is one that is decoded.
    pub(super) fn replay(&self, scan: &mut SetScan) -> Option<u32> {
        scan.replay(&self.segment(), self.time, self.packet, self.opens.as_ref())
    }
}

/// Appends a segment to an unpacked batch.
pub(super) fn put(out: &mut Vec<u8>, s: &Segment<'_>, time: Timestamp, packet: PacketRef, opens: Option<&FlowRecord>) {
    out.push(u8::from(opens.is_some()));
    put_packet(out, packet);
    out.extend_from_slice(&time.0.to_le_bytes());
    put_endpoint(out, s.src);
    put_endpoint(out, s.dst);
    for n in [s.seq, s.ack, s.wire_length, s.ip_id] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    out.extend_from_slice(&s.window.to_le_bytes());
    out.push(s.flags.0);
    out.push(s.outer.len().min(MAX_OUTER) as u8);
    for o in s.outer.iter().take(MAX_OUTER) {
        out.push(KINDS.iter().position(|k| *k == o.kind).unwrap_or(0) as u8);
        out.extend_from_slice(&o.source.0.to_le_bytes());
        out.extend_from_slice(&o.target.0.to_le_bytes());
        out.push(u8::from(o.id.is_some()));
        out.extend_from_slice(&o.id.unwrap_or(0).to_le_bytes());
    }
    out.extend_from_slice(&(s.payload.len() as u32).to_le_bytes());
    out.extend_from_slice(s.payload);
    if let Some(record) = opens {
        out.extend_from_slice(&record.to_bytes());
    }
}

/// Packs a batch.
pub(super) fn pack(batch: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut whole = Vec::with_capacity(batch.len() + 1);
    whole.push(LAYOUT);
    whole.extend_from_slice(batch);
    zstd::bulk::compress(&whole, 3)
}

/// Hands out the segments of a packed batch. `false` when it is damaged: what came before the damage was handed out.
pub(super) fn unpack(blob: &[u8], take: &mut dyn FnMut(KeptSegment)) -> bool {
    let Ok(decoder) = zstd::stream::read::Decoder::new(blob) else { return false };
    let mut bytes = Vec::new();
    if decoder.take(MAX_BATCH).read_to_end(&mut bytes).is_err() {
        return false;
    }
    let mut input = Take(&bytes);
    if input.u8() != Some(LAYOUT) {
        return false;
    }
    while !input.0.is_empty() {
        match one(&mut input) {
            Some(segment) => take(segment),
            None => return false,
        }
    }
    true
}

fn one(input: &mut Take<'_>) -> Option<KeptSegment> {
    let opens = input.u8()? & 1 != 0;
    let packet = input.packet()?;
    let time = input.time()?;
    let (src, dst) = (input.endpoint()?, input.endpoint()?);
    let (seq, ack, wire_length, ip_id) = (input.u32()?, input.u32()?, input.u32()?, input.u32()?);
    let window = input.u16()?;
    let flags = Flags(input.u8()?);
    let mut outer = Vec::new();
    for _ in 0..usize::from(input.u8()?).min(MAX_OUTER) {
        let kind = KINDS.get(usize::from(input.u8()?)).copied().unwrap_or("tunnel");
        let (source, target) = (input.address()?, input.address()?);
        let has_id = input.u8()? != 0;
        let id = input.u32()?;
        outer.push(OuterLayer { kind, source, target, id: has_id.then_some(id) });
    }
    let length = usize::try_from(input.u32()?).ok()?;
    let payload = input.slice(length)?.to_vec();
    let opens = if opens { Some(FlowRecord::from_bytes(input)?) } else { None };
    Some(KeptSegment { packet, time, opens, src, dst, seq, ack, flags, window, wire_length, ip_id, payload, outer })
}

/// Packs numbered lines of a log.
///
/// # Errors
/// Those of packing (memory).
pub fn pack_lines(lines: &[(u64, Vec<u8>)]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (number, line) in lines {
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&(line.len() as u32).to_le_bytes());
        bytes.extend_from_slice(line);
    }
    zstd::bulk::compress(&bytes, 3)
}

/// Appends the lines of a packed part, of which at most `max` bytes are unpacked. `false` when it is damaged: what came
/// before the damage was appended.
pub fn unpack_lines(part: &[u8], max: u64, lines: &mut Vec<(u64, Vec<u8>)>) -> bool {
    let Ok(decoder) = zstd::stream::read::Decoder::new(part) else { return false };
    let mut bytes = Vec::new();
    if decoder.take(max).read_to_end(&mut bytes).is_err() {
        return false;
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let Some((number, after)) = rest.split_first_chunk::<8>() else { return false };
        let Some((length, after)) = after.split_first_chunk::<4>() else { return false };
        let Some((line, after)) = after.split_at_checked(u32::from_le_bytes(*length) as usize) else { return false };
        lines.push((u64::from_le_bytes(*number), line.to_vec()));
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Address;

    #[test]
    fn a_batch_comes_back_and_a_damaged_one_is_no_trouble() {
        let end = |n, port| Endpoint::new(Address::v4([192, 0, 2, n]), port);
        let outer = [OuterLayer { kind: "vxlan", source: end(7, 0).address, target: end(8, 0).address, id: Some(42) }];
        let segment = Segment {
            src: end(1, 4),
            dst: end(2, 29500),
            seq: 1,
            ack: 2,
            flags: Flags(Flags::ACK),
            window: 3,
            payload: b"\x03\x00\x00\x2a",
            wire_length: 11,
            ip_id: 5,
            outer: &outer,
            tcp: &[],
        };
        let mut batch = Vec::new();
        let packet = PacketRef { capture: 3, number: 411 };
        put(&mut batch, &segment, Timestamp(77), packet, None);
        put(&mut batch, &segment, Timestamp(78), packet, None);
        let blob = pack(&batch).unwrap();
        let mut seen = Vec::new();
        assert!(unpack(&blob, &mut |s| seen.push(s)));
        assert_eq!(seen.len(), 2);
        assert_eq!(format!("{:?}", seen[1].segment()), format!("{segment:?}"));
        assert_eq!((seen[1].time, seen[1].packet), (Timestamp(78), packet));
        for cut in 0..blob.len() {
            assert!(!unpack(&blob[..cut], &mut |_| {}), "{cut}");
        }
        let mut short = Vec::new();
        assert!(!unpack(&pack(&batch[..batch.len() - 1]).unwrap(), &mut |s| short.push(s)));
        assert_eq!(short.len(), 1);
    }
}
