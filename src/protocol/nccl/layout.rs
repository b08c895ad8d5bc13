//! Bodies of bootstrap frames: check-ins and ring slots.

use super::event::{CheckIn, Fault, RingSlot};
use super::version::Versions;
use super::wire::{address_at, i32_at};

/// A check-in's size says its layout; with the handshake 64 bytes are 2.16–2.22, without 2.8–2.15.
pub(super) fn check_in_versions(size: usize, handshake: bool) -> Option<Versions> {
    Some(match (size, handshake) {
        (136, false) => Versions::new(20402, 20799),
        (64, false) => Versions::new(20800, 21599),
        (64, true) => Versions::new(21602, 22299),
        (172, true) => Versions::new(22300, 22899),
        (176, true) => Versions::new(22900, 23299),
        _ => return None,
    })
}

/// Reads a check-in of one of the known sizes.
pub(super) fn check_in(body: &[u8], handshake: bool) -> Option<CheckIn> {
    let versions = check_in_versions(body.len(), handshake)?;
    let (rank, nranks) = (i32_at(body, 0)?, i32_at(body, 4)?);
    let roots = i32_at(body, 8).zip(i32_at(body, 12));
    let (roots, offset, reply, ring) = match body.len() {
        136 => (None, None, 8, 72),
        64 => (None, None, 8, 36),
        172 => (roots, None, 16, 44),
        _ => (roots, i32_at(body, 16), 20, 48),
    };
    let (reply, ring) = (address_at(body, reply), address_at(body, ring));
    Some(CheckIn { rank, nranks, roots, offset, reply, ring, versions })
}

/// More ranks than this are not taken for real: the root would allocate for all of them.
pub(super) const MAX_RANKS: i32 = 1 << 20;

/// What the checklist says of one check-in by itself.
pub(super) fn check_in_faults(c: &CheckIn, mut tell: impl FnMut(Fault)) {
    if !(1..=MAX_RANKS).contains(&c.nranks) {
        tell(Fault::Nranks(c.nranks));
    }
    if let Some((iroot, nroots)) = c.roots
        && (nroots < 1 || iroot < 0 || iroot >= nroots || nroots > c.nranks.max(1))
    {
        tell(Fault::Roots { iroot, nroots });
    }
    // With several roots the first rank of the next root also checks in at the previous one, as rank + 1.
    let several = c.roots.is_some_and(|(_, n)| n > 1);
    let grown = c.offset.is_some_and(|o| o > 0);
    if c.rank < 0 || (c.rank >= c.nranks && c.nranks > 0 && !(several && c.rank == c.nranks) && !grown) {
        tell(Fault::Rank { rank: c.rank, nranks: c.nranks });
    }
    if c.reply.is_none() {
        tell(Fault::Address);
    }
}

/// A slot of the first all-gather of 2.23 and later: 64, 104 or 120 bytes.
pub(super) fn ring_slot(body: &[u8]) -> Option<RingSlot> {
    let wide = body.len() >= 104;
    let slot = RingSlot {
        peer: address_at(body, 0),
        proxy: address_at(body, 28),
        ras: if wide { address_at(body, 64) } else { None },
        pid: if wide { i32_at(body, 92) } else { None },
        device: if wide { i32_at(body, 96).zip(i32_at(body, 100)) } else { None },
    };
    (matches!(body.len(), 64 | 104 | 120) && slot.peer.is_some()).then_some(slot)
}

/// The releases that send slots of that size.
pub(super) fn slot_versions(size: usize) -> Versions {
    match size {
        64 => Versions::new(22300, 22399),
        104 => Versions::new(22400, 22599),
        _ => Versions::new(22600, 23299),
    }
}
