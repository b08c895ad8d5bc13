//! pcapng time arithmetic: `if_tsresol` and `if_tsoffset`.
//!
//! Done here in full width: pcap-parser 0.17 goes wrong for binary resolutions, for negative and big-endian offsets
//! and for picoseconds.

/// How an interface counts time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Resolution {
    scale: Scale,
    /// Nanoseconds to add.
    offset: i128,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scale {
    /// A tick is so many nanoseconds.
    Times(u64),
    /// So many ticks are a nanosecond.
    Per(u128),
    /// A tick is 2^-n seconds.
    Shift(u32),
    /// A tick is so short that all of them together are no nanosecond.
    Nothing,
}

impl Resolution {
    /// From the option's byte (bit 7: power of two, else of ten; the rest: the negative exponent) and the offset in
    /// seconds. Without the option the byte is 6.
    pub(super) fn new(tsresol: u8, offset_seconds: i64) -> Self {
        let exponent = u32::from(tsresol & 0x7f);
        let scale = if tsresol & 0x80 != 0 {
            Scale::Shift(exponent)
        } else if exponent <= 9 {
            Scale::Times(10u64.pow(9 - exponent))
        } else {
            10u128.checked_pow(exponent - 9).map_or(Scale::Nothing, Scale::Per)
        };
        Resolution { scale, offset: i128::from(offset_seconds) * 1_000_000_000 }
    }

    /// Nanoseconds since the epoch, rounded down, saturating.
    #[inline]
    pub(super) fn nanos(&self, ticks: u64) -> i64 {
        if let (Scale::Times(factor), 0) = (self.scale, self.offset)
            && let Some(nanos) = ticks.checked_mul(factor)
            && let Ok(nanos) = i64::try_from(nanos)
        {
            return nanos;
        }
        self.nanos_in_full(ticks)
    }

    fn nanos_in_full(&self, ticks: u64) -> i64 {
        // 2^64 * 10^9 < 2^94, and the offset is below 2^93: nothing here overflows.
        let since = match self.scale {
            Scale::Times(factor) => i128::from(ticks) * i128::from(factor),
            Scale::Per(divisor) => i128::try_from(u128::from(ticks) / divisor).unwrap_or(i128::MAX >> 1),
            Scale::Shift(exponent) => (i128::from(ticks) * 1_000_000_000) >> exponent,
            Scale::Nothing => 0,
        };
        let nanos = since + self.offset;
        i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
    }

    /// For people: `1e-6 s`, `2^-20 s`.
    pub(super) fn describe(tsresol: u8) -> String {
        let exponent = tsresol & 0x7f;
        if tsresol & 0x80 != 0 { format!("2^-{exponent} s") } else { format!("1e-{exponent} s") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_binary_units() {
        assert_eq!(Resolution::new(6, 0).nanos(1_500_000), 1_500_000_000);
        assert_eq!(Resolution::new(9, 0).nanos(1_795_951_210_652_448_001), 1_795_951_210_652_448_001);
        assert_eq!(Resolution::new(12, 0).nanos(1_999), 1);
        assert_eq!(Resolution::new(0, 0).nanos(3), 3_000_000_000);
        assert_eq!(Resolution::new(0x80 | 20, 0).nanos(3 << 19), 1_500_000_000);
        assert_eq!(Resolution::new(0x80 | 32, 0).nanos(5 << 30), 1_250_000_000);
    }

    #[test]
    fn offsets_of_both_signs() {
        assert_eq!(Resolution::new(6, 10).nanos(1), 10_000_001_000);
        assert_eq!(Resolution::new(6, -10).nanos(1), -9_999_999_000);
        assert_eq!(Resolution::new(0x80 | 1, -1).nanos(3), 500_000_000);
        // Out of 64 bits in the middle, but not at the end.
        assert_eq!(Resolution::new(6, -18_446_744_073_709).nanos(u64::MAX), 551_615_000);
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Resolution::new(0, i64::MAX).nanos(u64::MAX), i64::MAX);
        assert_eq!(Resolution::new(0, i64::MIN).nanos(0), i64::MIN);
        assert_eq!(Resolution::new(0x80, 0).nanos(u64::MAX), i64::MAX);
        for tsresol in 0..=255 {
            for offset in [i64::MIN, -1, 0, 1, i64::MAX] {
                for ticks in [0, 1, u64::MAX] {
                    Resolution::new(tsresol, offset).nanos(ticks);
                }
            }
        }
        assert_eq!(Resolution::new(0xff, 0).nanos(u64::MAX), 0);
        assert_eq!(Resolution::new(0x7f, 0).nanos(u64::MAX), 0);
        assert_eq!(Resolution::new(28, 0).nanos(u64::MAX), 1);
    }
}
