//! Layouts inside pcapng blocks that are not packets. <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>

use super::record::{u16_at, u32_at};
use super::summary::Summary;
use crate::net::Address;

/// Block types.
pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
pub(super) const OBSOLETE_PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const NAME_RESOLUTION: u32 = 4;
pub(super) const INTERFACE_STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;
pub(super) const JOURNAL_EXPORT: u32 = 9;
pub(super) const DECRYPTION_SECRETS: u32 = 10;
pub(super) const CUSTOM: u32 = 0x0bad;
pub(super) const CUSTOM_NO_COPY: u32 = 0x4000_0bad;
/// Sysdig's blocks, from the first to the last.
const SYSDIG: std::ops::RangeInclusive<u32> = 0x201..=0x222;
/// Those of them that are events.
pub(super) const SYSDIG_EVENTS: [u32; 3] = [0x204, 0x216, 0x221];

/// Option codes.
pub(super) const OPT_COMMENT: u16 = 1;
pub(super) const IF_NAME: u16 = 2;
pub(super) const IF_DESCRIPTION: u16 = 3;
pub(super) const IF_TSRESOL: u16 = 9;
pub(super) const IF_TSOFFSET: u16 = 14;
pub(super) const ISB_IFDROP: u16 = 5;

/// The most bytes kept of an interface's or an address' name.
const MAX_NAME: usize = 255;

/// Whether this is a type that this program knows, to tell a block from damage.
pub(super) fn known(kind: u32) -> bool {
    matches!(kind, SECTION_HEADER | CUSTOM | CUSTOM_NO_COPY | 1..=6 | JOURNAL_EXPORT | DECRYPTION_SECRETS)
        || SYSDIG.contains(&kind)
}

/// The byte order that a section header's magic (at byte 8 of the block) tells: whether it is big-endian.
pub(super) fn section_order(block: &[u8]) -> Option<bool> {
    match block.get(8..)?.first_chunk::<4>()? {
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(true),
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(false),
        _ => None,
    }
}

/// The u32 at `at`.
pub(super) fn get32(big: bool, bytes: &[u8], at: usize) -> Option<u32> {
    if big { u32_at::<true>(bytes, at) } else { u32_at::<false>(bytes, at) }
}

/// The u16 at `at`.
pub(super) fn get16(big: bool, bytes: &[u8], at: usize) -> Option<u16> {
    if big { u16_at::<true>(bytes, at) } else { u16_at::<false>(bytes, at) }
}

/// The u64 that `bytes` begin with.
pub(super) fn get64(big: bool, bytes: &[u8]) -> Option<u64> {
    let field = *bytes.first_chunk::<8>()?;
    Some(if big { u64::from_be_bytes(field) } else { u64::from_le_bytes(field) })
}

/// `n` and the padding after it to a multiple of four.
pub(super) fn padded(n: usize) -> usize {
    n.saturating_add(3) & !3
}

/// Code and value of each option, up to the end mark or the first one that does not fit.
pub(super) fn options(big: bool, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, length) = (get16(big, bytes, 0)?, usize::from(get16(big, bytes, 2)?));
        let value = bytes.get(4..4 + length).filter(|_| code != 0)?;
        bytes = bytes.get(4 + padded(length)..).unwrap_or_default();
        Some((code, value))
    })
}

/// A name as text, without the NUL that some writers put after it, within [`MAX_NAME`] bytes.
pub(super) fn name(bytes: &[u8]) -> String {
    let bytes = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes.get(..MAX_NAME).unwrap_or(bytes)).into_owned()
}

/// Takes the names of a name resolution block's body: records of type, length, address and NUL-terminated names.
pub(super) fn take_names(big: bool, mut body: &[u8], summary: &mut Summary) {
    while let (Some(kind), Some(length)) = (get16(big, body, 0), get16(big, body, 2)) {
        let length = usize::from(length);
        let Some(value) = body.get(4..4 + length).filter(|_| kind != 0) else { break };
        let split = match kind {
            1 => value.split_first_chunk::<4>().map(|(a, rest)| (Address::v4(*a), rest)),
            2 => value.split_first_chunk::<16>().map(|(a, rest)| (Address::v6(*a), rest)),
            _ => None,
        };
        if let Some((address, names)) = split {
            for text in names.split(|b| *b == 0).filter(|n| !n.is_empty()) {
                if summary.names.len() < Summary::MAX_NAMES {
                    summary.names.push((address, name(text)));
                }
            }
        }
        body = body.get(4 + padded(length)..).unwrap_or_default();
    }
}
