//! Instants that people type: `--boot`, `--since`, `--until`.

use super::stamp::{Stamp, iso_date, iso_stamp};
use super::text;
pub(crate) use super::text::fraction_nanos;
use crate::time::{NANOS, Timestamp};

/// A text that is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no time: wanted RFC 3339 (2026-11-29T11:20:05.5Z), \"2026-11-29 11:20[:05[.5]]\" in UTC, \
     a date (2026-11-29, its start in UTC), or seconds since 1970 (1795951205.5), between the years 1678 and 2261"
)]
pub struct InstantError {
    /// The beginning of what was given.
    pub text: String,
}

/// Reads an instant: RFC 3339, `YYYY-mm-dd HH:MM[:SS[.frac]]` (UTC unless an offset follows), a date (its first
/// instant, UTC), or seconds since the epoch with up to nine digits of fraction (further digits are dropped).
///
/// # Errors
/// [`InstantError`], whose message names what is accepted.
pub fn parse_instant(text: &str) -> Result<Timestamp, InstantError> {
    read(text.trim().as_bytes()).ok_or_else(|| InstantError { text: text::lossy(text.as_bytes(), 64) })
}

/// An instant, or a local time whose zone the text does not name.
pub(crate) fn instant_or_local(text: &str) -> Option<Result<Timestamp, chrono::NaiveDateTime>> {
    match iso_stamp(text.trim().as_bytes()) {
        Some((Stamp::Absolute { at, .. }, [])) => Some(Ok(at)),
        Some((Stamp::Local { at, .. }, [])) => Some(Err(at)),
        _ => epoch(text.trim().as_bytes()).map(Ok),
    }
}

fn read(bytes: &[u8]) -> Option<Timestamp> {
    if let Some(at) = epoch(bytes) {
        return Some(at);
    }
    if let Some((date, rest)) = iso_date(bytes)
        && rest.is_empty()
    {
        return date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_nanos_opt().map(Timestamp);
    }
    match iso_stamp(bytes)? {
        (Stamp::Absolute { at, .. }, []) => Some(at),
        (Stamp::Local { at, .. }, []) => at.and_utc().timestamp_nanos_opt().map(Timestamp),
        _ => None,
    }
}

/// `[-]digits[.digits]`.
fn epoch(bytes: &[u8]) -> Option<Timestamp> {
    let (negative, digits) = match bytes.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, bytes),
    };
    let (seconds, rest) = text::number(digits)?;
    let nanos = match rest.strip_prefix(b".") {
        Some(fraction) => fraction_nanos(fraction)?,
        None if rest.is_empty() => 0,
        None => return None,
    };
    let total = i64::try_from(seconds).ok()?.checked_mul(NANOS)?.checked_add(nanos)?;
    Some(Timestamp(if negative { total.checked_neg()? } else { total }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accepted_form_names_the_same_instant() {
        for text in [
            "2026-11-29T11:20:05.500Z",
            "2026-11-29t11:20:05.5z",
            "2026-11-29T19:20:05.5+08:00",
            "2026-11-29 11:20:05.5",
            "2026-11-29 06:20:05,5 -0500",
            " 1795951205.5 ",
        ] {
            assert_eq!(
                parse_instant(text).map(|t| t.to_rfc3339()),
                Ok("2026-11-29T11:20:05.500000000Z".into()),
                "{text}"
            );
        }
        assert_eq!(parse_instant("2026-11-29"), Ok(Timestamp::new(1_795_910_400, 0)));
        assert_eq!(parse_instant("2026-11-29 11:20"), parse_instant("2026-11-29T11:20:00Z"));
        assert_eq!(parse_instant("-1.25"), Ok(Timestamp(-1_250_000_000)));
    }

    #[test]
    fn what_is_no_time_is_refused_and_the_message_says_what_is_wanted() {
        for text in [
            "",
            "-",
            "yesterday",
            "2026-13-01",
            "2026-02-29",
            "11:20",
            "1.",
            "99999999999999999999",
            "2026-11-29T25:00:00Z",
            "9999-01-01",
            "2026-11-29 11:20 x",
        ] {
            let error = parse_instant(text).expect_err(text).to_string();
            assert!(error.contains("RFC 3339") && error.contains("seconds since 1970"), "{error}");
        }
    }
}
