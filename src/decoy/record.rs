//! A recording without privileges: packets put together from what was sent and received, as a capture tool on the decoy's host
//! would have seen them. Sequence numbers begin at fixed places; there are no retransmissions and no options but on paper.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use crate::capture::{LinkType, Packet, Writer};
use crate::frame::Flags;
use crate::time::Timestamp;

/// Payload of one packet at most.
const SEGMENT: usize = 16 << 10;
/// Bytes that a recording holds at most; what comes later is counted.
const MAX_BYTES: u64 = 1 << 30;
const CLIENT_ISN: u32 = 0x1000_0000;
const SERVER_ISN: u32 = 0x2000_0000;
const PSH: u8 = 0x08;

/// Where the two sides of a connection stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tape {
    client: SocketAddr,
    server: SocketAddr,
    /// Next sequence numbers: client, server.
    next: [u32; 2],
}

impl Tape {
    pub(super) fn new(client: SocketAddr, server: SocketAddr) -> Tape {
        Tape { client, server, next: [CLIENT_ISN, SERVER_ISN] }
    }
}

/// Writes pcapng.
pub struct Recorder {
    writer: Option<Writer<Box<dyn Write + Send>>>,
    written: u64,
    unrecorded: u64,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Begins a recording.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(out: Box<dyn Write + Send>) -> io::Result<Recorder> {
        let name = concat!("rdzvscope ", env!("CARGO_PKG_VERSION"), " decoy (packets put together from sockets)");
        Ok(Recorder { writer: Some(Writer::new(out, name)?), written: 0, unrecorded: 0, failed: None })
    }

    /// Packets left out because the recording had reached its bound.
    pub(super) fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Ends it.
    ///
    /// # Errors
    /// What went wrong first.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.writer.take().map_or(Ok(()), |w| w.finish().map(|_| ()))
    }

    pub(super) fn opened(&mut self, tape: &mut Tape, now: Timestamp) {
        self.packet(tape, true, Flags::SYN, &[], now);
        self.packet(tape, false, Flags::SYN | Flags::ACK, &[], now);
        self.packet(tape, true, Flags::ACK, &[], now);
    }

    /// Bytes from the client or to it, and their acknowledgement.
    pub(super) fn data(&mut self, tape: &mut Tape, from_client: bool, bytes: &[u8], now: Timestamp) {
        for piece in bytes.chunks(SEGMENT) {
            self.packet(tape, from_client, Flags::ACK | PSH, piece, now);
            self.packet(tape, !from_client, Flags::ACK, &[], now);
        }
    }

    pub(super) fn closed(&mut self, tape: &mut Tape, by_client: bool, reset: bool, now: Timestamp) {
        self.packet(tape, by_client, if reset { Flags::RST | Flags::ACK } else { Flags::FIN | Flags::ACK }, &[], now);
        if !reset {
            self.packet(tape, !by_client, Flags::ACK, &[], now);
        }
        // Whoever looks at the file while the decoy runs finds every connection that has ended.
        if let (Some(writer), None) = (&mut self.writer, &self.failed)
            && let Err(error) = writer.flush()
        {
            self.failed = Some(error);
        }
    }

    fn packet(&mut self, tape: &mut Tape, from_client: bool, flags: u8, payload: &[u8], now: Timestamp) {
        let (source, target) = if from_client { (tape.client, tape.server) } else { (tape.server, tape.client) };
        let (own, peer) = if from_client { (tape.next[0], tape.next[1]) } else { (tape.next[1], tape.next[0]) };
        let bytes = ip(source, target, own, if flags & Flags::ACK == 0 { 0 } else { peer }, flags, payload);
        let used = payload.len() as u32 + u32::from(flags & (Flags::SYN | Flags::FIN) != 0);
        if let Some(next) = tape.next.get_mut(usize::from(!from_client)) {
            *next = next.wrapping_add(used);
        }
        if self.written > MAX_BYTES {
            self.unrecorded += 1;
            return;
        }
        self.written = self.written.saturating_add(bytes.len() as u64 + 36);
        let packet = Packet {
            number: 0,
            time: now,
            link_type: LinkType::RAW,
            interface: 0,
            original_length: bytes.len() as u32,
            data: &bytes,
        };
        if let (Some(writer), None) = (&mut self.writer, &self.failed)
            && let Err(error) = writer.write(&packet, 0, "decoy", None)
        {
            self.failed = Some(error);
        }
    }
}

/// An IP packet with a TCP segment, checksums included.
fn ip(source: SocketAddr, target: SocketAddr, seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::with_capacity(20 + payload.len());
    tcp.extend_from_slice(&source.port().to_be_bytes());
    tcp.extend_from_slice(&target.port().to_be_bytes());
    tcp.extend_from_slice(&seq.to_be_bytes());
    tcp.extend_from_slice(&ack.to_be_bytes());
    tcp.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(payload);
    let (mut head, pseudo) = match (source.ip(), target.ip()) {
        (IpAddr::V4(s), IpAddr::V4(t)) => {
            let length = (20 + tcp.len()) as u16;
            let mut head = vec![0x45, 0];
            head.extend_from_slice(&length.to_be_bytes());
            head.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
            head.extend_from_slice(&s.octets());
            head.extend_from_slice(&t.octets());
            let sum = checksum(&[&head]);
            if let Some(place) = head.get_mut(10..12) {
                place.copy_from_slice(&sum.to_be_bytes());
            }
            let pseudo = [&s.octets()[..], &t.octets(), &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
            (head, pseudo)
        }
        (s, t) => {
            let six = |a: IpAddr| match a {
                IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
                IpAddr::V6(a) => a.octets(),
            };
            let mut head = vec![0x60, 0, 0, 0];
            head.extend_from_slice(&(tcp.len() as u16).to_be_bytes());
            head.extend_from_slice(&[6, 64]);
            head.extend_from_slice(&six(s));
            head.extend_from_slice(&six(t));
            let pseudo = [&six(s)[..], &six(t), &(tcp.len() as u32).to_be_bytes(), &[0, 0, 0, 6]].concat();
            (head, pseudo)
        }
    };
    let sum = checksum(&[&pseudo, &tcp]);
    if let Some(place) = tcp.get_mut(16..18) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
    head.extend_from_slice(&tcp);
    head
}

/// The Internet checksum. All parts but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| {
        u64::from(u16::from_be_bytes([pair.first().copied().unwrap_or(0), pair.get(1).copied().unwrap_or(0)]))
    };
    let mut sum: u64 = parts.iter().flat_map(|p| p.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Decoder, Frame, verify_checksum};

    #[test]
    fn packets_are_what_our_own_decoder_reads() {
        for (client, server) in [("127.0.0.1:40000", "127.0.0.1:29500"), ("[::1]:40000", "[::1]:29500")] {
            let (client, server): (SocketAddr, SocketAddr) = (client.parse().unwrap(), server.parse().unwrap());
            let bytes = ip(client, server, 7, 9, Flags::ACK | PSH, b"odd");
            let packet = Packet {
                number: 1,
                time: Timestamp(0),
                link_type: LinkType::RAW,
                interface: 0,
                original_length: bytes.len() as u32,
                data: &bytes,
            };
            let mut decoder = Decoder::new(Default::default());
            let Frame::Tcp(segment) = decoder.decode(&packet) else { panic!("no TCP") };
            assert_eq!((segment.payload, segment.seq, segment.ack), (&b"odd"[..], 7, 9));
            assert_eq!((segment.src.port, segment.dst.port), (40_000, 29_500));
            assert_eq!(verify_checksum(&segment), crate::frame::Checksum::Ok);
        }
    }
}
