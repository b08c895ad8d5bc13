//! What scanners and strays send first. nmap's probes are those of a recording of it, in the order in which it sent them.

use std::path::Path;

use etherparse::{SlicedPacket, TransportSlice};

use super::random::Random;

/// The probes of `nmap -sV` against a store that closes every connection, from the recording in `testdata/scans`.
pub(crate) fn nmap() -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/scans/nmap-sV-1.9.0-poll.pcap");
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let mut probes: Vec<Vec<u8>> = Vec::new();
    let mut at = 24;
    while at + 16 <= bytes.len() {
        let length = word(at + 8);
        let packet = &bytes[at + 16..at + 16 + length];
        at += 16 + length;
        let Ok(sliced) = SlicedPacket::from_ethernet(packet) else { continue };
        if let Some(TransportSlice::Tcp(tcp)) = sliced.transport
            && !tcp.payload().is_empty()
            && tcp.source_port() != 39_845
        {
            probes.push(tcp.payload().to_vec());
        }
    }
    assert!(probes.len() > 25, "{} holds {} probes", path.display(), probes.len());
    probes
}

/// Whether it is one of the two probes of nmap that PyTorch 1.4 to 2.1 takes for a terabyte (rarity 6 and 7).
pub(crate) fn is_terminal_server(probe: &[u8]) -> bool {
    probe.starts_with(&[3, 0, 0])
}

/// An X.224 connection request as other RDP scanners send it: with a cookie of any length, with or without negotiation.
pub(crate) fn rdp(r: &mut Random) -> Vec<u8> {
    let cookie: Vec<u8> = match r.below(3) {
        0 => Vec::new(),
        1 => b"Cookie: mstshash=nmap\r\n".to_vec(),
        _ => {
            let name: String = (0..4 + r.below(6)).map(|_| char::from(b'a' + r.below(26) as u8)).collect();
            format!("Cookie: mstshash={name}\r\n").into_bytes()
        }
    };
    let tail: &[u8] = if r.chance(0.5) { &[1, 0, 8, 0, 3, 0, 0, 0] } else { &[] };
    let length = (11 + cookie.len() + tail.len()) as u8;
    let head = [3, 0, 0, length, length - 5, 0xe0, 0, 0, 0, 0, 0];
    [&head[..], &cookie, tail].concat()
}

/// Kafka's ApiVersions, read as SET with a key of 72 GiB.
pub(crate) fn kafka() -> Vec<u8> {
    [&[0, 0, 0, 0x17, 0, 0x12, 0, 0, 0, 0, 0, 1, 0, 9][..], b"rdkafka-1", &[0, 0, 0, 0]].concat()
}

/// What comes to any port sooner or later, and is no claim to any store.
pub(crate) fn harmless(r: &mut Random) -> Vec<u8> {
    match r.below(6) {
        0 => b"GET /metrics HTTP/1.1\r\nHost: store\r\nUser-Agent: Prometheus/2.53\r\nAccept: */*\r\n\r\n".to_vec(),
        1 => client_hello(r),
        2 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        3 => b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        4 => b"PING\r\n".to_vec(),
        _ => Vec::new(),
    }
}

fn client_hello(r: &mut Random) -> Vec<u8> {
    let mut hello = vec![3, 3];
    hello.extend((0..32).map(|_| r.next() as u8));
    hello.extend([0, 0, 4, 0x13, 1, 0x13, 2, 1, 0, 0, 0]);
    let mut handshake = vec![1, 0, 0, hello.len() as u8];
    handshake.extend(hello);
    let mut record = vec![0x16, 3, 1, 0, handshake.len() as u8];
    record.extend(handshake);
    record
}
