//! Instants as captures and logs give them: nanoseconds since the Unix epoch, UTC.

use std::fmt;
use std::ops::{Add, Sub};

/// An instant: nanoseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
///
/// Range: years 1677 to 2262. It has no uncertainty of its own; whoever hands it on says how good it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

/// Nanoseconds in a second.
pub const NANOS: i64 = 1_000_000_000;

impl Timestamp {
    /// Its fraction of a second as printed after the seconds, with no more digits than an uncertainty of `seconds` allows, and
    /// cut, not rounded: `.652174`, `.6`, or nothing.
    pub fn fraction_within(self, seconds: f64) -> String {
        let digits = match seconds.abs() {
            s if s >= 1.0 || s.is_nan() => return String::new(),
            s if s >= 0.1 => 1,
            s if s >= 0.0005 => 3,
            _ => 6,
        };
        let micros = self.0.rem_euclid(NANOS) / 1000;
        format!(".{micros:06}").chars().take(1 + digits).collect()
    }

    /// The earliest instant that can be said.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest instant that can be said.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// `seconds` since the epoch and `nanos` more (0 to 999 999 999; more is carried). Saturates.
    pub fn new(seconds: i64, nanos: i64) -> Self {
        Timestamp(seconds.saturating_mul(NANOS).saturating_add(nanos))
    }

    /// Seconds from `earlier` to this instant, negative when this one is the earlier.
    pub fn seconds_since(self, earlier: Timestamp) -> f64 {
        (i128::from(self.0) - i128::from(earlier.0)) as f64 / NANOS as f64
    }

    /// This instant moved by `nanos`. Saturates.
    pub fn plus_nanos(self, nanos: i64) -> Self {
        Timestamp(self.0.saturating_add(nanos))
    }

    /// As a chrono value in UTC.
    pub fn to_utc(self) -> chrono::DateTime<chrono::Utc> {
        chrono::DateTime::from_timestamp_nanos(self.0)
    }

    /// RFC 3339 in UTC with nine digits: `2026-11-29T11:20:10.652448000Z`.
    pub fn to_rfc3339(self) -> String {
        self.to_utc().format("%Y-%m-%dT%H:%M:%S%.9fZ").to_string()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_rfc3339())
    }
}

/// From RFC 3339, as it is written.
impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        let time = chrono::DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
        let nanos = time.timestamp_nanos_opt();
        nanos.map(Timestamp).ok_or_else(|| serde::de::Error::custom("a time from 1677 to 2262 was required"))
    }
}

impl Add<std::time::Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, d: std::time::Duration) -> Timestamp {
        self.plus_nanos(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Sub<std::time::Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, d: std::time::Duration) -> Timestamp {
        self.plus_nanos(i64::try_from(d.as_nanos()).map_or(i64::MIN, |n| -n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_nine_digits_in_utc() {
        assert_eq!(Timestamp::new(1_795_951_210, 652_448_000).to_rfc3339(), "2026-11-29T11:20:10.652448000Z");
        assert_eq!(Timestamp::new(-1, 0).to_rfc3339(), "1969-12-31T23:59:59.000000000Z");
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Timestamp::new(i64::MAX, 5), Timestamp::MAX);
        assert!(Timestamp::MAX.seconds_since(Timestamp::MIN) > 1e10);
        assert!(!Timestamp::MIN.to_rfc3339().is_empty());
    }
}
