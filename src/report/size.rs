//! Sizes, spans and instants as people read them.

use chrono::{DateTime, FixedOffset, Local, NaiveDate, Utc};

use crate::time::Timestamp;

pub use crate::size::{bytes, grouped, readings};

/// A span of seconds: `39.0 s`, `1 min 26 s`, `2 h 05 min`, `0.015 s`.
pub fn span(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "unknown".to_string();
    }
    let sign = if seconds < 0.0 { "-" } else { "" };
    let s = seconds.abs();
    if s < 0.9995 {
        format!("{sign}{s:.3} s")
    } else if s < 59.95 {
        format!("{sign}{s:.1} s")
    } else if s < 3599.5 {
        let whole = s.round() as u64;
        format!("{sign}{} min {:02} s", whole / 60, whole % 60)
    } else {
        let minutes = (s / 60.0).round() as u64;
        format!("{sign}{} h {:02} min", grouped(minutes / 60), minutes % 60)
    }
}

/// How sure something is: `± 0.5 s`, `± 5 ms`, `± 30 µs`; empty below a microsecond.
pub fn uncertainty(seconds: f64) -> String {
    match seconds.abs() {
        s if !s.is_finite() => "± unknown".to_string(),
        s if s < 0.000_000_5 => String::new(),
        s if s < 0.001 => format!("± {:.0} µs", s * 1e6),
        s if s < 0.1 => format!("± {} ms", trimmed(s * 1e3)),
        s if s < 60.0 => format!("± {} s", trimmed(s)),
        s => format!("± {}", span(s)),
    }
}

/// One decimal, unless it is zero.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// The zone in which times are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Zone {
    /// UTC, marked by a `Z`.
    #[default]
    Utc,
    /// The zone of the machine that prints the report.
    Local,
    /// A fixed distance from UTC.
    Fixed(FixedOffset),
}

impl Zone {
    fn at(self, time: Timestamp) -> DateTime<FixedOffset> {
        let utc: DateTime<Utc> = time.to_utc();
        match self {
            Zone::Utc => utc.fixed_offset(),
            Zone::Local => utc.with_timezone(&Local).fixed_offset(),
            Zone::Fixed(offset) => utc.with_timezone(&offset),
        }
    }

    /// The date of an instant in this zone.
    pub fn date(self, time: Timestamp) -> NaiveDate {
        self.at(time).date_naive()
    }
}

/// Prints instants short: the date is said once, elsewhere, and repeated only where another one holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// The zone they are shown in.
    pub zone: Zone,
    /// The date that goes without saying.
    pub date: Option<NaiveDate>,
}

impl Times {
    /// `11:20:10.652448Z`, with the date before it when it is not the usual one.
    pub fn short(&self, time: Timestamp) -> String {
        self.within(time, 0.0)
    }

    /// Like [`Times::short`], with no more digits than an uncertainty of `seconds` allows.
    pub fn within(&self, time: Timestamp, seconds: f64) -> String {
        let at = self.zone.at(time);
        let date = if self.date == Some(at.date_naive()) { "" } else { "%Y-%m-%d " };
        let zone = if self.zone == Zone::Utc { "Z" } else { "%:z" };
        let fraction = time.fraction_within(seconds);
        at.format(&format!("{date}%H:%M:%S{fraction}{zone}")).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readings_of_the_recorded_claims() {
        assert_eq!(bytes(962_696_183_808), "962 696 183 808 bytes (0.96 TB, 0.876 TiB)");
        assert_eq!(bytes(962_174_058_496), "962 174 058 496 bytes (0.96 TB, 0.875 TiB)");
        assert_eq!(bytes(5_515_753_420_750), "5 515 753 420 750 bytes (5.52 TB, 5.017 TiB)");
        assert_eq!(bytes(268_435_468), "268 435 468 bytes (268 MB, 256 MiB)");
        assert_eq!(bytes(24 << 30), "25 769 803 776 bytes (25.8 GB, 24.0 GiB)");
    }

    #[test]
    fn small_and_extreme_sizes() {
        assert_eq!((bytes(0), bytes(1), bytes(1000)), ("0 bytes".into(), "1 byte".into(), "1 000 bytes".into()));
        assert_eq!(bytes(u64::MAX), "18 446 744 073 709 551 615 bytes (18.4 EB, 16.0 EiB)");
        assert_eq!(grouped(999), "999");
    }

    #[test]
    fn spans() {
        assert_eq!(span(39.001), "39.0 s");
        assert_eq!(span(59.97), "1 min 00 s");
        assert_eq!(span(86.2), "1 min 26 s");
        assert_eq!(span(7_500.0), "2 h 05 min");
        assert_eq!(span(0.0154), "0.015 s");
        assert_eq!(span(-3.0), "-3.0 s");
        assert_eq!(span(f64::NAN), "unknown");
        assert!(!span(f64::MAX).is_empty());
    }

    #[test]
    fn uncertainties() {
        assert_eq!(uncertainty(0.5), "± 0.5 s");
        assert_eq!(uncertainty(2.0), "± 2 s");
        assert_eq!(uncertainty(0.005), "± 5 ms");
        assert_eq!(uncertainty(0.000_03), "± 30 µs");
        assert_eq!(uncertainty(3600.0), "± 1 h 00 min");
        assert_eq!(uncertainty(0.0), "");
    }

    #[test]
    fn times_say_the_date_once() {
        let time = Timestamp::new(1_795_951_210, 652_448_000);
        let times = Times { zone: Zone::Utc, date: Some(Zone::Utc.date(time)) };
        assert_eq!(times.short(time), "11:20:10.652448Z");
        assert_eq!(times.within(time, 0.001), "11:20:10.652Z");
        assert_eq!(times.within(time, 0.5), "11:20:10.6Z");
        assert_eq!(times.within(time, 1.0), "11:20:10Z");
        assert_eq!(times.short(Timestamp(0)), "1970-01-01 00:00:00.000000Z");
        let tokyo = Zone::Fixed(FixedOffset::east_opt(9 * 3600).unwrap());
        assert_eq!(Times { zone: tokyo, date: None }.short(time), "2026-11-29 20:20:10.652448+09:00");
        assert!(!times.short(Timestamp::MAX).is_empty() && !times.short(Timestamp::MIN).is_empty());
    }
}
