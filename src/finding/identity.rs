//! Identities: hashes of what was on the wire, not of where it was read.

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::net::{Address, Endpoint};

/// The first eight bytes of the SHA-256 of `parts`, as sixteen hex digits. Parts are length-prefixed, so that no two
/// lists of parts run together.
pub fn short_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()[..8])
}

/// Lower-case hex without separators.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

/// The id of a finding: rule, endpoints (inner addresses), absolute sequence number of the first byte it is about, and
/// the first bytes. The same on every reading, in every capture, on every host.
pub fn finding_id(rule: &str, sender: Endpoint, receiver: Endpoint, sequence: u32, first: &[u8]) -> String {
    let mut ends = [0u8; 36];
    ends[..16].copy_from_slice(&sender.address.0.to_be_bytes());
    ends[16..18].copy_from_slice(&sender.port.to_be_bytes());
    ends[18..34].copy_from_slice(&receiver.address.0.to_be_bytes());
    ends[34..].copy_from_slice(&receiver.port.to_be_bytes());
    short_hash([rule.as_bytes(), &ends, &sequence.to_be_bytes(), &first[..first.len().min(64)]])
}

/// The community id (version 1, seed 0, TCP) that Zeek, Suricata and Wireshark print for the same flow:
/// `1:` and the base64 of a SHA-1 over seed, ordered addresses, protocol, padding and ordered ports, all big-endian.
pub fn community_id(a: Endpoint, b: Endpoint) -> String {
    let octets = |x: Address| match x.ip() {
        std::net::IpAddr::V4(v) => v.octets().to_vec(),
        std::net::IpAddr::V6(v) => v.octets().to_vec(),
    };
    let (low, high) = if (octets(a.address), a.port) <= (octets(b.address), b.port) { (a, b) } else { (b, a) };
    let mut hash = Sha1::new();
    hash.update([0u8, 0]);
    hash.update(octets(low.address));
    hash.update(octets(high.address));
    hash.update([6u8, 0]);
    hash.update(low.port.to_be_bytes());
    hash.update(high.port.to_be_bytes());
    format!("1:{}", base64(&hash.finalize()))
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for i in 0..4 {
            if i <= group.len() {
                out.push(char::from(ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(address: &str, port: u16) -> Endpoint {
        let ip: std::net::IpAddr = address.parse().unwrap();
        Endpoint::new(ip.into(), port)
    }

    #[test]
    fn community_ids_are_those_of_the_published_baseline() {
        // From the community-id specification's baseline for TCP.
        let (a, b) = (end("128.232.110.120", 34855), end("66.35.250.204", 80));
        assert_eq!(community_id(a, b), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        assert_eq!(community_id(b, a), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
    }

    #[test]
    fn an_id_depends_on_each_part_and_on_the_direction() {
        let (a, b) = (end("192.0.2.1", 1), end("192.0.2.2", 2));
        let id = finding_id("r", a, b, 7, b"x");
        assert_eq!(id.len(), 16);
        assert_eq!(id, finding_id("r", a, b, 7, b"x"));
        for other in [
            finding_id("s", a, b, 7, b"x"),
            finding_id("r", b, a, 7, b"x"),
            finding_id("r", a, b, 8, b"x"),
            finding_id("r", a, b, 7, b"y"),
        ] {
            assert_ne!(id, other);
        }
    }
}
