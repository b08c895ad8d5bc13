//! `ncclUniqueId`: the 128 bytes that name a communicator's root, in every layout.

use super::version::Versions;
use super::wire::{address_at, address_is_clean, i32_at, u32_at, u64_at};
use crate::net::Endpoint;

/// Its length in bytes, in every NCCL.
pub const UNIQUE_ID_BYTES: usize = 128;

/// What an id says. Bytes that NCCL did not write (2.16–2.22 leave the caller's) are never kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UniqueId {
    /// The number that the communicator's bootstrap and proxy connections begin with (2.16.2 and later).
    pub magic: Option<u64>,
    /// Where the root listens.
    pub root: Endpoint,
    /// Existing ranks when a communicator grows (2.29 and later), else 0.
    pub grown_from: u32,
    /// The releases that write this layout.
    pub versions: Versions,
}

/// Reads an id. Accepts 2.4 (address at 0, process id at 80), 2.5–2.15 (address at 0, zeros), 2.16 and later (magic,
/// address at 8; up to 2.22 anything from 40 on, up to 2.25 anything in an IPv4 address's padding); `None` where the
/// address, its padding or the length is not right.
pub fn parse_unique_id(bytes: &[u8]) -> Option<UniqueId> {
    if bytes.len() != UNIQUE_ID_BYTES {
        return None;
    }
    let zero = |from: usize, to: usize| bytes.get(from..to).is_some_and(|b| b.iter().all(|b| *b == 0));
    if let Some(root) = address_at(bytes, 0)
        && is_sound(bytes, 0)
        && zero(28, 64)
    {
        let versions = if zero(64, 128) {
            Versions::new(20500, 21599)
        } else if matches!(i32_at(bytes, 80), Some(pid) if pid == -1 || pid > 0) {
            Versions::new(20402, 20499)
        } else {
            return None;
        };
        return Some(UniqueId { magic: None, root, grown_from: 0, versions });
    }
    let (magic, root) = (u64_at(bytes, 0)?, address_at(bytes, 8)?);
    let grown_from = u32_at(bytes, 36)?;
    let versions = match (grown_from, zero(40, 128)) {
        (0, true) => Versions::HANDSHAKE,
        (0, false) => Versions::new(21602, 22299),
        (1..0x0100_0000, true) => Versions::new(22900, 23299),
        _ => return None,
    };
    // Before 2.26 the interface's address was copied over a buffer that nobody had cleared.
    let sound = is_sound(bytes, 8);
    let versions = if sound { versions } else { versions.and(Versions::new(21602, 22599))? };
    let readable = magic != 0 && (sound || bytes.get(8) == Some(&2));
    readable.then_some(UniqueId { magic: Some(magic), root, grown_from, versions })
}

/// Reads an id as people write it down: hex digits, with or without `0x`, spaces, colons or `\\x`; as many bytes of the
/// front as hold the address (36 before 2.16.2: 28), the rest counts as zeros. `None` where it is no id.
pub fn unique_id_of_hex(text: &str) -> Option<UniqueId> {
    let plain = text.trim().trim_start_matches("0x").replace("\\x", "");
    let digits: Vec<u8> = plain
        .chars()
        .filter(|c| !c.is_whitespace() && *c != ':')
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let (pairs, odd) = digits.as_chunks::<2>();
    if !odd.is_empty() || !(28..=UNIQUE_ID_BYTES).contains(&pairs.len()) {
        return None;
    }
    let mut bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.resize(UNIQUE_ID_BYTES, 0);
    parse_unique_id(&bytes)
}

/// IPv4: the padding is zero. IPv6: no flow label, and a scope that is an interface's number.
fn is_sound(bytes: &[u8], at: usize) -> bool {
    let word = |i| u32_at(bytes, at + i).unwrap_or(u32::MAX);
    address_is_clean(bytes, at) && (bytes.get(at) != Some(&10) || word(4) == 0 && word(24) < 1 << 20)
}

#[cfg(test)]
mod tests {
    use super::super::test_support::truth;
    use super::*;
    use crate::test_bytes::unhex;

    #[test]
    fn recorded_ids_name_their_roots() {
        for (name, bare) in [
            ("2.7.8src-4ranks", true),
            ("2.14.3src-4ranks", true),
            ("2.16.2-real-4ranks-netsocket", false),
            ("2.26.2-real-2ranks-NCCL_COMM_ID", false),
            ("2.32.3-realroot-4pyranks", false),
        ] {
            let truth = truth(name);
            let mut bytes = unhex(truth["uid"].as_str().unwrap());
            bytes.resize(UNIQUE_ID_BYTES, 0);
            let id = parse_unique_id(&bytes).unwrap();
            assert_eq!(u64::from(id.root.port), truth["root"][1].as_u64().unwrap(), "{name}");
            assert_eq!(id.magic.map(super::super::magic_text), truth["magic"].as_str().map(str::to_string), "{name}");
            assert_eq!(id.magic.is_none(), bare);
        }
    }

    #[test]
    fn an_id_is_read_as_people_write_it() {
        let text = truth("2.26.2-real-4ranks-netsocket")["uid"].as_str().unwrap().to_string();
        let id = unique_id_of_hex(&text).unwrap();
        assert_eq!(id.root.to_string(), "127.0.0.1:49957");
        let spaced: Vec<&str> = (0..40).map(|i| &text[2 * i..2 * i + 2]).collect();
        for written in
            [spaced.join(" "), spaced.join(":"), format!("0x{}", &text[..80]), format!("\\x{}", spaced.join("\\x"))]
        {
            assert_eq!(unique_id_of_hex(&written), Some(id), "{written}");
        }
        for wrong in ["", "zz", &text[..50], &text[..81], "éé", &"0".repeat(256), &"1".repeat(400)] {
            assert_eq!(unique_id_of_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn residue_and_growth_narrow_the_release() {
        let mut bytes = [0u8; 128];
        bytes[..16].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0x80, 1, 192, 0, 2, 11]);
        bytes[127] = 0xaa;
        assert_eq!(parse_unique_id(&bytes).unwrap().versions, Versions::new(21602, 22299));
        bytes[127] = 0;
        bytes[36] = 4;
        let id = parse_unique_id(&bytes).unwrap();
        assert_eq!((id.grown_from, id.versions), (4, Versions::new(22900, 23299)));
        let mut grown = unhex("82040fccce3a3d2d0a00e4b30000000020010db80000000000000000000000110000000004000000");
        grown.resize(UNIQUE_ID_BYTES, 0);
        let id = parse_unique_id(&grown).unwrap();
        assert_eq!((id.root.to_string().as_str(), id.grown_from), ("2001:db8::11:58547", 4));
        assert_eq!(parse_unique_id(&(0..128).collect::<Vec<u8>>()), None);
        bytes[20] = 1;
        assert_eq!(parse_unique_id(&bytes), None);
        // Rubbish in the padding alone is no reason not to read it.
        bytes[36] = 0;
        assert_eq!(parse_unique_id(&bytes).unwrap().versions, Versions::new(21602, 22599));
        assert_eq!(parse_unique_id(&bytes[..127]), None);
    }
}
