//! Gloo's pairs: connections between ranks that a store has named, known by how they begin. What they carry is the
//! job's data and is not looked at.
//!
//! Since 1.8 the side that connects first says which pair it is (i64, little-endian, as the other side's blob in the
//! store has it). Then both sides send operations: a header of 48 bytes, little-endian: u64 length of all of it, i32
//! opcode and four bytes of padding, u64 slot, offset, length, offset there; data follows opcodes 0 and 1.
//! Seen in 1.13 and 2.15, layouts from Gloo's `transport/tcp/pair.h`.

/// Bytes of a pair's number.
pub(super) const NUMBER: usize = 8;
/// Bytes of an operation's header.
const HEADER: usize = 48;
/// First bytes of each direction that are looked at.
pub const HEAD_BYTES: usize = NUMBER + HEADER;
/// Pairs of one rank; the number counts them, groups included.
pub(super) const MAX_NUMBER: u64 = 1 << 32;
/// Collectives are numbered to 8; a margin for later ones.
const MAX_COLLECTIVE: u8 = 32;
/// The longest operation that is taken for real.
const MAX_LENGTH: u64 = 1 << 40;

/// What the first bytes of a connection to a named pair allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstBytes {
    /// More bytes will tell.
    NotEnoughBytes,
    /// It is no pair of Gloo.
    No,
    /// It begins as one.
    Pair,
}

/// Judges the first bytes of both directions, in order; [`HEAD_BYTES`] of each suffice.
pub fn first_bytes(client: &[u8], server: &[u8]) -> FirstBytes {
    use FirstBytes::*;
    if operation(server) == No {
        return No;
    }
    // Up to 1.5 every pair has a listener of its own and no number.
    let bare = operation(client);
    let numbered = match number(client, 0) {
        _ if client.len() < NUMBER => NotEnoughBytes,
        Some(n) if n < MAX_NUMBER => operation(client.get(NUMBER..).unwrap_or_default()),
        _ => No,
    };
    match (bare, numbered) {
        (Pair, _) | (_, Pair) => Pair,
        (No, No) => No,
        // A number and nothing more is how a pair waits; the listener's answer settles it too.
        _ if client.len() == NUMBER && numbered != No || operation(server) == Pair => Pair,
        _ => NotEnoughBytes,
    }
}

/// The header of an operation.
pub(super) fn operation(bytes: &[u8]) -> FirstBytes {
    let Some(all) = number(bytes, 0) else { return FirstBytes::NotEnoughBytes };
    if !(HEADER as u64..MAX_LENGTH).contains(&all) {
        return FirstBytes::No;
    }
    let Some(opcode) = number(bytes, 8) else { return FirstBytes::NotEnoughBytes };
    let data = match (all.checked_sub(HEADER as u64), opcode) {
        (Some(data), 0 | 1) => Some(data),
        (Some(0), 2 | 3) => None,
        _ => return FirstBytes::No,
    };
    match (data, number(bytes, 32)) {
        // The slot: a collective's number is its highest byte; calls of PyTorch's own have a tag there instead.
        _ if bytes.get(23).is_some_and(|b| *b > MAX_COLLECTIVE) => FirstBytes::No,
        _ if bytes.len() < HEADER => FirstBytes::NotEnoughBytes,
        (Some(data), Some(length)) if data != length => FirstBytes::No,
        _ => FirstBytes::Pair,
    }
}

pub(super) fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.get(..8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(all: u64, opcode: u64, length: u64) -> Vec<u8> {
        [all, opcode, 2, 0, length, 0].iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    #[test]
    fn a_pair_is_known_by_its_number_and_its_first_operation() {
        let asked = [&5u64.to_le_bytes()[..], &header(48, 2, 4)].concat();
        let sent = header(48 + 4, 1, 4);
        for (client, server) in [(&asked[..], &[][..]), (&asked[..8], &sent[..]), (&sent[..], &[]), (&asked[..8], &[])]
        {
            assert_eq!(first_bytes(client, server), FirstBytes::Pair);
        }
        for n in 0..8 {
            assert_eq!(first_bytes(&asked[..n], &[]), FirstBytes::NotEnoughBytes);
        }
    }

    #[test]
    fn strangers_are_none() {
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n", &[3, 0, 0, 42, 37, 224, 0, 0, 0], &[0xff; 64]]
        {
            assert_eq!(first_bytes(bytes, &[]), FirstBytes::No, "{bytes:?}");
            assert_eq!(first_bytes(&5u64.to_le_bytes(), bytes), FirstBytes::No, "{bytes:?}");
        }
        assert_eq!(first_bytes(&header(48 + 9, 1, 4), &[]), FirstBytes::No);
    }
}
