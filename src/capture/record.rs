//! Where in the buffer a packet lies.

use super::packet::LinkType;

/// A packet at the front of the buffer, all of it held.
pub(super) struct Record {
    /// Bytes before the packet's data.
    pub(super) header: usize,
    /// Bytes of the packet's data.
    pub(super) captured: usize,
    /// Bytes to consume, with header and trailer.
    pub(super) total: usize,
    /// Length on the wire.
    pub(super) original: u32,
    /// Nanoseconds since the epoch; `None` for a record without a time.
    pub(super) time: Option<i64>,
    /// Link type of its interface.
    pub(super) link_type: LinkType,
    /// Index of its interface in the summary.
    pub(super) interface: u32,
}

/// The u32 at `at`, in big-endian order or little.
#[inline(always)]
pub(super) fn u32_at<const BIG: bool>(bytes: &[u8], at: usize) -> Option<u32> {
    let field = *bytes.get(at..)?.first_chunk::<4>()?;
    Some(if BIG { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) })
}

/// The u16 at `at`, in big-endian order or little.
#[inline(always)]
pub(super) fn u16_at<const BIG: bool>(bytes: &[u8], at: usize) -> Option<u16> {
    let field = *bytes.get(at..)?.first_chunk::<2>()?;
    Some(if BIG { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) })
}
