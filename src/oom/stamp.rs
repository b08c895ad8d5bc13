//! Time stamps as logs print them, before zone, year and boot time are known.

use super::months::{day_month, weekday};
use super::text;
use super::text::digits;
use super::text::fraction_nanos;
pub(super) use super::text::one_or_two;
use crate::time::{NANOS, Timestamp};
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, Timelike};

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

impl Stamp {
    /// Whether it says of which year it is.
    pub(crate) fn is_dated(&self) -> bool {
        matches!(self, Stamp::Absolute { .. } | Stamp::Local { .. })
    }
}

fn date(year: u32, month: u32, day: u32) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)
}

/// `YYYY-MM-DD`.
pub(crate) fn iso_date(bytes: &[u8]) -> Option<(NaiveDate, &[u8])> {
    let (year, rest) = digits(bytes, 4)?;
    let separator = *rest.first().filter(|b| b"-/".contains(b))?;
    let (month, rest) = digits(rest.get(1..)?, 2)?;
    let (day, rest) = digits(rest.strip_prefix(&[separator])?, 2)?;
    Some((date(year, month, day)?, rest))
}

/// `HH:MM[:SS[(.|,)frac]]` and the resolution. A leap second counts as the second before it.
fn clock(bytes: &[u8]) -> Option<(NaiveTime, i64, &[u8])> {
    let (hour, rest) = digits(bytes, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(b":")?, 2)?;
    let Some(after) = rest.strip_prefix(b":") else {
        return Some((NaiveTime::from_hms_opt(hour, minute, 0)?, 60 * SECOND, rest));
    };
    let (second, rest) = digits(after, 2)?;
    let (nanos, unit, rest) = fraction(rest);
    Some((NaiveTime::from_hms_nano_opt(hour, minute, if second == 60 { 59 } else { second }, nanos)?, unit, rest))
}

/// What stands behind a whole second: nanoseconds, and the resolution.
fn fraction(rest: &[u8]) -> (u32, i64, &[u8]) {
    if let Some((b'.' | b',', after)) = rest.split_first() {
        let n = after.iter().take_while(|b| b.is_ascii_digit()).count();
        if let Some((fraction, tail)) = after.split_at_checked(n)
            && let Some(nanos) = fraction_nanos(fraction).and_then(|f| u32::try_from(f).ok())
        {
            return (nanos, 10i64.pow(9u32.saturating_sub(u32::try_from(n).unwrap_or(9))), tail);
        }
    }
    (0, SECOND, rest)
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

/// Abbreviations of zones that mean one offset, in minutes east. `CST`, `IST` and the like mean several.
const ZONES: [(&[u8], i32); 24] = [
    (b"UTC", 0),
    (b"GMT", 0),
    (b"WET", 0),
    (b"WEST", 60),
    (b"CET", 60),
    (b"CEST", 120),
    (b"EET", 120),
    (b"EEST", 180),
    (b"MSK", 180),
    (b"HKT", 480),
    (b"SGT", 480),
    (b"AWST", 480),
    (b"JST", 540),
    (b"KST", 540),
    (b"AEST", 600),
    (b"AEDT", 660),
    (b"NZST", 720),
    (b"NZDT", 780),
    (b"EST", -300),
    (b"EDT", -240),
    (b"CDT", -300),
    (b"MDT", -360),
    (b"PST", -480),
    (b"PDT", -420),
];

/// What may stand behind a clock: half of the day, an offset, the name of a zone.
struct Tail<'a> {
    afternoon: Option<bool>,
    east: Option<i32>,
    rest: &'a [u8],
}

fn tail(bytes: &[u8]) -> Tail<'_> {
    let mut tail = Tail { afternoon: None, east: None, rest: bytes };
    let word = |rest: &[u8]| -> usize {
        rest.strip_prefix(b" ").map_or(0, |r| r.iter().take(6).take_while(|b| b.is_ascii_uppercase()).count())
    };
    let ends = |rest: &[u8]| rest.first().is_none_or(|b| !b.is_ascii_alphanumeric());
    if word(tail.rest) == 2 && ends(tail.rest.get(3..).unwrap_or_default()) {
        tail.afternoon = match tail.rest.get(1..3) {
            Some(b"PM") => Some(true),
            Some(b"AM") => Some(false),
            _ => None,
        };
        if tail.afternoon.is_some() {
            tail.rest = tail.rest.get(3..).unwrap_or_default();
        }
    }
    let spaced = tail.rest.strip_prefix(b" ").filter(|r| matches!(r.first(), Some(b'+' | b'-'))).unwrap_or(tail.rest);
    if let Some((east, rest)) = offset(spaced).filter(|(_, rest)| ends(rest)) {
        (tail.east, tail.rest) = (Some(east), rest);
        // Go prints the name behind the offset, and the monotonic clock.
        if word(rest) >= 3 && ends(rest.get(word(rest) + 1..).unwrap_or_default()) {
            tail.rest = rest.get(word(rest) + 1..).unwrap_or_default();
        }
        return tail;
    }
    let n = word(tail.rest);
    if (3..=4).contains(&n) && ends(tail.rest.get(n + 1..).unwrap_or_default()) {
        let name = tail.rest.get(1..n + 1).unwrap_or_default();
        let known = ZONES.iter().find(|(zone, _)| *zone == name).map(|(_, minutes)| minutes * 60);
        // An ambiguous name is passed over: the zone stays to be told.
        if known.is_some() || [&b"CST"[..], b"IST", b"MST", b"BST"].contains(&name) {
            (tail.east, tail.rest) = (known, tail.rest.get(n + 1..).unwrap_or_default());
        }
    }
    tail
}

fn half(time: NaiveTime, afternoon: Option<bool>) -> Option<NaiveTime> {
    match (afternoon, time.hour()) {
        (Some(true), hour @ 1..=11) => time.with_hour(hour + 12),
        (Some(false), 12) => time.with_hour(0),
        _ => Some(time),
    }
}

fn placed(at: NaiveDateTime, unit: i64, east: Option<i32>) -> Option<Stamp> {
    let Some(east) = east else { return Some(Stamp::Local { at, unit }) };
    let utc = at.checked_sub_signed(chrono::TimeDelta::try_seconds(i64::from(east))?)?;
    Some(Stamp::Absolute { at: Timestamp(utc.and_utc().timestamp_nanos_opt()?), unit })
}

/// ISO 8601: `YYYY-MM-DD` (or `YYYY/MM/DD`), `T` or a blank, a clock, perhaps an offset or a zone's name; or the basic
/// form `YYYYMMDDTHHMMSSZ`.
pub(crate) fn iso_stamp(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let Some((day, rest)) = iso_date(bytes) else { return basic(bytes) };
    let (b'T' | b't' | b' ', rest) = rest.split_first()? else { return None };
    let (time, unit, rest) = clock(rest)?;
    let tail = tail(rest);
    Some((placed(day.and_time(half(time, tail.afternoon)?), unit, tail.east)?, tail.rest))
}

fn basic(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let (year, rest) = digits(bytes, 4)?;
    let (month, rest) = digits(rest, 2)?;
    let (day, rest) = digits(rest, 2)?;
    let rest = rest.strip_prefix(b"T")?;
    let (hour, rest) = digits(rest, 2)?;
    let (minute, rest) = digits(rest, 2)?;
    let (second, rest) = digits(rest, 2)?;
    let (nanos, unit, rest) = fraction(rest);
    let time = NaiveTime::from_hms_nano_opt(hour, minute, second.min(59), nanos)?;
    let (east, rest) = offset(rest).map_or((None, rest), |(east, rest)| (Some(east), rest));
    Some((placed(date(year, month, day)?.and_time(time), unit, east)?, rest))
}

/// Dates with the month or day first, in numbers: `11/02/2024 10:11:12` (PBS), `02/Nov/2024:10:11:12 +0000` (web logs).
fn slashed(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let (first, rest) = one_or_two(bytes)?;
    let rest = rest.strip_prefix(b"/")?;
    let (month, day, rest) = match one_or_two(rest) {
        // Americans write the month first; where that cannot be, it is the day.
        Some((second, rest)) if first <= 12 => (first, second, rest),
        Some((second, rest)) => (second, first, rest),
        None => {
            let (month, rest) = super::months::month(rest)?;
            (month, first, rest)
        }
    };
    let (year, rest) = digits(rest.strip_prefix(b"/")?, 4)?;
    let (b' ' | b':' | b'-', rest) = rest.split_first()? else { return None };
    let (time, unit, rest) = clock(rest)?;
    let tail = tail(rest);
    Some((placed(date(year, month, day)?.and_time(half(time, tail.afternoon)?), unit, tail.east)?, tail.rest))
}

/// A date with the name of its month, in any of the languages of `months`: RFC 3164 (`Nov  4 02:14:25`), ctime
/// (`Tue Nov 14 22:14:25 2023`), date(1) (`Tue Nov 14 10:14:25 PM UTC 2023`), RFC 2822 (`Tue, 14 Nov 2023 22:14:25
/// +0000`). A weekday before an ISO date is passed over too (`journalctl -o short-full`).
fn named(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let bare = weekday(bytes).unwrap_or(bytes);
    if bare.len() < bytes.len()
        && let Some(found) = iso_stamp(bare)
    {
        return Some(found);
    }
    dated(bytes).or_else(|| if bare.len() < bytes.len() { dated(bare) } else { None })
}

fn dated(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let year =
        |rest: &[u8]| digits(rest, 4).filter(|(y, after)| *y >= 1970 && !after.starts_with(b":")).map(|(y, _)| y);
    let (mut known, mut rest) = (None, bytes);
    if let Some(y) = year(rest).filter(|_| rest.get(4) == Some(&b' ')) {
        (known, rest) = (Some(y), rest.get(5..)?);
    }
    let (month, day, after) = day_month(rest)?;
    rest = after.strip_prefix(b",").unwrap_or(after);
    rest = rest.strip_prefix(b" ")?.trim_ascii_start();
    if let Some(y) = year(rest).filter(|_| matches!(rest.get(4), Some(b' ' | b','))) {
        (known, rest) = (Some(y), rest.get(5..)?.trim_ascii_start());
    }
    let (time, unit, rest) = clock(rest)?;
    let mut tail = tail(rest);
    let time = half(time, tail.afternoon)?;
    if known.is_none()
        && let Some(after) = tail.rest.strip_prefix(b" ")
        && let Some(y) = year(after).filter(|_| after.get(4).is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'.'))
    {
        (known, tail.rest) = (Some(y), after.get(4..)?);
    }
    let stamp = match known {
        Some(year) => placed(date(year, month, day)?.and_time(time), unit, tail.east)?,
        // 2000 was a leap year: 29 February is a date of some year.
        None => date(2000, month, day).map(|_| Stamp::Yearless { month, day, time, unit })?,
    };
    Some((stamp, tail.rest))
}

/// Seconds since 1970 with or without a fraction (`journalctl -o short-unix`), or milliseconds, microseconds,
/// nanoseconds by the count of digits. Years 2001 to 2128.
pub(crate) fn epoch(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let (n, rest) = text::number(bytes)?;
    let count = bytes.len() - rest.len();
    let (unit, rest, below) = match count {
        10 => {
            let (nanos, unit, rest) = fraction(rest);
            (unit, rest, i64::from(nanos))
        }
        13 => (1_000_000, rest, 0),
        16 => (1000, rest, 0),
        19 => (1, rest, 0),
        _ => return None,
    };
    if rest.first().is_some_and(|b| b.is_ascii_alphanumeric() || b"-/:.".contains(b)) || bytes.first() == Some(&b'0') {
        return None;
    }
    let scale = if count == 10 { SECOND } else { unit };
    let at = i64::try_from(n).ok()?.checked_mul(scale)?.checked_add(below)?;
    Some((Stamp::Absolute { at: Timestamp(at), unit }, rest))
}

/// Any stamp that says a date, at the start of `bytes`.
pub(crate) fn any(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    match bytes.first()? {
        b'0'..=b'9' => iso_stamp(bytes).or_else(|| slashed(bytes)).or_else(|| named(bytes)).or_else(|| epoch(bytes)),
        b if b.is_ascii_alphabetic() || *b >= 0x80 => named(bytes),
        _ => None,
    }
}

/// klog: `1129 11:20:39.123456`.
pub(crate) fn klog(bytes: &[u8]) -> Option<(Stamp, &[u8])> {
    let (month, rest) = digits(bytes, 2)?;
    let (day, rest) = digits(rest, 2)?;
    let (time, unit, rest) = clock(rest.strip_prefix(b" ")?)?;
    NaiveDate::from_ymd_opt(2000, month, day)?;
    Some((Stamp::Yearless { month, day, time, unit }, rest))
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
            any(b"Nov  4 02:14:25 h"),
            Some((Stamp::Yearless { month: 11, day: 4, unit: SECOND, .. }, b" h"))
        ));
        assert!(matches!(any(b"Feb 29 02:14:25.512 h"), Some((Stamp::Yearless { unit: 1_000_000, .. }, b" h"))));
        assert!(matches!(any(b"Tue Nov 14 22:14:25 2023]"), Some((Stamp::Local { unit: SECOND, .. }, b"]"))));
        assert_eq!(boot(b"  521.653666]"), Some((Stamp::Boot { nanos: 521_653_666_000 }, &b"]"[..])));
    }

    #[test]
    fn one_instant_in_every_form() {
        for text in [
            "2023-11-14T22:14:25Z",
            "2023-11-14 22:14:25 +0000 UTC",
            "2023/11/14 22:14:25 UTC",
            "20231114T221425Z",
            "Tue 2023-11-14 22:14:25 UTC",
            "Tue, 14 Nov 2023 22:14:25 +0000",
            "Tue Nov 14 22:14:25 UTC 2023",
            "Tue Nov 14 10:14:25 PM UTC 2023",
            "14/Nov/2023:22:14:25 +0000",
            "11/14/2023 22:14:25 UTC",
            "2023 Nov 14 22:14:25 UTC",
            "1700000065",
            "1700000065000",
            "1700000065000000",
            "1700000065000000000",
            "Wed 2023-11-15 06:14:25 HKT",
            "2023-11-14 23:14:25 CET",
        ] {
            let (stamp, rest) = any(text.as_bytes()).expect(text);
            assert_eq!(rest, b"", "{text}");
            assert!(
                matches!(stamp, Stamp::Absolute { at: Timestamp(1_700_000_065_000_000_000), .. }),
                "{text} {stamp:?}"
            );
        }
        assert!(matches!(any(b"2023-11-14 22:14:25 CST x"), Some((Stamp::Local { .. }, b" x"))));
    }

    #[test]
    fn months_of_the_languages() {
        for text in [
            "Sep 21 14:13:20 h",
            "21. Sep 14:13:20 h",
            "sept. 21 14:13:20 h",
            "sep 21 14:13:20 h",
            "set 21 14:13:20 h",
            "9月 21 14:13:20 h",
            " 9月 21 14:13:20 h",
            "9월 21 14:13:20 h",
            "сен 21 14:13:20 h",
            "9月21日 14:13:20 h",
            "Mo Sep 21 14:13:20 h",
            "lun. sept. 21 14:13:20 h",
            "一 9月 21 14:13:20 h",
            "Пн сен 21 14:13:20 h",
            "Sep21 14:13:20 h",
        ] {
            let got = any(text.trim_start().as_bytes());
            assert!(matches!(got, Some((Stamp::Yearless { month: 9, day: 21, .. }, b" h"))), "{text}: {got:?}");
        }
        for (text, month) in [
            ("Mär 21 14:13:20", 3),
            ("Mrz 21 14:13:20", 3),
            ("févr. 21 14:13:20", 2),
            ("août 21 14:13:20", 8),
            ("ago 21 14:13:20", 8),
            ("Dez 21 14:13:20", 12),
            ("dic 21 14:13:20", 12),
            ("мая 21 14:13:20", 5),
            ("juil. 21 14:13:20", 7),
            ("juin 21 14:13:20", 6),
            ("out 21 14:13:20", 10),
            ("ene 21 14:13:20", 1),
            ("12月 21 14:13:20", 12),
            ("mag 21 14:13:20", 5),
        ] {
            let got = any(text.as_bytes());
            assert!(
                matches!(got, Some((Stamp::Yearless { month: m, day: 21, .. }, b"")) if m == month),
                "{text}: {got:?}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [&b"2023-02-30T00:00:00Z"[..], b"2023-11-14T24:00:00", b"2023-11-14", b"", b"\xff\xff"] {
            assert_eq!(iso_stamp(bytes), None);
        }
        for bytes in [
            &b"Nov 31 00:00:00 h"[..],
            b"Out of memory: 12:00:00",
            b"1700000065abc",
            b"0123456789",
            b"13/13/2024 10:00:00",
        ] {
            assert_eq!(any(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(boot(b"99999999999999999999.5"), None);
    }
}
