//! Fields on the wire, read as their bytes come: fixed-width integers, and strings behind a 64-bit length.
//!
//! A declared length is a number here, never an allocation: bytes beyond the bound are counted and dropped.

/// A key, a value or another string of a message: its length on the wire and the first bytes of it.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Field {
    /// Its length on the wire, in bytes, as declared (and, in a finished message, delivered).
    pub length: u64,
    /// Its first bytes: fewer than `length` when the bound of [`DecodeOptions`](super::DecodeOptions) was
    /// reached or the capture lacks the rest.
    pub bytes: Vec<u8>,
}

impl Field {
    /// Whether all of it was kept.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.length
    }
}

/// Takes up to eight bytes, however they are cut, into one little-endian integer.
///
/// The store sends integers in the sender's own byte order; that is little-endian on every platform in practice.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Fixed {
    bytes: [u8; 8],
    have: u8,
}

impl Fixed {
    /// Takes from `rest` until `width` bytes (at most 8) are there; the integer once they are, zero-extended.
    pub(super) fn take(&mut self, rest: &mut &[u8], width: u8) -> Option<u64> {
        while self.have < width {
            let (byte, tail) = rest.split_first()?;
            if let Some(slot) = self.bytes.get_mut(usize::from(self.have)) {
                *slot = *byte;
            }
            self.have += 1;
            *rest = tail;
        }
        let value = u64::from_le_bytes(self.bytes);
        *self = Fixed::default();
        Some(value)
    }

    /// How many bytes of an unfinished integer are there.
    pub(super) fn have(&self) -> u8 {
        self.have
    }
}

/// Takes a string of a known length: keeps a bounded prefix and counts the rest.
#[derive(Clone, Default, Debug)]
pub(super) struct Blob {
    field: Field,
    remaining: u64,
    keep: usize,
}

impl Blob {
    /// A string of `length` bytes of which at most `keep` are kept.
    pub(super) fn new(length: u64, keep: usize) -> Self {
        Blob { field: Field { length, bytes: Vec::new() }, remaining: length, keep }
    }

    /// Takes what belongs to it from `rest`; whether it is complete.
    pub(super) fn take(&mut self, rest: &mut &[u8]) -> bool {
        let n = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rest.len());
        let (mine, tail) = rest.split_at(n);
        let room = self.keep.saturating_sub(self.field.bytes.len()).min(n);
        self.field.bytes.extend_from_slice(mine.get(..room).unwrap_or(mine));
        self.remaining -= n as u64;
        *rest = tail;
        self.remaining == 0
    }

    /// Passes over `length` bytes that the capture does not hold; false when the gap reaches beyond this string.
    pub(super) fn pass(&mut self, length: u64) -> bool {
        if length > self.remaining {
            return false;
        }
        // What follows the hole is no continuation of the prefix.
        self.keep = self.field.bytes.len();
        self.remaining -= length;
        true
    }

    /// Whether all its bytes have gone by.
    pub(super) fn is_complete(&self) -> bool {
        self.remaining == 0
    }

    /// Its declared length in bytes.
    pub(super) fn length(&self) -> u64 {
        self.field.length
    }

    /// How many of its bytes have gone by.
    pub(super) fn delivered(&self) -> u64 {
        self.field.length - self.remaining
    }

    /// The finished field.
    pub(super) fn into_field(self) -> Field {
        self.field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_in_pieces() {
        let mut f = Fixed::default();
        assert_eq!(f.take(&mut &b"\x2a\x00"[..], 4), None);
        assert_eq!(f.have(), 2);
        let mut rest = &b"\x01\x00\xff"[..];
        assert_eq!(f.take(&mut rest, 4), Some(0x0001_002a));
        assert_eq!((rest, f.have()), (&b"\xff"[..], 0));
    }

    #[test]
    fn a_length_is_never_an_allocation() {
        let mut b = Blob::new(u64::MAX, 4);
        assert!(!b.take(&mut &b"abcdef"[..]));
        assert_eq!((b.delivered(), b.length()), (6, u64::MAX));
        let field = b.into_field();
        assert_eq!(field.bytes, b"abcd");
        assert!(field.bytes.capacity() < 64);
    }

    #[test]
    fn a_hole_ends_the_kept_prefix() {
        let mut b = Blob::new(10, 100);
        b.take(&mut &b"abc"[..]);
        assert!(!b.pass(8) && b.pass(4));
        assert!(b.take(&mut &b"xyz"[..]));
        assert_eq!(b.into_field(), Field { length: 10, bytes: b"abc".to_vec() });
    }
}
