//! Numbers at fixed places of bytes that may end anywhere.

/// The `N` bytes at `at`.
pub(super) fn bytes<const N: usize>(first: &[u8], at: usize) -> Option<[u8; N]> {
    first.get(at..)?.first_chunk::<N>().copied()
}

/// Big-endian 16 bits at `at`.
pub(super) fn be16(first: &[u8], at: usize) -> Option<u16> {
    bytes(first, at).map(u16::from_be_bytes)
}

/// Big-endian 32 bits at `at`.
pub(super) fn be32(first: &[u8], at: usize) -> Option<u32> {
    bytes(first, at).map(u32::from_be_bytes)
}

/// Little-endian 32 bits at `at`.
pub(super) fn le32(first: &[u8], at: usize) -> Option<u32> {
    bytes(first, at).map(u32::from_le_bytes)
}
