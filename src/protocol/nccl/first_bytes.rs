//! Whether a connection to a port that nobody named begins as NCCL's do.

use super::layout::MAX_RANKS;
use super::role::Role;
use super::wire::{
    ADDRESS_BYTES, COMM_ID_MAGIC, HANDSHAKE_BYTES, SOCKET_MAGIC, address_at, address_is_clean, begins_as_ras_client,
    i32_at, u64_at,
};

/// What the first bytes of a client allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstBytes {
    /// More bytes will tell.
    NotEnoughBytes,
    /// It is not NCCL's, or nothing tells it from other traffic: peers and proxies are known by what names them.
    No,
    /// It is.
    Nccl {
        /// The role of the listener.
        role: Role,
        /// A constant magic says so; else the shape of a whole message does.
        certain: bool,
    },
}

use FirstBytes::{Nccl, No, NotEnoughBytes};

/// Judges the first bytes of a client, in order from the beginning of its stream; 64 bytes always suffice.
///
/// The magic of a communicator is random, so most connections are known only by the shape of their first message:
/// sizes, ranks and socket addresses where they belong. Messages with no such shape are left to what names them.
pub fn first_bytes(client: &[u8]) -> FirstBytes {
    let constants = [(SOCKET_MAGIC, 3..=6), (COMM_ID_MAGIC, 1..=2)];
    for (magic, kinds) in constants {
        let magic = magic.to_le_bytes();
        let n = client.len().min(8);
        if client.get(..n) == magic.get(..n) {
            let Some(kind) = i32_at(client, 8) else { return partial(client, NotEnoughBytes) };
            return match kind {
                k if !kinds.contains(&k) => No,
                3 | 4 | 6 => Nccl { role: Role::Net, certain: true },
                5 => Nccl { role: Role::Ras, certain: true },
                2 => Nccl { role: Role::Proxy, certain: true },
                _ => with_handshake(client, true),
            };
        }
    }
    match bare(client) {
        No => {}
        other => return other,
    }
    match begins_as_ras_client(client) {
        Some(true) => return Nccl { role: Role::Ras, certain: false },
        None => return NotEnoughBytes,
        Some(false) => {}
    }
    if client.len() < HANDSHAKE_BYTES {
        return partial(client, NotEnoughBytes);
    }
    with_handshake(client, false)
}

/// A handshake that is not whole: the type is 1 or 2 as far as it is there.
fn partial(client: &[u8], or: FirstBytes) -> FirstBytes {
    let kind = client.get(8..).unwrap_or_default();
    match kind {
        [] => or,
        [1..=6, rest @ ..] if rest.iter().all(|b| *b == 0) => or,
        _ => No,
    }
}

fn with_handshake(client: &[u8], certain: bool) -> FirstBytes {
    let body = client.get(HANDSHAKE_BYTES..).unwrap_or_default();
    if u64_at(client, 0) == Some(0) {
        return No;
    }
    match (i32_at(client, 8), i32_at(body, 0)) {
        (Some(1 | 2), None) => NotEnoughBytes,
        (Some(1), Some(size)) => frame(size, body.get(4..).unwrap_or_default(), true, certain),
        (Some(2), Some(1)) => proxy(body),
        _ => No,
    }
}

fn bare(client: &[u8]) -> FirstBytes {
    match i32_at(client, 0) {
        Some(size @ (28 | 64 | 136)) => frame(size, client.get(4..).unwrap_or_default(), false, false),
        _ => No,
    }
}

/// The first frame: a check-in, a reply or a ring slot.
fn frame(size: i32, body: &[u8], handshake: bool, certain: bool) -> FirstBytes {
    let (reply, check_in) = match (size, handshake) {
        (28, _) | (128, true) => (Some(Role::Reply), None),
        (64, false) => (Some(Role::Reply), Some(8)),
        (64, true) => (Some(Role::Ring), Some(8)),
        (104 | 120, true) => (Some(Role::Ring), None),
        (136, false) => (None, Some(8)),
        (172, true) => (None, Some(16)),
        (176, true) => (None, Some(20)),
        // A constant magic leaves no doubt, only the role open: peers.
        (4, true) if certain => return Nccl { role: Role::Peer, certain },
        (8, true) if certain => return Nccl { role: Role::Peer, certain },
        _ => return No,
    };
    if body.len() < 4 {
        return NotEnoughBytes;
    }
    if let Some(role) = reply
        && matches!(body, [2 | 10, 0, p, q, ..] if (*p, *q) != (0, 0))
    {
        return match body.len() < ADDRESS_BYTES {
            true => NotEnoughBytes,
            false if address_at(body, 0).is_some() && address_is_clean(body, 0) => Nccl { role, certain },
            false => No,
        };
    }
    let Some(at) = check_in else { return No };
    let (Some(rank), Some(nranks)) = (i32_at(body, 0), i32_at(body, 4)) else { return NotEnoughBytes };
    if !(1..=MAX_RANKS).contains(&nranks) || !(0..=nranks).contains(&rank) {
        return No;
    }
    if body.len() < at + ADDRESS_BYTES {
        return NotEnoughBytes;
    }
    let clean = handshake || address_is_clean(body, at);
    if address_at(body, at).is_some() && clean { Nccl { role: Role::Root, certain } } else { No }
}

/// An Init of the proxy service.
fn proxy(body: &[u8]) -> FirstBytes {
    let words = [4, 8, 12, 16].map(|at| i32_at(body, at));
    match words {
        [Some(0), Some(0), Some(20), Some(16 | 24)] => Nccl { role: Role::Proxy, certain: false },
        [Some(0), Some(0), Some(20), None] => NotEnoughBytes,
        [Some(0..=4), Some(0..=1), Some(0..=4096), _] => Nccl { role: Role::Proxy, certain: false },
        [_, _, None, _] => NotEnoughBytes,
        _ => No,
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::capture;
    use super::*;

    #[test]
    fn real_connections_are_known_at_any_length_or_not_at_all() {
        let mut found = std::collections::BTreeMap::new();
        for name in [
            "nccl/2.16.2-real-4ranks-netsocket.pcap",
            "nccl/2.26.2-real-4ranks-netsocket.pcap",
            "nccl/2.7.8src-4ranks.pcap",
            "nccl/2.14.3src-4ranks.pcap",
            "nccl/2.32.3-realroot-4pyranks.pcap",
        ] {
            for seen in capture(name) {
                let stream: Vec<u8> =
                    seen.held.iter().filter(|h| h.direction.index() == 0).flat_map(|h| h.bytes.clone()).collect();
                let full = first_bytes(&stream[..stream.len().min(64)]);
                if let Nccl { role, .. } = full {
                    *found.entry((name, role.text())).or_insert(0) += 1;
                    assert!((0..stream.len().min(64)).all(|n| first_bytes(&stream[..n]) != No), "{name} {role:?}");
                }
                if full != No {
                    assert_ne!(full, NotEnoughBytes, "{name}");
                }
            }
        }
        let count =
            |v, role| found.iter().filter(|((n, r), _)| n.contains(v) && *r == role).map(|(_, c)| *c).sum::<i32>();
        assert_eq!((count("2.16.2", "bootstrap-root"), count("2.26.2", "bootstrap-root")), (4, 4));
        assert_eq!((count("2.7.8", "bootstrap-root"), count("2.14.3", "bootstrap-root")), (4, 4));
        assert_eq!((count("2.26.2", "ring"), count("2.26.2", "reply"), count("2.26.2", "ras")), (4, 4, 4));
        assert!(count("2.16.2", "net") > 10 && count("2.16.2", "proxy") == 4 && count("2.26.2", "proxy") == 4);
    }

    #[test]
    fn other_traffic_is_not_taken_for_it() {
        for dir in ["scans", "incident-torch1.13", "gloo", "api", "torchrun"] {
            for entry in std::fs::read_dir(super::super::test_support::path(dir)).unwrap().flatten() {
                let name = entry.path();
                if name.extension().is_none_or(|e| e != "pcap") {
                    continue;
                }
                for seen in capture(name.to_str().unwrap()) {
                    let stream: Vec<u8> =
                        seen.held.iter().filter(|h| h.direction.index() == 0).flat_map(|h| h.bytes.clone()).collect();
                    for n in 0..=stream.len().min(64) {
                        assert!(!matches!(first_bytes(&stream[..n]), Nccl { .. }), "{name:?} {}", seen.record.server());
                    }
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_match(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let known = matches!(first_bytes(&bytes), Nccl { .. });
            proptest::prop_assert!(!known);
        }
    }
}
