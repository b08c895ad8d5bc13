//! Small tools for bytes that came from a log: nothing here fails on what it is given.

use memchr::memmem;

/// Where `needle` first stands in `hay`.
pub(crate) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    memmem::find(hay, needle)
}

/// Where `needle` last stands in `hay`.
pub(crate) fn rfind(hay: &[u8], needle: &[u8]) -> Option<usize> {
    memmem::rfind(hay, needle)
}

/// Whether `hay` holds `needle`.
pub(crate) fn has(hay: &[u8], needle: &[u8]) -> bool {
    find(hay, needle).is_some()
}

/// The parts of `hay` before and after the first `needle`.
pub(crate) fn cut<'a>(hay: &'a [u8], needle: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = find(hay, needle)?;
    Some((hay.get(..at)?, hay.get(at.checked_add(needle.len())?..)?))
}

/// The parts of `hay` before and after the last `needle`.
pub(crate) fn rcut<'a>(hay: &'a [u8], needle: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = rfind(hay, needle)?;
    Some((hay.get(..at)?, hay.get(at.checked_add(needle.len())?..)?))
}

/// The decimal digits at the start of `bytes`, and what follows. `None` without a digit or above `u64::MAX`.
pub(crate) fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let (head, rest) = bytes.split_at_checked(digits)?;
    Some((whole(head)?, rest))
}

/// All of `bytes` as one decimal number.
pub(crate) fn whole(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |n, b| {
        if !b.is_ascii_digit() {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
    })
}

/// The first word of `bytes` (up to a blank) and what follows, leading blanks dropped.
pub(crate) fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(|b| *b == b' ').unwrap_or(bytes.len());
    bytes.split_at_checked(end).unwrap_or((bytes, &[]))
}

/// Lossy UTF-8 of at most `limit` bytes of input.
pub(crate) fn lossy(bytes: &[u8], limit: usize) -> String {
    String::from_utf8_lossy(bytes.get(..limit).unwrap_or(bytes)).into_owned()
}

/// The longest name of a process, host or workload that is kept, in bytes.
pub(crate) const NAME: usize = 256;
/// The longest path of a cgroup that is kept, in bytes.
pub(crate) const PATH: usize = 512;

/// A name from the log, or `None` if there is nothing in it.
pub(crate) fn name(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.trim_ascii();
    (!bytes.is_empty()).then(|| lossy(bytes, NAME))
}

/// Digits after a decimal point as nanoseconds; digits beyond the ninth are dropped.
pub(crate) fn fraction_nanos(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut nanos = 0i64;
    for place in 0..9 {
        nanos = nanos * 10 + i64::from(digits.get(place).map_or(0, |d| d - b'0'));
    }
    Some(nanos)
}

/// One or two digits.
pub(super) fn one_or_two(bytes: &[u8]) -> Option<(u32, &[u8])> {
    digits(bytes, 2).or_else(|| digits(bytes, 1))
}

/// `n` decimal digits exactly.
pub(super) fn digits(bytes: &[u8], n: usize) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_at_checked(n)?;
    Some((u32::try_from(whole(head)?).ok()?, rest))
}
