//! Segments as they are kept between runs: what the decoders saw, so that they can see it again.
//!
//! A batch is one blob: a layout version, then the segments one after the other, numbers little-endian, packed with
//! zstd. Raw segments rather than what some version of a decoder made of them: a later version reads old ones anew.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};

use super::scan::SetScan;
use crate::frame::{Flags, OuterLayer, Segment};
use crate::net::Endpoint;
use crate::stream::{FlowRecord, Ordinary, PacketRef, Take, ordinary, put_endpoint, put_packet};
use crate::time::Timestamp;

/// The mark of a segment whose TCP header was kept.
const WITH_HEADER: u8 = 2;
/// The longest TCP header, in bytes.
const MAX_HEADER: usize = 60;
/// Version of the layout. The first one has no TCP headers.
const LAYOUT: u8 = 2;
/// A batch unpacks to at most this many bytes; one that is larger is damaged.
const MAX_BATCH: u64 = 256 << 20;
/// Bytes of a segment before its encapsulations, and of one encapsulation.
const HEAD: usize = 77;
const OUTER: usize = 38;
/// Payload of one segment, as the kernel hands over segments that it joined, and bytes of one line of a log: more is
/// damage.
const MAX_PAYLOAD: u32 = 4 << 20;
const MAX_LINE: u32 = 16 << 20;
/// Logarithm of the window of what is unpacked: batches are packed with 2 MiB.
const WINDOW_LOG: u32 = 23;
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
    /// The TCP header as it was captured, and the payload.
    tcp: Vec<u8>,
    /// Bytes of the header: none in batches of the first layout.
    header: usize,
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
            payload: self.tcp.get(self.header..).unwrap_or_default(),
            wire_length: self.wire_length,
            ip_id: self.ip_id,
            outer: &self.outer,
            // Without the header neither checksum nor options are known; the checksums were counted when it was read.
            tcp: if self.header > 0 { &self.tcp } else { &[] },
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
    let header = s.tcp.len().saturating_sub(s.payload.len()).min(MAX_HEADER);
    out.push(u8::from(opens.is_some()) | if header > 0 { WITH_HEADER } else { 0 });
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
    if header > 0 {
        out.push(header as u8);
        out.extend_from_slice(s.tcp.get(..header).unwrap_or_default());
    }
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

/// Hands out the segments of a packed batch, one by one as they are unpacked, as long as `take` wants more. `false` when
/// the batch is damaged: what came before the damage was handed out.
pub(super) fn unpack(blob: &[u8], take: &mut dyn FnMut(KeptSegment) -> bool) -> bool {
    let Ok(mut input) = unpacked(blob, MAX_BATCH) else { return false };
    let mut layout = [0u8];
    if input.read_exact(&mut layout).is_err() || !(1..=LAYOUT).contains(&layout[0]) {
        return false;
    }
    loop {
        match input.fill_buf().map(<[u8]>::is_empty) {
            Ok(true) => return true,
            Ok(false) => {}
            Err(_) => return false,
        }
        match one(&mut input) {
            Some(segment) => {
                if !take(segment) {
                    return true;
                }
            }
            None => return false,
        }
    }
}

/// Unpacks as it is read, at most `max` bytes; takes no more memory than the packing's own window.
fn unpacked(packed: &[u8], max: u64) -> std::io::Result<impl BufRead> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(BufReader::new(decoder.take(max)))
}

/// Packs counts of ordinary connections.
///
/// # Errors
/// Those of packing (memory).
pub fn pack_ordinary(pairs: &[Ordinary]) -> std::io::Result<Vec<u8>> {
    zstd::bulk::compress(&ordinary::to_bytes(pairs), 12)
}

/// Unpacks them, at most `max` bytes; `None` where they are damaged or more.
pub fn unpack_ordinary(packed: &[u8], max: u64) -> Option<Vec<Ordinary>> {
    let mut whole = Vec::new();
    let n = unpacked(packed, max + 1).ok()?.read_to_end(&mut whole).ok()?;
    if n as u64 > max { None } else { ordinary::from_bytes(&whole) }
}

/// The listeners whose flows were decoded, by what was kept of them.
pub fn decoded_listeners(segments: &[Vec<u8>]) -> BTreeSet<Endpoint> {
    let mut servers = BTreeSet::new();
    for blob in segments {
        unpack(blob, &mut |s| {
            servers.extend(s.opens.as_ref().map(FlowRecord::server));
            true
        });
    }
    servers
}

fn one(input: &mut impl Read) -> Option<KeptSegment> {
    let mut head = [0u8; HEAD];
    input.read_exact(&mut head).ok()?;
    let take = &mut Take(&head);
    let marks = take.u8()?;
    let opens = marks & 1 != 0;
    let packet = take.packet()?;
    let time = take.time()?;
    let (src, dst) = (take.endpoint()?, take.endpoint()?);
    let (seq, ack, wire_length, ip_id) = (take.u32()?, take.u32()?, take.u32()?, take.u32()?);
    let window = take.u16()?;
    let flags = Flags(take.u8()?);
    let mut outer = Vec::new();
    for _ in 0..usize::from(take.u8()?).min(MAX_OUTER) {
        let mut layer = [0u8; OUTER];
        input.read_exact(&mut layer).ok()?;
        let take = &mut Take(&layer);
        let kind = KINDS.get(usize::from(take.u8()?)).copied().unwrap_or("tunnel");
        let (source, target) = (take.address()?, take.address()?);
        let has_id = take.u8()? != 0;
        let id = take.u32()?;
        outer.push(OuterLayer { kind, source, target, id: has_id.then_some(id) });
    }
    let payload = bytes(input, MAX_PAYLOAD)?;
    let mut tcp = Vec::new();
    if marks & WITH_HEADER != 0 {
        let mut length = [0u8];
        input.read_exact(&mut length).ok()?;
        tcp.resize(usize::from(length[0]), 0);
        input.read_exact(&mut tcp).ok()?;
    }
    let header = tcp.len();
    tcp.extend_from_slice(&payload);
    let opens = if opens { Some(FlowRecord::read_from(input)?) } else { None };
    Some(KeptSegment { packet, time, opens, src, dst, seq, ack, flags, window, wire_length, ip_id, tcp, header, outer })
}

/// Bytes behind their number; `None` where they end too early or are more than `max`.
fn bytes(input: &mut impl Read, max: u32) -> Option<Vec<u8>> {
    let mut length = [0u8; 4];
    input.read_exact(&mut length).ok()?;
    let length = u32::from_le_bytes(length);
    let mut bytes = Vec::new();
    let read = input.take(u64::from(length.min(max))).read_to_end(&mut bytes).ok()?;
    (read == length as usize).then_some(bytes)
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
    let mut unpacked = 0u64;
    let whole = unpack_each_line(part, &mut |number, line| {
        unpacked += line.len() as u64;
        lines.push((number, line));
        unpacked <= max
    });
    whole && unpacked <= max
}

/// Hands out the lines of a packed part with their numbers, as long as `take` wants more; `false` when it is damaged.
pub(super) fn unpack_each_line(part: &[u8], take: &mut dyn FnMut(u64, Vec<u8>) -> bool) -> bool {
    let Ok(mut input) = unpacked(part, MAX_BATCH) else { return false };
    loop {
        match input.fill_buf().map(<[u8]>::is_empty) {
            Ok(true) => return true,
            Ok(false) => {}
            Err(_) => return false,
        }
        let mut number = [0u8; 8];
        if input.read_exact(&mut number).is_err() {
            return false;
        }
        match bytes(&mut input, MAX_LINE) {
            Some(line) => {
                if !take(u64::from_le_bytes(number), line) {
                    return true;
                }
            }
            None => return false,
        }
    }
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
        assert!(unpack(&blob, &mut |s| {
            seen.push(s);
            true
        }));
        assert_eq!(seen.len(), 2);
        assert_eq!(format!("{:?}", seen[1].segment()), format!("{segment:?}"));
        assert_eq!((seen[1].time, seen[1].packet), (Timestamp(78), packet));
        for cut in 0..blob.len() {
            assert!(!unpack(&blob[..cut], &mut |_| true), "{cut}");
        }
        let mut short = Vec::new();
        assert!(!unpack(&pack(&batch[..batch.len() - 1]).unwrap(), &mut |s| {
            short.push(s);
            true
        }));
        assert_eq!(short.len(), 1);
    }
}
