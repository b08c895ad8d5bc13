//! Time zones of logs that name none.

use super::stamp;
use super::text;
use crate::time::Timestamp;
use chrono::{NaiveDateTime, Offset, TimeDelta, TimeZone};
use std::fmt;
use std::str::FromStr;

/// A zone for local times: an offset, or a name of the IANA database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Seconds east of UTC.
    Fixed(i32),
    /// An IANA zone, with its changes of offset.
    Named(chrono_tz::Tz),
}

/// A text that names no zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no time zone: wanted UTC, an offset (+08:00), or an IANA name (Asia/Shanghai)")]
pub struct ZoneError {
    /// The beginning of what was given.
    pub text: String,
}

/// The instants that a local time can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instants {
    /// The one taken: of two, the earlier.
    pub(crate) first: Timestamp,
    /// The other, in the hour that is lived twice.
    pub(crate) second: Option<Timestamp>,
    /// No clock of the zone ever showed this time (it lies in the hour that is skipped).
    pub(crate) skipped: bool,
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Zone = Zone::Fixed(0);

    /// Seconds east of UTC at an instant.
    pub fn east_at(self, at: Timestamp) -> i32 {
        match self {
            Zone::Fixed(east) => east,
            Zone::Named(tz) => tz.offset_from_utc_datetime(&at.to_utc().naive_utc()).fix().local_minus_utc(),
        }
    }

    /// The instants at which a clock of this zone shows `local`; `None` outside the range of [`Timestamp`].
    pub(crate) fn instants(self, local: NaiveDateTime) -> Option<Instants> {
        let at = |east: i32| {
            let utc = local.checked_sub_signed(TimeDelta::try_seconds(i64::from(east))?)?;
            utc.and_utc().timestamp_nanos_opt().map(Timestamp)
        };
        let tz = match self {
            Zone::Fixed(east) => return Some(Instants { first: at(east)?, second: None, skipped: false }),
            Zone::Named(tz) => tz,
        };
        let east = |o: &<chrono_tz::Tz as TimeZone>::Offset| o.fix().local_minus_utc();
        match tz.offset_from_local_datetime(&local) {
            chrono::LocalResult::Single(o) => Some(Instants { first: at(east(&o))?, second: None, skipped: false }),
            chrono::LocalResult::Ambiguous(a, b) => {
                let (a, b) = (at(east(&a))?, at(east(&b))?);
                Some(Instants { first: a.min(b), second: Some(a.max(b)), skipped: false })
            }
            // The offset in force a day earlier is that of before the change.
            chrono::LocalResult::None => {
                let before = local.checked_sub_signed(TimeDelta::try_days(1)?)?;
                let o = tz.offset_from_local_datetime(&before).earliest()?;
                Some(Instants { first: at(east(&o))?, second: None, skipped: true })
            }
        }
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    fn from_str(given: &str) -> Result<Self, ZoneError> {
        let name = given.trim();
        let bare = name.strip_prefix("UTC").or_else(|| name.strip_prefix("GMT")).unwrap_or(name);
        if let Some((east, rest)) = stamp::offset(bare.as_bytes())
            && rest.is_empty()
        {
            return Ok(Zone::Fixed(east));
        }
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Zone::UTC);
        }
        name.parse().map(Zone::Named).map_err(|_| ZoneError { text: text::lossy(given.as_bytes(), 64) })
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Fixed(0) => f.write_str("UTC"),
            Zone::Fixed(east) => {
                let (sign, abs) = if *east < 0 { ('-', east.unsigned_abs()) } else { ('+', east.unsigned_abs()) };
                write!(f, "{sign}{:02}:{:02}", abs / 3600, abs / 60 % 60)
            }
            Zone::Named(tz) => f.write_str(tz.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(text: &str) -> NaiveDateTime {
        text.parse().unwrap()
    }

    #[test]
    fn zones_are_read_and_printed() {
        for (text, printed) in [
            ("UTC", "UTC"),
            ("Z", "UTC"),
            ("+08:00", "+08:00"),
            ("-0530", "-05:30"),
            ("Asia/Shanghai", "Asia/Shanghai"),
        ] {
            assert_eq!(text.parse::<Zone>().unwrap().to_string(), printed);
        }
        assert!("Mars/Olympus".parse::<Zone>().unwrap_err().to_string().contains("IANA"));
    }

    #[test]
    fn the_hour_lived_twice_has_two_instants_and_the_skipped_one_says_so() {
        let zone: Zone = "Europe/Berlin".parse().unwrap();
        let twice = zone.instants(local("2023-10-29T02:30:00")).unwrap();
        assert_eq!(twice.first.to_rfc3339(), "2023-10-29T00:30:00.000000000Z");
        assert_eq!(twice.second.unwrap().to_rfc3339(), "2023-10-29T01:30:00.000000000Z");
        let skipped = zone.instants(local("2023-03-26T02:30:00")).unwrap();
        assert!(skipped.skipped);
        assert_eq!(skipped.first.to_rfc3339(), "2023-03-26T01:30:00.000000000Z");
    }
}
