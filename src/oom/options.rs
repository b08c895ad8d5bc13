//! What the caller knows and the logs do not say; and times made of both.

use super::event::EventTime;
use super::host::same_host;
use super::stamp::{SECOND, Stamp};
use super::zone::Zone;
use crate::time::Timestamp;
use chrono::{Datelike, NaiveDate};

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

    pub(crate) fn resolve(&self, stamp: Stamp, clock: Clock, host: Option<&str>) -> Resolved {
        let time = |at, unit: i64, from, assumed| EventTime {
            at,
            uncertainty_nanos: unit.max(clock.floor),
            from,
            assumed,
            alternative: None,
        };
        match stamp {
            Stamp::Absolute { at, unit } => Resolved::Time(time(at, unit, clock.from, false)),
            Stamp::Boot { nanos } => match self.boot_of(host) {
                None => Resolved::NoBoot,
                Some(boot) => {
                    let unit = if boot.0 % SECOND == 0 { SECOND / 2 } else { SECOND / 1000 };
                    Resolved::Time(time(boot.plus_nanos(nanos), unit, "boot-relative + --boot", false))
                }
            },
            Stamp::Local { at, unit } => {
                self.local(at, unit, clock, host, false).map_or(Resolved::OutOfRange, Resolved::Time)
            }
            Stamp::Yearless { month, day, time, unit } => {
                let Some(year) = self.near.map(|n| n.to_utc().year()).or(self.year) else { return Resolved::NoYear };
                let span: &[i32] = if self.near.is_some() { &[0, -1, 1] } else { &[0] };
                span.iter()
                    .filter_map(|step| NaiveDate::from_ymd_opt(year.checked_add(*step)?, month, day))
                    .filter_map(|date| self.local(date.and_time(time), unit, clock, host, true))
                    .min_by_key(|t| self.near.map_or(0, |n| t.at.0.abs_diff(n.0)))
                    .map_or(Resolved::OutOfRange, Resolved::Time)
            }
        }
    }

    fn local(
        &self,
        at: chrono::NaiveDateTime,
        unit: i64,
        clock: Clock,
        host: Option<&str>,
        yearless: bool,
    ) -> Option<EventTime> {
        let (zone, guessed) = self.zone_of(host);
        let instants = zone.instants(at)?;
        let from = match (guessed, yearless, instants.second.is_some(), instants.skipped) {
            (true, false, ..) => "local time, zone assumed UTC",
            (true, true, ..) => "local time, zone assumed UTC, year from context",
            (false, _, true, _) => "local time of an hour lived twice, the earlier taken",
            (false, _, _, true) => "local time of an hour that the zone skips",
            (false, false, ..) => "local time, zone given",
            (false, true, ..) => "local time, zone given, year from context",
        };
        Some(EventTime {
            at: instants.first,
            uncertainty_nanos: unit.max(clock.floor),
            from,
            assumed: guessed || instants.second.is_some() || instants.skipped,
            alternative: instants.second,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::rfc3164;
    use super::*;
    use crate::oom::parse_instant;

    const CLOCK: Clock = Clock { from: "test", floor: 0 };

    fn at(options: &Options, text: &str) -> String {
        match options.resolve(rfc3164(text.as_bytes()).unwrap().0, CLOCK, Some("h")) {
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
