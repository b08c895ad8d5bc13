//! Sequence numbers of 32 bits that wrap, as positions of 64 bits that do not.

/// How far behind or ahead of the next expected byte a segment may start, in bytes: no receive window is larger
/// (RFC 7323, 2.3), so nothing else can be on its way.
const WINDOW: u32 = 1 << 30;

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

    /// The position of `seq`, given that it lies at most 2^30 bytes before or after the position `near`. `None` when it
    /// lies elsewhere.
    pub(super) fn position(self, seq: u32, near: u64) -> Option<u64> {
        let ahead = seq.wrapping_sub(self.sequence(near));
        if ahead <= WINDOW {
            return near.checked_add(u64::from(ahead));
        }
        let behind = ahead.wrapping_neg();
        if behind > WINDOW { None } else { near.checked_sub(u64::from(behind)) }
    }

    /// The position of `seq`, given that it lies after the position `near`, by less than 2^32 bytes.
    pub(super) fn ahead(self, seq: u32, near: u64) -> Option<u64> {
        near.checked_add(u64::from(seq.wrapping_sub(self.sequence(near))))
    }

    /// The sequence number at a position.
    pub(super) fn sequence(self, position: u64) -> u32 {
        self.seq.wrapping_add(position.wrapping_sub(ORIGIN) as u32)
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
    fn what_no_window_can_hold_has_no_position() {
        let anchor = Anchor::new(5);
        let near = anchor.origin();
        assert_eq!(anchor.position(5u32.wrapping_sub(WINDOW), near), Some(near - u64::from(WINDOW)));
        assert_eq!(anchor.position(5u32.wrapping_sub(WINDOW + 1), near), None);
        assert_eq!(anchor.position(5 + WINDOW, near), Some(near + u64::from(WINDOW)));
        assert_eq!(anchor.position(5 + WINDOW + 1, near), None);
        assert_eq!(anchor.ahead(5 + (3 << 30), near), Some(near + (3 << 30)));
    }
}
