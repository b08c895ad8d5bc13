//! When an entry holds: between two instants, at some hours, on some days.

use chrono::{Datelike, Timelike};

use crate::escape::clean;
use crate::oom::parse_instant;
use crate::time::Timestamp;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A time, in UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Not before.
    from: Option<Timestamp>,
    /// Not after.
    pub(super) until: Option<Timestamp>,
    /// Minutes of the day, from one up to but without the other; it may go over midnight.
    hours: Option<(u32, u32)>,
    /// Bits of days on which `hours` begin, Monday first.
    days: Option<u8>,
}

impl Window {
    /// Takes a word of an entry; `false` where it is none of a window.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "from" => self.from = Some(instant(key, value, false)?),
            "until" => self.until = Some(instant(key, value, true)?),
            "hours" => self.hours = Some(hours(value)?),
            "days" => self.days = Some(days(value)?),
            _ => return Ok(false),
        }
        if let (Some(from), Some(until)) = (self.from, self.until)
            && until < from
        {
            return Err(format!("it ends ({until}) before it begins ({from})"));
        }
        Ok(true)
    }

    pub(super) fn is_always(&self) -> bool {
        *self == Window::default()
    }

    pub(super) fn contains(&self, t: Timestamp) -> bool {
        if self.from.is_some_and(|f| t < f) || self.until.is_some_and(|u| t > u) {
            return false;
        }
        let at = t.to_utc();
        let minute = at.hour() * 60 + at.minute();
        let day = at.weekday().num_days_from_monday();
        let (inside, begun_yesterday) = match self.hours {
            None => (true, false),
            Some((from, to)) if from < to => (minute >= from && minute < to, false),
            Some((from, to)) => (minute >= from || minute < to, minute < to),
        };
        let day = if begun_yesterday { (day + 6) % 7 } else { day };
        inside && self.days.is_none_or(|d| d >> day & 1 != 0)
    }
}

/// A date alone is the whole day: its first instant, or its last.
fn instant(key: &str, value: &str, last: bool) -> Result<Timestamp, String> {
    if let Ok(date) = chrono::NaiveDate::parse_from_str(value, "%Y-%m-%d") {
        let start = date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp();
        return Ok(Timestamp::new(start + if last { 86_400 } else { 0 }, if last { -1 } else { 0 }));
    }
    let wrong = |e: String| {
        let shown = clean(value.as_bytes(), 40);
        format!("{key}=: 2027-01-01 or 2027-01-01T06:00:00Z was required, {shown:?} was there ({e})")
    };
    let t = parse_instant(value).map_err(|e| wrong(e.to_string()))?;
    Ok(t)
}

/// `01:00-05:30`.
fn hours(value: &str) -> Result<(u32, u32), String> {
    let wrong = || {
        let shown = clean(value.as_bytes(), 40);
        format!("hours=: 01:00-05:30 (UTC) was required, {shown:?} was there")
    };
    let one = |text: &str| {
        let (h, m) = text.trim().split_once(':')?;
        let (h, m): (u32, u32) = (h.parse().ok()?, m.parse().ok()?);
        (m < 60 && (h < 24 || h == 24 && m == 0)).then_some(h * 60 + m)
    };
    let (from, to) = value.split_once('-').ok_or_else(wrong)?;
    match (one(from), one(to)) {
        (Some(from), Some(to)) if from != to && from < 1440 => Ok((from, to)),
        _ => Err(wrong()),
    }
}

/// `sat,sun`.
fn days(value: &str) -> Result<u8, String> {
    let mut all = 0;
    for day in value.split(',').map(str::trim).filter(|d| !d.is_empty()) {
        let at = DAYS.iter().position(|d| day.eq_ignore_ascii_case(d)).ok_or_else(|| {
            format!("days=: some of {} were required, {:?} was there", DAYS.join(", "), clean(day.as_bytes(), 20))
        })?;
        all |= 1 << at;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(words: &[(&str, &str)]) -> Window {
        let mut w = Window::default();
        words.iter().for_each(|(k, v)| assert_eq!(w.take(k, v), Ok(true)));
        w
    }

    fn at(text: &str) -> Timestamp {
        parse_instant(text).unwrap()
    }

    #[test]
    fn hours_go_over_midnight_and_days_are_those_on_which_they_begin() {
        // 2026-11-28 is a Saturday.
        let w = window(&[("hours", "22:00-04:00"), ("days", "sat")]);
        for (time, inside) in [
            ("2026-11-28T21:59:59Z", false),
            ("2026-11-28T22:00:00Z", true),
            ("2026-11-29T03:59:59Z", true),
            ("2026-11-29T04:00:00Z", false),
            ("2026-11-29T22:00:00Z", false),
            ("2026-11-28T03:00:00Z", false),
        ] {
            assert_eq!(w.contains(at(time)), inside, "{time}");
        }
    }

    #[test]
    fn a_date_is_its_whole_day() {
        let w = window(&[("from", "2026-11-28"), ("until", "2026-11-29")]);
        assert!(w.contains(at("2026-11-28T00:00:00Z")) && w.contains(at("2026-11-29T23:59:59Z")));
        assert!(!w.contains(at("2026-11-30T00:00:00Z")) && !w.contains(at("2026-11-27T23:59:59Z")));
        for (k, v) in
            [("from", "soon"), ("hours", "1-2"), ("hours", "24:00-01:00"), ("days", "caturday"), ("hours", "")]
        {
            assert!(Window::default().take(k, v).is_err(), "{k}={v}");
        }
        let mut w = window(&[("from", "2026-11-28")]);
        assert!(w.take("until", "2026-11-27").is_err());
    }
}
