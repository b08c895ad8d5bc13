//! Time stamps as logs print them, before zone, year and boot time are known.

use super::instant::fraction_nanos;
use super::text;
use crate::time::{NANOS, Timestamp};
use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

/// One second as a resolution, in nanoseconds.
pub(crate) const SECOND: i64 = NANOS;

/// A stamp as printed. `unit` is its resolution in nanoseconds: the truth lies in `[at, at + unit)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// With a zone or offset.
    Absolute { at: Timestamp, unit: i64 },
    /// Local time of a zone that the line does not name.
    Local { at: NaiveDateTime, unit: i64 },
    /// Local time without a year (RFC 3164).
    Yearless { month: u32, day: u32, time: NaiveTime, unit: i64 },
    /// Nanoseconds since the host booted (raw `dmesg`), microsecond resolution.
    Boot { nanos: i64 },
}

/// `n` decimal digits exactly.
fn digits(bytes: &[u8], n: usize) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_at_checked(n)?;
    Some((u32::try_from(text::whole(head)?).ok()?, rest))
}

/// `YYYY-MM-DD`.
pub(crate) fn iso_date(bytes: &[u8]) -> Option<(NaiveDate, &[u8])> {
    let (year, rest) = digits(bytes, 4)?;
    let (month, rest) = digits(rest.strip_prefix(b"-")?, 2)?;
    let (day, rest) = digits(rest.strip_prefix(b"-")?, 2)?;
    Some((NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?, rest))
}

/// `HH:MM[:SS[(.|,)frac]]` and the resolution. A leap second counts as the second before it.
fn clock(bytes: &[u8]) -> Option<(NaiveTime, i64, &[u8])> {
    let (hour, rest) = digits(bytes, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(b":")?, 2)?;
    let Some(after) = rest.strip_prefix(b":") else {
        return Some((NaiveTime::from_hms_opt(hour, minute, 0)?, 60 * SECOND, rest));
    };
    let (second, mut rest) = digits(after, 2)?;
    let (mut nanos, mut unit) = (0, SECOND);
    if let Some((b'.' | b',', after)) = rest.split_first() {
        let n = after.iter().take_while(|b| b.is_ascii_digit()).count();
        let (fraction, tail) = after.split_at_checked(n)?;
        if let Some(f) = fraction_nanos(fraction) {
            nanos = u32::try_from(f).ok()?;
            unit = 10i64.pow(9u32.saturating_sub(u32::try_from(n).unwrap_or(9)));
            rest = tail;
        }
    }
    Some((NaiveTime::from_hms_nano_opt(hour, minute, if second == 60 { 59 } else { second }, nanos)?, unit, rest))
}

/// `Z`, `+HH:MM`, `+HHMM` or `+HH`, in seconds east.
pub(crate) fn offset(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (sign, rest) = match bytes.split_first()? {
        (b'Z' | b'z', rest) => return Some((0, rest)),
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = digits(rest, 2)?;
    let (minutes, rest) = match rest.strip_prefix(b":") {
        Some(after) => digits(after, 2)?,
        None => digits(rest, 2).unwrap_or((0, rest)),
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    Some((sign * i32::try_from(hours * 3600 + minutes * 60).ok()?, rest))
}

/// ISO 8601: `YYYY-MM-DD`, `T` or a blank, a clock, perhaps a blank, perhaps an offset.
pub(crate) fn iso_stamp(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let (date, rest) = iso_date(bytes)?;
    let (b'T' | b't' | b' ', rest) = rest.split_first()? else { return None };
    let (time, unit, rest) = clock(rest)?;
    let at = date.and_time(time);
    let spaced = rest.strip_prefix(b" ").filter(|r| r.starts_with(b"+") || r.starts_with(b"-")).unwrap_or(rest);
    match offset(spaced) {
        Some((east, rest)) => {
            let utc = at.checked_sub_signed(chrono::TimeDelta::try_seconds(i64::from(east))?)?;
            Some((Stamp::Absolute { at: Timestamp(utc.and_utc().timestamp_nanos_opt()?), unit }, rest))
        }
        None => Some((Stamp::Local { at, unit }, rest)),
    }
}

fn month(bytes: &[u8]) -> Option<(u32, &[u8])> {
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let (head, rest) = bytes.split_at_checked(3)?;
    let at = MONTHS.iter().position(|m| m.eq_ignore_ascii_case(head))?;
    Some((u32::try_from(at).ok()? + 1, rest))
}

/// `Mon  D HH:MM:SS[.frac]` and the year if one follows the day or the clock (`Nov 14 2023 …`, `Nov 14 … 2023`).
fn month_first(bytes: &[u8], year_after: bool) -> Option<(Stamp, &[u8])> {
    let (month, rest) = month(bytes)?;
    let (day, rest) = text::number(rest.trim_ascii_start())?;
    let (day, mut rest) = (u32::try_from(day).ok()?, rest.strip_prefix(b" ")?);
    let mut year = None;
    if let Some((y, after)) = digits(rest, 4)
        && let Some(after) = after.strip_prefix(b" ")
    {
        (year, rest) = (Some(y), after);
    }
    let (time, unit, mut rest) = clock(rest)?;
    if year_after {
        let (y, after) = digits(rest.strip_prefix(b" ")?, 4)?;
        (year, rest) = (Some(y), after);
    }
    let stamp = match year {
        Some(y) => {
            Stamp::Local { at: NaiveDate::from_ymd_opt(i32::try_from(y).ok()?, month, day)?.and_time(time), unit }
        }
        // 2000 was a leap year: 29 February is a date of some year.
        None => NaiveDate::from_ymd_opt(2000, month, day).map(|_| Stamp::Yearless { month, day, time, unit })?,
    };
    Some((stamp, rest))
}

/// RFC 3164: `Nov  4 02:14:25[.512900]`.
pub(crate) fn rfc3164(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    month_first(bytes, false)
}

/// klog: `1129 11:20:39.123456`.
pub(crate) fn klog(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let (month, rest) = digits(bytes, 2)?;
    let (day, rest) = digits(rest, 2)?;
    let (time, unit, rest) = clock(rest.strip_prefix(b" ")?)?;
    NaiveDate::from_ymd_opt(2000, month, day)?;
    Some((Stamp::Yearless { month, day, time, unit }, rest))
}

/// `dmesg -T`: `Tue Nov 14 22:14:25 2023` (ctime).
pub(crate) fn ctime(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let (day, rest) = bytes.split_at_checked(3)?;
    if !day.iter().all(u8::is_ascii_alphabetic) {
        return None;
    }
    month_first(rest.strip_prefix(b" ")?.trim_ascii_start(), true)
}

/// Seconds since boot with a fraction: `  521.653666`.
pub(crate) fn boot(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let (seconds, rest) = text::number(bytes.trim_ascii_start())?;
    let rest = rest.strip_prefix(b".")?;
    let n = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (fraction, rest) = rest.split_at_checked(n)?;
    let nanos = i64::try_from(seconds).ok()?.checked_mul(NANOS)?.checked_add(fraction_nanos(fraction)?)?;
    Some((Stamp::Boot { nanos }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolution_is_that_of_the_printed_digits() {
        assert!(matches!(
            iso_stamp(b"2023-11-14T22:14:25,512040+00:00 x"),
            Some((Stamp::Absolute { unit: 1000, .. }, b" x"))
        ));
        assert!(matches!(
            iso_stamp(b"2023-11-14T22:14:25+0000 x"),
            Some((Stamp::Absolute { unit: SECOND, .. }, b" x"))
        ));
        assert!(matches!(
            rfc3164(b"Nov  4 02:14:25 h"),
            Some((Stamp::Yearless { month: 11, day: 4, unit: SECOND, .. }, b" h"))
        ));
        assert!(matches!(rfc3164(b"Feb 29 02:14:25.512 h"), Some((Stamp::Yearless { unit: 1_000_000, .. }, b" h"))));
        assert!(matches!(ctime(b"Tue Nov 14 22:14:25 2023]"), Some((Stamp::Local { unit: SECOND, .. }, b"]"))));
        assert_eq!(boot(b"  521.653666]"), Some((Stamp::Boot { nanos: 521_653_666_000 }, &b"]"[..])));
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [&b"2023-02-30T00:00:00Z"[..], b"2023-11-14T24:00:00", b"2023-11-14", b"", b"\xff\xff"] {
            assert_eq!(iso_stamp(bytes), None);
        }
        assert_eq!(rfc3164(b"Nov 31 00:00:00 h"), None);
        assert_eq!(ctime(b"Tue Nov 14 22:14:25 x"), None);
        assert_eq!(boot(b"99999999999999999999.5"), None);
    }
}
