//! What the caller knows and the logs do not say; and times made of both.

use super::event::{EventTime, TimeSource};
use super::host::same_host;
use super::object::LogFields;
use super::stamp::{SECOND, Stamp};
use super::zone::Zone;
use crate::time::Timestamp;
use chrono::{Datelike, NaiveDate, NaiveDateTime};

/// What the caller knows about hosts and clocks.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// When hosts booted (`--boot`). A whole second is taken as good to half a second.
    pub boot: Vec<(String, Timestamp)>,
    /// The zone of local times (`--log-tz ZONE`); without it UTC is assumed, and said to be.
    pub zone: Option<Zone>,
    /// The same for single hosts (`--log-tz HOST=ZONE`).
    pub host_zones: Vec<(String, Zone)>,
    /// An instant that the logs are about, say the middle of the captures: times without a year are put into the year
    /// that brings them nearest to it.
    pub near: Option<Timestamp>,
    /// The year of times without one, where `near` is not known.
    pub year: Option<i32>,
    /// When the log was written last: the latest year that times without one can be of, and what ages refer to.
    pub written: Option<Timestamp>,
    /// Names of fields in JSON (`--log-field`), tried before the usual ones.
    pub fields: LogFields,
    /// The host named with the path (`--oom HOST=PATH`): wins over everything.
    pub explicit_host: Option<String>,
    /// The host that the name of the file suggests: loses to everything.
    pub file_host: Option<String>,
}

/// A time, or what is missing to make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    Time(EventTime),
    NoBoot,
    NoYear,
    OutOfRange,
}

/// Where a stamp stood: it decides how far the record may lag behind the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The time in the words of a report.
    pub(crate) from: &'static str,
    /// The least uncertainty, in nanoseconds.
    pub(crate) floor: i64,
    /// The printed time is early by up to that, never late.
    pub(crate) after: bool,
}

/// What a time without a year takes its year from.
#[derive(Clone, Copy)]
enum Year {
    /// A line of the same log that has one.
    Log(Timestamp),
    /// The captures, or the time that the user asks for.
    Context(Timestamp),
    /// It was given.
    Given(i32),
    /// The latest that is possible, as the file was written then.
    Written(Timestamp),
}

impl Options {
    /// The zone for local times of `host`, and whether it is a guess.
    pub(crate) fn zone_of(&self, host: Option<&str>) -> (Zone, bool) {
        let own = host.and_then(|h| self.host_zones.iter().find(|(name, _)| same_host(name, h)));
        match own.map(|(_, z)| *z).or(self.zone) {
            Some(zone) => (zone, false),
            None => (Zone::UTC, true),
        }
    }

    /// When `host` booted; without a host, the only boot time there is.
    pub(crate) fn boot_of(&self, host: Option<&str>) -> Option<Timestamp> {
        match host {
            Some(h) => self.boot.iter().find(|(name, _)| same_host(name, h)).map(|(_, at)| *at),
            None => None,
        }
    }

    /// A printed time as an instant. `dated`: a time with a year from the same log.
    pub(crate) fn resolve(&self, stamp: Stamp, clock: Clock, host: Option<&str>, dated: Option<Timestamp>) -> Resolved {
        match stamp {
            Stamp::Absolute { at, unit } => Resolved::Time(EventTime {
                at,
                uncertainty_nanos: unit.max(clock.floor),
                from: clock.from,
                assumed: false,
                alternative: None,
                source: if clock.from.starts_with("accounting") { TimeSource::Accounting } else { TimeSource::Line },
                at_or_after: clock.after,
                yearless: None,
            }),
            Stamp::Boot { nanos } => match self.boot_of(host) {
                None => Resolved::NoBoot,
                // `uptime -s` cuts the fraction off.
                Some(boot) => {
                    let whole = boot.0 % SECOND == 0;
                    let unit = if whole { SECOND } else { SECOND / 1000 };
                    let time = EventTime::since_boot(boot.plus_nanos(nanos), unit, "boot-relative + --boot", false);
                    Resolved::Time(EventTime { at_or_after: whole, ..time })
                }
            },
            Stamp::Local { at, unit } => {
                self.local(at, unit, clock, host, None).map_or(Resolved::OutOfRange, Resolved::Time)
            }
            Stamp::Yearless { month, day, time, unit } => {
                let at = NaiveDate::from_ymd_opt(2000, month, day).map(|d| d.and_time(time));
                at.map_or(Resolved::OutOfRange, |at| self.in_year(at, unit, clock, host, dated))
            }
        }
    }

    /// Again, when more is known of the log: the time of a line without a year.
    pub(crate) fn again(&self, time: EventTime, host: Option<&str>, dated: Timestamp) -> EventTime {
        let Some(at) = time.yearless else { return time };
        let clock = Clock { from: time.from, floor: time.uncertainty_nanos, after: time.at_or_after };
        match self.in_year(at, 0, clock, host, Some(dated)) {
            Resolved::Time(time) => time,
            _ => time,
        }
    }

    fn in_year(
        &self,
        at: NaiveDateTime,
        unit: i64,
        clock: Clock,
        host: Option<&str>,
        dated: Option<Timestamp>,
    ) -> Resolved {
        let known = dated.map(Year::Log).or(self.near.map(Year::Context)).or(self.year.map(Year::Given));
        let Some(known) = known.or(self.written.map(Year::Written)) else { return Resolved::NoYear };
        let (year, steps, pivot): (i32, &[i32], Option<Timestamp>) = match known {
            Year::Log(t) | Year::Context(t) => (t.to_utc().year(), &[0, -1, 1], Some(t)),
            Year::Written(t) => (t.to_utc().year(), &[1, 0, -1, -2, -3, -4], Some(t)),
            Year::Given(year) => (year, &[0], None),
        };
        let within = |step: &i32| {
            let date = NaiveDate::from_ymd_opt(year.checked_add(*step)?, at.month(), at.day())?;
            self.local(date.and_time(at.time()), unit, clock, host, Some(known))
        };
        let mut times = steps.iter().filter_map(within);
        let found = match (known, pivot) {
            // A log is not written before what it tells; a zone may lie between.
            (Year::Written(_), Some(t)) => times.find(|x| x.at <= t.plus_nanos(86_400 * SECOND)),
            _ => times.min_by_key(|x| pivot.map_or(0, |n| x.at.0.abs_diff(n.0))),
        };
        found.map_or(Resolved::OutOfRange, Resolved::Time)
    }

    fn local(
        &self,
        at: NaiveDateTime,
        unit: i64,
        clock: Clock,
        host: Option<&str>,
        year: Option<Year>,
    ) -> Option<EventTime> {
        let (zone, guessed) = self.zone_of(host);
        let instants = zone.instants(at)?;
        let from = match (guessed, year, instants.second.is_some(), instants.skipped) {
            (true, None, ..) => "local time, zone assumed UTC",
            (true, Some(Year::Log(_)), ..) => "local time, zone assumed UTC, year from other lines of the log",
            (true, Some(Year::Written(_)), ..) => "local time, zone assumed UTC, year guessed from the file's date",
            (true, Some(_), ..) => "local time, zone assumed UTC, year from context",
            (false, _, true, _) => "local time of an hour lived twice, the earlier taken",
            (false, _, _, true) => "local time of an hour that the zone skips",
            (false, None, ..) => "local time, zone given",
            (false, Some(Year::Log(_)), ..) => "local time, zone given, year from other lines of the log",
            (false, Some(Year::Written(_)), ..) => "local time, zone given, year guessed from the file's date",
            (false, Some(_), ..) => "local time, zone given, year from context",
        };
        let guess = matches!(year, Some(Year::Context(_) | Year::Written(_)));
        Some(EventTime {
            at: instants.first,
            uncertainty_nanos: unit.max(clock.floor),
            from,
            assumed: guessed || guess || instants.second.is_some() || instants.skipped,
            alternative: instants.second,
            source: match year {
                Some(_) => TimeSource::DerivedYear,
                None if clock.from.starts_with("accounting") => TimeSource::Accounting,
                None => TimeSource::Line,
            },
            at_or_after: clock.after,
            yearless: year.map(|_| at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::any;
    use super::*;
    use crate::oom::parse_instant;

    const CLOCK: Clock = Clock { from: "test", floor: 0, after: false };

    fn at(options: &Options, text: &str) -> String {
        match options.resolve(any(text.as_bytes()).unwrap().0, CLOCK, Some("h"), None) {
            Resolved::Time(t) => format!("{} {}", t.at.to_rfc3339(), t.assumed),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_time_without_a_year_goes_to_the_nearest_one() {
        let near = Options { near: parse_instant("2024-01-01T00:10:00Z").ok(), ..Options::default() };
        assert_eq!(at(&near, "Dec 31 23:50:00 h"), "2023-12-31T23:50:00.000000000Z true");
        assert_eq!(at(&near, "Jan  1 00:05:00 h"), "2024-01-01T00:05:00.000000000Z true");
        assert_eq!(at(&near, "Feb 29 00:00:00 h"), "2024-02-29T00:00:00.000000000Z true");
        assert_eq!(at(&Options::default(), "Jan  1 00:05:00 h"), "NoYear");
        let written = Options { written: parse_instant("2024-03-01").ok(), ..Options::default() };
        assert_eq!(at(&written, "Feb 29 00:00:00 h"), "2024-02-29T00:00:00.000000000Z true");
        assert_eq!(at(&written, "Apr 29 00:00:00 h"), "2023-04-29T00:00:00.000000000Z true");
        let year = Options { year: Some(2023), zone: Some(Zone::Fixed(28800)), ..Options::default() };
        assert_eq!(at(&year, "Feb 29 00:00:00 h"), "OutOfRange");
        assert_eq!(at(&year, "Jan  1 00:00:00 h"), "2022-12-31T16:00:00.000000000Z false");
    }

    #[test]
    fn a_zone_of_a_host_wins_over_the_default() {
        let mut options = Options { year: Some(2023), zone: Some(Zone::UTC), ..Options::default() };
        options.host_zones.push(("H.example.com".into(), Zone::Fixed(-3600)));
        assert_eq!(at(&options, "Jan  1 00:00:00 h"), "2023-01-01T01:00:00.000000000Z false");
    }
}
