//! `ncclUniqueId`: 128 bytes that name the bootstrap root of a communicator.

use super::socket_address::{endpoint, length};
use crate::net::Endpoint;

/// Its length in bytes, in every NCCL.
pub const UNIQUE_ID_BYTES: usize = 128;

/// What an `ncclUniqueId` says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NcclUniqueId {
    /// The number that the communicator's bootstrap connections begin with (NCCL 2.16.2 and later).
    pub magic: Option<u64>,
    /// Where the root listens.
    pub root: Endpoint,
    /// Existing ranks when a communicator grows (NCCL 2.29.2 and later), else 0.
    pub grown_from: u32,
}

/// Reads an `ncclUniqueId`.
///
/// Layouts: up to 2.16.1 a socket address (16 or 28 bytes) and zeros; from 2.16.2 a u64 magic, little-endian,
/// before it; from 2.29.2 an i32 behind the 28 bytes of the address union. `None` when the bytes are neither:
/// another length, no address, or other bytes where zeros belong.
pub fn parse_nccl_unique_id(bytes: &[u8]) -> Option<NcclUniqueId> {
    if bytes.len() != UNIQUE_ID_BYTES {
        return None;
    }
    let zero_from = |at: usize| bytes.get(at..).is_some_and(|b| b.iter().all(|b| *b == 0));
    if let Some(root) = endpoint(bytes)
        && zero_from(length(bytes)?)
        && is_clean(bytes)
    {
        return Some(NcclUniqueId { magic: None, root, grown_from: 0 });
    }
    let (magic, rest) = bytes.split_at_checked(8)?;
    let magic = u64::from_le_bytes(magic.try_into().ok()?);
    let root = endpoint(rest)?;
    let unused = rest.get(length(rest)?..28)?;
    let grown_from = u32::from_le_bytes(bytes.get(36..40)?.try_into().ok()?);
    let sound = magic != 0 && is_clean(rest) && unused.iter().all(|b| *b == 0) && grown_from < 1 << 24 && zero_from(40);
    sound.then_some(NcclUniqueId { magic: Some(magic), root, grown_from })
}

/// IPv4: the eight bytes of padding are zero.
fn is_clean(address: &[u8]) -> bool {
    length(address) != Some(16) || address.get(8..16).is_some_and(|b| b.iter().all(|b| *b == 0))
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{connections, decode_as, unhex};
    use super::super::{Dialect, Event, Purpose, purpose};
    use super::*;

    fn padded(hex: &str) -> Vec<u8> {
        let mut bytes = unhex(hex);
        bytes.resize(UNIQUE_ID_BYTES, 0);
        bytes
    }

    #[test]
    fn every_layout_is_read() {
        let old = parse_nccl_unique_id(&padded("0200e4b3c000020b")).unwrap();
        assert_eq!((old.magic, old.root.to_string()), (None, "192.0.2.11:58547".to_string()));
        let grown = parse_nccl_unique_id(&padded(
            "82040fccce3a3d2d 0a00e4b3 00000000 20010db8000000000000000000000011 00000000 04000000",
        ))
        .unwrap();
        assert_eq!((grown.root.to_string().as_str(), grown.grown_from), ("2001:db8::11:58547", 4));
        assert_eq!(parse_nccl_unique_id(&(0..128).collect::<Vec<u8>>()), None);
        assert_eq!(parse_nccl_unique_id(&padded("0200e4b3c000020b 00")[..127]), None);
        assert_eq!(parse_nccl_unique_id(&padded("82040fccce3a3d2d 0200e4b3c000020b 01")), None);
    }

    #[test]
    fn a_real_id_in_a_real_store_names_the_real_root() {
        let mut found = Vec::new();
        for pieces in connections("store-and-nccl/torch2.15-nccl2.26-node-a.pcap", 29500).values() {
            for e in decode_as(Dialect::D, pieces, false) {
                let Event::Answer(a) = e else { continue };
                for f in a.fields.iter().filter(|f| f.length == 128) {
                    found.push(parse_nccl_unique_id(&f.bytes).unwrap());
                    assert_eq!(purpose(b"/default_pg/0//cuda//0", Some(&f.bytes)), Some(Purpose::NcclUniqueId));
                }
            }
        }
        assert!(!found.is_empty());
        for id in found {
            assert_eq!(id.root.to_string(), "192.0.2.11:58547");
            assert_eq!(id.magic.map(u64::to_le_bytes), Some([0x82, 0x04, 0x0f, 0xcc, 0xce, 0x3a, 0x3d, 0x2d]));
        }
    }
}
