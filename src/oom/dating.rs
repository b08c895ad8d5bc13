//! When a line was: the best time that it gives, and what is missing where it gives none.

use super::event::{EventTime, OomSighting};
use super::facts;
use super::options::{Clock, Resolved};
use super::prefix::Peeled;
use super::scanner::Scanner;
use super::stamp::Stamp;
use super::teller::Saying;
use crate::time::Timestamp;

impl Scanner {
    /// The best time that the line gives; what is missing is noted for the warnings.
    pub(super) fn time(&mut self, host: Option<&str>, peeled: &Peeled<'_>, saying: &Saying) -> Option<EventTime> {
        let printed = saying.stamp.or(peeled.stamp).map(|(stamp, clock)| (stamp, saying.clock.unwrap_or(clock)));
        let given = peeled.boot.and(self.options.boot_of(host));
        let collected = if given.is_none() { host.and_then(|h| self.collected.kernel_epoch(h)) } else { None };
        if let Some((boot, source)) = given.map(|b| (b, "--boot")).or(collected.map(|b| (b, "collected"))) {
            self.summary.boot_time = Some(boot);
            self.summary.boot_source = Some(source);
        }
        if let (Some(boot), Some(nanos)) = (collected, peeled.boot)
            && matches!(printed, Some((Stamp::Boot { .. }, _)))
        {
            let from = "boot-relative + boot time collected on the host";
            return Some(EventTime::since_boot(boot.plus_nanos(nanos), facts::BOOT_UNCERTAINTY_NANOS, from, false));
        }
        let Some((stamp, clock)) = printed else {
            self.without_time += u64::from(!Scanner::is_gpu(saying));
            return None;
        };
        if matches!(stamp, Stamp::Local { .. } | Stamp::Yearless { .. }) {
            let (zone, assumed) = self.options.zone_of(host);
            self.summary.timezone = Some(zone.to_string());
            self.summary.timezone_assumed |= assumed;
        }
        let own = self.options.resolve(stamp, clock, host, self.span.dated);
        let counted = peeled.boot.map(|nanos| self.options.resolve(Stamp::Boot { nanos }, clock, host, None));
        match own {
            Resolved::NoBoot => {
                let host = host.unwrap_or("HOST");
                if self.without_boot.len() < 100 || self.without_boot.contains_key(host) {
                    *self.without_boot.entry(host.to_owned()).or_default() += 1;
                }
            }
            Resolved::NoYear => self.without_year += 1,
            Resolved::OutOfRange => self.out_of_range += 1,
            Resolved::Time(t) => {
                self.ambiguous += u64::from(t.alternative.is_some());
                self.year_guessed |= t.yearless.is_some();
            }
        }
        [Some(own), counted]
            .into_iter()
            .flatten()
            .filter_map(|r| if let Resolved::Time(t) = r { Some(t) } else { None })
            .min_by_key(|t| (t.assumed, t.uncertainty_nanos))
    }

    /// The instant of a stamp, whatever host it is of.
    pub(super) fn instant(&self, stamp: Stamp, clock: Clock) -> Option<Timestamp> {
        match self.options.resolve(stamp, clock, None, None) {
            Resolved::Time(time) => Some(time.at),
            _ => None,
        }
    }

    /// A line further on may say the year that earlier ones lack.
    pub(super) fn date_again(&self, sightings: &mut [OomSighting]) {
        let Some(dated) = self.span.dated else { return };
        for s in sightings {
            let host = s.host.clone();
            let again = |time: &mut Option<EventTime>| {
                *time = time.map(|t| self.options.again(t, host.as_deref(), dated));
            };
            again(&mut s.time);
            again(&mut s.reaped_at);
            s.sources.iter_mut().for_each(|line| again(&mut line.time));
        }
    }
}
