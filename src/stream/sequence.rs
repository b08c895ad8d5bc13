//! Sequence numbers of 32 bits that wrap, as positions of 64 bits that do not.

/// How far behind the next expected byte a segment may start, in bytes: no receive window is larger (RFC 7323, 2.3),
/// so nothing older can still be on its way.
const BEHIND: u32 = 1 << 30;

/// The position of the anchor itself: room on its left for bytes that were sent earlier and seen later.
const ORIGIN: u64 = 1 << 32;

/// Ties one sequence number to a position; every other one is read relative to a position nearby.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    seq: u32,
}

impl Anchor {
    /// Anchors `seq` at [`Anchor::origin`].
    pub(super) fn new(seq: u32) -> Self {
        Anchor { seq }
    }

    /// The position of the anchored sequence number.
    pub(super) fn origin(self) -> u64 {
        ORIGIN
    }

    /// The position of `seq`, given that it lies near the position `near`: less than 2^31 bytes after it (a capture
    /// may have lost more than a window) and at most 2^30 before it. `None` when it lies elsewhere.
    pub(super) fn position(self, seq: u32, near: u64) -> Option<u64> {
        let near_seq = self.seq.wrapping_add(near.wrapping_sub(ORIGIN) as u32);
        let ahead = seq.wrapping_sub(near_seq);
        if ahead < 1 << 31 {
            return near.checked_add(u64::from(ahead));
        }
        let behind = near_seq.wrapping_sub(seq);
        if behind > BEHIND { None } else { near.checked_sub(u64::from(behind)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_stays_monotonic_beyond_four_gigabytes() {
        let anchor = Anchor::new(0xffff_fff0);
        let mut near = anchor.origin();
        assert_eq!(anchor.position(0xffff_fff0, near), Some(near));
        assert_eq!(anchor.position(0x10, near), Some(near + 0x20));
        let step = 0x4000_0000u32;
        let mut seq = 0xffff_fff0u32;
        for _ in 0..40 {
            seq = seq.wrapping_add(step);
            let at = anchor.position(seq, near).unwrap();
            assert_eq!(at, near + u64::from(step));
            near = at;
        }
        assert!(near - anchor.origin() > 8 << 32);
    }

    #[test]
    fn what_no_window_can_hold_is_refused() {
        let anchor = Anchor::new(5);
        let near = anchor.origin();
        assert_eq!(anchor.position(5u32.wrapping_sub(BEHIND), near), Some(near - u64::from(BEHIND)));
        assert_eq!(anchor.position(5u32.wrapping_sub(BEHIND + 1), near), None);
        assert_eq!(anchor.position(5 + (1 << 31) - 1, near), Some(near + (1 << 31) - 1));
        assert_eq!(anchor.position(5 + (1 << 31), near), None);
    }
}
