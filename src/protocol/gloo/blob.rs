//! Gloo's address blobs: where the pairs of a rank listen.

use super::first_bytes::MAX_NUMBER;
use crate::net::Endpoint;
use crate::protocol::socket_address::endpoint;

/// `sockaddr_storage`, in bytes.
const STORAGE: usize = 128;
/// `sockaddr_storage` and an i64 sequence number, in bytes.
const ADDRESS: usize = STORAGE + 8;
/// No more endpoints are read from one blob.
const MAX_ENDPOINTS: usize = 4096;

/// How a rank names its listeners: it tells the releases apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// An address for each peer, without a number or with -1 (PyTorch 1.4–2.0): a listener for each pair.
    PerPeer,
    /// An address and a number for each peer (2.1): one listener for all pairs of a process group.
    Numbered,
    /// The host's name, one address, a number for each rank (2.2 and later).
    Named,
}

/// What a rank puts into a store for its peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blob {
    /// How.
    pub layout: Layout,
    /// Where it listens; with [`Layout::PerPeer`] for each peer, in order of rank, itself left out.
    pub endpoints: Vec<Endpoint>,
    /// Members of the group, this one included; 0 where the blob does not tell.
    pub size: u64,
}

/// Reads a Gloo address blob; `None` when it is none.
///
/// Three layouts: (2.2 and later) u64 host-name length, host name, u64 136, address, then i64 pair identifiers;
/// (1.5–2.1) 136 bytes a peer; (1.4) 128 bytes a peer. Bytes of a `sockaddr_storage` behind the address proper
/// are whatever was on the sender's stack and mean nothing. Integers are little-endian.
pub fn parse_blob(bytes: &[u8]) -> Option<Blob> {
    if let Some((endpoint, size)) = named(bytes) {
        return Some(Blob { layout: Layout::Named, endpoints: vec![endpoint], size });
    }
    for width in [ADDRESS, STORAGE] {
        if bytes.is_empty() || !bytes.len().is_multiple_of(width) || bytes.len() / width > MAX_ENDPOINTS {
            continue;
        }
        let all: Option<Vec<Endpoint>> = bytes.chunks_exact(width).map(endpoint).collect();
        if let Some(endpoints) = all {
            let numbers = bytes.chunks_exact(width).filter_map(|peer| number(peer.get(STORAGE..)?));
            let numbered = width == ADDRESS && numbers.into_iter().all(|(n, _)| n < MAX_NUMBER);
            let layout = if numbered { Layout::Numbered } else { Layout::PerPeer };
            let size = endpoints.len() as u64 + 1;
            return Some(Blob { layout, endpoints, size });
        }
    }
    None
}

/// The layout that begins with the host's name: the address, and how many numbers follow it.
fn named(bytes: &[u8]) -> Option<(Endpoint, u64)> {
    let (length, rest) = number(bytes)?;
    let length = usize::try_from(length).ok().filter(|n| (1..=255).contains(n))?;
    let (name, rest) = rest.split_at_checked(length)?;
    let (size, rest) = number(rest)?;
    let identifiers = rest.len().checked_sub(ADDRESS)?;
    let sound = name.iter().all(u8::is_ascii_graphic) && size == ADDRESS as u64 && identifiers.is_multiple_of(8);
    sound.then(|| Some((endpoint(rest)?, identifiers as u64 / 8))).flatten()
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, tail) = bytes.split_at_checked(8)?;
    Some((u64::from_le_bytes(head.try_into().ok()?), tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tcpstore::test_support::{connections, decode_as};
    use crate::protocol::tcpstore::{Dialect, Event, Purpose, purpose};

    /// Blobs that real ranks set, by key.
    fn blobs(file: &str, port: u16, dialect: Dialect) -> Vec<(String, Option<Blob>, Option<Purpose>)> {
        let mut found = Vec::new();
        for pieces in connections(file, port).values() {
            for e in decode_as(dialect, pieces, false) {
                let Event::Request(m) = e else { continue };
                let (Some(key), Some(value)) = (m.key(), m.value()) else { continue };
                if value.length >= 100 {
                    let name = String::from_utf8(key.bytes.clone()).unwrap();
                    found.push((name, parse_blob(&value.bytes), purpose(&key.bytes, Some(&value.bytes))));
                }
            }
        }
        found
    }

    #[test]
    fn real_blobs_of_three_layouts_name_the_pairs() {
        for (version, port, dialect, layout) in [
            ("1.4.0", 29511, Dialect::A0, Layout::PerPeer),
            ("1.8.0", 29511, Dialect::A1, Layout::PerPeer),
            ("2.10.0", 29512, Dialect::D, Layout::Named),
        ] {
            let found = blobs(&format!("gloo/gloo-{version}.pcap"), port, dialect);
            assert!(found.len() >= 2, "{version}: {found:?}");
            for (key, blob, purpose) in found {
                assert_eq!(purpose, Some(Purpose::GlooAddress), "{version} {key}");
                let blob = blob.unwrap();
                assert_eq!((blob.layout, blob.size), (layout, 2), "{version} {key}");
                assert!(blob.endpoints.iter().all(|e| e.port > 1024), "{version} {key} {blob:?}");
            }
        }
    }

    #[test]
    fn other_bytes_are_no_blob() {
        for bytes in [&[][..], &[0; 128], &[7; 136], b"192.0.2.11", &[2, 0]] {
            assert_eq!(parse_blob(bytes), None);
        }
    }
}
