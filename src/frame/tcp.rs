//! TCP headers and checksums.

use etherparse::{TcpHeader, TcpHeaderSlice};

use super::counters::{NonTcp, Skip};
use super::cursor::{End, Ip, Span};
use super::segment::{Flags, OuterLayer, Segment};
use crate::net::Endpoint;

/// The segment in a TCP datagram.
///
/// Fourteen captured bytes (ports, numbers, offset and flags) are enough: a small snaplen may cut the rest.
pub(super) fn segment<'a>(ip: Ip, span: Span<'a>, outer: &'a [OuterLayer]) -> Result<Segment<'a>, End> {
    span.header::<14>(NonTcp::Tcp)?;
    // What the capture cut off reads as zeros.
    let mut whole = [0; TcpHeader::MAX_LEN];
    whole.iter_mut().zip(span.bytes).for_each(|(to, from)| *to = *from);
    let h = TcpHeaderSlice::from_slice(&whole).map_err(|_| End::Skip(Skip::TcpOffset))?;
    let header = h.slice().len();
    if header > span.wire {
        return Err(End::Skip(Skip::TcpHeader));
    }
    Ok(Segment {
        src: Endpoint::new(ip.source, h.source_port()),
        dst: Endpoint::new(ip.target, h.destination_port()),
        seq: h.sequence_number(),
        ack: h.acknowledgment_number(),
        flags: Flags(whole[13]),
        window: h.window_size(),
        payload: span.bytes.get(header..).unwrap_or_default(),
        wire_length: u32::try_from(span.wire - header).unwrap_or(u32::MAX),
        ip_id: ip.id,
        outer,
        tcp: span.bytes,
    })
}

/// What a segment's checksum says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksum {
    /// It fits.
    Ok,
    /// It does not fit, and a receiver drops the segment.
    Bad,
    /// It does not fit, and looks as if the sender left the sum to its network card: zero, or the sum of the pseudo-header
    /// alone. If it went over a wire like this, a receiver drops the segment.
    Unfinished,
    /// Nothing can be said: bytes are missing.
    Unknown,
}

impl Checksum {
    /// Whether a receiver that is sent the segment as it was captured drops it.
    pub fn is_wrong(self) -> bool {
        matches!(self, Checksum::Bad | Checksum::Unfinished)
    }
}

/// Checks a segment's TCP checksum (RFC 9293, 3.1) over the bytes captured. Costs a pass over the payload.
///
/// A segment without a right checksum may still be sound: captures on the sending host see it before the card fills
/// the checksum in, which is why a bad one is a note and never a reason to drop a packet.
pub fn verify_checksum(segment: &Segment<'_>) -> Checksum {
    let tcp = segment.tcp;
    let Some(&[a, b]) = tcp.get(16..).and_then(|b| b.first_chunk::<2>()) else { return Checksum::Unknown };
    let stored = u16::from_be_bytes([a, b]);
    if segment.payload.len() != segment.wire_length as usize {
        return Checksum::Unknown;
    }
    let (src, dst) = (segment.src.address, segment.dst.address);
    // IPv4 addresses are mapped ones here; the sum must not take in the prefix 0xffff.
    let address = |a: crate::net::Address| if a.is_v4() { a.0 & 0xffff_ffff } else { a.0 };
    let pseudo = sum(&address(src).to_be_bytes()) + sum(&address(dst).to_be_bytes()) + 6;
    let length = tcp.len() as u64;
    // Lengths over 16 bits (offload, jumbograms) are summed as the two halves of a 32-bit field.
    let pseudo_length = (length >> 16) + (length & 0xffff);
    if fold(pseudo + pseudo_length + sum(tcp)) == 0xffff {
        return Checksum::Ok;
    }
    if stored == 0 || stored == fold(pseudo + pseudo_length) || stored == fold(pseudo) {
        return Checksum::Unfinished;
    }
    Checksum::Bad
}

/// The sum of the big-endian 16-bit words, the last one padded with zero.
fn sum(bytes: &[u8]) -> u64 {
    let mut quads = bytes.chunks_exact(4);
    let mut sum = 0u64;
    // Sums of longer words fold to the same.
    for q in quads.by_ref() {
        if let &[a, b, c, d] = q {
            sum += u64::from(u32::from_be_bytes([a, b, c, d]));
        }
    }
    let mut words = quads.remainder().chunks_exact(2);
    for w in words.by_ref() {
        if let &[a, b] = w {
            sum += u64::from(u16::from_be_bytes([a, b]));
        }
    }
    sum + words.remainder().first().map_or(0, |&b| u64::from(b) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}
